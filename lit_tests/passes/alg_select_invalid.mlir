// RUN: cleave-opt %s -p 'alg-select{index=2}' --verify-diagnostics | filecheck %s --check-prefix=INDEX
// RUN: cleave-opt %s -p 'alg-select{alternative=late}' --verify-diagnostics | filecheck %s --check-prefix=NAME
// RUN: cleave-opt %s -p 'alg-select{index=0 alternative="as written"}' --verify-diagnostics | filecheck %s --check-prefix=BOTH

alg.graph @choice axes [m = ?, n = ?] (%x: !alg.tensor<[m, n], f32>) -> (!alg.tensor<[m], f32>) {
  alg.alternatives
    alternative "as written" {
      %0 = alg.reduce sum %x over [n] : !alg.tensor<[m], f32>
      alg.yield %0 : !alg.tensor<[m], f32>
    }
    alternative "other" {
      %0 = alg.reduce sum %x over [n] : !alg.tensor<[m], f32>
      alg.yield %0 : !alg.tensor<[m], f32>
    }
}
// INDEX: alg_select_invalid.mlir:5:1: error: alg.graph: there is no alternative 2; choose one of 0 to 1
// NAME: alg_select_invalid.mlir:5:1: error: alg.graph: there is no alternative 'late'; choose one of as written, other
// BOTH: both an index and a name are given; give one of them
