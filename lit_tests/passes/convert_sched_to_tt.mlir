// RUN: cleave-opt %s -p convert-sched-to-tt --split-input-file | filecheck %s

// A masked load of a tile: addresses from indices and strides, a mask from extents, both broadcast from one dimension.
sched.kernel @copy (%x: !sched.buffer<[m : ?, k : 1], f16, divisor 8>, %y: !sched.buffer<[m : 32, k : 1], f16, unaligned>)
    sizes (%m_size = m) grid (%m0 = m by 16 count ceildiv(m, 16)) warps 4 stages 2 {
  %zero = sched.constant 0 : !sched.tile<[], index>
  %m = sched.range %m0 : !sched.tile<[m = 16], index>
  %k = sched.range %zero : !sched.tile<[k = 32], index>
  %t = sched.load %x [m = %m, k = %k] check [m < %m_size] other 0.0 : !sched.tile<[m = 16, k = 32], f16>
  sched.store %t to %y [m = %m, k = %k] check [m < %m_size]
}
sched.program @main sizes [m = m, k = 32] (%x: !sched.buffer<[m : ?, k : 1], f16, divisor 8> layout "m k")
    -> (%y: !sched.buffer<[m : 32, k : 1], f16> layout "m k") {
  sched.launch @copy(%x, %y)
}
// CHECK:      tt.func public @copy(%x_ptr: !tt.ptr<f16> {tt.divisibility = 16 : i32}, %y_ptr: !tt.ptr<f16>, %x_stride_m: i64, %m_size: i32)
// CHECK-NEXT:   %program = tt.get_program_id x : i32
// CHECK-NEXT:   [[S:%.*]] = arith.constant 16 : i32
// CHECK-NEXT:   %m0 = arith.muli %program, [[S]] : i32
// The stride is passed divided by 8, so that the compiler sees the factor; the start of the tile is added in 64 bits.
// CHECK:        [[EIGHT:%.*]] = arith.constant 8 : i64
// CHECK-NEXT:   [[STRIDE:%.*]] = arith.muli %x_stride_m, [[EIGHT]] : i64
// CHECK-NEXT:   [[WIDE:%.*]] = tt.extsi %m0 : i32 -> i64
// CHECK-NEXT:   [[START:%.*]] = arith.muli [[WIDE]], [[STRIDE]] : i64
// CHECK:        %x_base = tt.addptr %x_ptr, [[START]] : !tt.ptr<f16>, i64
// CHECK:        %m_inside = tt.cmpi slt, %m, {{.*}} : tensor<16xi32>
// CHECK-NEXT:   [[E:%.*]] = tt.expand_dims %m_inside {axis = 1 : i32}
// CHECK-NEXT:   [[MASK:%.*]] = tt.broadcast [[E]] : tensor<16x1xi1> -> tensor<16x32xi1>
// CHECK:        %t = tt.load {{.*}}, [[MASK]], {{.*}} {dims = "m, k"} : tensor<16x32x!tt.ptr<f16>>
// Lanes times a stride that is known and small stay in 32 bits.
// CHECK:        arith.muli %m_lanes, {{.*}} : tensor<16xi32>
// CHECK:        tt.store {{.*}}, %t, [[MASK]] : tensor<16x32x!tt.ptr<f16>>
// CHECK:      sched.launch_func @copy(%x, %y) grid [ceildiv(m, 16)] scalars ["stride 0 m by 8", "size m"] warps 4 stages 2

// -----

// The grid is one dimension of programs: the function numbers them, and what nothing uses is no argument.
sched.kernel @grid (%y: !sched.buffer<[a : ?, b : ?, c : ?], i32>) sizes (%unused = a)
    grid (%a = a by 1 count a, %b = b by 2 count 3, %c = c by 1 count c) warps 1 stages 1 {
  %v = sched.constant 7 : !sched.tile<[], i32>
  sched.store %v to %y [a = %a, b = %b, c = %c]
}
// CHECK:      tt.func public @grid(%y_ptr: !tt.ptr<i32> {tt.divisibility = 16 : i32}, %y_stride_a: i64, %y_stride_b: i64, %y_stride_c: i64, %a_programs: i32) attributes {dims = "a, b, c"} {
// CHECK-NEXT:   %program = tt.get_program_id x : i32
// CHECK-NEXT:   %a = arith.remsi %program, %a_programs : i32
// CHECK-NEXT:   [[REST:%.*]] = arith.divsi %program, %a_programs : i32
// CHECK-NEXT:   [[THREE:%.*]] = arith.constant 3 : i32
// CHECK-NEXT:   [[B:%.*]] = arith.remsi [[REST]], [[THREE]] : i32
// CHECK-NEXT:   %c = arith.divsi [[REST]], [[THREE]] : i32

