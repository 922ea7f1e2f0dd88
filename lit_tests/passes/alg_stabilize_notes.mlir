// RUN: cleave-opt %s -p alg-stabilize 2>&1 | filecheck %s

// Exponentials of two tensors under one sum: their maxima lie apart, so a shift could make a row vanish.
// CHECK: alg_stabilize_notes.mlir:[[# @LINE + 6]]:{{[0-9]+}}: note: exp: stays plain: it meets other exponentials
// CHECK: note: exp: stays plain
// CHECK-LABEL: @features
// CHECK-NOT:     alg.shift
alg.graph @features axes [m = ?, n = ?, d = 64]
    (%q: !alg.tensor<[m, d], f32>, %k: !alg.tensor<[n, d], f32>) -> (!alg.tensor<[m, n], f32>) {
  %a = alg.exp %q : !alg.tensor<[m, d], f32>
  %b = alg.exp %k : !alg.tensor<[n, d], f32>
  %s = alg.contract %a, %b over [d] : !alg.tensor<[m, n], f32>
  %z = alg.reduce sum %s over [n] : !alg.tensor<[m], f32>
  %r = alg.div %s, %z : !alg.tensor<[m, n], f32>
  alg.yield %r : !alg.tensor<[m, n], f32>
}
