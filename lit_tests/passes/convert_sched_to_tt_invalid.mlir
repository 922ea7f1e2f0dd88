// RUN: cleave-opt %s -p convert-sched-to-tt --split-input-file --verify-diagnostics | filecheck %s

// A sum of booleans is no sum.
sched.kernel @k (%y: !sched.buffer<[], i1>) warps 1 stages 1 {
  %t = sched.constant true : !sched.tile<[m = 4], i1>
  %s = sched.reduce sum %t over m : !sched.tile<[], i1>
  sched.store %s to %y []
}
// CHECK: error: sched.reduce: a reduction of booleans has no Triton form; cast to i32 first

// -----
// An index has 32 bits.
sched.kernel @k (%y: !sched.buffer<[m : 1], f32>) warps 1 stages 1 {
  %far = sched.constant 4294967296 : !sched.tile<[], index>
  %t = sched.constant 0.0 : !sched.tile<[], f32>
  sched.store %t to %y [m = %far]
}
// CHECK: error: sched.constant: 4294967296 does not fit i32; index values have 32 bits
