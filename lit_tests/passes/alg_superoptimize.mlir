// RUN: cleave-opt %s -p alg-superoptimize --split-input-file | filecheck %s
// RUN: cleave-opt %s -p 'alg-superoptimize{split=false alternatives=1}' --split-input-file | filecheck %s --check-prefix=FEW

// The division moves behind the second contraction, whose maximum the result does not depend on; keys may come in chunks.
// CHECK-LABEL: @head
// CHECK:       "as written"
// CHECK:       alg.reduce max
// CHECK:       "1" {{.*}}phases 2
// CHECK-NOT:   max
// CHECK:       [[P:%.*]] = alg.exp
// CHECK:       [[A:%.*]] = alg.contract {{.*}} over [n]
// CHECK:       [[Z:%.*]] = alg.reduce sum [[P]] over [n]
// CHECK:       alg.div [[A]], [[Z]]
// CHECK:       "1 split n"
// CHECK:       over [ni]
// CHECK:       alg.reduce sum {{.*}} over [s]
// FEW-LABEL:   @head
// FEW:         "1"
// FEW-NOT:     "2"
// FEW-NOT:     split
alg.graph @head axes [m = ?(hint 512), n = ?(hint 4096), d = 64, e = 64]
    (%q: !alg.tensor<[m, d], f16>, %k: !alg.tensor<[n, d], f16>, %v: !alg.tensor<[n, e], f16>) -> (!alg.tensor<[m, e], f16>) {
  %s = alg.contract %q, %k over [d] : !alg.tensor<[m, n], f32>
  %c = alg.constant 0.125 : f32
  %x = alg.mul %s, %c : !alg.tensor<[m, n], f32>
  %t = alg.reduce max %x over [n] : !alg.tensor<[m], f32>
  %y = alg.sub %x, %t : !alg.tensor<[m, n], f32>
  %p = alg.exp %y : !alg.tensor<[m, n], f32>
  %z = alg.reduce sum %p over [n] : !alg.tensor<[m], f32>
  %w = alg.div %p, %z : !alg.tensor<[m, n], f32>
  %h = alg.cast %w : !alg.tensor<[m, n], f16>
  %o = alg.contract %h, %v over [n] : !alg.tensor<[m, e], f32>
  %r = alg.cast %o : !alg.tensor<[m, e], f16>
  alg.yield %r : !alg.tensor<[m, e], f16>
}

// -----

// Nothing to gain: the program as written stands alone.
// CHECK-LABEL: @plain
// CHECK:       "as written"
// CHECK-NOT:   "1"
// CHECK:       alg.exp
alg.graph @plain axes [m = ?] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[m], f32>) {
  %y = alg.exp %x : !alg.tensor<[m], f32>
  alg.yield %y : !alg.tensor<[m], f32>
}
