// RUN: cleave-opt %s -p alg-stabilize --verify-equivalent %s | filecheck %s
// RUN: cleave-opt %s -p alg-superoptimize,alg-stabilize --verify-equivalent %s | filecheck %s

// A stabilised program is the one it was made from, whatever its shift.
// CHECK:     @weights: equivalent
// CHECK-NOT: undecided
alg.graph @weights axes [m = ?(hint 64), n = ?(hint 64), d = 16]
    (%q: !alg.tensor<[m, d], f32>, %k: !alg.tensor<[n, d], f32>, %v: !alg.tensor<[n, d], f32>) -> (!alg.tensor<[m, d], f32>) {
  %s = alg.contract %q, %k over [d] : !alg.tensor<[m, n], f32>
  %top = alg.reduce max %s over [n] : !alg.tensor<[m], f32>
  %x = alg.sub %s, %top : !alg.tensor<[m, n], f32>
  %p = alg.exp %x : !alg.tensor<[m, n], f32>
  %z = alg.reduce sum %p over [n] : !alg.tensor<[m], f32>
  %w = alg.div %p, %z : !alg.tensor<[m, n], f32>
  %o = alg.contract %w, %v over [n] : !alg.tensor<[m, d], f32>
  alg.yield %o : !alg.tensor<[m, d], f32>
}
