// RUN: cleave-opt %s -p alg-select | filecheck %s --check-prefix=LEAST
// RUN: cleave-opt %s -p 'alg-select{index=0}' | filecheck %s --check-prefix=FIRST
// RUN: cleave-opt %s -p 'alg-select{alternative=early}' | filecheck %s --check-prefix=EARLY
// RUN: cleave-opt %s -p 'alg-select{sizes="m=1,n=1"}' | filecheck %s --check-prefix=SMALL

// Without options the alternative of least FLOPs at the hints is kept; `sizes` compares at others, and equals keep the first.
alg.graph @choice axes [m = ?(hint 64), n = ?(hint 4096)] (%x: !alg.tensor<[m, n], f32>, %y: !alg.tensor<[m], f32>) -> (!alg.tensor<[m], f32>) {
  alg.alternatives
    alternative "as written" flops "2*m*n" bytes "4*m*n + 8*m" {
      %0 = alg.mul %x, %y : !alg.tensor<[m, n], f32>
      %1 = alg.reduce sum %0 over [n] : !alg.tensor<[m], f32>
      alg.yield %1 : !alg.tensor<[m], f32>
    }
    alternative "early" flops "m*n + m" bytes "4*m*n + 8*m" {
      %0 = alg.reduce sum %x over [n] : !alg.tensor<[m], f32>
      %1 = alg.mul %0, %y : !alg.tensor<[m], f32>
      alg.yield %1 : !alg.tensor<[m], f32>
    }
}
// LEAST-LABEL: @choice
// LEAST:         [[S:%.*]] = alg.reduce sum %x over [n]
// LEAST-NEXT:    [[P:%.*]] = alg.mul [[S]], %y
// LEAST-NEXT:    alg.yield [[P]]

// FIRST-LABEL: @choice
// FIRST:         [[P:%.*]] = alg.mul %x, %y
// FIRST-NEXT:    [[S:%.*]] = alg.reduce sum [[P]] over [n]
// FIRST-NEXT:    alg.yield [[S]]

// EARLY-LABEL: @choice
// EARLY-NOT:     alg.mul
// EARLY:         alg.reduce sum %x over [n]

// SMALL-LABEL: @choice
// SMALL-NOT:     alg.reduce
// SMALL:         alg.mul %x, %y

// A graph without alternatives is left alone.
alg.graph @plain axes [m = ?] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[m], f32>) {
  %0 = alg.exp %x : !alg.tensor<[m], f32>
  alg.yield %0 : !alg.tensor<[m], f32>
}
// LEAST-LABEL: @plain
// LEAST:         [[E:%.*]] = alg.exp %x
// LEAST-NEXT:    alg.yield [[E]]
