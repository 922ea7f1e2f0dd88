// RUN: cleave-opt %s -p 'convert-alg-to-sched{trial=2}' | filecheck %s
// RUN: cleave-opt %s -p convert-alg-to-sched | filecheck %s --check-prefix=PLAIN

// A product of few rows, scaled by their sums of squares, which are the diagonal of a product of the rows with themselves: all that the
// loop loads feeds dots. It is one of the ways that tuning times; without timing the sum is a sum.
alg.graph @scaled_product axes [m = 16, k = 4096, c = 6144]
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
// CHECK:         [[G:%.*]], [[Y:%.*]] = sched.for k
// CHECK:           [[X:%.*]] = sched.load %x {{.*}} : !sched.tile<[m = 16, k = 128], f16>
// CHECK:           [[OTHER:%.*]] = sched.load %x {{.*}} : !sched.tile<[k = 128, m_other = 16], f16>
// CHECK:           sched.dot [[X]], [[OTHER]] over k
// CHECK:           sched.dot [[X]], {{%.*}} over k
// CHECK-NOT:       sched.cast
// CHECK:           sched.yield
// CHECK:         [[SAME:%.*]] = sched.compare eq %m_other, %m : !sched.tile<[m = 16, m_other = 16], i1>
// CHECK:         [[OWN:%.*]] = sched.select [[SAME]], [[G]], {{%.*}}
// CHECK:         [[T:%.*]] = sched.reduce sum [[OWN]] over m_other
// CHECK:         sched.rsqrt [[T]]
// PLAIN-NOT:     m_other
