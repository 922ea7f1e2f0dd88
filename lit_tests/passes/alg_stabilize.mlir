// RUN: cleave-opt %s -p alg-stabilize --split-input-file | filecheck %s

// Weights exp(x) over n, masked, normalised after they are applied: one shift, the maximum over what is not masked.
alg.graph @late_quotient axes [m = ?, n = ?, e = 64]
    (%x: !alg.tensor<[m, n], f32>, %v: !alg.tensor<[n, e], f16>) -> (!alg.tensor<[m, e], f16>) {
  %i = alg.iota m : !alg.tensor<[m], index>
  %j = alg.iota n : !alg.tensor<[n], index>
  %live = alg.compare le %j, %i : !alg.tensor<[m, n], i1>
  %hidden = alg.constant -inf : f32
  %s = alg.select %live, %x, %hidden : !alg.tensor<[m, n], f32>
  %p = alg.exp %s : !alg.tensor<[m, n], f32>
  %z = alg.reduce sum %p over [n] : !alg.tensor<[m], f32>
  %o = alg.contract %p, %v over [n] : !alg.tensor<[m, e], f32>
  %r = alg.div %o, %z : !alg.tensor<[m, e], f32>
  alg.yield %r : !alg.tensor<[m, e], f32>
}
// CHECK-LABEL: @late_quotient
// CHECK:         [[S:%.*]] = alg.select
// CHECK-NEXT:    [[M:%.*]] = alg.shift [[S]] over [n] : !alg.tensor<[m], f32>
// CHECK-NEXT:    [[Y:%.*]] = alg.sub [[S]], [[M]]
// CHECK-NEXT:    [[P:%.*]] = alg.exp [[Y]]
// CHECK-NEXT:    [[Z:%.*]] = alg.reduce sum [[P]] over [n]
// CHECK-NEXT:    [[O:%.*]] = alg.contract [[P]], %v over [n]
// CHECK-NEXT:    [[R:%.*]] = alg.div [[O]], [[Z]] guarded
// CHECK-NEXT:    alg.yield [[R]]

// -----

// A program that subtracts its own maximum reaches the same graph; the maximum is gone.
alg.graph @own_maximum axes [m = ?, n = ?] (%x: !alg.tensor<[m, n], f32>) -> (!alg.tensor<[m, n], f32>) {
  %t = alg.reduce max %x over [n] : !alg.tensor<[m], f32>
  %c = alg.sub %x, %t : !alg.tensor<[m, n], f32>
  %p = alg.exp %c : !alg.tensor<[m, n], f32>
  %z = alg.reduce sum %p over [n] : !alg.tensor<[m], f32>
  %r = alg.div %p, %z : !alg.tensor<[m, n], f32>
  alg.yield %r : !alg.tensor<[m, n], f32>
}
// CHECK-LABEL: @own_maximum
// CHECK-NOT:     alg.reduce max
// CHECK:         [[M:%.*]] = alg.shift %x over [n]
// CHECK-NEXT:    [[Y:%.*]] = alg.sub %x, [[M]]
// CHECK-NEXT:    [[P:%.*]] = alg.exp [[Y]]
// CHECK-NEXT:    [[Z:%.*]] = alg.reduce sum [[P]] over [n]
// CHECK-NEXT:    alg.div [[P]], [[Z]] guarded

// -----

