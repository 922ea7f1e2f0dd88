// RUN: cleave-opt %s -p alg-stabilize,convert-alg-to-sched --split-input-file | filecheck %s

// Weights exp(s) over n, masked causally and normalised late: one kernel whose loop over n carries the level of the shift, the
// accumulator and the sum. The mask ends the loop where no key is live.
alg.graph @late_quotient axes [m = 64, d = 64, n = 64, e = 64]
    (%q: !alg.tensor<[m, d], f16>, %k: !alg.tensor<[n, d], f16>, %v: !alg.tensor<[n, e], f16>) -> (!alg.tensor<[m, e], f16>) {
  %s = alg.contract %q, %k over [d] : !alg.tensor<[m, n], f32>
  %i = alg.iota m : !alg.tensor<[m], index>
  %j = alg.iota n : !alg.tensor<[n], index>
  %live = alg.compare le %j, %i : !alg.tensor<[m, n], i1>
  %hidden = alg.constant -inf : f32
  %x = alg.select %live, %s, %hidden : !alg.tensor<[m, n], f32>
  %p = alg.exp %x : !alg.tensor<[m, n], f32>
  %z = alg.reduce sum %p over [n] : !alg.tensor<[m], f32>
  %h = alg.cast %p : !alg.tensor<[m, n], f16>
  %o = alg.contract %h, %v over [n] : !alg.tensor<[m, e], f32>
  %r = alg.div %o, %z : !alg.tensor<[m, e], f32>
  %c = alg.cast %r : !alg.tensor<[m, e], f16>
  alg.yield %c : !alg.tensor<[m, e], f16>
}
// CHECK-LABEL: sched.kernel @late_quotient_kernel
// CHECK:         [[STOP:%.*]] = sched.min
// CHECK:         [[LEVEL:%.*]], [[ACC:%.*]], [[SUM:%.*]] = sched.for n {{.*}} to [[STOP]]
// CHECK:           [[S:%.*]] = sched.dot {{.*}} over d
// CHECK:           [[TOP:%.*]] = sched.reduce maxnum {{.*}} over n
// CHECK:           [[ALPHA:%.*]] = sched.exp2
// CHECK:           [[P:%.*]] = sched.exp2
// CHECK:           [[O:%.*]] = sched.dot {{.*}} over n acc
// CHECK:           [[Z:%.*]] = sched.reduce sum [[P]] over n
// CHECK:           sched.yield
// CHECK:         [[Q:%.*]] = sched.div {{.*}}, [[SUM]] : !sched.tile<[m = 16], f32>
// CHECK:         [[R:%.*]] = sched.select {{.*}}, [[Q]]
// CHECK:         sched.mul [[ACC]], [[R]]
// CHECK:         sched.store
// CHECK-NOT:     sched.kernel
// CHECK:         sched.launch @late_quotient_kernel

// -----

// A sum of squares and a contraction over the same axis share their loop.
alg.graph @scaled_product axes [m = 32, k = 512, c = 64]
    (%x: !alg.tensor<[m, k], f16>, %w: !alg.tensor<[k, c], f16>) -> (!alg.tensor<[m, c], f16>) {
  %f = alg.cast %x : !alg.tensor<[m, k], f32>
  %q = alg.mul %f, %f : !alg.tensor<[m, k], f32>
  %t = alg.reduce sum %q over [k] : !alg.tensor<[m], f32>
  %s = alg.rsqrt %t : !alg.tensor<[m], f32>
  %y = alg.contract %x, %w over [k] : !alg.tensor<[m, c], f32>
  %r = alg.mul %y, %s : !alg.tensor<[m, c], f32>
  %c = alg.cast %r : !alg.tensor<[m, c], f16>
  alg.yield %c : !alg.tensor<[m, c], f16>
}
// CHECK-LABEL: sched.kernel @scaled_product_kernel
// CHECK:         sched.for k
// CHECK:           sched.dot
// CHECK:           sched.yield
// CHECK-NOT:     sched.for
// CHECK:         sched.reduce sum
// CHECK:         sched.store

// -----

