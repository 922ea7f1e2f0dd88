// RUN: not cleave-opt %s -p 'convert-alg-to-sched{target="abacus"}' 2>&1 | filecheck %s

// An unknown machine is refused with the list of known ones.
// CHECK: error: {{.*}}unknown target 'abacus'; known are a100, h100, h200, b200, rtx4090, mi300x
alg.graph @copy axes [m = 4] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[m], f32>) {
  alg.yield %x : !alg.tensor<[m], f32>
}