// A factor of all that is summed hides the exponentials where it is 0: the maximum is over the others.
alg.graph @hidden_by_a_factor axes [m = ?, n = ?, e = 64]
    (%x: !alg.tensor<[m, n], f32>, %f: !alg.tensor<[m, n], f32>, %v: !alg.tensor<[n, e], f32>) -> (!alg.tensor<[m, e], f32>) {
  %p = alg.exp %x : !alg.tensor<[m, n], f32>
  %w = alg.mul %p, %f : !alg.tensor<[m, n], f32>
  %z = alg.reduce sum %w over [n] : !alg.tensor<[m], f32>
  %o = alg.contract %p, %f, %v over [n] : !alg.tensor<[m, e], f32>
  %r = alg.div %o, %z : !alg.tensor<[m, e], f32>
  alg.yield %r : !alg.tensor<[m, e], f32>
}
// CHECK-LABEL: @hidden_by_a_factor
// CHECK:         [[ZERO:%.*]] = alg.constant 0.0
// CHECK-NEXT:    [[C:%.*]] = alg.compare ne %f, [[ZERO]]
// CHECK-NEXT:    [[HIDDEN:%.*]] = alg.constant -inf
// CHECK-NEXT:    [[S:%.*]] = alg.select [[C]], %x, [[HIDDEN]]
// CHECK-NEXT:    [[M:%.*]] = alg.shift [[S]] over [n] : !alg.tensor<[m], f32>
// CHECK-NEXT:    [[Y:%.*]] = alg.sub [[S]], [[M]]
// CHECK-NEXT:    [[P:%.*]] = alg.exp [[Y]]
// CHECK-NEXT:    [[O:%.*]] = alg.contract [[P]], %f, %v over [n]
// CHECK-NEXT:    [[W:%.*]] = alg.mul [[P]], %f
// CHECK-NEXT:    [[Z:%.*]] = alg.reduce sum [[W]] over [n]
// CHECK-NEXT:    alg.div [[O]], [[Z]] :

// -----

// Where one use lacks the factor the maximum is over all.
alg.graph @one_use_without_factor axes [m = ?, n = ?] (%x: !alg.tensor<[m, n], f32>, %f: !alg.tensor<[m, n], f32>)
    -> (!alg.tensor<[m, n], f32>) {
  %p = alg.exp %x : !alg.tensor<[m, n], f32>
  %w = alg.mul %p, %f : !alg.tensor<[m, n], f32>
  %z = alg.reduce sum %p over [n] : !alg.tensor<[m], f32>
  %r = alg.div %w, %z : !alg.tensor<[m, n], f32>
  alg.yield %r : !alg.tensor<[m, n], f32>
}
// CHECK-LABEL: @one_use_without_factor
// CHECK-NOT:     alg.select
// CHECK:         alg.shift %x over [n]

// -----

// A logarithm gets its shift back.
alg.graph @logarithm axes [m = ?, n = ?] (%x: !alg.tensor<[m, n], f32>) -> (!alg.tensor<[m], f32>) {
  %p = alg.exp %x : !alg.tensor<[m, n], f32>
  %z = alg.reduce sum %p over [n] : !alg.tensor<[m], f32>
  %l = alg.log %z : !alg.tensor<[m], f32>
  alg.yield %l : !alg.tensor<[m], f32>
}
// CHECK-LABEL: @logarithm
// CHECK:         [[M:%.*]] = alg.shift %x over [n]
// CHECK:         [[L:%.*]] = alg.log
// CHECK-NEXT:    [[B:%.*]] = alg.add [[L]], [[M]]
// CHECK-NEXT:    alg.yield [[B]]

// -----

// A sum with a term that is no exponential: 1 is exp(0), and 0 takes part in the maximum.
alg.graph @one_more axes [m = ?, n = ?] (%x: !alg.tensor<[m, n], f32>) -> (!alg.tensor<[m, n], f32>) {
  %p = alg.exp %x : !alg.tensor<[m, n], f32>
  %z = alg.reduce sum %p over [n] : !alg.tensor<[m], f32>
  %one = alg.constant 1.0 : f32
  %w = alg.add %z, %one : !alg.tensor<[m], f32>
  %r = alg.div %p, %w : !alg.tensor<[m, n], f32>
  alg.yield %r : !alg.tensor<[m, n], f32>
}
// CHECK-LABEL: @one_more
// CHECK:         [[T:%.*]] = alg.max %x, {{%.*}}
// CHECK-NEXT:    [[M:%.*]] = alg.shift [[T]] over [n]
// CHECK:         [[Z:%.*]] = alg.reduce sum
// CHECK-NEXT:    [[N:%.*]] = alg.neg [[M]]
// CHECK-NEXT:    [[ONE:%.*]] = alg.exp [[N]]
// CHECK-NEXT:    alg.add [[Z]], [[ONE]]

