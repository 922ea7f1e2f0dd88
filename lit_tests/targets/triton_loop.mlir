// RUN: cleave-opt %s -p convert-sched-to-tt -t triton | filecheck %s

// A loop assigns its carried variables at the end, each after the others have read its old value; a swap needs a third name.
sched.kernel @carry (%x: !sched.buffer<[k : 1], f32>, %y: !sched.buffer<[i : 1], f32>) sizes (%k_size = k) warps 1 stages 1 {
  %zero = sched.constant 0 : !sched.tile<[], index>
  %one = sched.constant 1 : !sched.tile<[], index>
  %half = sched.constant 0.5 : !sched.tile<[], f32>
  %none = sched.constant 0.0 : !sched.tile<[], f32>
  %a1, %b1, %c1 = sched.for k %k0 = %zero to %k_size step 1 carry (%a = %half, %b = %none, %c = %none) {
    %t = sched.load %x [k = %k0] : !sched.tile<[], f32>
    %next = sched.add %t, %b : !sched.tile<[], f32>
    %both = sched.mul %a, %c : !sched.tile<[], f32>
    %sum = sched.add %both, %t : !sched.tile<[], f32>
    sched.yield %b, %next, %sum
  }
  sched.store %a1 to %y [i = %zero]
  %bc = sched.add %b1, %c1 : !sched.tile<[], f32>
  sched.store %bc to %y [i = %one]
}
// CHECK:      def carry(x_ptr, y_ptr, k_size):
// CHECK-NEXT:     a = tl.cast(0.5, tl.float32)
// CHECK-NEXT:     b = tl.cast(0.0, tl.float32)
// CHECK-NEXT:     c = tl.cast(0.0, tl.float32)
// CHECK-NEXT:     for k0 in range(0, k_size, 1):  # along k
// CHECK-NEXT:         t = tl.load(x_ptr + tl.cast(k0, tl.int64))
// CHECK-NEXT:         c = a * c + t
// CHECK-NEXT:         a = b
// CHECK-NEXT:         b = t + b
// CHECK-NEXT:     tl.store(y_ptr, a)
// CHECK-NEXT:     tl.store(y_ptr + 1, b + c)

// One address for every lane is an address plus zeros: Triton has no tensor of addresses but by addition.
tt.func public @everywhere(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>) {
  %p = tt.splat %x : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
  %v = tt.load %p : tensor<16x!tt.ptr<f32>>
  %q = tt.splat %y : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
  tt.store %q, %v : tensor<16x!tt.ptr<f32>>
  tt.return
}
// CHECK:      def everywhere(x, y):
// CHECK-NEXT:     v = tl.load(x + tl.zeros([16], tl.int32))
// CHECK-NEXT:     tl.store(y + tl.zeros([16], tl.int32), v)

// The last program to arrive: counted by an atomic behind a barrier, set back, and the rest under an `if`.
sched.kernel @last (%p: !sched.buffer<[s : 32, m : 1], f32>, %c: !sched.buffer<[tile : 1], i32>, %z: !sched.buffer<[m : 1], f32>)
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
// CHECK:      def last(p_ptr, c_ptr, z_ptr, s_size):
// CHECK:          tl.debug_barrier()
// CHECK-NEXT:     before = tl.atomic_add([[AT:.*]], 1, sem="acq_rel", scope="gpu")
// CHECK-NEXT:     if before == s_size - 1:
// CHECK:              tl.store([[AT]], 0)
// CHECK:              x = tl.load({{.*}}cache_modifier=".cg")
// CHECK:              tl.store(z_ptr + {{.*}}, tl.sum(x, 0))

// A branch assigns its results' variables: that of a tile which nothing else reads, or one of their own, set before.
sched.kernel @branch (%x: !sched.buffer<[i : 1], f32>, %y: !sched.buffer<[i : 1], f32>) sizes (%size = k) warps 1 stages 1 {
  %one = sched.constant 1 : !sched.tile<[], index>
  %two = sched.constant 2 : !sched.tile<[], index>
  %i = sched.range %one : !sched.tile<[i = 4], index>
  %spent = sched.load %x [i = %i] : !sched.tile<[i = 4], f32>
  %read = sched.load %x [i = %i] evict evict_first : !sched.tile<[i = 4], f32>
  %more = sched.compare ge %size, %two : !sched.tile<[], i1>
  %a, %b, %c = sched.if %more {
    %half = sched.mul %spent, %read : !sched.tile<[i = 4], f32>
    %both = sched.add %spent, %half : !sched.tile<[i = 4], f32>
    %exp = sched.exp %half : !sched.tile<[i = 4], f32>
    sched.yield %exp, %both, %spent
  } else %spent, %read, %spent
  %d = sched.sub %a, %b : !sched.tile<[i = 4], f32>
  %e = sched.mul %d, %c : !sched.tile<[i = 4], f32>
  %f = sched.max %e, %read : !sched.tile<[i = 4], f32>
  sched.if %more {
    sched.store %f to %y [i = %i]
  }
}
// CHECK:      def branch(x_ptr, y_ptr, size):
// CHECK:          spent = tl.load(
// CHECK-NEXT:     read = tl.load(
// CHECK:          more = size >= 2
// CHECK-NEXT:     b = read
// CHECK-NEXT:     c = spent
// CHECK-NEXT:     if more:
// CHECK-NEXT:         half = spent * read
// CHECK-NEXT:         b = spent + half
// CHECK-NEXT:         c = spent
// CHECK-NEXT:         spent = tl.exp(half)
// CHECK:          if more:
// CHECK-NEXT:         tl.store(

// What is broadcast to its own type has no variable but its operand's, which is assigned where nothing else reads that.
tt.func public @broadcast(%x: !tt.ptr<f32>, %n: i32) {
  %zero = arith.constant 0 : i32
  %lanes = tt.make_range {start = 0 : i32, end = 4 : i32} : tensor<4xi32>
  %all = tt.splat %x : !tt.ptr<f32> -> tensor<4x!tt.ptr<f32>>
  %at = tt.addptr %all, %lanes : tensor<4x!tt.ptr<f32>>, tensor<4xi32>
  %read = tt.load %at : tensor<4x!tt.ptr<f32>>
  %spent = tt.load %at : tensor<4x!tt.ptr<f32>>
  %a = tt.broadcast %read : tensor<4xf32> -> tensor<4xf32>
  %b = tt.broadcast %spent : tensor<4xf32> -> tensor<4xf32>
  %less = tt.cmpi slt, %n, %zero : i32
  %c, %d = scf.if %less -> (tensor<4xf32>, tensor<4xf32>) {
    %twice = arith.addf %a, %a : tensor<4xf32>
    %square = arith.mulf %b, %b : tensor<4xf32>
    scf.yield %twice, %square : tensor<4xf32>, tensor<4xf32>
  } else {
    scf.yield %a, %b : tensor<4xf32>, tensor<4xf32>
  }
  %e = arith.addf %c, %d : tensor<4xf32>
  %f = arith.mulf %e, %read : tensor<4xf32>
  tt.store %at, %f : tensor<4x!tt.ptr<f32>>
  tt.return
}
// CHECK:      def broadcast(x, n):
// CHECK:          c = read
// CHECK-NEXT:     if n < 0:
// CHECK-NEXT:         c = read + read
// CHECK-NEXT:         spent = spent * spent
// CHECK-NEXT:     tl.store(at, (c + spent) * read)