// -----

// A loop carries tensors; what does not depend on it is made before it, a dot gets an accumulator, a maximum a region.
sched.kernel @loop (%x: !sched.buffer<[k : 1], f32>, %y: !sched.buffer<[], f32>) sizes (%k_size = k) warps 1 stages 1 {
  %zero = sched.constant 0 : !sched.tile<[], index>
  %start = sched.constant -inf : !sched.tile<[], f32>
  %best = sched.for k %k0 = %zero to %k_size step 16 carry (%top = %start) {
    %k = sched.range %k0 : !sched.tile<[k = 16], index>
    %t = sched.load %x [k = %k] check [k < %k_size] other -inf evict evict_last : !sched.tile<[k = 16], f32>
    %high = sched.reduce maxnum %t over k : !sched.tile<[], f32>
    %next = sched.max %top, %high : !sched.tile<[], f32>
    sched.yield %next
  }
  sched.store %best to %y []
}
// CHECK:      tt.func public @loop
// CHECK:        %k_lanes = tt.make_range
// CHECK:        %best = scf.for %k0 = {{.*}} to %k_size step {{.*}} iter_args(%top = {{.*}}) -> (f32) : i32 {
// CHECK:          %t = tt.load {{.*}} evict evict_last {dims = "k"}
// CHECK-NEXT:     %high = "tt.reduce"(%t) <{axis = 0 : i32}> ({
// CHECK:            arith.maxnumf
// CHECK:          %next = arith.maximumf %top, %high : f32
// CHECK-NEXT:     scf.yield %next : f32
// CHECK:        tt.store %y_ptr, %best : !tt.ptr<f32>

// -----

// Functions Triton lacks are made of those it has; 16-bit operands are computed in f32; booleans lie in memory as bytes.
sched.kernel @functions (%x: !sched.buffer<[], f16>, %y: !sched.buffer<[], i1>) warps 1 stages 1 {
  %v = sched.load %x [] : !sched.tile<[], f16>
  %s = sched.silu %v : !sched.tile<[], f16>
  %c = sched.compare ne %s, %v : !sched.tile<[], i1>
  sched.store %c to %y []
}
// CHECK:      tt.func public @functions(%x_ptr: !tt.ptr<f16> {tt.divisibility = 16 : i32}, %y_ptr: !tt.ptr<i8>
// CHECK:        [[V:%.*]] = arith.extf %v : f16 to f32
// CHECK:        [[N:%.*]] = arith.negf [[V]] : f32
// CHECK-NEXT:   [[E:%.*]] = math.exp [[N]] : f32
// CHECK-NEXT:   [[D:%.*]] = arith.addf {{.*}}, [[E]] : f32
// CHECK-NEXT:   [[Q:%.*]] = arith.divf [[V]], [[D]] : f32
// CHECK-NEXT:   %s = arith.truncf [[Q]] : f32 to f16
// CHECK-NEXT:   %c = tt.cmpf une, %s, %v : f16
// CHECK-NEXT:   [[BYTE:%.*]] = tt.extui %c : i1 -> i8
// CHECK-NEXT:   tt.store %y_ptr, [[BYTE]] : !tt.ptr<i8>

// -----

// The last program to arrive: a barrier, a counter that releases and acquires, and an `if`. What only the last one needs stays within it.
sched.kernel @last (%p: !sched.buffer<[s : 8, m : 1], f32>, %c: !sched.buffer<[tile : 1], i32>, %z: !sched.buffer<[m : 1], f32>)
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
// CHECK-LABEL: tt.func public @last
// CHECK:         tt.store {{.*}} : tensor<8x!tt.ptr<f32>>
// CHECK-NOT:     tt.make_range
// CHECK:         gpu.barrier
// CHECK-NEXT:    %before = tt.atomic_rmw add [[C:%.*]], %{{.*}} acq_rel gpu : !tt.ptr<i32>
// CHECK-NEXT:    [[LAST:%.*]] = tt.cmpi eq, %before, %{{.*}} : i32
// CHECK-NEXT:    scf.if [[LAST]] {
// CHECK:           tt.store [[C]], %{{.*}} : !tt.ptr<i32>
// CHECK:           tt.make_range {{.*}} : tensor<4xi32>
// CHECK:           %x = tt.load {{.*}} cache cg
// CHECK:           tt.store {{.*}} : tensor<8x!tt.ptr<f32>>
// CHECK-NEXT:    }
// CHECK-NEXT:    tt.return

// -----

