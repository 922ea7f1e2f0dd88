// RUN: cleave-opt %s -p alg-fold-unit-axes --split-input-file | filecheck %s
// RUN: cleave-opt %s -p alg-fold-unit-axes,alg-fold-unit-axes --split-input-file | filecheck %s

// One key: the maximum over it is the score, the sum is the exponential, and the product with the values sums nothing. Memory keeps the axis.
alg.graph @one_key axes [m = ?, n = 1, d = 64, e = 32]
    (%q: !alg.tensor<[m, d], f16>, %k: !alg.tensor<[n, d], f16> layout "d n", %v: !alg.tensor<[n, e], f16>)
    -> (!alg.tensor<[m, e], f32>, !alg.tensor<[m, n], f32> layout "n m") {
  %s = alg.contract %q, %k over [d] : !alg.tensor<[m, n], f32>
  %x = alg.reduce max %s over [n] : !alg.tensor<[m], f32>
  %y = alg.sub %s, %x : !alg.tensor<[m, n], f32>
  %p = alg.exp %y : !alg.tensor<[m, n], f32>
  %o = alg.contract %p, %v over [n] : !alg.tensor<[m, e], f32>
  alg.yield %o, %p : !alg.tensor<[m, e], f32>, !alg.tensor<[m, n], f32>
}
// CHECK-LABEL: @one_key axes [m = ?, d = 64, e = 32]
// CHECK:       %k: !alg.tensor<[d], f16> layout "d 1"
// CHECK:       %v: !alg.tensor<[e], f16> layout "1 e"
// CHECK:       -> (!alg.tensor<[m, e], f32> layout "m e", !alg.tensor<[m], f32> layout "1 m")
// CHECK:         [[S:%.*]] = alg.contract %q, %k over [d] : !alg.tensor<[m], f32>
// CHECK-NEXT:    [[Y:%.*]] = alg.sub [[S]], [[S]] : !alg.tensor<[m], f32>
// CHECK-NEXT:    [[P:%.*]] = alg.exp [[Y]] : !alg.tensor<[m], f32>
// CHECK-NEXT:    [[V:%.*]] = alg.cast %v : !alg.tensor<[e], f32>
// CHECK-NEXT:    [[O:%.*]] = alg.mul [[P]], [[V]] : !alg.tensor<[m, e], f32>
// CHECK-NEXT:    alg.yield [[O]], [[P]]

// -----

// Of the axes of a reduction the others stay; an index is 0 and a size 1; in a dimension of several axes the others stay.
alg.graph @indices axes [b = 1, m = ?, n = 8]
    (%x: !alg.tensor<[b, m, n], f32> layout "(b m) n") -> (!alg.tensor<[m], f32>) {
  %i = alg.iota b : !alg.tensor<[b], index>
  %c = alg.size b : f32
  %f = alg.cast %i : !alg.tensor<[b], f32>
  %y = alg.add %x, %f : !alg.tensor<[b, m, n], f32>
  %z = alg.mul %y, %c : !alg.tensor<[b, m, n], f32>
  %s = alg.reduce sum %z over [b, n] : !alg.tensor<[m], f32>
  alg.yield %s : !alg.tensor<[m], f32>
}
// CHECK-LABEL: @indices axes [m = ?, n = 8]
// CHECK:       %x: !alg.tensor<[m, n], f32> layout "m n"
// CHECK-DAG:     alg.constant 0 : index
// CHECK-DAG:     alg.constant 1.0 : f32
// CHECK:         alg.reduce sum {{.*}} over [n] : !alg.tensor<[m], f32>

// -----

// Operations that rearrange an axis name it, so it stays; so do the axes of a split, whose chunks may be short.
alg.graph @rearranged axes [a = 1, b = 1, c = 1, n = 1, w = 1, o = 4, i = 1 chunk of w by o]
    (%x: !alg.tensor<[a, n], f32>, %y: !alg.tensor<[c, w], f32>) -> (!alg.tensor<[b], f32>) {
  %r = alg.rename %x [a -> b] : !alg.tensor<[b, n], f32>
  %s = alg.reduce sum %r over [n] : !alg.tensor<[b], f32>
  %p = alg.split %y w into [o, i] : !alg.tensor<[c, o, i], f32>
  %t = alg.reduce sum %p over [c, o, i] : f32
  %u = alg.add %s, %t : !alg.tensor<[b], f32>
  alg.yield %u : !alg.tensor<[b], f32>
}
// CHECK-LABEL: @rearranged axes [a = 1, b = 1, w = 1, o = 4, i = 1 chunk of w by o]
// CHECK:         [[R:%.*]] = alg.rename %x {{.*}} : !alg.tensor<[b], f32>
// CHECK-NEXT:    [[P:%.*]] = alg.split %y w into [o, i] : !alg.tensor<[o, i], f32>
// CHECK-NEXT:    [[T:%.*]] = alg.reduce sum [[P]] over [o, i] : f32
// CHECK-NEXT:    [[U:%.*]] = alg.add [[R]], [[T]] : !alg.tensor<[b], f32>
// CHECK-NEXT:    alg.yield [[U]]

// -----

// Sizes that may be 1 are not folded, and where nothing is the text is as it was.
alg.graph @open axes [m = ?, n = 2] (%x: !alg.tensor<[m, n], f32>) -> (!alg.tensor<[m], f32>) {
  %s = alg.reduce sum %x over [n] : !alg.tensor<[m], f32>
  alg.yield %s : !alg.tensor<[m], f32>
}
// CHECK-LABEL: @open axes [m = ?, n = 2]
// CHECK:         alg.reduce sum %x over [n]
