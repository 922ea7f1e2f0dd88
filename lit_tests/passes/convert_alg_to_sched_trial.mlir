// RUN: cleave-opt %s -p 'convert-alg-to-sched{plans=24 trial=2}' | filecheck %s
// RUN: not cleave-opt %s -p 'convert-alg-to-sched{plans=24 trial=100000}' 2>&1 | filecheck %s --check-prefix=NONE

// Rows see keys of their own document. What tuning tries second walks, for a tile of rows, only the range of keys that any of its chunks
// of 64 rows may see: from where to where is found by a kernel before, from the least and the largest number in a chunk.
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
// CHECK:         [[LEAST:%.*]] = sched.reduce min {{.*}} over m_row
// CHECK:         sched.compare le {{.*}} : !sched.tile<[n = 1024], i1>
// CHECK:         [[LARGEST:%.*]] = sched.reduce max {{.*}} over m_row
// CHECK:         sched.compare ge {{.*}} : !sched.tile<[n = 1024], i1>
// CHECK:         [[LO:%.*]] = sched.reduce min {{.*}} over n
// CHECK:         sched.store [[LO]] to [[FIRST]] [m_chunk =
// CHECK:         [[HI:%.*]] = sched.reduce max {{.*}} over n
// CHECK:         sched.store [[HI]] to [[LAST]] [m_chunk =
// CHECK-LABEL: sched.kernel @documents_out
// CHECK:         [[CHUNK:%.*]] = sched.floordiv %m0, {{%.*}} : !sched.tile<[], index>
// CHECK:         sched.load [[FIRST]] [m_chunk = [[CHUNK]]]
// CHECK:         [[START:%n_start.*]] = sched.max
// CHECK:         sched.load [[LAST]] [m_chunk =
// CHECK:         [[STOP:%n_stop.*]] = sched.min
// CHECK:         sched.for n {{.*}} = [[START]] to [[STOP]] step
// CHECK:           sched.compare eq {{.*}} : !sched.tile<[m = {{[0-9]+}}, n = {{[0-9]+}}], i1>
// CHECK-NOT:       sched.compare ge
// CHECK:           sched.yield
// CHECK:       sched.launch @documents_tmp
// CHECK:       sched.launch @documents_out
// NONE: error: {{.*}}documents: option trial is 100000; give at most {{[0-9]+}}, there are no more
