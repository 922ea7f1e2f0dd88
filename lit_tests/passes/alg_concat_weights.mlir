// RUN: cleave-opt %s -p alg-concat-weights --split-input-file | filecheck %s
// RUN: cleave-opt %s -p alg-concat-weights,alg-concat-weights --split-input-file | filecheck %s
// RUN: cleave-opt %s -p 'alg-concat-weights{exact=true}' --split-input-file | filecheck %s --check-prefix EXACT

// The two halves of a gated layer: one product by both weights, cut apart again.
alg.graph @gated axes [m = ?, d = 64, n = 48]
    (%x: !alg.tensor<[m, d], f16>, %a: !alg.tensor<[d, n], f16> weight, %b: !alg.tensor<[d, n], f16> weight)
    -> (!alg.tensor<[m, n], f16>) {
  %p = alg.contract %x, %a over [d] : !alg.tensor<[m, n], f32>
  %q = alg.contract %x, %b over [d] : !alg.tensor<[m, n], f32>
  %s = alg.silu %p : !alg.tensor<[m, n], f32>
  %y = alg.mul %s, %q : !alg.tensor<[m, n], f32>
  alg.yield %y : !alg.tensor<[m, n], f32>
}
// CHECK-LABEL: @gated
// CHECK:       n_1 = 96
// CHECK:       alternative "as written"
// CHECK:       alternative "as written beside"
// CHECK:         [[W:%.*]] = alg.concat %a, %b along [n, n] into n_1 : !alg.tensor<[d, n_1], f16>
// CHECK-NEXT:    [[P:%.*]] = alg.contract %x, [[W]] over [d] : !alg.tensor<[m, n_1], f32>
// CHECK-NEXT:    [[H:%.*]] = alg.cast [[P]] : !alg.tensor<[m, n_1], f16>
// CHECK-NEXT:    alg.slice [[H]] n_1 into n from 0 step 1
// CHECK:         alg.slice [[H]] n_1 into n from 48 step 1
// EXACT-LABEL: @gated
// EXACT:         [[P:%.*]] = alg.contract %x, {{.*}} over [d] : !alg.tensor<[m, n_1], f32>
// EXACT-NEXT:    alg.slice [[P]] n_1 into n from 0 step 1

// -----

// Queries, keys and values of their own lengths; in f32 nothing is rounded.
alg.graph @projections axes [m = 7, d = 64, q = 32, k = 8, v = 16]
    (%x: !alg.tensor<[m, d], f32>, %wq: !alg.tensor<[d, q], f32> weight, %wk: !alg.tensor<[d, k], f32> weight,
     %wv: !alg.tensor<[d, v], f32> weight) -> (!alg.tensor<[m, q], f32>, !alg.tensor<[m, k], f32>, !alg.tensor<[m, v], f32>) {
  %a = alg.contract %x, %wq over [d] : !alg.tensor<[m, q], f32>
  %b = alg.contract %x, %wk over [d] : !alg.tensor<[m, k], f32>
  %c = alg.contract %x, %wv over [d] : !alg.tensor<[m, v], f32>
  alg.yield %a, %b, %c : !alg.tensor<[m, q], f32>, !alg.tensor<[m, k], f32>, !alg.tensor<[m, v], f32>
}
// CHECK-LABEL: @projections
// CHECK:       q_k_v = 56
// CHECK:         alg.concat %wq, %wk, %wv along [q, k, v] into q_k_v
// CHECK:         alg.slice {{.*}} q_k_v into q from 0 step 1
// CHECK:         alg.slice {{.*}} q_k_v into k from 32 step 1
// CHECK:         alg.slice {{.*}} q_k_v into v from 40 step 1
// CHECK-NOT:   alg.cast

// -----

// What is no weight would have to be put together at every call.
alg.graph @no_weights axes [m = 7, d = 64, n = 32]
    (%x: !alg.tensor<[m, d], f32>, %a: !alg.tensor<[d, n], f32>, %b: !alg.tensor<[d, n], f32>) -> (!alg.tensor<[m, n], f32>) {
  %p = alg.contract %x, %a over [d] : !alg.tensor<[m, n], f32>
  %q = alg.contract %x, %b over [d] : !alg.tensor<[m, n], f32>
  %y = alg.mul %p, %q : !alg.tensor<[m, n], f32>
  alg.yield %y : !alg.tensor<[m, n], f32>
}
// CHECK-LABEL: @no_weights
// CHECK-NOT:   alternative
// CHECK-NOT:   alg.concat

// -----