// A branch keeps what is made for it alone: index tiles, the broadcasts of its masks, constants; else it gives what there is.
sched.kernel @branch (%x: !sched.buffer<[m : 16, k : 1], f32>, %y: !sched.buffer<[m : 16, k : 1], f32>)
    grid (%m0 = m by 16 count 4) warps 1 stages 2 {
  %zero = sched.constant 0 : !sched.tile<[], index>
  %none = sched.constant -inf : !sched.tile<[], f32>
  %m = sched.range %m0 : !sched.tile<[m = 16], index>
  %k = sched.range %zero : !sched.tile<[k = 16], index>
  %t = sched.load %x [m = %m, k = %k] : !sched.tile<[m = 16, k = 16], f32>
  %edge = sched.compare eq %m0, %zero : !sched.tile<[], i1>
  %out = sched.if %edge {
    %live = sched.compare le %k, %m : !sched.tile<[m = 16, k = 16], i1>
    %masked = sched.select %live, %t, %none : !sched.tile<[m = 16, k = 16], f32>
    sched.yield %masked
  } else %t
  sched.store %out to %y [m = %m, k = %k]
}
// CHECK-LABEL: @branch
// CHECK-NOT:     dense<0xff800000>
// CHECK:         %t = tt.load
// CHECK:         %edge = tt.cmpi eq, %m0, {{.*}} : i32
// CHECK-NEXT:    %out = scf.if %edge -> (tensor<16x16xf32>) {
// CHECK:           %m = arith.addi
// CHECK:           %live = tt.cmpi sle
// CHECK:           arith.constant {{.*}}0xff800000
// CHECK:           %masked = tt.select %live, %t, {{.*}}
// CHECK-NEXT:      scf.yield %masked : tensor<16x16xf32>
// CHECK-NEXT:    } else {
// CHECK-NEXT:      scf.yield %t : tensor<16x16xf32>
// CHECK-NEXT:    }
// CHECK:         tt.store {{.*}}, %out

// -----

// A load by descriptor: one description before the loop, of what lies behind the indices that are numbers, and a transposition of what is read.
sched.kernel @boxes (%k: !sched.buffer<[b : ?, n : 64, d : 1], f16, divisor 8>, %y: !sched.buffer<[d : 64, n : 1], f16>)
    sizes (%n_size = n) grid (%b0 = b by 1 count b) warps 4 stages 3 {
  %zero = sched.constant 0 : !sched.tile<[], index>
  %d_size = sched.constant 64 : !sched.tile<[], index>
  %d = sched.range %zero : !sched.tile<[d = 64], index>
  sched.for n %n0 = %zero to %n_size step 32 {
    %n = sched.range %n0 : !sched.tile<[n = 32], index>
    %x = sched.load %k [b = %b0, n = %n, d = %d] check [n < %n_size, d < %d_size] other 0.0 descriptor : !sched.tile<[d = 64, n = 32], f16>
    sched.store %x to %y [d = %d, n = %n] check [n < %n_size]
    sched.yield
  }
}
// CHECK:      tt.func public @boxes
// CHECK:        %k_base = tt.addptr %k_ptr, {{.*}} : !tt.ptr<f16>, i64
// CHECK:        %k_boxes = "tt.make_tensor_descriptor"(%k_base, %n_size, {{.*}}, {{.*}}, {{.*}}) <{padding = 1 : i32, {{.*}}}> : (!tt.ptr<f16>, i32, i32, i64, i64) -> !tt.tensordesc<tensor<32x64xf16>>
// CHECK:        scf.for %n0
// CHECK:          [[BOX:%.*]] = "tt.descriptor_load"(%k_boxes, %n0, {{.*}})
// CHECK:          %x = tt.trans [[BOX]]

// -----

// A persistent kernel is a loop over tiles.
sched.kernel @turns (%x: !sched.buffer<[m : 1], f32>) grid (%m0 = m by 4 count ceildiv(m, 4)) persistent 132 warps 1 stages 1 {
  %zero = sched.constant 0.0 : !sched.tile<[m = 4], f32>
  %m = sched.range %m0 : !sched.tile<[m = 4], index>
  sched.store %zero to %x [m = %m]
}
sched.program @main sizes [m = m] () -> (%x: !sched.buffer<[m : 1], f32> layout "m") {
  sched.launch @turns(%x)
}
// CHECK:      tt.func public @turns(%x_ptr: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %m_programs: i32)
// CHECK-NEXT:   [[FIRST:%.*]] = tt.get_program_id x : i32
// CHECK-NEXT:   [[STEP:%.*]] = tt.get_num_programs x : i32
// CHECK:        scf.for %tile = [[FIRST]] to %m_programs step [[STEP]] : i32 {
// CHECK-NEXT:     %m0 = arith.muli %tile,
// CHECK:          tt.store
// CHECK-NEXT:   }
// CHECK-NEXT:   tt.return
// CHECK:      sched.launch_func @turns(%x) grid [ceildiv(m, 4)] scalars ["count 0"] warps 1 stages 1 persistent 132