// -----

// Exponentials over two axes that meet in a sum share their shift.
alg.graph @meeting axes [m = ?, n = ?, k = ?] (%x: !alg.tensor<[m, n], f32>, %y: !alg.tensor<[m, k], f32>) -> (!alg.tensor<[m], f32>) {
  %p = alg.exp %x : !alg.tensor<[m, n], f32>
  %q = alg.exp %y : !alg.tensor<[m, k], f32>
  %a = alg.reduce sum %p over [n] : !alg.tensor<[m], f32>
  %b = alg.reduce sum %q over [k] : !alg.tensor<[m], f32>
  %z = alg.add %a, %b : !alg.tensor<[m], f32>
  %r = alg.div %a, %z : !alg.tensor<[m], f32>
  alg.yield %r : !alg.tensor<[m], f32>
}
// CHECK-LABEL: @meeting
// CHECK:         [[K:%.*]] = alg.reduce max %y over [k]
// CHECK-NEXT:    [[T:%.*]] = alg.max %x, [[K]]
// CHECK-NEXT:    [[M:%.*]] = alg.shift [[T]] over [n]
// CHECK-NOT:     alg.shift

// -----

// Normalised over both axes, summed one after the other: the maximum is over both.
alg.graph @both_axes axes [m = ?, n = ?] (%x: !alg.tensor<[m, n], f32>) -> (!alg.tensor<[m, n], f32>) {
  %p = alg.exp %x : !alg.tensor<[m, n], f32>
  %a = alg.reduce sum %p over [n] : !alg.tensor<[m], f32>
  %z = alg.reduce sum %a over [m] : !alg.tensor<[], f32>
  %r = alg.div %p, %z : !alg.tensor<[m, n], f32>
  alg.yield %r : !alg.tensor<[m, n], f32>
}
// CHECK-LABEL: @both_axes
// CHECK:         alg.shift %x over [m, n] : f32

// -----

// With a split axis the maximum goes over chunks and within them.
alg.graph @split symbols [s(hint 8, positive)] axes [m = ?, n = ?, s = s, ni = ceildiv(n, s) chunk of n by s]
    (%x: !alg.tensor<[m, n], f32>, %v: !alg.tensor<[n], f32>) -> (!alg.tensor<[m], f32>) {
  %y = alg.split %x n into [s, ni] : !alg.tensor<[m, s, ni], f32>
  %w = alg.split %v n into [s, ni] : !alg.tensor<[s, ni], f32>
  %p = alg.exp %y : !alg.tensor<[m, s, ni], f32>
  %a = alg.reduce sum %p over [ni] : !alg.tensor<[m, s], f32>
  %z = alg.reduce sum %a over [s] : !alg.tensor<[m], f32>
  %b = alg.contract %p, %w over [ni] : !alg.tensor<[m, s], f32>
  %o = alg.reduce sum %b over [s] : !alg.tensor<[m], f32>
  %r = alg.div %o, %z : !alg.tensor<[m], f32>
  alg.yield %r : !alg.tensor<[m], f32>
}
// CHECK-LABEL: @split
// CHECK:         alg.shift {{%.*}} over [s, ni] : !alg.tensor<[m], f32>
// CHECK:         alg.div {{%.*}}, {{%.*}} guarded

// -----

