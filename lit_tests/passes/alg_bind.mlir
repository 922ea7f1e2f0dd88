// RUN: cleave-opt %s -p 'alg-bind{sizes="m=64" hints="n=4096,n=1"}' --split-input-file | filecheck %s

// A size makes extents static wherever the symbol occurs; hints replace those that a symbol has.
alg.graph @sizes axes [m = ?, t = 2*m + 1, n = ?(hint 8)]
    (%x: !alg.tensor<[m, n], f32>, %y: !alg.tensor<[t, n], f32>) -> (!alg.tensor<[m], f32>, !alg.tensor<[t], f32>) {
  %a = alg.reduce sum %x over [n] : !alg.tensor<[m], f32>
  %b = alg.reduce sum %y over [n] : !alg.tensor<[t], f32>
  alg.yield %a, %b : !alg.tensor<[m], f32>, !alg.tensor<[t], f32>
}
// CHECK:       alg.graph @sizes axes [m = 64, t = 129, n = ?(hint 4096, hint 1)]
// CHECK:         alg.reduce sum %x over [n] : !alg.tensor<[m], f32>

// -----

// A symbol that is no axis gives extents as well; what is not named stays.
alg.graph @symbols symbols [m, n, s] axes [a = 3*s, b = m + n, k = ?] (%x: !alg.tensor<[a, b, k], f32>) -> (!alg.tensor<[a, b], f32>) {
  %a = alg.reduce max %x over [k] : !alg.tensor<[a, b], f32>
  alg.yield %a : !alg.tensor<[a, b], f32>
}
// CHECK:       alg.graph @symbols symbols [{{.*}}s{{.*}}] axes [a = 3*s, b = n + 64, k = ?]
