// RUN: cleave-opt %s | cleave-opt --print-op-generic | cleave-opt | filecheck %s
// RUN: cleave-opt --print-op-generic %s | filecheck %s --check-prefix GENERIC

// A matrix product: one kernel with a grid of ragged tiles, a loop that carries the accumulator, and the host that launches it.
sched.kernel @product (%a: !sched.buffer<[m : ?, k : 1], f16, divisor 8>, %b: !sched.buffer<[k : ?, n : 1], f16>,
                       %c: !sched.buffer<[m : ?, n : 1], f16, unaligned>)
    sizes (%m_size = m, %n_size = n, %k_size = k)
    grid (%n0 = n by 64 count ceildiv(n, 64), %m0 = m by 16 count ceildiv(m, 16)) warps 8 stages 2 {
  %zero = sched.constant 0 : !sched.tile<[], index>
  %m = sched.range %m0 : !sched.tile<[m = 16], index>
  %n = sched.range %n0 {note = "columns"} : !sched.tile<[n = 64], index>
  %start = sched.constant 0.0 : !sched.tile<[m = 16, n = 64], f32>
  %sum = sched.for k %k0 = %zero to %k_size step 32 carry (%acc = %start) {
    %k = sched.range %k0 : !sched.tile<[k = 32], index>
    %x = sched.load %a [m = %m, k = %k] check [m < %m_size, k < %k_size] other 0.0 : !sched.tile<[m = 16, k = 32], f16>
    %y = sched.load %b [k = %k, n = %n] check [k < %k_size, n < %n_size] other 0.0 evict evict_last : !sched.tile<[k = 32, n = 64], f16>
    %next = sched.dot %x, %y over k acc %acc precision tf32 : !sched.tile<[m = 16, n = 64], f32>
    sched.yield %next
  }
  %result = sched.cast %sum : !sched.tile<[m = 16, n = 64], f16>
  sched.store %result to %c [m = %m, n = %n] check [m < %m_size, n < %n_size]
}
sched.program @main sizes [m = m, n = 2 * half, k = 64, half = half] notes ["chosen by hand"]
    (%a: !sched.buffer<[m : ?, k : 1], f16> layout "m k", %b: !sched.buffer<[k : ?, n : 1], f16> layout "k n")
    -> (%c: !sched.buffer<[m : ?, n : 1], f16> layout "m n", %c2: !sched.buffer<[m : ?, n : 1], f16> layout "m n") {
  sched.launch @product(%a, %b, %c)
  %w = sched.allocate work zeroed : !sched.buffer<[m : ?, n : 1], f16>
  sched.launch @product(%a, %b, %w)
  sched.library_call matmul(%a, %b) into %c2 over [k]
}
// CHECK:      sched.kernel @product (%a: !sched.buffer<[m : ?, k : 1], f16, divisor 8>, %b: !sched.buffer<[k : ?, n : 1], f16>, %c: !sched.buffer<[m : ?, n : 1], f16, unaligned>) sizes (%m_size = m, %n_size = n, %k_size = k) grid (%n0 = n by 64 count ceildiv(n, 64), %m0 = m by 16 count ceildiv(m, 16)) warps 8 stages 2 {
// CHECK-NEXT:   %zero = sched.constant 0 : !sched.tile<[], index>
// CHECK-NEXT:   %m = sched.range %m0 : !sched.tile<[m = 16], index>
// CHECK-NEXT:   %n = sched.range %n0 {note = "columns"} : !sched.tile<[n = 64], index>
// CHECK-NEXT:   %start = sched.constant 0.0 : !sched.tile<[m = 16, n = 64], f32>
// CHECK-NEXT:   %sum = sched.for k %k0 = %zero to %k_size step 32 carry (%acc = %start) {
// CHECK-NEXT:     %k = sched.range %k0 : !sched.tile<[k = 32], index>
// CHECK-NEXT:     %x = sched.load %a [m = %m, k = %k] check [m < %m_size, k < %k_size] other 0.0 : !sched.tile<[m = 16, k = 32], f16>
// CHECK-NEXT:     %y = sched.load %b [k = %k, n = %n] check [k < %k_size, n < %n_size] other 0.0 evict evict_last : !sched.tile<[k = 32, n = 64], f16>
// CHECK-NEXT:     %next = sched.dot %x, %y over k acc %acc precision tf32 : !sched.tile<[m = 16, n = 64], f32>
// CHECK-NEXT:     sched.yield %next
// CHECK-NEXT:   }
// CHECK-NEXT:   %result = sched.cast %sum : !sched.tile<[m = 16, n = 64], f16>
// CHECK-NEXT:   sched.store %result to %c [m = %m, n = %n] check [m < %m_size, n < %n_size]
// CHECK-NEXT: }
// CHECK-NEXT: sched.program @main sizes [m = m, n = 2*half, k = 64, half = half] notes ["chosen by hand"] (%a: !sched.buffer<[m : ?, k : 1], f16> layout "m k", %b: !sched.buffer<[k : ?, n : 1], f16> layout "k n") -> (%c: !sched.buffer<[m : ?, n : 1], f16> layout "m n", %c2: !sched.buffer<[m : ?, n : 1], f16> layout "m n") {
// CHECK-NEXT:   sched.launch @product(%a, %b, %c)
// CHECK-NEXT:   %w = sched.allocate work zeroed : !sched.buffer<[m : ?, n : 1], f16>
// CHECK-NEXT:   sched.launch @product(%a, %b, %w)
// CHECK-NEXT:   sched.library_call matmul(%a, %b) into %c2 over [k]
// CHECK-NEXT: }

