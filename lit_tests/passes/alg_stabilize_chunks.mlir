// RUN: cleave-opt %s -p alg-superoptimize,alg-stabilize | filecheck %s

// A chunk that nothing uses is of an axis that only an operation without a use has: the other programs keep both.
// CHECK-LABEL: alg.graph @p axes [n = ?(hint 7), s = ?(hint 2, positive), d = 4, k = n, ni = ceildiv(n, s) chunk of n by s]
// CHECK:       alg.shift
alg.graph @p axes [n = ?(hint 7), s = ?(hint 2, positive), d = 4, k = n, ni = ceildiv(n, s) chunk of n by s]
    (%x: !alg.tensor<[d, k], f32>, %y: !alg.tensor<[d], f32>) -> (!alg.tensor<[d], f32>) {
  %dead = alg.rename %x [k -> n] : !alg.tensor<[d, n], f32>
  %e = alg.exp %x : !alg.tensor<[d, k], f32>
  %z = alg.reduce sum %e over [k] : !alg.tensor<[d], f32>
  %q = alg.div %e, %z : !alg.tensor<[d, k], f32>
  %u = alg.contract %q, %x over [k] : !alg.tensor<[d], f32>
  %r = alg.mul %u, %y : !alg.tensor<[d], f32>
  alg.yield %r
}
