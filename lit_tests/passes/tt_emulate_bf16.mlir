// RUN: cleave-opt %s -p tt-emulate-bf16 | filecheck %s

// Memory and values become f32; a narrowing rounds to nearest even in the bits, a widening is nothing.
tt.func public @narrow(%x: !tt.ptr<bf16>, %y: !tt.ptr<f32>) {
  %a = tt.load %x : !tt.ptr<bf16>
  %b = arith.extf %a : bf16 to f32
  %c = arith.mulf %b, %b : f32
  %d = arith.truncf %c : f32 to bf16
  tt.store %x, %d : !tt.ptr<bf16>
  tt.return
}
// CHECK:      tt.func public @narrow(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>) {
// CHECK-NEXT:   %a = tt.load %x : !tt.ptr<f32>
// CHECK-NEXT:   %c = arith.mulf %a, %a : f32
// CHECK:        [[BITS:%.*]] = tt.bitcast %c : f32 -> i32
// CHECK-NEXT:   [[HIGH:%.*]] = arith.shrsi [[BITS]], {{.*}} : i32
// CHECK-NEXT:   [[ODD:%.*]] = arith.andi [[HIGH]], {{.*}} : i32
// CHECK-NEXT:   [[UP:%.*]] = arith.addi [[BITS]], {{.*}} : i32
// CHECK-NEXT:   [[SUM:%.*]] = arith.addi [[UP]], [[ODD]] : i32
// CHECK-NEXT:   [[KEPT:%.*]] = arith.andi [[SUM]], {{.*}} : i32
// CHECK-NEXT:   [[BACK:%.*]] = tt.bitcast [[KEPT]] : i32 -> f32
// CHECK-NEXT:   [[OK:%.*]] = tt.cmpf oeq, %c, %c : f32
// CHECK-NEXT:   [[D:%.*]] = tt.select [[OK]], [[BACK]], %c : i1, f32
// CHECK-NEXT:   tt.store %x, [[D]] : !tt.ptr<f32>

// What is computed in bf16 is rounded too, and a constant is.
tt.func public @arithmetic(%x: !tt.ptr<bf16>) {
  %a = tt.load %x : !tt.ptr<bf16>
  %k = arith.constant 3.0 : bf16
  %b = arith.addf %a, %k : bf16
  tt.store %x, %b : !tt.ptr<bf16>
  tt.return
}
// CHECK:      tt.func public @arithmetic(%x: !tt.ptr<f32>) {
// CHECK:        %k = arith.constant 3.000000e+00 : f32
// CHECK-NEXT:   %b = arith.addf %a, %k : f32
// CHECK:        [[R:%.*]] = tt.select {{.*}}, {{.*}}, %b : i1, f32
// CHECK-NEXT:   tt.store %x, [[R]] : !tt.ptr<f32>

// Other types stay as they are.
tt.func public @half(%x: !tt.ptr<f16>) {
  %a = tt.load %x : !tt.ptr<f16>
  %b = arith.addf %a, %a : f16
  tt.store %x, %b : !tt.ptr<f16>
  tt.return
}
// CHECK:      tt.func public @half(%x: !tt.ptr<f16>) {
// CHECK-NEXT:   %a = tt.load %x : !tt.ptr<f16>
// CHECK-NEXT:   %b = arith.addf %a, %a : f16
// CHECK-NEXT:   tt.store %x, %b : !tt.ptr<f16>

// A constant beyond the largest is infinite.
tt.func public @large(%x: !tt.ptr<bf16>) {
  %k = arith.constant 1.0e39 : bf16
  tt.store %x, %k : !tt.ptr<bf16>
  tt.return
}
// CHECK:      tt.func public @large(%x: !tt.ptr<f32>) {
// CHECK-NEXT:   %k = arith.constant 0x7f800000 : f32