// A new axis has a name of its own, also beside symbols and what other alternatives have; a second run finds the alternative there. It
// costs what the one before it does.
alg.graph @names symbols [n_k] axes [m = n_k + 1, d = 4, n = 5, k = 2, n_k_1 = 11]
    (%x: !alg.tensor<[m, d], f32>, %a: !alg.tensor<[d, n], f32> weight, %b: !alg.tensor<[d, k], f32> weight)
    -> (!alg.tensor<[m, n], f32>, !alg.tensor<[m, k], f32>) {
  alg.alternatives
    alternative "as written" flops "56*m" bytes "44*m + 112" phases 1 {
      %p = alg.contract %x, %a over [d] : !alg.tensor<[m, n], f32>
      %q = alg.contract %x, %b over [d] : !alg.tensor<[m, k], f32>
      alg.yield %p, %q : !alg.tensor<[m, n], f32>, !alg.tensor<[m, k], f32>
    }
    alternative "with another axis" {
      %i = alg.iota n_k_1 : !alg.tensor<[n_k_1], index>
      %j = alg.cast %i : !alg.tensor<[n_k_1], f32>
      %s = alg.reduce min %j over [n_k_1] : !alg.tensor<[], f32>
      %p = alg.contract %x, %a over [d] : !alg.tensor<[m, n], f32>
      %r = alg.add %p, %s : !alg.tensor<[m, n], f32>
      %q = alg.contract %x, %b over [d] : !alg.tensor<[m, k], f32>
      alg.yield %r, %q : !alg.tensor<[m, n], f32>, !alg.tensor<[m, k], f32>
    }
}
// CHECK-LABEL: @names
// CHECK:       n_k_2 = 7
// CHECK:       alternative "as written" flops "56*m" bytes "44*m + 112" phases 1
// CHECK:       alternative "as written beside" flops "56*m" bytes "44*m + 112" phases 1
// CHECK:         alg.concat %a, %b along [n, k] into n_k_2
// CHECK:       alternative "with another axis"

// -----

// Of weights that are cast to a larger type, what is cast is put together: in f32 it would take more memory than it is made of.
alg.graph @larger axes [m = 7, d = 64, n = 32]
    (%x: !alg.tensor<[m, d], f32>, %a: !alg.tensor<[d, n], f16> weight, %b: !alg.tensor<[d, n], f16> weight)
    -> (!alg.tensor<[m, n], f32>) {
  %e = alg.cast %a : !alg.tensor<[d, n], f32>
  %f = alg.cast %b : !alg.tensor<[d, n], f32>
  %p = alg.contract %x, %e over [d] : !alg.tensor<[m, n], f32>
  %q = alg.contract %x, %f over [d] : !alg.tensor<[m, n], f32>
  %y = alg.mul %p, %q : !alg.tensor<[m, n], f32>
  alg.yield %y : !alg.tensor<[m, n], f32>
}
// CHECK-LABEL: @larger
// CHECK:         [[W:%.*]] = alg.concat %a, %b along [n, n] into n_1 : !alg.tensor<[d, n_1], f16>
// CHECK-NEXT:    [[F:%.*]] = alg.cast [[W]] : !alg.tensor<[d, n_1], f32>
// CHECK-NEXT:    alg.contract %x, [[F]] over [d] : !alg.tensor<[m, n_1], f32>

// -----

// What has types of its own, or sizes that are not known, could not be put together once.
alg.graph @each_time axes [m = 7, d = ?, n = 32]
    (%x: !alg.tensor<[m, d], f32>, %a: !alg.tensor<[d, n], f32> weight, %b: !alg.tensor<[d, n], f32> weight) -> (!alg.tensor<[m, n], f32>) {
  %p = alg.contract %x, %a over [d] : !alg.tensor<[m, n], f32>
  %q = alg.contract %x, %b over [d] : !alg.tensor<[m, n], f32>
  %y = alg.mul %p, %q : !alg.tensor<[m, n], f32>
  alg.yield %y : !alg.tensor<[m, n], f32>
}
// CHECK-LABEL: @each_time
// CHECK-NOT:   alternative

// -----

alg.graph @mixed axes [m = 7, d = 64, n = 32]
    (%x: !alg.tensor<[m, d], f32>, %a: !alg.tensor<[d, n], f32> weight, %b: !alg.tensor<[d, n], f16> weight) -> (!alg.tensor<[m, n], f32>) {
  %f = alg.cast %b : !alg.tensor<[d, n], f32>
  %p = alg.contract %x, %a over [d] : !alg.tensor<[m, n], f32>
  %q = alg.contract %x, %f over [d] : !alg.tensor<[m, n], f32>
  %y = alg.mul %p, %q : !alg.tensor<[m, n], f32>
  alg.yield %y : !alg.tensor<[m, n], f32>
}
// CHECK-LABEL: @mixed
// CHECK-NOT:   alternative

// -----