// GENERIC: "sched.kernel"() <{sym_name = "product", buffer_names = ["a", "b", "c"], sizes = ["m", "n", "k"], grid_dims = ["n", "m"], grid_tiles = [64 : i64, 16 : i64], grid_counts = ["ceildiv(n, 64)", "ceildiv(m, 16)"], num_warps = 8 : i64, num_stages = 2 : i64}>
// GENERIC: "sched.for"({{.*}}) <{dim = "k", step = 32 : i64}> ({
// GENERIC: "sched.load"({{.*}}) <{axes = ["m", "k"], checked = ["m", "k"], other = 0.000000e+00 : f64, operandSegmentSizes = array<i32: 1, 2, 2>}>
// GENERIC: "sched.dot"({{.*}}) <{over = "k", precision = "tf32"}>
// GENERIC: "sched.store"({{.*}}) <{axes = ["m", "n"], checked = ["m", "n"], operandSegmentSizes = array<i32: 1, 1, 2, 2>}>
// GENERIC: "sched.program"() <{sym_name = "main", buffer_names = ["a", "b", "c", "c2"], layouts = ["m k", "k n", "m n", "m n"], input_count = 2 : i64, axes = ["m", "n", "k", "half"], extents = ["m", "2*half", "64", "half"], notes = ["chosen by hand"]}>

// A lowered host step names the arguments that its function takes after the addresses.
tt.func public @func(%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %m: i32, %stride: i64, %count: i32) attributes {dims = "m, n"} {
  tt.return
}
tt.func public @early(%a: !tt.ptr<f32>, %b: !tt.ptr<f32>) attributes {dims = "m, n"} {
  %waited = tt.elementwise_inline_asm "griddepcontrol.wait;"
  tt.return
}
sched.program @lowered sizes [m = m] (%a as in_1: !sched.buffer<[m : ?], f32> layout "m") -> (%b: !sched.buffer<[m : 1], f32> layout "m") {
  sched.launch_func @func(%a, %b) grid [ceildiv(m, 4), 2] scalars ["size m", "stride 0 m by 8", "count 1"] warps 1 stages 1
  sched.launch_func @early(%a, %b) grid [ceildiv(m, 4), 2] scalars [] warps 1 stages 1 registers 128 persistent 132 early
}
// CHECK-LABEL: @lowered
// CHECK-SAME:    (%a as in_1: !sched.buffer<[m : ?], f32> layout "m")
// CHECK-NEXT:    sched.launch_func @func(%a, %b) grid [ceildiv(m, 4), 2] scalars ["size m", "stride 0 m by 8", "count 1"] warps 1 stages 1
// CHECK-NEXT:    sched.launch_func @early(%a, %b) grid [ceildiv(m, 4), 2] scalars [] warps 1 stages 1 registers 128 persistent 132 early

