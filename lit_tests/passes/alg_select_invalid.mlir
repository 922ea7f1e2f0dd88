// RUN: cleave-opt %s -p 'alg-select{index=2}' --verify-diagnostics | filecheck %s --check-prefix=INDEX
// RUN: cleave-opt %s -p 'alg-select{alternative=late}' --verify-diagnostics | filecheck %s --check-prefix=NAME
// RUN: cleave-opt %s -p 'alg-select{index=0 alternative="as written"}' --verify-diagnostics | filecheck %s --check-prefix=BOTH
// RUN: not cleave-opt %s -p 'alg-select{index=0 sizes="n"}' 2>&1 | filecheck %s --check-prefix=SIZE
// RUN: not cleave-opt %s -p 'alg-select{index=0},alg-select{sizes="n=-1"}' 2>&1 | filecheck %s --check-prefix=NEGATIVE
// RUN: not cleave-opt %s -p 'alg-select{index=0},alg-select{sizes="q=3"}' 2>&1 | filecheck %s --check-prefix=SYMBOL

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
// INDEX: alg_select_invalid.mlir:8:1: error: alg.graph: there is no alternative 2; choose one of 0 to 1
// NAME: alg_select_invalid.mlir:8:1: error: alg.graph: there is no alternative 'late'; choose one of as written, other
// BOTH: both an index and a name are given; give one of them
// Sizes are checked whether they are needed or not.
// SIZE: error: alg-select: 'n' is not a size; write name=integer
// NEGATIVE: error: alg-select: 'n=-1' is not a size; write name=integer
// SYMBOL: error: alg.graph: no graph declares symbol 'q' (there are m, n); correct the name
