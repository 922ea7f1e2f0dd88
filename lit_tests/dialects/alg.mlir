// RUN: cleave-opt %s --split-input-file | filecheck %s
// RUN: cleave-opt %s --split-input-file --print-op-generic | cleave-opt --split-input-file | filecheck %s
// RUN: cleave-opt %s --split-input-file --print-op-generic | filecheck %s --check-prefix=GENERIC

// Causal grouped-query attention: axes with sizes, and with symbols known at run time; layouts; masks by indices.
alg.graph @causal axes [b = 8, g = 8, r = 4, m = ?(hint 512), n = ?(hint 4096, multiple_of 16, positive), d = 128, e = 128]
    (%q: !alg.tensor<[b, g, r, m, d], f16> layout "b (g r) m d", %k: !alg.tensor<[b, g, n, d], f16> layout "b g n d",
     %v: !alg.tensor<[b, g, n, e], f16>) -> (!alg.tensor<[b, g, r, m, e], f16> layout "b (g r) m e") {
  %s = alg.contract %q, %k over [d] : !alg.tensor<[b, g, r, m, n], f32>
  %i = alg.iota m : !alg.tensor<[m], index>
  %j = alg.iota n : !alg.tensor<[n], index>
  %ok = alg.compare le %j, %i : !alg.tensor<[m, n], i1>
  %inf = alg.constant 0xFF800000 : f32
  %x = alg.select %ok, %s, %inf : !alg.tensor<[b, g, r, m, n], f32>
  %p = alg.exp %x : !alg.tensor<[b, g, r, m, n], f32>
  %z = alg.reduce sum %p over [n] : !alg.tensor<[b, g, r, m], f32>
  %w = alg.div %p, %z : !alg.tensor<[b, g, r, m, n], f32>
  %o = alg.contract %w, %v over [n] : !alg.tensor<[b, g, r, m, e], f16>
  alg.yield %o
}
// CHECK:       alg.graph @causal axes [b = 8, g = 8, r = 4, m = ?(hint 512), n = ?(hint 4096, multiple_of 16, positive), d = 128, e = 128]
// CHECK-NEXT:    (%q: !alg.tensor<[b, g, r, m, d], f16> layout "b (g r) m d",
// CHECK-NEXT:     %k: !alg.tensor<[b, g, n, d], f16> layout "b g n d",
// CHECK-NEXT:     %v: !alg.tensor<[b, g, n, e], f16> layout "b g n e")
// CHECK-NEXT:    -> (!alg.tensor<[b, g, r, m, e], f16> layout "b (g r) m e") {
// CHECK-NEXT:    %s = alg.contract %q, %k over [d] : !alg.tensor<[b, g, r, m, n], f32>
// CHECK-NEXT:    %i = alg.iota m : !alg.tensor<[m], index>
// CHECK-NEXT:    %j = alg.iota n : !alg.tensor<[n], index>
// CHECK-NEXT:    %ok = alg.compare le %j, %i : !alg.tensor<[m, n], i1>
// CHECK-NEXT:    %inf = alg.constant -inf : f32
// CHECK-NEXT:    %x = alg.select %ok, %s, %inf : !alg.tensor<[b, g, r, m, n], f32>
// CHECK-NEXT:    %p = alg.exp %x : !alg.tensor<[b, g, r, m, n], f32>
// CHECK-NEXT:    %z = alg.reduce sum %p over [n] : !alg.tensor<[b, g, r, m], f32>
// CHECK-NEXT:    %w = alg.div %p, %z : !alg.tensor<[b, g, r, m, n], f32>
// CHECK-NEXT:    %o = alg.contract %w, %v over [n] : !alg.tensor<[b, g, r, m, e], f16>
// CHECK-NEXT:    alg.yield %o : !alg.tensor<[b, g, r, m, e], f16>
// GENERIC:     symbols = [#alg.symbol<m(hint 512)>, #alg.symbol<n(hint 4096, multiple_of 16, positive)>]
// GENERIC-SAME: axes = [#alg.axis<b = 8>,
// GENERIC-SAME: arg_attrs = [{layout = "b (g r) m d", name = "q"},
// GENERIC:     "alg.compare"(%j, %i) <{predicate = #alg<predicate le>}>
// GENERIC:     "alg.constant"() <{value = 0xfff0000000000000 : f64}> : () -> !alg.tensor<[], f32>
// GENERIC:     "alg.reduce"(%p) <{reduction = #alg<reduction sum>, axes = ["n"]}>

