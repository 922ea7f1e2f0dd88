// RUN: cleave-opt %s -t triton --split-input-file --verify-diagnostics | filecheck %s

// Only what is lowered has a text.
sched.kernel @k () warps 1 stages 1 {
}
// CHECK: triton_invalid.mlir:4:1: error: sched.kernel: is not lowered to Triton's IR; run convert-sched-to-tt first

// -----
// A launch needs its function.
sched.program @main sizes [m = m] (%x: !sched.buffer<[m : 1], f32> layout "m") -> () {
  sched.launch_func @k(%x) grid [m] scalars [] warps 1 stages 1
}
// CHECK: sched.launch_func: '@k' is not a tt.func of the module

// -----
// Where the body of an `if` is not run, nothing is computed.
tt.func public @k(%x: !tt.ptr<f32>, %c: i1) {
  %v = tt.load %x : !tt.ptr<f32>
  %w = scf.if %c -> (f32) {
    scf.yield %v : f32
  } else {
    %u = arith.negf %v : f32
    scf.yield %u : f32
  }
  tt.store %x, %w : !tt.ptr<f32>
  tt.return
}
// CHECK: scf.if: has an else branch that does more than yield, which has no Triton form here
