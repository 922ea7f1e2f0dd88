// RUN: cleave-opt %s -p alg-superoptimize 2>&1 | filecheck %s
// RUN: cleave-opt %s -p 'alg-superoptimize{gate=false}' 2>&1 | filecheck %s --check-prefix OPEN

// A variance around the mean equals E[x^2] - E[x]^2, which a large mean ruins in floats: found, and dropped.
// CHECK: remark: alg.graph: alternative '{{.*}}' is dropped: result 0 has a largest error of {{.*}} on a large mean
// CHECK-NOT: {{.*}} = alg.mul %x, %x
// CHECK-LABEL: @variance
// OPEN-NOT: is dropped
// OPEN: {{.*}} = alg.mul %x, %x
alg.graph @variance axes [m = ?, k = 4096, n = 4096]
    (%x: !alg.tensor<[m, k], f32>, %w: !alg.tensor<[k, n], f32>) -> (!alg.tensor<[m, n], f32>) {
  %c = alg.size k : index
  %s = alg.reduce sum %x over [k] : !alg.tensor<[m], f32>
  %mean = alg.div %s, %c : !alg.tensor<[m], f32>
  %y = alg.sub %x, %mean : !alg.tensor<[m, k], f32>
  %q = alg.mul %y, %y : !alg.tensor<[m, k], f32>
  %t = alg.reduce sum %q over [k] : !alg.tensor<[m], f32>
  %v = alg.div %t, %c : !alg.tensor<[m], f32>
  %e = alg.constant 1.0e-05 : f32
  %u = alg.add %v, %e : !alg.tensor<[m], f32>
  %r = alg.rsqrt %u : !alg.tensor<[m], f32>
  %z = alg.mul %y, %r : !alg.tensor<[m, k], f32>
  %o = alg.contract %z, %w over [k] : !alg.tensor<[m, n], f32>
  alg.yield %o : !alg.tensor<[m, n], f32>
}
