// RUN: cleave-opt %s -p 'convert-alg-to-sched{plans=24 trial=2}' | filecheck %s
// RUN: cleave-opt %s -p 'convert-alg-to-sched{plans=24 trial=2},convert-sched-to-tt' -t triton | filecheck %s --check-prefix=TRITON
// RUN: cleave-opt %s -p 'convert-alg-to-sched{plans=24}' | filecheck %s --check-prefix=PLAIN

// Rows see the 256 keys up to their own. One of the ways that tuning times walks these in one loop, which looks at the mask in the first
// and last steps alone: those in between are of keys that all rows of the tile see.
alg.graph @window axes [m = 1024, n = 1024, d = 64, e = 64]
    (%q: !alg.tensor<[m, d], f16>, %k: !alg.tensor<[n, d], f16>, %v: !alg.tensor<[n, e], f16>) -> (!alg.tensor<[m, e], f16>) {
  %s = alg.contract %q, %k over [d] : !alg.tensor<[m, n], f32>
  %i = alg.iota m : !alg.tensor<[m], index>
  %j = alg.iota n : !alg.tensor<[n], index>
  %past = alg.compare le %j, %i : !alg.tensor<[m, n], i1>
  %far = alg.sub %i, %j : !alg.tensor<[m, n], index>
  %width = alg.constant 256 : index
  %near = alg.compare lt %far, %width : !alg.tensor<[m, n], i1>
  %seen = alg.and %past, %near : !alg.tensor<[m, n], i1>
  %hidden = alg.constant -inf : f32
  %x = alg.select %seen, %s, %hidden : !alg.tensor<[m, n], f32>
  %t = alg.shift %x over [n] : !alg.tensor<[m], f32>
  %y = alg.sub %x, %t : !alg.tensor<[m, n], f32>
  %p = alg.exp %y : !alg.tensor<[m, n], f32>
  %z = alg.reduce sum %p over [n] : !alg.tensor<[m], f32>
  %h = alg.cast %p : !alg.tensor<[m, n], f16>
  %o = alg.contract %h, %v over [n] : !alg.tensor<[m, e], f32>
  %r = alg.div %o, %z guarded : !alg.tensor<[m, e], f32>
  %c = alg.cast %r : !alg.tensor<[m, e], f16>
  alg.yield %c : !alg.tensor<[m, e], f16>
}
// CHECK-LABEL: sched.kernel @window_kernel
// CHECK:         sched.for n [[STEP:%.*]] = %n_start to %n_stop step [[TILE:.*]] carry
// CHECK-NEXT:      [[EARLY:%.*]] = sched.compare lt [[STEP]], %n_low : !sched.tile<[], i1>
// CHECK-NEXT:      [[LATE:%.*]] = sched.compare ge [[STEP]], %n_whole : !sched.tile<[], i1>
// CHECK-NEXT:      [[EDGE:%.*]] = sched.or [[EARLY]], [[LATE]] : !sched.tile<[], i1>
// CHECK:           [[DOT:%.*]] = sched.dot
// CHECK-NEXT:      [[X:%.*]] = sched.if [[EDGE]] {
// CHECK:             [[SEEN:%.*]] = sched.and
// CHECK-NEXT:        [[MASKED:%.*]] = sched.select [[SEEN]], [[DOT]], {{%.*}}
// CHECK-NEXT:        sched.yield [[MASKED]]
// CHECK-NEXT:      } else [[DOT]]
// CHECK-NEXT:      sched.reduce maxnum [[X]] over n
// TRITON:      for n0 in range(n_start,
// TRITON:          dot = tl.dot(q, k)
// TRITON-NEXT:     if (n0 < n_low) | (n0 >= n_whole):
// TRITON:              dot = tl.where({{.*}}, dot, float("-inf"))
// TRITON-NEXT:     level_2 =
// PLAIN-NOT:   sched.if