// Rows that only the search scales after the product, in place of before, may overflow in f16.
alg.graph @after axes [m = 7, d = 64, n = 32]
    (%x: !alg.tensor<[m, d], f16>, %a: !alg.tensor<[d, n], f16> weight, %b: !alg.tensor<[d, n], f16> weight)
    -> (!alg.tensor<[m, n], f16>, !alg.tensor<[m, n], f16>) {
  alg.alternatives
    alternative "as written" {
      %c = alg.constant 0.001 : f32
      %u = alg.mul %x, %c : !alg.tensor<[m, d], f16>
      %k = alg.constant 0.002 : f32
      %v = alg.mul %x, %k : !alg.tensor<[m, d], f16>
      %p = alg.contract %u, %a over [d] : !alg.tensor<[m, n], f16>
      %q = alg.contract %v, %b over [d] : !alg.tensor<[m, n], f16>
      alg.yield %p, %q : !alg.tensor<[m, n], f16>, !alg.tensor<[m, n], f16>
    }
    alternative "after" {
      %p = alg.contract %x, %a over [d] : !alg.tensor<[m, n], f32>
      %q = alg.contract %x, %b over [d] : !alg.tensor<[m, n], f32>
      %c = alg.constant 0.001 : f32
      %k = alg.constant 0.002 : f32
      %u = alg.mul %p, %c : !alg.tensor<[m, n], f32>
      %v = alg.mul %q, %k : !alg.tensor<[m, n], f32>
      %y = alg.cast %u : !alg.tensor<[m, n], f16>
      %z = alg.cast %v : !alg.tensor<[m, n], f16>
      alg.yield %y, %z : !alg.tensor<[m, n], f16>, !alg.tensor<[m, n], f16>
    }
}
// CHECK-LABEL: @after
// CHECK:       alternative "after beside"
// CHECK:         [[P:%.*]] = alg.contract %x, {{.*}} over [d] : !alg.tensor<[m, n_1], f32>
// CHECK-NEXT:    alg.slice [[P]] n_1 into n from 0 step 1 : !alg.tensor<[m, n], f32>

// -----

// What is cast to f16 and nothing else is rounded together.
alg.graph @cast axes [m = 7, d = 64, n = 32]
    (%x: !alg.tensor<[m, d], f16>, %a: !alg.tensor<[d, n], f16> weight, %b: !alg.tensor<[d, n], f16> weight)
    -> (!alg.tensor<[m, n], f16>, !alg.tensor<[m, n], f16>) {
  alg.alternatives
    alternative "as written" {
      %i = alg.relu %x : !alg.tensor<[m, d], f16>
      %u = alg.contract %i, %a over [d] : !alg.tensor<[m, n], f16>
      %v = alg.contract %x, %b over [d] : !alg.tensor<[m, n], f16>
      alg.yield %u, %v : !alg.tensor<[m, n], f16>, !alg.tensor<[m, n], f16>
    }
    alternative "cast" {
      %p = alg.contract %x, %a over [d] : !alg.tensor<[m, n], f32>
      %q = alg.contract %x, %b over [d] : !alg.tensor<[m, n], f32>
      %y = alg.cast %p : !alg.tensor<[m, n], f16>
      %z = alg.cast %q : !alg.tensor<[m, n], f16>
      alg.yield %y, %z : !alg.tensor<[m, n], f16>, !alg.tensor<[m, n], f16>
    }
}
// CHECK-LABEL: @cast
// CHECK:       alternative "cast beside"
// CHECK:         [[P:%.*]] = alg.contract %x, {{.*}} over [d] : !alg.tensor<[m, n_1], f32>
// CHECK-NEXT:    [[H:%.*]] = alg.cast [[P]] : !alg.tensor<[m, n_1], f16>
// CHECK-NEXT:    alg.slice [[H]] n_1 into n from 0 step 1 : !alg.tensor<[m, n], f16>

// -----

// What could not be put together once, or has no use, is left out: another type, a chunk, what nothing reads.
alg.graph @some axes [m = 7, d = 64, n = 32, k = 3, s = 4, ni = 8 chunk of n by s]
    (%x: !alg.tensor<[m, d], f32>, %a: !alg.tensor<[d, n], f32> weight, %b: !alg.tensor<[d, k], f32> weight,
     %h: !alg.tensor<[d, n], f16> weight) -> (!alg.tensor<[m, n], f32>, !alg.tensor<[m, k], f32>, !alg.tensor<[m], f32>, !alg.tensor<[m, n], f32>) {
  %p = alg.contract %x, %a over [d] : !alg.tensor<[m, n], f32>
  %w = alg.cast %h : !alg.tensor<[d, n], f32>
  %q = alg.contract %x, %w over [d] : !alg.tensor<[m, n], f32>
  %t = alg.split %a n into [s, ni] : !alg.tensor<[d, s, ni], f32>
  %u = alg.index %t s at 2 : !alg.tensor<[d, ni], f32>
  %v = alg.contract %x, %u over [d] : !alg.tensor<[m, ni], f32>
  %z = alg.reduce sum %v over [ni] : !alg.tensor<[m], f32>
  %c = alg.neg %a : !alg.tensor<[d, n], f32>
  %e = alg.contract %x, %c over [d] : !alg.tensor<[m, n], f32>
  %r = alg.contract %x, %b over [d] : !alg.tensor<[m, k], f32>
  alg.yield %p, %r, %z, %q : !alg.tensor<[m, n], f32>, !alg.tensor<[m, k], f32>, !alg.tensor<[m], f32>, !alg.tensor<[m, n], f32>
}
// CHECK-LABEL: @some
// CHECK:       alternative "as written beside"
// CHECK:         alg.concat %a, %b along [n, k] into n_k
