// RUN: cleave-opt %s -p alg-stabilize --split-input-file --verify-diagnostics | filecheck %s

// A graph holds the algebra alone.
alg.graph @foreign axes [m = ?] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[m], f32>) {
  %c = arith.constant 1 : i32
  alg.yield %x : !alg.tensor<[m], f32>
}
// CHECK: alg_stabilize_invalid.mlir:5:{{[0-9]+}}: error: arith.constant: is no operation of the algebra; lower it or move it out of the graph

// -----

// Also in an alternative.
alg.graph @foreign_alternative axes [m = ?] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[m], f32>) {
  alg.alternatives
    alternative "as written" {
      alg.yield %x : !alg.tensor<[m], f32>
    }
    alternative "other" {
      %c = arith.constant 1 : i32
      alg.yield %x : !alg.tensor<[m], f32>
    }
}
// CHECK: alg_stabilize_invalid.mlir:{{[0-9]+}}:{{[0-9]+}}: error: arith.constant: is no operation of the algebra