// A load by descriptor reads a box, here with its dimensions in another order than they lie in memory.
sched.kernel @boxes (%k: !sched.buffer<[b : ?, n : 64, d : 1], f16, divisor 8>, %y: !sched.buffer<[d : 64, n : 1], f16>)
    sizes (%n_size = n) grid (%n0 = n by 64 count ceildiv(n, 64), %b0 = b by 1 count b) warps 4 stages 3 {
  %zero = sched.constant 0 : !sched.tile<[], index>
  %d_size = sched.constant 64 : !sched.tile<[], index>
  %n = sched.range %n0 : !sched.tile<[n = 64], index>
  %d = sched.range %zero : !sched.tile<[d = 64], index>
  %x = sched.load %k [b = %b0, n = %n, d = %d] check [n < %n_size, d < %d_size] other 0.0 descriptor : !sched.tile<[d = 64, n = 64], f16>
  sched.store %x to %y [d = %d, n = %n] check [n < %n_size]
}
// CHECK-LABEL: sched.kernel @boxes
// CHECK:         %x = sched.load %k [b = %b0, n = %n, d = %d] check [n < %n_size, d < %d_size] other 0.0 descriptor : !sched.tile<[d = 64, n = 64], f16>

// The last program of a tile of rows to arrive reads what the others stored, by loads that are fresh.
sched.kernel @last (%p: !sched.buffer<[s : ?, m : 1], f32>, %c: !sched.buffer<[tile : 1], i32>, %z: !sched.buffer<[m : 1], f32>)
    sizes (%s_size = s) grid (%m0 = m by 8 count 4, %s0 = s by 1 count s) warps 1 stages 2 {
  %zero = sched.constant 0 : !sched.tile<[], index>
  %eight = sched.constant 8 : !sched.tile<[], index>
  %one = sched.constant 1.0 : !sched.tile<[m = 8], f32>
  %m = sched.range %m0 : !sched.tile<[m = 8], index>
  %tile = sched.floordiv %m0, %eight : !sched.tile<[], index>
  sched.store %one to %p [s = %s0, m = %m]
  sched.last %c [tile = %tile] of %s_size {
    %s = sched.range %zero : !sched.tile<[s = 4], index>
    %x = sched.load %p [s = %s, m = %m] check [s < %s_size] other 0.0 fresh : !sched.tile<[s = 4, m = 8], f32>
    %y = sched.reduce sum %x over s : !sched.tile<[m = 8], f32>
    sched.store %y to %z [m = %m]
  }
}
// CHECK-LABEL: sched.kernel @last
// CHECK:         sched.store %one to %p [s = %s0, m = %m]
// CHECK-NEXT:    sched.last %c [tile = %tile] of %s_size {
// CHECK-NEXT:      %s = sched.range %zero : !sched.tile<[s = 4], index>
// CHECK-NEXT:      %x = sched.load %p [s = %s, m = %m] check [s < %s_size] other 0.0 fresh : !sched.tile<[s = 4, m = 8], f32>
// CHECK-NEXT:      %y = sched.reduce sum %x over s : !sched.tile<[m = 8], f32>
// CHECK-NEXT:      sched.store %y to %z [m = %m]
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// A branch: its results are made in its body or are tiles that there are without it; one without results is there for what it stores.
sched.kernel @branch (%x: !sched.buffer<[m : 1], f32>, %y: !sched.buffer<[m : 1], f32>) sizes (%m_size = m)
    grid (%m0 = m by 4 count ceildiv(m, 4)) warps 1 stages 1 {
  %zero = sched.constant 0.0 : !sched.tile<[], f32>
  %m = sched.range %m0 : !sched.tile<[m = 4], index>
  %a = sched.load %x [m = %m] : !sched.tile<[m = 4], f32>
  %b = sched.neg %a : !sched.tile<[m = 4], f32>
  %edge = sched.compare ge %m0, %m_size : !sched.tile<[], i1>
  %c, %d = sched.if %edge {
    %in = sched.compare lt %m, %m_size : !sched.tile<[m = 4], i1>
    %e = sched.select %in, %a, %zero : !sched.tile<[m = 4], f32>
    sched.yield %e, %a
  } else %a, %b {note = "both"}
  %f = sched.add %c, %d : !sched.tile<[m = 4], f32>
  sched.if %edge {
    sched.store %f to %y [m = %m]
  }
  sched.if %edge {}
}
// CHECK-LABEL: @branch
// CHECK:         %c, %d = sched.if %edge {
// CHECK-NEXT:      %in = sched.compare lt %m, %m_size : !sched.tile<[m = 4], i1>
// CHECK-NEXT:      %e = sched.select %in, %a, %zero : !sched.tile<[m = 4], f32>
// CHECK-NEXT:      sched.yield %e, %a
// CHECK-NEXT:    } else %a, %b {note = "both"}
// CHECK-NEXT:    %f = sched.add %c, %d : !sched.tile<[m = 4], f32>
// CHECK-NEXT:    sched.if %edge {
// CHECK-NEXT:      sched.store %f to %y [m = %m]
// CHECK-NEXT:    }
// CHECK-NEXT:    sched.if %edge {
// CHECK-NEXT:    }

