// RUN: cleave-opt %s -p convert-sched-to-tt | filecheck %s
// RUN: cleave-opt %s -p convert-sched-to-tt -t triton | filecheck %s --check-prefix=PYTHON

// A maximum with a NaN among its elements is NaN, which Triton's reductions leave out; maxnum and integers need nothing more.
sched.kernel @highest (%x: !sched.buffer<[b : 64, n : 1], f32>, %i: !sched.buffer<[b : 64, n : 1], i32>, %y: !sched.buffer<[b : 1], f32>,
                       %z: !sched.buffer<[b : 1], f32>, %j: !sched.buffer<[b : 1], i32>)
    sizes () grid (%b = b by 1 count 5) warps 4 stages 2 {
  %zero = sched.constant 0 : !sched.tile<[], index>
  %n = sched.range %zero : !sched.tile<[n = 64], index>
  %t = sched.load %x [b = %b, n = %n] : !sched.tile<[n = 64], f32>
  %k = sched.load %i [b = %b, n = %n] : !sched.tile<[n = 64], i32>
  %top = sched.reduce max %t over n : !sched.tile<[], f32>
  %num = sched.reduce maxnum %t over n : !sched.tile<[], f32>
  %whole = sched.reduce max %k over n : !sched.tile<[], i32>
  sched.store %top to %y [b = %b]
  sched.store %num to %z [b = %b]
  sched.store %whole to %j [b = %b]
}
// CHECK:      [[MAX:%.*]] = "tt.reduce"(%t)
// CHECK:        arith.maxnumf
// CHECK:      [[NAN:%.*]] = tt.cmpf une, %t, %t
// CHECK:      "tt.reduce"
// CHECK:        arith.maxsi
// CHECK:      tt.select
// CHECK:      "tt.reduce"(%t)
// CHECK:        arith.maxnumf
// CHECK:      "tt.reduce"(%k)
// CHECK:        arith.maxsi
// CHECK-NOT:  tt.select
// PYTHON:     tl.where(tl.max((t != t).to(tl.int32), 0) > 0, float("nan"), tl.max(t, 0))
