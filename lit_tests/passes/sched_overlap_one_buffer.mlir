// RUN: cleave-opt %s -p sched-overlap | filecheck %s

// Where a kernel's buffers are one, what is loaded under one name stays after what is stored under another.
sched.kernel @a (%x: !sched.buffer<[m : 1], f32>, %t: !sched.buffer<[m : 1], f32>) grid (%m0 = m by 4 count 2) warps 1 stages 1 {
  %m = sched.range %m0 : !sched.tile<[m = 4], index>
  %v = sched.load %x [m = %m] : !sched.tile<[m = 4], f32>
  sched.store %v to %t [m = %m]
}
sched.kernel @b (%t: !sched.buffer<[m : 1], f32>, %w: !sched.buffer<[m : 1], f32>, %y: !sched.buffer<[m : 1], f32>) grid (%m0 = m by 4 count 2) warps 1 stages 1 {
  %m = sched.range %m0 : !sched.tile<[m = 4], index>
  %v = sched.load %t [m = %m] : !sched.tile<[m = 4], f32>
  sched.store %v to %y [m = %m]
  %u = sched.load %w [m = %m] : !sched.tile<[m = 4], f32>
  %z = sched.add %u, %v : !sched.tile<[m = 4], f32>
  sched.store %z to %y [m = %m]
}
sched.program @f sizes [m = 8] (%x: !sched.buffer<[m : 1], f32> layout "m") -> (%y: !sched.buffer<[m : 1], f32> layout "m") {
  %t = sched.allocate t : !sched.buffer<[m : 1], f32>
  sched.launch @a(%x, %t)
  sched.launch @b(%t, %y, %y)
}
// CHECK-LABEL: @b
// CHECK-NEXT:    %m = sched.range
// CHECK-NEXT:    sched.wait
// CHECK-NEXT:    %v = sched.load %t
// CHECK-NEXT:    sched.store %v to %y
// CHECK-NEXT:    %u = sched.load %w
