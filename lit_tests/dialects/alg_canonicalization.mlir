// RUN: cleave-opt %s -p canonicalize --split-input-file | filecheck %s

// Numbers fold: sizes of static axes, arithmetic on constants, neutral operands; the rest stays.
alg.graph @numbers axes [m = ?, d = 64] (%x: !alg.tensor<[m, d], f32>) -> (!alg.tensor<[m], f32>) {
  %sum = alg.reduce sum %x over [d] : !alg.tensor<[m], f32>
  %size = alg.size d : index
  %two = alg.constant 2 : index
  %count = alg.mul %size, %two : index
  %mean = alg.div %sum, %count : !alg.tensor<[m], f32>
  %zero = alg.constant 0.0 : f32
  %a = alg.add %mean, %zero : !alg.tensor<[m], f32>
  %one = alg.constant 1.0 : f32
  %b = alg.mul %one, %a : !alg.tensor<[m], f32>
  %c = alg.neg %b : !alg.tensor<[m], f32>
  %d = alg.neg %c : !alg.tensor<[m], f32>
  %e = alg.cast %d : !alg.tensor<[m], f32>
  alg.yield %e : !alg.tensor<[m], f32>
}
// CHECK-LABEL: @numbers
// CHECK:         %sum = alg.reduce sum %x over [d]
// CHECK-NEXT:    [[COUNT:%.*]] = alg.constant 128 : index
// CHECK-NEXT:    [[MEAN:%.*]] = alg.div %sum, [[COUNT]]
// CHECK-NEXT:    alg.yield [[MEAN]]

// -----

// Near misses: a size known at run time only, a product with 0 (x may be infinite), 0/0, a narrowing cast and back.
alg.graph @near_misses axes [m = ?] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[m], f32>, !alg.tensor<[m], f32>, !alg.tensor<[], f32>, !alg.tensor<[m], f32>) {
  %size = alg.size m : index
  %a = alg.mul %x, %size : !alg.tensor<[m], f32>
  %zero = alg.constant 0.0 : f32
  %b = alg.mul %x, %zero : !alg.tensor<[m], f32>
  %c = alg.div %zero, %zero : f32
  %d = alg.cast %x : !alg.tensor<[m], f16>
  %e = alg.cast %d : !alg.tensor<[m], f32>
  alg.yield %a, %b, %c, %e
}
// CHECK-LABEL: @near_misses
// CHECK:         alg.size
// CHECK-NEXT:    alg.mul
// CHECK-NEXT:    alg.constant
// CHECK-NEXT:    alg.mul
// CHECK-NEXT:    alg.div
// CHECK-NEXT:    alg.cast
// CHECK-NEXT:    alg.cast
// CHECK-NEXT:    alg.yield

// -----

// A guard against NaN around a guarded quotient goes; around a plain one it stays.
alg.graph @guards axes [n = ?] (%p: !alg.tensor<[n], f32>) -> (!alg.tensor<[n], f32>, !alg.tensor<[n], f32>) {
  %z = alg.reduce sum %p over [n] : f32
  %zero = alg.constant 0.0 : f32
  %q = alg.div %p, %z guarded : !alg.tensor<[n], f32>
  %nan = alg.compare ne %q, %q : !alg.tensor<[n], i1>
  %a = alg.select %nan, %zero, %q : !alg.tensor<[n], f32>
  %r = alg.div %p, %z : !alg.tensor<[n], f32>
  %number = alg.compare eq %r, %r : !alg.tensor<[n], i1>
  %b = alg.select %number, %r, %zero : !alg.tensor<[n], f32>
  alg.yield %a, %b
}
// CHECK-LABEL: @guards
// CHECK:         [[Q:%.*]] = alg.div %p, %z guarded
// CHECK-NEXT:    [[R:%.*]] = alg.div %p, %z :
// CHECK-NEXT:    [[OK:%.*]] = alg.compare eq [[R]], [[R]]
// CHECK-NEXT:    [[B:%.*]] = alg.select [[OK]], [[R]], %zero
// CHECK-NEXT:    alg.yield [[Q]], [[B]]

// -----

// A choice by a comparison of an index with itself, or by a constant; one that would lose an axis stays.
alg.graph @choices axes [m = ?, n = ?] (%x: !alg.tensor<[m, n], f32>, %y: !alg.tensor<[n], f32>)
    -> (!alg.tensor<[m, n], f32>, !alg.tensor<[m, n], f32>, !alg.tensor<[m, n], f32>) {
  %i = alg.iota m : !alg.tensor<[m], index>
  %same = alg.compare le %i, %i : !alg.tensor<[m], i1>
  %a = alg.select %same, %x, %y : !alg.tensor<[m, n], f32>
  %no = alg.constant false : i1
  %b = alg.select %no, %y, %x : !alg.tensor<[m, n], f32>
  %other = alg.compare lt %i, %i : !alg.tensor<[m], i1>
  %c = alg.select %other, %x, %y : !alg.tensor<[m, n], f32>
  alg.yield %a, %b, %c
}
// CHECK-LABEL: @choices
// CHECK:         alg.iota
// CHECK-NEXT:    [[OTHER:%.*]] = alg.compare lt
// CHECK-NEXT:    [[C:%.*]] = alg.select [[OTHER]], %x, %y
// CHECK-NEXT:    alg.yield %x, %x, [[C]]

// -----

// Reductions of one kind merge, renamings compose, a square is a product; the two phases of a split stay.
alg.graph @axes symbols [s(positive)] axes [a = 2, b = 3, c = 3, n = ?, o = s, ni = ceildiv(n, s) chunk of n by o]
    (%x: !alg.tensor<[a, b, n], f32>) -> (!alg.tensor<[n], f32>, !alg.tensor<[a, b], f32>, !alg.tensor<[a, c, n], f32>, !alg.tensor<[a, b, n], f32>) {
  %0 = alg.reduce max %x over [a] : !alg.tensor<[b, n], f32>
  %1 = alg.reduce max %0 over [b] : !alg.tensor<[n], f32>
  %2 = alg.split %x n into [o, ni] : !alg.tensor<[a, b, o, ni], f32>
  %3 = alg.contract %2 over [ni] : !alg.tensor<[a, b, o], f32>
  %4 = alg.reduce sum %3 over [o] : !alg.tensor<[a, b], f32>
  %5 = alg.slice %x b into c from 0 step 1 : !alg.tensor<[a, c, n], f32>
  %6 = alg.rename %5 [c -> b] : !alg.tensor<[a, b, n], f32>
  %7 = alg.rename %6 [b -> c] : !alg.tensor<[a, c, n], f32>
  %two = alg.constant 2.0 : f32
  %8 = alg.merge %2 [o, ni] into n : !alg.tensor<[a, b, n], f32>
  %9 = alg.pow %8, %two : !alg.tensor<[a, b, n], f32>
  alg.yield %1, %4, %7, %9
}
// CHECK-LABEL: @axes
// CHECK:         [[MAX:%.*]] = alg.reduce max %x over [a, b]
// CHECK-NEXT:    [[SPLIT:%.*]] = alg.split %x n into [o, ni]
// CHECK-NEXT:    [[INNER:%.*]] = alg.reduce sum [[SPLIT]] over [ni]
// CHECK-NEXT:    [[SUM:%.*]] = alg.reduce sum [[INNER]] over [o]
// CHECK-NEXT:    [[RENAME:%.*]] = alg.rename %x [b -> c]
// CHECK-NEXT:    [[SQUARE:%.*]] = alg.mul %x, %x
// CHECK-NEXT:    alg.yield [[MAX]], [[SUM]], [[RENAME]], [[SQUARE]]