// -----

// Extents are expressions over symbols; symbols that no axis is named for are declared first. An argument may be a weight, and
// may have a name that a value cannot have. A result may have an axis that its value lacks.
alg.graph @extents symbols [N(hint 64, hint 1024), M] axes [a = 2*N + 1, c = (N + 3)*M, f = N floordiv 2, g = 3*(N mod 4), h = "N // 8",
    i = ceildiv(N, 3), j = min(N, M), k = max(N, 1), l = M, p = ?(positive)]
    (%x: !alg.tensor<[a, c], f32> layout "1 (c a)" weight, %0: !alg.tensor<[], f64>, %y_1: !alg.tensor<[f], bf16>)
    -> (!alg.tensor<[a], f32>, !alg.tensor<[a, f], f32> layout "f a") attributes {note = 1 : i64} {
  %r = alg.reduce max %x over [c] : !alg.tensor<[a], f32>
  alg.yield %r, %r : !alg.tensor<[a], f32>, !alg.tensor<[a], f32>
}
// CHECK:       alg.graph @extents symbols [N(hint 64, hint 1024), M]
// CHECK-SAME:    axes [a = 2*N + 1, c = M*N + 3*M, f = N floordiv 2, g = 3*(N mod 4), h = N floordiv 8, i = ceildiv(N, 3), j = min(M, N), k = max(1, N), l = M, p = ?(positive)]
// CHECK-NEXT:    (%x: !alg.tensor<[a, c], f32> layout "1 (c a)" weight,
// CHECK-NEXT:     %{{.*}}: !alg.tensor<[], f64> layout "" named "arg0",
// CHECK-NEXT:     %y: !alg.tensor<[f], bf16> layout "f" named "y_1")
// CHECK-NEXT:    -> (!alg.tensor<[a], f32> layout "a", !alg.tensor<[a, f], f32> layout "f a") attributes {note = 1 : i64} {

// -----

// Numbers: every literal of every element type; a tensor without axes is written as its element type.
alg.graph @numbers axes [n = 3] () -> (!alg.tensor<[], f32>) {
  %0 = alg.constant 0.1 : f32
  %1 = alg.constant 1 : f16
  %2 = alg.constant 0x7F80 : bf16
  %3 = alg.constant -1.5e-3 : f64
  %4 = alg.constant true : i1
  %5 = alg.constant -7 : i32
  %6 = alg.constant 0x10 : i64
  %7 = alg.constant 3 : !alg.tensor<[], index>
  %8 = alg.constant inf : f32
  %9 = alg.size n : index
  alg.yield %0
}
// CHECK-LABEL: @numbers
// CHECK:         alg.constant 0.1 : f32
// CHECK-NEXT:    alg.constant 1.0 : f16
// CHECK-NEXT:    alg.constant inf : bf16
// CHECK-NEXT:    alg.constant -0.0015 : f64
// CHECK-NEXT:    alg.constant true : i1
// CHECK-NEXT:    alg.constant -7 : i32
// CHECK-NEXT:    alg.constant 16 : i64
// CHECK-NEXT:    alg.constant 3 : index
// CHECK-NEXT:    alg.constant inf : f32
// CHECK-NEXT:    alg.size n : index

// -----