// Elementwise operations broadcast by name; every one of them.
sched.kernel @elementwise () warps 4 stages 3 {
  %x = sched.constant 1.5 : !sched.tile<[m = 4], f32>
  %y = sched.constant -inf : !sched.tile<[n = 8], f32>
  %i = sched.constant -3 : !sched.tile<[m = 4], i64>
  %t = sched.constant true : !sched.tile<[], i1>
  %neg = sched.neg %x : !sched.tile<[m = 4], f32>
  %abs = sched.abs %x : !sched.tile<[m = 4], f32>
  %relu = sched.relu %x : !sched.tile<[m = 4], f32>
  %exp = sched.exp %x : !sched.tile<[m = 4], f32>
  %exp2 = sched.exp2 %x : !sched.tile<[m = 4], f32>
  %log = sched.log %x : !sched.tile<[m = 4], f32>
  %log2 = sched.log2 %x : !sched.tile<[m = 4], f32>
  %sqrt = sched.sqrt %x : !sched.tile<[m = 4], f32>
  %rsqrt = sched.rsqrt %x : !sched.tile<[m = 4], f32>
  %tanh = sched.tanh %x : !sched.tile<[m = 4], f32>
  %sigmoid = sched.sigmoid %x : !sched.tile<[m = 4], f32>
  %silu = sched.silu %x : !sched.tile<[m = 4], f32>
  %gelu = sched.gelu %x : !sched.tile<[m = 4], f32>
  %gelu_tanh = sched.gelu_tanh %x : !sched.tile<[m = 4], f32>
  %sin = sched.sin %x : !sched.tile<[m = 4], f32>
  %cos = sched.cos %x : !sched.tile<[m = 4], f32>
  %erf = sched.erf %x : !sched.tile<[m = 4], f32>
  %erfc = sched.erfc %x : !sched.tile<[m = 4], f32>
  %expm1 = sched.expm1 %x : !sched.tile<[m = 4], f32>
  %log1p = sched.log1p %x : !sched.tile<[m = 4], f32>
  %add = sched.add %x, %y : !sched.tile<[m = 4, n = 8], f32>
  %sub = sched.sub %x, %y : !sched.tile<[m = 4, n = 8], f32>
  %mul = sched.mul %x, %y : !sched.tile<[m = 4, n = 8], f32>
  %max = sched.max %x, %y : !sched.tile<[m = 4, n = 8], f32>
  %min = sched.min %x, %y : !sched.tile<[m = 4, n = 8], f32>
  %floordiv = sched.floordiv %x, %y : !sched.tile<[m = 4, n = 8], f32>
  %mod = sched.mod %x, %y : !sched.tile<[m = 4, n = 8], f32>
  %div = sched.div %x, %y : !sched.tile<[m = 4, n = 8], f32>
  %pow = sched.pow %x, %y : !sched.tile<[m = 4, n = 8], f32>
  %not = sched.not %t : !sched.tile<[], i1>
  %and = sched.and %t, %not : !sched.tile<[], i1>
  %or = sched.or %i, %i : !sched.tile<[m = 4], i64>
  %eq = sched.compare eq %x, %y : !sched.tile<[n = 8, m = 4], i1>
  %ne = sched.compare ne %x, %y : !sched.tile<[n = 8, m = 4], i1>
  %lt = sched.compare lt %x, %y : !sched.tile<[n = 8, m = 4], i1>
  %le = sched.compare le %x, %y : !sched.tile<[n = 8, m = 4], i1>
  %gt = sched.compare gt %x, %y : !sched.tile<[n = 8, m = 4], i1>
  %ge = sched.compare ge %x, %y : !sched.tile<[n = 8, m = 4], i1>
  %select = sched.select %t, %x, %y : !sched.tile<[m = 4, n = 8], f32>
  %cast = sched.cast %x : !sched.tile<[m = 4], bf16>
  %broadcast = sched.broadcast %x : !sched.tile<[b = 1, m = 4], f32>
  %rsum = sched.reduce sum %select over n : !sched.tile<[m = 4], f32>
  %rmax = sched.reduce max %select over n : !sched.tile<[m = 4], f32>
  %rmin = sched.reduce min %select over n : !sched.tile<[m = 4], f32>
}
// CHECK-LABEL: @elementwise ()
// CHECK-NEXT:   %x = sched.constant 1.5 : !sched.tile<[m = 4], f32>
// CHECK-NEXT:   %y = sched.constant -inf : !sched.tile<[n = 8], f32>
// CHECK-NEXT:   %i = sched.constant -3 : !sched.tile<[m = 4], i64>
// CHECK-NEXT:   %t = sched.constant true : !sched.tile<[], i1>
// CHECK-NEXT:   %neg = sched.neg %x : !sched.tile<[m = 4], f32>
// CHECK-NEXT:   %abs = sched.abs %x : !sched.tile<[m = 4], f32>
// CHECK-NEXT:   %relu = sched.relu %x : !sched.tile<[m = 4], f32>
// CHECK-NEXT:   %exp = sched.exp %x : !sched.tile<[m = 4], f32>
// CHECK-NEXT:   %exp2 = sched.exp2 %x : !sched.tile<[m = 4], f32>
// CHECK-NEXT:   %log = sched.log %x : !sched.tile<[m = 4], f32>
// CHECK-NEXT:   %log2 = sched.log2 %x : !sched.tile<[m = 4], f32>
// CHECK-NEXT:   %sqrt = sched.sqrt %x : !sched.tile<[m = 4], f32>
// CHECK-NEXT:   %rsqrt = sched.rsqrt %x : !sched.tile<[m = 4], f32>
// CHECK-NEXT:   %tanh = sched.tanh %x : !sched.tile<[m = 4], f32>
// CHECK-NEXT:   %sigmoid = sched.sigmoid %x : !sched.tile<[m = 4], f32>
// CHECK-NEXT:   %silu = sched.silu %x : !sched.tile<[m = 4], f32>
// CHECK-NEXT:   %gelu = sched.gelu %x : !sched.tile<[m = 4], f32>
// CHECK-NEXT:   %gelu_tanh = sched.gelu_tanh %x : !sched.tile<[m = 4], f32>
// CHECK-NEXT:   %sin = sched.sin %x : !sched.tile<[m = 4], f32>
// CHECK-NEXT:   %cos = sched.cos %x : !sched.tile<[m = 4], f32>
// CHECK-NEXT:   %erf = sched.erf %x : !sched.tile<[m = 4], f32>
// CHECK-NEXT:   %erfc = sched.erfc %x : !sched.tile<[m = 4], f32>
// CHECK-NEXT:   %expm1 = sched.expm1 %x : !sched.tile<[m = 4], f32>
// CHECK-NEXT:   %log1p = sched.log1p %x : !sched.tile<[m = 4], f32>
// CHECK-NEXT:   %add = sched.add %x, %y : !sched.tile<[m = 4, n = 8], f32>
// CHECK-NEXT:   %sub = sched.sub %x, %y : !sched.tile<[m = 4, n = 8], f32>
// CHECK-NEXT:   %mul = sched.mul %x, %y : !sched.tile<[m = 4, n = 8], f32>
// CHECK-NEXT:   %max = sched.max %x, %y : !sched.tile<[m = 4, n = 8], f32>
// CHECK-NEXT:   %min = sched.min %x, %y : !sched.tile<[m = 4, n = 8], f32>
// CHECK-NEXT:   %floordiv = sched.floordiv %x, %y : !sched.tile<[m = 4, n = 8], f32>
// CHECK-NEXT:   %mod = sched.mod %x, %y : !sched.tile<[m = 4, n = 8], f32>
// CHECK-NEXT:   %div = sched.div %x, %y : !sched.tile<[m = 4, n = 8], f32>
// CHECK-NEXT:   %pow = sched.pow %x, %y : !sched.tile<[m = 4, n = 8], f32>
// CHECK-NEXT:   %not = sched.not %t : !sched.tile<[], i1>
// CHECK-NEXT:   %and = sched.and %t, %not : !sched.tile<[], i1>
// CHECK-NEXT:   %or = sched.or %i, %i : !sched.tile<[m = 4], i64>
// CHECK-NEXT:   %eq = sched.compare eq %x, %y : !sched.tile<[n = 8, m = 4], i1>
// CHECK-NEXT:   %ne = sched.compare ne %x, %y : !sched.tile<[n = 8, m = 4], i1>
// CHECK-NEXT:   %lt = sched.compare lt %x, %y : !sched.tile<[n = 8, m = 4], i1>
// CHECK-NEXT:   %le = sched.compare le %x, %y : !sched.tile<[n = 8, m = 4], i1>
// CHECK-NEXT:   %gt = sched.compare gt %x, %y : !sched.tile<[n = 8, m = 4], i1>
// CHECK-NEXT:   %ge = sched.compare ge %x, %y : !sched.tile<[n = 8, m = 4], i1>
// CHECK-NEXT:   %select = sched.select %t, %x, %y : !sched.tile<[m = 4, n = 8], f32>
// CHECK-NEXT:   %cast = sched.cast %x : !sched.tile<[m = 4], bf16>
// CHECK-NEXT:   %broadcast = sched.broadcast %x : !sched.tile<[b = 1, m = 4], f32>
// CHECK-NEXT:   %rsum = sched.reduce sum %select over n : !sched.tile<[m = 4], f32>
// CHECK-NEXT:   %rmax = sched.reduce max %select over n : !sched.tile<[m = 4], f32>
// CHECK-NEXT:   %rmin = sched.reduce min %select over n : !sched.tile<[m = 4], f32>

