// RUN: cleave-opt %s -p 'alg-bind{sizes="q=64"}' --verify-diagnostics | filecheck %s --check-prefix=NAME
// RUN: cleave-opt %s -p 'alg-bind{sizes="m=many"}' --verify-diagnostics | filecheck %s --check-prefix=NUMBER

alg.graph @sizes axes [m = ?, n = 8] (%x: !alg.tensor<[m, n], f32>) -> (!alg.tensor<[m], f32>) {
  %a = alg.reduce sum %x over [n] : !alg.tensor<[m], f32>
  alg.yield %a : !alg.tensor<[m], f32>
}
// NAME: no graph declares symbol 'q' (there are m); correct the name
// NUMBER: alg-bind: 'm=many' is not a size; write name=integer