// Functions of one tensor.
alg.graph @unary axes [m = ?, n = ?] (%x: !alg.tensor<[m, n], f32>, %i: !alg.tensor<[n], i32>, %b: !alg.tensor<[n], i1>)
    -> (!alg.tensor<[m, n], f32>) {
  %0 = alg.neg %x : !alg.tensor<[m, n], f32>
  %1 = alg.abs %i : !alg.tensor<[n], i32>
  %2 = alg.relu %x : !alg.tensor<[m, n], f32>
  %3 = alg.exp %x : !alg.tensor<[m, n], f32>
  %4 = alg.log %x : !alg.tensor<[m, n], f32>
  %5 = alg.sqrt %x : !alg.tensor<[m, n], f32>
  %6 = alg.rsqrt %x : !alg.tensor<[m, n], f32>
  %7 = alg.tanh %x : !alg.tensor<[m, n], f32>
  %8 = alg.sigmoid %x : !alg.tensor<[m, n], f32>
  %9 = alg.silu %x : !alg.tensor<[m, n], f32>
  %10 = alg.gelu %x : !alg.tensor<[m, n], f32>
  %11 = alg.gelu_tanh %x : !alg.tensor<[m, n], f32>
  %12 = alg.sin %x : !alg.tensor<[m, n], f32>
  %13 = alg.cos %x : !alg.tensor<[m, n], f32>
  %14 = alg.erf %x : !alg.tensor<[m, n], f32>
  %erfc = alg.erfc %x : !alg.tensor<[m, n], f32>
  %expm1 = alg.expm1 %x : !alg.tensor<[m, n], f32>
  %log1p = alg.log1p %x : !alg.tensor<[m, n], f32>
  %15 = alg.not %b : !alg.tensor<[n], i1>
  %16 = alg.cast %x {why = "dot"} : !alg.tensor<[m, n], bf16>
  alg.yield %14
}
// CHECK-LABEL: @unary
// CHECK:         = alg.neg %x : !alg.tensor<[m, n], f32>
// CHECK-NEXT:    = alg.abs %i : !alg.tensor<[n], i32>
// CHECK-NEXT:    = alg.relu %x : !alg.tensor<[m, n], f32>
// CHECK-NEXT:    = alg.exp %x : !alg.tensor<[m, n], f32>
// CHECK-NEXT:    = alg.log %x : !alg.tensor<[m, n], f32>
// CHECK-NEXT:    = alg.sqrt %x : !alg.tensor<[m, n], f32>
// CHECK-NEXT:    = alg.rsqrt %x : !alg.tensor<[m, n], f32>
// CHECK-NEXT:    = alg.tanh %x : !alg.tensor<[m, n], f32>
// CHECK-NEXT:    = alg.sigmoid %x : !alg.tensor<[m, n], f32>
// CHECK-NEXT:    = alg.silu %x : !alg.tensor<[m, n], f32>
// CHECK-NEXT:    = alg.gelu %x : !alg.tensor<[m, n], f32>
// CHECK-NEXT:    = alg.gelu_tanh %x : !alg.tensor<[m, n], f32>
// CHECK-NEXT:    = alg.sin %x : !alg.tensor<[m, n], f32>
// CHECK-NEXT:    = alg.cos %x : !alg.tensor<[m, n], f32>
// CHECK-NEXT:    = alg.erf %x : !alg.tensor<[m, n], f32>
// CHECK-NEXT:    %erfc = alg.erfc %x : !alg.tensor<[m, n], f32>
// CHECK-NEXT:    %expm1 = alg.expm1 %x : !alg.tensor<[m, n], f32>
// CHECK-NEXT:    %log1p = alg.log1p %x : !alg.tensor<[m, n], f32>
// CHECK-NEXT:    = alg.not %b : !alg.tensor<[n], i1>
// CHECK-NEXT:    = alg.cast %x {why = "dot"} : !alg.tensor<[m, n], bf16>

// -----

