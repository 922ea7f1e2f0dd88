// RUN: cleave-opt %s -p 'alg-superoptimize{cost_factor=0.5}' --verify-diagnostics | filecheck %s
// RUN: cleave-opt %s -p 'alg-superoptimize{mode=guess}' --verify-diagnostics | filecheck %s --check-prefix=MODE
// RUN: cleave-opt %s -p 'alg-superoptimize{split_at_once=3}' --verify-diagnostics | filecheck %s --check-prefix=ONCE
// RUN: cleave-opt %s -p 'alg-superoptimize{workers=0}' --verify-diagnostics | filecheck %s --check-prefix=WORKERS
// RUN: not cleave-opt %s -p 'alg-superoptimize{cost_factor=nan}' 2>&1 | filecheck %s --check-prefix=NAN

// CHECK: error: builtin.module: alg-superoptimize: option cost_factor is 0.5; give at least 1
// MODE:  error: builtin.module: alg-superoptimize: option mode is 'guess'; give rules or enumerate
// ONCE:  error: builtin.module: alg-superoptimize: option split_at_once is 3; give 1 or 2
// WORKERS: error: builtin.module: alg-superoptimize: option workers is 0; give 1 or 2
// NAN: cleave-opt: error: alg-superoptimize: option cost_factor is nan; write a finite number, as in cost_factor=2.0
alg.graph @f axes [m = ?] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[m], f32>) {
  %y = alg.exp %x : !alg.tensor<[m], f32>
  alg.yield %y : !alg.tensor<[m], f32>
}
