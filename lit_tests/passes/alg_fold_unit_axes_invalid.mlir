// RUN: cleave-opt %s -p alg-fold-unit-axes --split-input-file --verify-diagnostics | filecheck %s

// A graph holds the algebra alone.
alg.graph @foreign axes [m = 1] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[m], f32>) {
  %c = arith.constant 1 : i32
  alg.yield %x : !alg.tensor<[m], f32>
}
// CHECK: alg_fold_unit_axes_invalid.mlir:5:{{[0-9]+}}: error: arith.constant: is no operation of the algebra; lower it or move it out of the graph
