// RUN: cleave-opt %s -p 'alg-superoptimize{mode=enumerate}' 2>&1 | filecheck %s
// RUN: cleave-opt %s -p 'alg-superoptimize{mode=enumerate enumerate_ops=2}' 2>&1 | filecheck %s --check-prefix=SMALL
// RUN: cleave-opt %s -p 'alg-superoptimize{mode=enumerate seconds=0}' 2>&1 | filecheck %s --check-prefix=LATE

// The rules find q (k^T v); trying every operation finds that too, and beyond it only other places for the constant.
// CHECK-NOT:   not found by rules
// CHECK:       alg_superoptimize_enumerate.mlir:{{[0-9]+}}:1: remark: alg.graph: enumeration: {{[0-9]+}} operations were tried, {{[0-9]+}} ways of at most 8 operations found, 0 of them new, {{[1-9][0-9]*}} with a coefficient elsewhere
// CHECK:       alg.alternatives
// SMALL:       0 ways of at most 2 operations found, 0 of them new
// LATE:        remark: alg.graph: enumeration: trying stopped after 0 operations, as most of the 0 s were over
alg.graph @chain axes [m = ?(hint 512), n = ?(hint 4096), d = 64, e = 64]
    (%q: !alg.tensor<[m, d], f32>, %k: !alg.tensor<[n, d], f32>, %v: !alg.tensor<[n, e], f32>) -> (!alg.tensor<[m, e], f32>) {
  %s = alg.contract %q, %k over [d] : !alg.tensor<[m, n], f32>
  %c = alg.constant 0.125 : f32
  %x = alg.mul %s, %c : !alg.tensor<[m, n], f32>
  %o = alg.contract %x, %v over [n] : !alg.tensor<[m, e], f32>
  alg.yield %o : !alg.tensor<[m, e], f32>
}
