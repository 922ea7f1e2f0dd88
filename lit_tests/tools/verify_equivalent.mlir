// RUN: cleave-opt %s --verify-equivalent %s | filecheck %s --check-prefix=SAME
// RUN: cleave-opt %s -p alg-superoptimize | cleave-opt --verify-equivalent %s | filecheck %s --check-prefix=FOUND
// RUN: cleave-opt %s --verify-equivalent %S/Inputs/behind.alg | filecheck %s --check-prefix=SAME
// RUN: not cleave-opt %s --verify-equivalent %S/Inputs/unscaled.alg | filecheck %s --check-prefix=OTHER
// RUN: not cleave-opt %s --verify-equivalent %S/Inputs/shorter.alg 2>&1 | filecheck %s --check-prefix=MISFIT
// RUN: not cleave-opt %s --split-input-file --verify-equivalent %s 2>&1 | filecheck %s --check-prefix=USAGE
// RUN: not cleave-opt %s --verify-equivalent %s --verify-equivalent %s 2>&1 | filecheck %s --check-prefix=TWICE

// The question is about the graphs after the passes; every alternative is asked for.
// SAME:      @scaled: equivalent
// FOUND:     @scaled: equivalent
// FOUND:     @scaled alternative '1': equivalent

// A counterexample is small and complete: sizes, arguments, both results.
// OTHER:      @scaled: not equivalent
// OTHER-NEXT: result 0 differs at m = {{[0-9]+}}, n = {{[0-9]+}}: {{-?[0-9.e-]+}} and {{-?[0-9.e-]+}}
// OTHER-NEXT: sizes: m = 2, k = 2 (declared 4096), n = 2 (declared 512)
// OTHER-NEXT: x [m, k] = {{\[\[}}
// OTHER:      w [k, n] =
// OTHER:      first result 0 [m, n] =
// OTHER:      second result 0 [m, n] =

// Programs of other tensors cannot be compared.
// MISFIT:     verify_equivalent.mlir:{{[0-9]+:[0-9]+}}: error: alg.graph: @scaled cannot be compared: axis 'k' of argument 'w'
// MISFIT-SAME: {{ }}has extent 4096 in one program and 2048 in the other; the other graph is at {{.*}}shorter.alg:1:1
// TWICE:      cleave-opt: error: --verify-equivalent is given more than once; give it once, with one file
// USAGE:      cleave-opt: error: --verify-equivalent and --split-input-file exclude each other
alg.graph @scaled axes [m = ?(hint 128), k = 4096, n = 512]
    (%x: !alg.tensor<[m, k], f16>, %w: !alg.tensor<[k, n], f16>) -> (!alg.tensor<[m, n], f32>) {
  %s = alg.mul %x, %x : !alg.tensor<[m, k], f32>
  %t = alg.reduce sum %s over [k] : !alg.tensor<[m], f32>
  %c = alg.size k : index
  %a = alg.div %t, %c : !alg.tensor<[m], f32>
  %e = alg.constant 1.0e-6 : f32
  %b = alg.add %a, %e : !alg.tensor<[m], f32>
  %r = alg.rsqrt %b : !alg.tensor<[m], f32>
  %y = alg.mul %x, %r : !alg.tensor<[m, k], f32>
  %h = alg.cast %y : !alg.tensor<[m, k], f16>
  %o = alg.contract %h, %w over [k] : !alg.tensor<[m, n], f32>
  alg.yield %o : !alg.tensor<[m, n], f32>
}