// A sum whose value is read along the axis it removes needs a kernel of its own.
alg.graph @entangled axes [m = 30, n = 30] (%x: !alg.tensor<[m, n], f32>) -> (!alg.tensor<[m], f32>) {
  %s = alg.reduce sum %x over [n] : !alg.tensor<[m], f32>
  %t = alg.rename %s [m -> n] : !alg.tensor<[n], f32>
  %p = alg.mul %x, %t : !alg.tensor<[m, n], f32>
  %r = alg.reduce sum %p over [n] : !alg.tensor<[m], f32>
  alg.yield %r : !alg.tensor<[m], f32>
}
// CHECK-LABEL: sched.program @entangled
// CHECK:         sched.allocate
// CHECK:         sched.launch
// CHECK:         sched.launch

// -----

// The number of chunks of a split is chosen for the sizes that are known, and follows from those that are found when the program runs:
// the grid has as many programs, and the last one to arrive reads no part that there is not.
alg.graph @chunks symbols [s(positive)] axes [m = 16, k = ?(hint 16384), c = 64, s = s, ki = ceildiv(k, s) chunk of k by s]
    (%x: !alg.tensor<[m, k], f16>, %w: !alg.tensor<[k, c], f16>) -> (!alg.tensor<[m, c], f32>) {
  %xs = alg.split %x k into [s, ki] : !alg.tensor<[m, s, ki], f16>
  %ws = alg.split %w k into [s, ki] : !alg.tensor<[s, ki, c], f16>
  %p = alg.contract %xs, %ws over [ki] : !alg.tensor<[m, s, c], f32>
  %y = alg.reduce sum %p over [s] : !alg.tensor<[m, c], f32>
  alg.yield %y : !alg.tensor<[m, c], f32>
}
// CHECK-LABEL: sched.kernel @chunks_kernel
// CHECK-SAME:    [[START:%s0]] = s by 1 count s)
// CHECK:         [[BLOCK:%.*]] = sched.mul [[S:%s]], {{%.*}} : !sched.tile<[], index>
// CHECK:         sched.floordiv {{%.*}}, [[BLOCK]]
// CHECK:         [[ACC:%.*]] = sched.for ki
// CHECK:         sched.store [[ACC]] to [[PARTS:%.*]] [s = [[START]], m = {{.*}}]
// CHECK:         sched.last {{.*}} of [[S]] {
// CHECK:           sched.load [[PARTS]] {{.*}}] fresh
// CHECK:           [[THERE:%.*]] = sched.compare lt {{%.*}}, [[S]]
// CHECK:           [[SECOND:%.*]] = sched.load [[PARTS]] {{.*}} check [s < [[S]]] other 0.0 fresh
// CHECK:           sched.select [[THERE]], [[SECOND]], {{%.*}}
// CHECK:         sched.program @chunks sizes
// CHECK-SAME:    s = max(1, min({{.*}} floordiv programs_s), min(16, ceildiv(k, {{[0-9]+}})))), ki = ceildiv(k, s)

// -----

// A number of chunks that the program reads is a size like any other, and stays the caller's to give.
alg.graph @reads_the_count axes [n = ?(hint 7), s = ?(hint 2, positive), ni = ceildiv(n, s) chunk of n by s]
    (%x: !alg.tensor<[n], f32>) -> (!alg.tensor<[n], f32>) {
  %c = alg.size s : f32
  %y = alg.mul %x, %c : !alg.tensor<[n], f32>
  alg.yield %y : !alg.tensor<[n], f32>
}
// CHECK-LABEL: sched.program @reads_the_count sizes [n = n, s = s, ni = ceildiv(n, s)]

// -----

// So is one that another axis is made of.
alg.graph @made_of_the_count axes [n = ?(hint 7), s = ?(hint 2, positive), t = s + 3, ni = ceildiv(n, s) chunk of n by s]
    (%x: !alg.tensor<[n], f32>) -> (!alg.tensor<[], f32>) {
  %xs = alg.split %x n into [s, ni] : !alg.tensor<[s, ni], f32>
  %z = alg.reduce sum %xs over [s, ni] : f32
  alg.yield %z : !alg.tensor<[], f32>
}
// CHECK-LABEL: sched.program @made_of_the_count sizes [n = n, s = s, t = s + 3, ni = ceildiv(n, s)
