// RUN: cleave-opt %s -p 'alg-superoptimize{cost_factor=0.5}' --verify-diagnostics | filecheck %s

// CHECK: error: builtin.module: alg-superoptimize: option cost_factor is 0.5; give at least 1
alg.graph @f axes [m = ?] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[m], f32>) {
  %y = alg.exp %x : !alg.tensor<[m], f32>
  alg.yield %y : !alg.tensor<[m], f32>
}
