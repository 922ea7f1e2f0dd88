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
// CHECK-NEXT:     [[PLANE:.*]] = m_programs * 6
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
