// RUN: cleave-opt %s -p alg-superoptimize,alg-stabilize,convert-alg-to-sched,convert-sched-to-tt -t triton | filecheck %s

// A graph without results has nothing to find, and needs no kernel.

alg.graph @nothing axes [m = 4] (%a: !alg.tensor<[m], f32> layout "m") -> () {
  alg.yield
}

// CHECK-NOT: triton.jit
// CHECK: def launch(a):
// CHECK: Returns nothing.
