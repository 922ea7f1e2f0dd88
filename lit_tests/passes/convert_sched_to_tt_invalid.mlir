// RUN: cleave-opt %s -p convert-sched-to-tt --split-input-file --verify-diagnostics | filecheck %s

// A sum of booleans is no sum.
sched.kernel @k (%y: !sched.buffer<[], i1>) warps 1 stages 1 {
  %t = sched.constant true : !sched.tile<[m = 4], i1>
  %s = sched.reduce sum %t over m : !sched.tile<[], i1>
  sched.store %s to %y []
}
// CHECK: error: sched.reduce: a reduction of booleans has no Triton form; cast to i32 first
