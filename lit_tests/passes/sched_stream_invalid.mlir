// RUN: cleave-opt %s -p sched-stream --split-input-file --verify-diagnostics | filecheck %s

// Sizes that are known at run time only must be given.
sched.kernel @k (%x: !sched.buffer<[m : 1], f32>) warps 1 stages 1 {}
sched.program @f sizes [m = m] (%x: !sched.buffer<[m : 1], f32> layout "m") -> () {
  sched.launch @k(%x)
}
// CHECK: error: sched.program: symbol 'm' has no size; give it, as in sizes="m=64"
// -----

// What is lowered has no tiles any more.
tt.func public @k(%x: !tt.ptr<f32>) {
  tt.return
}
sched.program @f sizes [m = 8] (%x: !sched.buffer<[m : 1], f32> layout "m") -> () {
  sched.launch_func @k(%x) grid [1] scalars [] warps 1 stages 1
}
// CHECK: error: sched.program: is lowered to Triton's IR; run sched-stream before convert-sched-to-tt
// -----

// What streams is a buffer of the launch.
sched.kernel @k (%x: !sched.buffer<[m : 1], f32>) warps 1 stages 1 {}
sched.program @f sizes [m = 8] (%x: !sched.buffer<[m : 1], f32> layout "m") -> () {
  sched.launch @k(%x) streaming 1
}
// CHECK: error: sched.launch: streaming names buffer 1 of 1; they are counted from 0
// -----

// So it is when the kernel is lowered.
tt.func public @k(%x: !tt.ptr<f32>) {
  tt.return
}
sched.program @f sizes [m = 8] (%x: !sched.buffer<[m : 1], f32> layout "m") -> () {
  sched.launch_func @k(%x) grid [1] scalars [] warps 1 stages 1 streaming 2
}
// CHECK: error: sched.launch_func: streaming names buffer 2 of 1; they are counted from 0