// Every alternative is treated.
alg.graph @alternatives axes [m = ?, n = ?] (%x: !alg.tensor<[m, n], f32>, %v: !alg.tensor<[n], f32>) -> (!alg.tensor<[m], f32>) {
  alg.alternatives
    alternative "as written" {
      %p = alg.exp %x : !alg.tensor<[m, n], f32>
      %z = alg.reduce sum %p over [n] : !alg.tensor<[m], f32>
      %u = alg.div %p, %z : !alg.tensor<[m, n], f32>
      %o = alg.contract %u, %v over [n] : !alg.tensor<[m], f32>
      alg.yield %o : !alg.tensor<[m], f32>
    }
    alternative "late quotient" flops "4*m*n" {
      %p = alg.exp %x : !alg.tensor<[m, n], f32>
      %z = alg.reduce sum %p over [n] : !alg.tensor<[m], f32>
      %o = alg.contract %p, %v over [n] : !alg.tensor<[m], f32>
      %u = alg.div %o, %z : !alg.tensor<[m], f32>
      alg.yield %u : !alg.tensor<[m], f32>
    }
}
// CHECK-LABEL: @alternatives
// CHECK:         alternative "as written"
// CHECK:         alg.shift
// CHECK:         alternative "late quotient" flops "4*m*n"
// CHECK:         alg.shift

// -----

// Left alone: nothing divides by these sums.
alg.graph @near_miss_no_quotient axes [m = ?, n = ?] (%x: !alg.tensor<[m, n], f32>) -> (!alg.tensor<[m], f32>) {
  %p = alg.exp %x : !alg.tensor<[m, n], f32>
  %z = alg.reduce sum %p over [n] : !alg.tensor<[m], f32>
  %t = alg.tanh %z : !alg.tensor<[m], f32>
  alg.yield %t : !alg.tensor<[m], f32>
}
// CHECK-LABEL: @near_miss_no_quotient
// CHECK-NOT:     alg.shift
// CHECK:         alg.exp %x

// -----

// Left alone: the quotient is by a sum of another exponential, so e^m would not cancel.
alg.graph @near_miss_other_exponential axes [m = ?, n = ?]
    (%x: !alg.tensor<[m, n], f32>, %y: !alg.tensor<[m, n], f32>) -> (!alg.tensor<[m, n], f32>) {
  %p = alg.exp %x : !alg.tensor<[m, n], f32>
  %q = alg.exp %y : !alg.tensor<[m, n], f32>
  %z = alg.reduce sum %q over [n] : !alg.tensor<[m], f32>
  %r = alg.div %p, %z : !alg.tensor<[m, n], f32>
  alg.yield %r : !alg.tensor<[m, n], f32>
}
// CHECK-LABEL: @near_miss_other_exponential
// CHECK-NOT:     alg.shift
// CHECK:         alg.div {{%[^ ]*}}, {{%[^ ]*}} :

// -----

// Left alone: sigmoid is a function of its own, not an exponential.
alg.graph @near_miss_function axes [m = ?] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[m], f32>) {
  %p = alg.sigmoid %x : !alg.tensor<[m], f32>
  alg.yield %p : !alg.tensor<[m], f32>
}
// CHECK-LABEL: @near_miss_function
// CHECK-NOT:     alg.shift

// -----

// Not guarded: a sum weighted by an input may be zero by the program's own doing.
alg.graph @near_miss_guard axes [m = ?, n = ?] (%x: !alg.tensor<[m, n], f32>, %w: !alg.tensor<[n], f32>) -> (!alg.tensor<[m], f32>) {
  %p = alg.exp %x : !alg.tensor<[m, n], f32>
  %a = alg.reduce sum %p over [n] : !alg.tensor<[m], f32>
  %b = alg.contract %p, %w over [n] : !alg.tensor<[m], f32>
  %r = alg.div %a, %b : !alg.tensor<[m], f32>
  alg.yield %r : !alg.tensor<[m], f32>
}
// CHECK-LABEL: @near_miss_guard
// CHECK:         alg.shift
// CHECK-NOT:     guarded
