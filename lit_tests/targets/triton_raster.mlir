// RUN: cleave-opt %s -p convert-sched-to-tt -t triton | filecheck %s

// In groups of 4 rows of tiles, of which the last may have fewer: their number is an argument.
sched.kernel @ragged (%c: !sched.buffer<[b : 96, m : 12, n : 1], i32>)
    grid (%m0 = m by 2 count ceildiv(m, 2), %n0 = n by 2 count 6, %b0 = b by 1 count b) group 4 warps 1 stages 1 {
  %m = sched.range %m0 : !sched.tile<[m = 2], index>
  %n = sched.range %n0 : !sched.tile<[n = 2], index>
  %v = sched.constant 7 : !sched.tile<[], i32>
  sched.store %v to %c [b = %b0, m = %m, n = %n]
}
// CHECK:      def ragged(c_ptr, m_programs):
// CHECK-NEXT:     program = tl.program_id(0)
// CHECK-NEXT:     [[PLANE:[a-z_0-9]+]] = m_programs * 6
// CHECK-NEXT:     in_plane = program % [[PLANE]]
// CHECK-NEXT:     group_start = in_plane // 24 * 4
// CHECK-NEXT:     in_group = in_plane % 24
// CHECK-NEXT:     group_rows = tl.minimum(m_programs - group_start, 4)
// CHECK-NEXT:     {{.*}}program // [[PLANE]]{{.*}}(group_start + in_group % group_rows) * 2{{.*}}
// CHECK-NEXT:     {{.*}}in_group // group_rows * 2

// Where groups are known to be whole, nothing is asked.
sched.kernel @whole (%c: !sched.buffer<[m : 12, n : 1], i32>)
    grid (%m0 = m by 2 count 8, %n0 = n by 2 count 6) group 4 warps 1 stages 1 {
  %m = sched.range %m0 : !sched.tile<[m = 2], index>
  %n = sched.range %n0 : !sched.tile<[n = 2], index>
  %v = sched.constant 7 : !sched.tile<[], i32>
  sched.store %v to %c [m = %m, n = %n]
}
// CHECK:      def whole(c_ptr):
// CHECK-NEXT:     program = tl.program_id(0)
// CHECK-NEXT:     in_group = program % 24
// CHECK-NEXT:     {{.*}}(program // 24 * 4 + in_group % 4) * 2{{.*}}in_group // 4 * 2

// Programs run tiles in turn; what no tile changes is before the loop over them, and so is a wait for the launches before.
sched.kernel @turns (%x: !sched.buffer<[m : 1], f32>, %y: !sched.buffer<[m : 1], f32>) sizes (%m_size = m)
    grid (%m0 = m by 4 count ceildiv(m, 4), %b = b by 1 count 3) persistent 132 warps 1 stages 1 {
  %m = sched.range %m0 : !sched.tile<[m = 4], index>
  sched.wait
  %t = sched.load %x [m = %m] check [m < %m_size] : !sched.tile<[m = 4], f32>
  sched.store %t to %y [m = %m] check [m < %m_size]
}
// CHECK:      def turns(x_ptr, y_ptr, m_size, m_programs):
// CHECK-NEXT:     if COMPILED:
// CHECK-NEXT:         gdc_wait(){{.*}}
// CHECK-NEXT:     for tile in range(tl.program_id(0), m_programs * 3, tl.num_programs(0)):
// CHECK-NEXT:         m0 = tile % m_programs * 4
// CHECK:              t = tl.load(
// CHECK-NEXT:         tl.store(

// With one loop that makes products, Triton makes one of the two.
sched.kernel @product (%a: !sched.buffer<[m : 64, k : 1], f16>, %b: !sched.buffer<[k : 64, n : 1], f16>, %c: !sched.buffer<[m : 64, n : 1], f32>)
    grid (%m0 = m by 16 count 4, %n0 = n by 16 count 4) group 2 persistent 3 warps 1 stages 2 {
  %zero = sched.constant 0 : !sched.tile<[], index>
  %end = sched.constant 64 : !sched.tile<[], index>
  %none = sched.constant 0.0 : !sched.tile<[m = 16, n = 16], f32>
  %m = sched.range %m0 : !sched.tile<[m = 16], index>
  %n = sched.range %n0 : !sched.tile<[n = 16], index>
  %sum = sched.for k %k0 = %zero to %end step 16 carry (%acc = %none) {
    %k = sched.range %k0 : !sched.tile<[k = 16], index>
    %x = sched.load %a [m = %m, k = %k] : !sched.tile<[m = 16, k = 16], f16>
    %w = sched.load %b [k = %k, n = %n] : !sched.tile<[k = 16, n = 16], f16>
    %next = sched.dot %x, %w over k acc %acc : !sched.tile<[m = 16, n = 16], f32>
    sched.yield %next
  }
  sched.store %sum to %c [m = %m, n = %n]
}
sched.program @main sizes [m = 64, n = 64, k = 64]
    (%a: !sched.buffer<[m : 64, k : 1], f16> layout "m k", %b: !sched.buffer<[k : 64, n : 1], f16> layout "k n")
    -> (%c: !sched.buffer<[m : 64, n : 1], f32> layout "m n") {
  sched.launch @product(%a, %b, %c)
}
// CHECK:      def product(a_ptr, b_ptr, c_ptr):
// CHECK:          for tile in tl.range(tl.program_id(0), 16, tl.num_programs(0), flatten=True):
// CHECK-NEXT:         in_group = tile % 8
// CHECK:              acc = tl.zeros([16, 16], tl.float32)
// CHECK-NEXT:         for k0 in range(0, 64, 16):  # along k
// CHECK:                  acc = tl.dot(x, w, acc)
// CHECK-NEXT:         tl.store(
// CHECK:          programs = min(4 * 4, 3)
