// RUN: cleave-opt %s -p convert-sched-to-tt -t 'ttir{kernel=copy}' | filecheck %s

// One kernel in generic form under Triton's names, without what is for readers; the host part is not printed.
sched.kernel @copy (%x: !sched.buffer<[m : 1], f32>, %y: !sched.buffer<[m : 1], f32>) sizes (%m_size = m)
    grid (%m0 = m by 16 count ceildiv(m, 16)) warps 4 stages 2 {
  %m = sched.range %m0 : !sched.tile<[m = 16], index>
  %t = sched.load %x [m = %m] check [m < %m_size] other 0.0 : !sched.tile<[m = 16], f32>
  sched.store %t to %y [m = %m] check [m < %m_size]
}
sched.kernel @other () warps 1 stages 1 {
}
sched.program @main sizes [m = m] (%x: !sched.buffer<[m : 1], f32> layout "m") -> (%y: !sched.buffer<[m : 1], f32> layout "m") {
  sched.launch @copy(%x, %y)
}
// CHECK:      "builtin.module"() ({
// CHECK-NEXT:   "tt.func"() <{sym_name = "copy"
// CHECK-NOT:    dims =
// CHECK:        "arith.cmpi"({{.*}}) <{predicate = 2 : i64}> : (tensor<16xi32>, tensor<16xi32>) -> tensor<16xi1>
// CHECK:        "tt.load"
// CHECK:        "tt.return"() : () -> ()
// CHECK-NEXT:   }) : () -> ()
// CHECK-NEXT: }) : () -> ()
// CHECK-NOT:  other