// Functions of two tensors broadcast by name; axes of a result may be written in any order.
alg.graph @binary axes [m = ?, n = ?] (%x: !alg.tensor<[m], f32>, %y: !alg.tensor<[n], f32>, %b: !alg.tensor<[n], i1>)
    -> (!alg.tensor<[n, m], f32>) {
  %0 = alg.add %x, %y : !alg.tensor<[n, m], f32>
  %1 = alg.sub %x, %y : !alg.tensor<[m, n], f32>
  %2 = alg.mul %x, %x : !alg.tensor<[m], f32>
  %3 = alg.div %x, %y : !alg.tensor<[m, n], f32>
  %4 = alg.div %x, %y guarded : !alg.tensor<[m, n], f32>
  %5 = alg.max %x, %y : !alg.tensor<[m, n], f32>
  %6 = alg.min %x, %y : !alg.tensor<[m, n], f32>
  %7 = alg.pow %x, %y : !alg.tensor<[m, n], f32>
  %i = alg.iota m : !alg.tensor<[m], index>
  %8 = alg.floordiv %i, %i : !alg.tensor<[m], index>
  %9 = alg.mod %i, %i : !alg.tensor<[m], index>
  %10 = alg.and %b, %b : !alg.tensor<[n], i1>
  %11 = alg.or %10, %b : !alg.tensor<[n], i1>
  %12 = alg.compare eq %x, %y : !alg.tensor<[m, n], i1>
  %13 = alg.compare ne %x, %y : !alg.tensor<[m, n], i1>
  %14 = alg.compare lt %x, %y : !alg.tensor<[m, n], i1>
  %15 = alg.compare gt %x, %y : !alg.tensor<[m, n], i1>
  %16 = alg.compare ge %i, %x : !alg.tensor<[m], i1>
  %17 = alg.select %15, %x, %y : !alg.tensor<[m, n], f32>
  alg.yield %0
}
// CHECK-LABEL: @binary
// CHECK:         = alg.add %x, %y : !alg.tensor<[n, m], f32>
// CHECK-NEXT:    = alg.sub %x, %y : !alg.tensor<[m, n], f32>
// CHECK-NEXT:    = alg.mul %x, %x : !alg.tensor<[m], f32>
// CHECK-NEXT:    = alg.div %x, %y : !alg.tensor<[m, n], f32>
// CHECK-NEXT:    = alg.div %x, %y guarded : !alg.tensor<[m, n], f32>
// CHECK-NEXT:    = alg.max %x, %y : !alg.tensor<[m, n], f32>
// CHECK-NEXT:    = alg.min %x, %y : !alg.tensor<[m, n], f32>
// CHECK-NEXT:    = alg.pow %x, %y : !alg.tensor<[m, n], f32>
// CHECK-NEXT:    %i = alg.iota m : !alg.tensor<[m], index>
// CHECK-NEXT:    = alg.floordiv %i, %i : !alg.tensor<[m], index>
// CHECK-NEXT:    = alg.mod %i, %i : !alg.tensor<[m], index>
// CHECK-NEXT:    [[AND:%.*]] = alg.and %b, %b : !alg.tensor<[n], i1>
// CHECK-NEXT:    = alg.or [[AND]], %b : !alg.tensor<[n], i1>
// CHECK-NEXT:    = alg.compare eq %x, %y : !alg.tensor<[m, n], i1>
// CHECK-NEXT:    = alg.compare ne %x, %y : !alg.tensor<[m, n], i1>
// CHECK-NEXT:    = alg.compare lt %x, %y : !alg.tensor<[m, n], i1>
// CHECK-NEXT:    [[GT:%.*]] = alg.compare gt %x, %y : !alg.tensor<[m, n], i1>
// CHECK-NEXT:    = alg.compare ge %i, %x : !alg.tensor<[m], i1>
// CHECK-NEXT:    = alg.select [[GT]], %x, %y : !alg.tensor<[m, n], f32>

// -----

// What removes axes.
alg.graph @reductions axes [a = 2, b = 3, c = 4, d = 5] (%x: !alg.tensor<[a, b, c], f16>, %y: !alg.tensor<[c, d], f16>, %z: !alg.tensor<[b], f32>)
    -> (!alg.tensor<[a, d], f32>) {
  %0 = alg.reduce sum %x over [a, c] : !alg.tensor<[b], f32>
  %1 = alg.reduce min %x over [a] : !alg.tensor<[b, c], f16>
  %2 = alg.contract %x, %y, %z over [b, c] : !alg.tensor<[a, d], f32>
  %3 = alg.contract %x, %y over [] : !alg.tensor<[a, b, c, d], f32>
  %4 = alg.shift %z over [b] : f32
  %5 = alg.index %x a at 1 : !alg.tensor<[b, c], f16>
  alg.yield %2
}
// CHECK-LABEL: @reductions
// CHECK:         = alg.reduce sum %x over [a, c] : !alg.tensor<[b], f32>
// CHECK-NEXT:    = alg.reduce min %x over [a] : !alg.tensor<[b, c], f16>
// CHECK-NEXT:    = alg.contract %x, %y, %z over [b, c] : !alg.tensor<[a, d], f32>
// CHECK-NEXT:    = alg.contract %x, %y over [] : !alg.tensor<[a, b, c, d], f32>
// CHECK-NEXT:    = alg.shift %z over [b] : f32
// CHECK-NEXT:    = alg.index %x a at 1 : !alg.tensor<[b, c], f16>

// -----

