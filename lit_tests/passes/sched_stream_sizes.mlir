// RUN: cleave-opt %s -p 'sched-stream{sizes="m=64"}' | filecheck %s
// RUN: cleave-opt %s -p 'sched-stream{sizes="m=4"}' | filecheck %s --check-prefix=OTHER

// Which input is the larger one depends on a size that is known at run time only. What the kernel also writes does not stream.
sched.kernel @k (%x: !sched.buffer<[m : 1], f32>, %w: !sched.buffer<[n : 1], f32>, %z: !sched.buffer<[l : 1], f32>) warps 1 stages 1 {
  %first = sched.constant 0 : !sched.tile<[], index>
  %one = sched.constant 1.0 : !sched.tile<[], f32>
  sched.store %one to %z [l = %first]
}
sched.program @f sizes [m = m, n = 16, l = 4096] (%x: !sched.buffer<[m : 1], f32> layout "m", %w: !sched.buffer<[n : 1], f32> layout "n", %z: !sched.buffer<[l : 1], f32> layout "l") -> () {
  sched.launch @k(%x, %w, %z)
}
// CHECK: sched.launch @k(%x, %w, %z) streaming 0
// OTHER: sched.launch @k(%x, %w, %z) streaming 1