// A launch that begins before the one before it has ended.
sched.kernel @makes (%x: !sched.buffer<[m : 1], f32>) grid (%m0 = m by 4 count 2) warps 1 stages 1 {
  sched.release
  %zero = sched.constant 0.0 : !sched.tile<[m = 4], f32>
  %m = sched.range %m0 : !sched.tile<[m = 4], index>
  sched.store %zero to %x [m = %m]
}
sched.kernel @reads (%x: !sched.buffer<[m : 1], f32>, %y: !sched.buffer<[m : 1], f32>) grid (%m0 = m by 4 count 2) warps 1 stages 1 {
  %m = sched.range %m0 : !sched.tile<[m = 4], index>
  sched.wait
  %a = sched.load %x [m = %m] : !sched.tile<[m = 4], f32>
  sched.store %a to %y [m = %m]
}
sched.program @overlapping sizes [m = 8] () -> (%y: !sched.buffer<[m : 1], f32> layout "m") {
  %x = sched.allocate x : !sched.buffer<[m : 1], f32>
  sched.launch @makes(%x)
  sched.launch @reads(%x, %y) early
}
// CHECK-LABEL: sched.kernel @makes
// CHECK-NEXT:    sched.release
// CHECK-LABEL: sched.kernel @reads
// CHECK:         sched.wait
// CHECK:         sched.launch @makes(%x)
// CHECK-NEXT:    sched.launch @reads(%x, %y) early

