// RUN: cleave-opt %s -p 'convert-alg-to-sched{plans=24 trial=3}' | filecheck %s
// RUN: cleave-opt %s -p 'convert-alg-to-sched{plans=24 trial=3},convert-sched-to-tt' -t triton | filecheck %s --check-prefix=TRITON
// RUN: cleave-opt %s -p 'convert-alg-to-sched{plans=24 trial=2}' | filecheck %s --check-prefix=GRID

// Rows see keys of their own document. What tuning tries third walks the same ranges of keys as what it tries second, those of most keys
// first: of each chunk of 64 rows the last program of the kernel that finds the ranges counts which chunks come before it, and stores
// which chunk comes at each place. The other kernel's programs are the chunks in that order.
alg.graph @documents axes [m = 1024, n = 1024, d = 64, e = 64]
    (%q: !alg.tensor<[m, d], f16>, %k: !alg.tensor<[n, d], f16>, %v: !alg.tensor<[n, e], f16>, %ids: !alg.tensor<[m], i32>)
    -> (!alg.tensor<[m, e], f16>) {
  %s = alg.contract %q, %k over [d] : !alg.tensor<[m, n], f32>
  %other = alg.rename %ids [m -> n] : !alg.tensor<[n], i32>
  %same = alg.compare eq %ids, %other : !alg.tensor<[m, n], i1>
  %hidden = alg.constant -inf : f32
  %x = alg.select %same, %s, %hidden : !alg.tensor<[m, n], f32>
  %t = alg.shift %x over [n] : !alg.tensor<[m], f32>
  %y = alg.sub %x, %t : !alg.tensor<[m, n], f32>
  %p = alg.exp %y : !alg.tensor<[m, n], f32>
  %z = alg.reduce sum %p over [n] : !alg.tensor<[m], f32>
  %h = alg.cast %p : !alg.tensor<[m, n], f16>
  %o = alg.contract %h, %v over [n] : !alg.tensor<[m, e], f32>
  %r = alg.div %o, %z : !alg.tensor<[m, e], f32>
  %c = alg.cast %r : !alg.tensor<[m, e], f16>
  alg.yield %c : !alg.tensor<[m, e], f16>
}
// CHECK-LABEL: sched.kernel @documents_{{tmp[0-9]+}}
// CHECK-SAME:    [[FIRST:%tmp[0-9]+]]: !sched.buffer<[m_chunk : 1], i32>, [[LAST:%tmp[0-9]+]]: !sched.buffer<[m_chunk : 1], i32>
// CHECK-SAME:    [[ORDER:%tmp[0-9]+]]: !sched.buffer<[m_place : 1], i32>) grid
// CHECK:         sched.last
// CHECK:           [[HI:%.*]] = sched.load [[LAST]] [m_chunk = %m_other] fresh
// CHECK:           [[LO:%.*]] = sched.load [[FIRST]] [m_chunk = %m_other] fresh
// CHECK:           [[WALKED:%.*]] = sched.sub [[HI]], [[LO]] : !sched.tile<[m_other = 16], i32>
// CHECK:           [[LENGTH:%.*]] = sched.max [[WALKED]],
// CHECK:           [[LONGER:%.*]] = sched.compare gt {{.*}} : !sched.tile<[m_chunk = 16, m_other = 16], i1>
// CHECK:           [[EQUAL:%.*]] = sched.compare eq {{.*}} : !sched.tile<[m_chunk = 16, m_other = 16], i1>
// CHECK:           [[EARLIER:%.*]] = sched.compare lt {{.*}} : !sched.tile<[m_chunk = 16, m_other = 16], i1>
// CHECK:           [[TIE:%.*]] = sched.and [[EQUAL]], [[EARLIER]]
// CHECK:           [[BEFORE:%.*]] = sched.or [[LONGER]], [[TIE]]
// CHECK:           [[RANK:%.*]] = sched.reduce sum {{.*}} over m_other : !sched.tile<[m_chunk = 16], i32>
// CHECK:           sched.compare eq {{.*}} : !sched.tile<[m_chunk = 16, m_place = 16], i1>
// CHECK:           [[CHUNK:%.*]] = sched.reduce max {{.*}} over m_chunk : !sched.tile<[m_place = 16], i32>
// CHECK:           sched.store [[CHUNK]] to [[ORDER]] [m_place = %m_place]
// CHECK-LABEL: sched.kernel @documents_out
// CHECK-SAME:    %m0 = m by 64 count 16) warps
// CHECK:         [[PLACE:%.*]] = sched.floordiv %m0, [[TILE:%.*]] : !sched.tile<[], index>
// CHECK-NEXT:    [[READ:%.*]] = sched.load [[ORDER]] [m_place = [[PLACE]]]
// CHECK-NEXT:    [[OWN:%.*]] = sched.cast [[READ]]
// CHECK-NEXT:    [[START:%.*]] = sched.mul [[OWN]], [[TILE]] : !sched.tile<[], index>
// CHECK:         sched.range [[START]] : !sched.tile<[m = 64], index>
// CHECK:         "chosen: alternative 0, within ranges, longest first"
// CHECK-SAME:    the longest m first

// TRITON-LABEL: def documents_out
// TRITON:         [[ORDER:tmp[0-9]+]] = tl.load([[ORDER]]_ptr +
// TRITON-NEXT:    m_first = [[ORDER]] * 64

// GRID-NOT: m_place
