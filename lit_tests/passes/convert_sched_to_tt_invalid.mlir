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
// -----

// A box is of neighbours.
sched.kernel @k (%k: !sched.buffer<[n : 64, d : 1], f16>, %y: !sched.buffer<[n : 64, d : 1], f16>) sizes (%n_size = n) warps 1 stages 1 {
  %zero = sched.constant 0 : !sched.tile<[], index>
  %two = sched.constant 2 : !sched.tile<[], index>
  %n = sched.range %zero : !sched.tile<[n = 16], index>
  %even = sched.mul %n, %two : !sched.tile<[n = 16], index>
  %d = sched.range %zero : !sched.tile<[d = 16], index>
  %x = sched.load %k [n = %even, d = %d] check [n < %n_size, d < %n_size] other 0.0 descriptor : !sched.tile<[n = 16, d = 16], f16>
  sched.store %x to %y [n = %n, d = %d]
}
// CHECK: sched.load: the index of axis 'n' is not one of neighbours; use sched.range