// Programs numbered by groups of rows of tiles.
sched.kernel @grouped (%x: !sched.buffer<[m : 8, n : 1], f32>)
    grid (%m0 = m by 4 count ceildiv(m, 4), %n0 = n by 4 count 2) group 8 warps 1 stages 1 {
  %zero = sched.constant 0.0 : !sched.tile<[m = 4, n = 4], f32>
  %m = sched.range %m0 : !sched.tile<[m = 4], index>
  %n = sched.range %n0 : !sched.tile<[n = 4], index>
  sched.store %zero to %x [m = %m, n = %n]
}
// CHECK-LABEL: sched.kernel @grouped
// CHECK-SAME:    grid (%m0 = m by 4 count ceildiv(m, 4), %n0 = n by 4 count 2) group 8 warps 1 stages 1 {

// As many programs as a machine runs at once, which run the tiles in turn.
sched.kernel @persistent (%x: !sched.buffer<[m : 1], f32>) grid (%m0 = m by 4 count ceildiv(m, 4)) persistent 132 warps 1 stages 1 registers 64 {
  %zero = sched.constant 0.0 : !sched.tile<[m = 4], f32>
  %m = sched.range %m0 : !sched.tile<[m = 4], index>
  sched.store %zero to %x [m = %m]
}
// CHECK-LABEL: sched.kernel @persistent
// CHECK-SAME:    grid (%m0 = m by 4 count ceildiv(m, 4)) persistent 132 warps 1 stages 1 registers 64 {