// What changes axes: other names, chunks (the last may be short), parts, and more than one tensor along an axis.
alg.graph @axes symbols [s(positive)] axes [m = ?, n = ?, k = n, o = s, ni = ceildiv(n, s) chunk of n by o, t = n + 4, u = n + 2, d = 4, h = 2, v = 2]
    (%x: !alg.tensor<[m, n], f32>, %y: !alg.tensor<[d, n], f32>, %p: !alg.tensor<[v], i64>) -> (!alg.tensor<[m, n], f32>) {
  %0 = alg.rename %x [n -> k] : !alg.tensor<[m, k], f32>
  %1 = alg.split %x n into [o, ni] : !alg.tensor<[m, o, ni], f32>
  %2 = alg.merge %1 [o, ni] into n : !alg.tensor<[m, n], f32>
  %3 = alg.split %y d into [h, v] : !alg.tensor<[n, h, v], f32>
  %4 = alg.slice %y d into h from 1 step 2 : !alg.tensor<[n, h], f32>
  %5 = alg.slice %y d into h from 3 step -1 : !alg.tensor<[n, h], f32>
  %6 = alg.concat %2, %4 along [n, h] into u : !alg.tensor<[m, n, u], f32>
  %7 = alg.pad %x n into t low 2 value -0.5 : !alg.tensor<[m, t], f32>
  %8 = alg.gather %y, %p along d : !alg.tensor<[n, v], f32>
  %9 = alg.index %0 k at n - 1 : !alg.tensor<[m], f32>
  alg.yield %2
}
// CHECK-LABEL: @axes
// CHECK-SAME:    ni = ceildiv(n, s) chunk of n by o
// CHECK:         = alg.rename %x [n -> k] : !alg.tensor<[m, k], f32>
// CHECK-NEXT:    [[SPLIT:%.*]] = alg.split %x n into [o, ni] : !alg.tensor<[m, o, ni], f32>
// CHECK-NEXT:    = alg.merge [[SPLIT]] [o, ni] into n : !alg.tensor<[m, n], f32>
// CHECK-NEXT:    = alg.split %y d into [h, v] : !alg.tensor<[n, h, v], f32>
// CHECK-NEXT:    = alg.slice %y d into h from 1 step 2 : !alg.tensor<[n, h], f32>
// CHECK-NEXT:    = alg.slice %y d into h from 3 step -1 : !alg.tensor<[n, h], f32>
// CHECK-NEXT:    = alg.concat %{{.*}}, %{{.*}} along [n, h] into u : !alg.tensor<[m, n, u], f32>
// CHECK-NEXT:    = alg.pad %x n into t low 2 value -0.5 : !alg.tensor<[m, t], f32>
// CHECK-NEXT:    = alg.gather %y, %p along d : !alg.tensor<[n, v], f32>
// CHECK-NEXT:    = alg.index %{{.*}} k at n - 1 : !alg.tensor<[m], f32>

// -----

// Bodies of equal value; the first is the program as written.
alg.graph @alternatives axes [m = ?, n = ?] (%x: !alg.tensor<[m, n], f32>, %y: !alg.tensor<[m], f32>) -> (!alg.tensor<[m], f32>) {
  alg.alternatives
    alternative "as written" flops "2*m*n" bytes "4*m*n + 8*m" {
      %0 = alg.mul %x, %y : !alg.tensor<[m, n], f32>
      %1 = alg.reduce sum %0 over [n] : !alg.tensor<[m], f32>
      alg.yield %1 : !alg.tensor<[m], f32>
    }
    alternative "factor \22out\22" phases 1 {
      %0 = alg.reduce sum %x over [n] : !alg.tensor<[m], f32>
      %1 = alg.mul %0, %y : !alg.tensor<[m], f32>
      alg.yield %1 : !alg.tensor<[m], f32>
    }
}
// CHECK-LABEL: @alternatives
// CHECK:         alg.alternatives
// CHECK-NEXT:      alternative "as written" flops "2*m*n" bytes "4*m*n + 8*m" {
// CHECK-NEXT:        [[P:%.*]] = alg.mul %x, %y : !alg.tensor<[m, n], f32>
// CHECK-NEXT:        [[S:%.*]] = alg.reduce sum [[P]] over [n]
// CHECK-NEXT:        alg.yield [[S]] : !alg.tensor<[m], f32>
// CHECK-NEXT:      }
// CHECK-NEXT:      alternative "factor \22out\22" phases 1 {
// GENERIC:     "alg.alternatives"() <{facts = [{name = "as written", flops = "2*m*n", bytes = "4*m*n + 8*m"}, {name = "factor \22out\22", phases = 1 : i64}]}> ({

// -----

// Outside of a graph an operation needs no declared axes.
func.func @anywhere(%x: !alg.tensor<[m, n], f32>) -> !alg.tensor<[m], f32> {
  %0 = alg.exp %x : !alg.tensor<[m, n], f32>
  %1 = alg.reduce sum %0 over [n] : !alg.tensor<[m], f32>
  func.return %1 : !alg.tensor<[m], f32>
}
// CHECK-LABEL: @anywhere
// CHECK:         alg.exp
// CHECK-NEXT:    alg.reduce sum
