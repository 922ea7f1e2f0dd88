// RUN: cleave-opt %s -p sched-overlap --split-input-file --verify-diagnostics | filecheck %s

// One body cannot wait in one launch and not in the other.
sched.kernel @k (%x: !sched.buffer<[m : 1], f32>, %y: !sched.buffer<[m : 1], f32>) warps 1 stages 1 {}
sched.program @f sizes [m = 8] (%x: !sched.buffer<[m : 1], f32> layout "m") -> (%y: !sched.buffer<[m : 1], f32> layout "m") {
  sched.launch @k(%x, %y)
  sched.launch @k(%x, %y)
}
// CHECK: error: sched.program: launches a kernel twice; give each launch a kernel of its own
// -----

// What is lowered has no tiles any more.
tt.func public @k(%x: !tt.ptr<f32>) {
  tt.return
}
sched.program @f sizes [m = 8] (%x: !sched.buffer<[m : 1], f32> layout "m") -> () {
  sched.launch_func @k(%x) grid [1] scalars [] warps 1 stages 1
}
// CHECK: error: sched.program: is lowered to Triton's IR; run sched-overlap before convert-sched-to-tt
// -----

// Only a launch right after another is early.
sched.kernel @k (%x: !sched.buffer<[m : 1], f32>) warps 1 stages 1 {
  sched.wait
}
sched.program @f sizes [m = 8] (%x: !sched.buffer<[m : 1], f32> layout "m") -> () {
  sched.launch @k(%x) early
}
// CHECK: error: sched.launch: the launch is early and what comes before it is no launch; remove 'early'
// -----

// An early launch waits.
sched.kernel @k (%x: !sched.buffer<[m : 1], f32>) warps 1 stages 1 {}
sched.program @f sizes [m = 8] (%x: !sched.buffer<[m : 1], f32> layout "m") -> () {
  sched.launch @k(%x)
  sched.launch @k(%x) early
}
// CHECK: error: sched.launch: the launch is early and kernel '@k' does not wait; put sched.wait into it
// -----

// A wait is for every program: not within a loop.
sched.kernel @k (%x: !sched.buffer<[m : 1], f32>) warps 1 stages 1 {
  %zero = sched.constant 0 : !sched.tile<[], index>
  %one = sched.constant 1 : !sched.tile<[], index>
  sched.for n %i = %zero to %one step 4 {
    sched.wait
  }
}
// CHECK: {{error: sched.wait: .*sched.kernel}}
// -----

// Other instructions are not known.
tt.func public @k(%x: !tt.ptr<f32>) {
  %a = tt.elementwise_inline_asm "trap;"
  tt.return
}
// CHECK: error: tt.elementwise_inline_asm: 'trap;' is not an instruction that is used here; use 'griddepcontrol.wait;' or 'griddepcontrol.launch_dependents;'
