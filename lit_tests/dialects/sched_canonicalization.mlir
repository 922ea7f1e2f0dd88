// RUN: cleave-opt %s -p canonicalize | filecheck %s

// What changes nothing goes; constants that nothing needs any more go with it.
sched.kernel @drop (%x: !sched.buffer<[m : 1], f32>, %y: !sched.buffer<[m : 1], f32>) sizes (%m0 = m) warps 1 stages 1 {
  %zero = sched.constant 0 : !sched.tile<[], index>
  %one = sched.constant 1 : !sched.tile<[], index>
  %true = sched.constant true : !sched.tile<[], i1>
  %unit = sched.constant 1.0 : !sched.tile<[], f32>
  %start = sched.add %m0, %zero : !sched.tile<[], index>
  %scaled = sched.mul %one, %start : !sched.tile<[], index>
  %m = sched.range %scaled : !sched.tile<[m = 4], index>
  %a = sched.load %x [m = %m] : !sched.tile<[m = 4], f32>
  %b = sched.cast %a : !sched.tile<[m = 4], f32>
  %c = sched.broadcast %b : !sched.tile<[m = 4], f32>
  %d = sched.div %c, %unit : !sched.tile<[m = 4], f32>
  %e = sched.neg %d : !sched.tile<[m = 4], f32>
  %f = sched.select %true, %d, %e : !sched.tile<[m = 4], f32>
  sched.store %f to %y [m = %m]
}
// CHECK-LABEL: @drop
// CHECK-NEXT:    %m = sched.range %m0 : !sched.tile<[m = 4], index>
// CHECK-NEXT:    %a = sched.load %x [m = %m] : !sched.tile<[m = 4], f32>
// CHECK-NEXT:    sched.store %a to %y [m = %m]
// CHECK-NEXT:  }

// Near misses: 0.0 added to -0.0 is 0.0, a cast changes elements, a broadcast or an operand adds a dimension.
sched.kernel @keep (%x: !sched.buffer<[m : 1], f32>, %y: !sched.buffer<[m : 4, n : 1], f16>) warps 1 stages 1 {
  %zero = sched.constant 0 : !sched.tile<[], index>
  %m = sched.range %zero : !sched.tile<[m = 4], index>
  %n = sched.range %zero : !sched.tile<[n = 4], index>
  %a = sched.load %x [m = %m] : !sched.tile<[m = 4], f32>
  %none = sched.constant 0.0 : !sched.tile<[], f32>
  %b = sched.add %a, %none : !sched.tile<[m = 4], f32>
  %unit = sched.constant 1.0 : !sched.tile<[n = 4], f32>
  %c = sched.mul %b, %unit : !sched.tile<[m = 4, n = 4], f32>
  %d = sched.cast %c : !sched.tile<[m = 4, n = 4], f16>
  sched.store %d to %y [m = %m, n = %n]
}
// CHECK-LABEL: @keep
// CHECK:         sched.add %a, %none
// CHECK:         sched.mul %b, %unit
// CHECK:         sched.cast %c
