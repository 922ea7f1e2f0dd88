// RUN: cleave-opt %s | cleave-opt --print-op-generic | cleave-opt | filecheck %s
// RUN: cleave-opt --print-op-generic %s | filecheck %s --check-prefix GENERIC

// One kernel with every operation that the lowering makes.
tt.func public @kernel(%x: !tt.ptr<f16> {tt.divisibility = 16 : i32}, %y: !tt.ptr<f32>, %n: i32, %stride: i64) {
  %p = tt.get_program_id x : i32
  %q = tt.get_num_programs z : i32
  %i = tt.make_range {dims = "m", start = 0 : i32, end = 16 : i32} : tensor<16xi32>
  %e = tt.expand_dims %i {axis = 1 : i32} : tensor<16xi32> -> tensor<16x1xi32>
  %b = tt.broadcast %e : tensor<16x1xi32> -> tensor<16x16xi32>
  %s = tt.splat %n : i32 -> tensor<16x16xi32>
  %in = tt.cmpi slt, %b, %s {dims = "m, n"} : tensor<16x16xi32>
  %t = tt.trans %b {order = array<i32: 1, 0>} : tensor<16x16xi32> -> tensor<16x16xi32>
  %r = tt.reshape %i : tensor<16xi32> -> tensor<4x4xi32>
  %wide = tt.extsi %t : tensor<16x16xi32> -> tensor<16x16xi64>
  %low = tt.trunci %wide : tensor<16x16xi64> -> tensor<16x16xi32>
  %bit = tt.extui %in : tensor<16x16xi1> -> tensor<16x16xi8>
  %real = tt.sitofp %i : tensor<16xi32> -> tensor<16xf32>
  %flag = tt.uitofp %in : tensor<16x16xi1> -> tensor<16x16xf16>
  %whole = tt.fptosi %real : tensor<16xf32> -> tensor<16xi64>
  %ptrs = tt.splat %x : !tt.ptr<f16> -> tensor<16x16x!tt.ptr<f16>>
  %at = tt.addptr %ptrs, %wide : tensor<16x16x!tt.ptr<f16>>, tensor<16x16xi64>
  %zero = arith.constant dense<0.0> : tensor<16x16xf16>
  %a = tt.load %at, %in, %zero evict evict_first cache cg {note = "once"} : tensor<16x16x!tt.ptr<f16>>
  %c = tt.load %at, %in : tensor<16x16x!tt.ptr<f16>>
  %scalar = tt.load %y : !tt.ptr<f32>
  %acc = arith.constant dense<0.0> : tensor<16x16xf32>
  %d = tt.dot %a, %c, %acc precision tf32 : tensor<16x16xf16> * tensor<16x16xf16> -> tensor<16x16xf32>
  %positive = tt.cmpf ogt, %d, %acc : tensor<16x16xf32>
  %rest = tt.remf %d, %acc : tensor<16x16xf32>
  %z = tt.select %positive, %d, %acc : tensor<16x16xi1>, tensor<16x16xf32>
  %bits = tt.bitcast %z : tensor<16x16xf32> -> tensor<16x16xi32>
  %sum = "tt.reduce"(%z) <{axis = 1 : i32}> ({
  ^bb0(%left: f32, %right: f32):
    %both = arith.addf %left, %right : f32
    tt.reduce.return %both : f32
  }) : (tensor<16x16xf32>) -> tensor<16xf32>
  %one = tt.reshape %r : tensor<4x4xi32> -> tensor<16xi32>
  %line = tt.splat %y : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
  %out = tt.addptr %line, %i : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
  tt.store %out, %sum : tensor<16x!tt.ptr<f32>>
  tt.store %y, %scalar : !tt.ptr<f32>
  tt.return
}
// CHECK:      tt.func public @kernel(%x: !tt.ptr<f16> {tt.divisibility = 16 : i32}, %y: !tt.ptr<f32>, %n: i32, %stride: i64) {
// CHECK-NEXT:   %p = tt.get_program_id x : i32
// CHECK-NEXT:   %q = tt.get_num_programs z : i32
// CHECK-NEXT:   %i = tt.make_range {dims = "m", start = 0 : i32, end = 16 : i32} : tensor<16xi32>
// CHECK-NEXT:   %e = tt.expand_dims %i {axis = 1 : i32} : tensor<16xi32> -> tensor<16x1xi32>
// CHECK-NEXT:   %b = tt.broadcast %e : tensor<16x1xi32> -> tensor<16x16xi32>
// CHECK-NEXT:   %s = tt.splat %n : i32 -> tensor<16x16xi32>
// CHECK-NEXT:   %in = tt.cmpi slt, %b, %s {dims = "m, n"} : tensor<16x16xi32>
// CHECK-NEXT:   %t = tt.trans %b {order = array<i32: 1, 0>} : tensor<16x16xi32> -> tensor<16x16xi32>
// CHECK-NEXT:   %r = tt.reshape %i : tensor<16xi32> -> tensor<4x4xi32>
// CHECK-NEXT:   %wide = tt.extsi %t : tensor<16x16xi32> -> tensor<16x16xi64>
// CHECK-NEXT:   %low = tt.trunci %wide : tensor<16x16xi64> -> tensor<16x16xi32>
// CHECK-NEXT:   %bit = tt.extui %in : tensor<16x16xi1> -> tensor<16x16xi8>
// CHECK-NEXT:   %real = tt.sitofp %i : tensor<16xi32> -> tensor<16xf32>
// CHECK-NEXT:   %flag = tt.uitofp %in : tensor<16x16xi1> -> tensor<16x16xf16>
// CHECK-NEXT:   %whole = tt.fptosi %real : tensor<16xf32> -> tensor<16xi64>
// CHECK-NEXT:   %ptrs = tt.splat %x : !tt.ptr<f16> -> tensor<16x16x!tt.ptr<f16>>
// CHECK-NEXT:   %at = tt.addptr %ptrs, %wide : tensor<16x16x!tt.ptr<f16>>, tensor<16x16xi64>
// CHECK-NEXT:   %zero = arith.constant dense<0.000000e+00> : tensor<16x16xf16>
// CHECK-NEXT:   %a = tt.load %at, %in, %zero evict evict_first cache cg {note = "once"} : tensor<16x16x!tt.ptr<f16>>
// CHECK-NEXT:   %c = tt.load %at, %in : tensor<16x16x!tt.ptr<f16>>
// CHECK-NEXT:   %scalar = tt.load %y : !tt.ptr<f32>
// CHECK-NEXT:   %acc = arith.constant dense<0.000000e+00> : tensor<16x16xf32>
// CHECK-NEXT:   %d = tt.dot %a, %c, %acc precision tf32 : tensor<16x16xf16> * tensor<16x16xf16> -> tensor<16x16xf32>
// CHECK-NEXT:   %positive = tt.cmpf ogt, %d, %acc : tensor<16x16xf32>
// CHECK-NEXT:   %rest = tt.remf %d, %acc : tensor<16x16xf32>
// CHECK-NEXT:   %z = tt.select %positive, %d, %acc : tensor<16x16xi1>, tensor<16x16xf32>
// CHECK-NEXT:   %bits = tt.bitcast %z : tensor<16x16xf32> -> tensor<16x16xi32>
// CHECK-NEXT:   %sum = "tt.reduce"(%z) <{axis = 1 : i32}> ({
// CHECK-NEXT:   ^{{.*}}(%left: f32, %right: f32):
// CHECK-NEXT:     %both = arith.addf %left, %right : f32
// CHECK-NEXT:     tt.reduce.return %both : f32
// CHECK-NEXT:   }) : (tensor<16x16xf32>) -> tensor<16xf32>
// CHECK:        tt.store %out, %sum : tensor<16x!tt.ptr<f32>>
// CHECK-NEXT:   tt.store %y, %scalar : !tt.ptr<f32>
// CHECK-NEXT:   tt.return

// GENERIC: "tt.func"() <{sym_name = "kernel", function_type = (!tt.ptr<f16>, !tt.ptr<f32>, i32, i64) -> (), sym_visibility = "public", arg_attrs = [{tt.divisibility = 16 : i32}, {}, {}, {}]}>
// GENERIC: "tt.load"({{.*}}) <{cache = 3 : i32, evict = 2 : i32, isVolatile = false, operandSegmentSizes = array<i32: 1, 1, 1>}>
// GENERIC: "tt.dot"({{.*}}) <{inputPrecision = 0 : i32, maxNumImpreciseAcc = 0 : i32}>
// GENERIC: "tt.store"({{.*}}) <{cache = 1 : i32, evict = 1 : i32}>

// Descriptors and comparing atomics have the generic form only.
tt.func public @other(%x: !tt.ptr<f16>, %c: !tt.ptr<i32>, %n: i32, %stride: i64, %one: i64, %k: i32) {
  %desc = "tt.make_tensor_descriptor"(%x, %n, %n, %stride, %one) <{padding = 1 : i32, operandSegmentSizes = array<i32: 1, 2, 2>}> : (!tt.ptr<f16>, i32, i32, i64, i64) -> !tt.tensordesc<tensor<64x64xf16>>
  %tile = "tt.descriptor_load"(%desc, %n, %n) : (!tt.tensordesc<tensor<64x64xf16>>, i32, i32) -> tensor<64x64xf16>
  "tt.descriptor_store"(%desc, %tile, %n, %n) : (!tt.tensordesc<tensor<64x64xf16>>, tensor<64x64xf16>, i32, i32) -> ()
  %old = "tt.atomic_rmw"(%c, %k) <{atomic_rmw_op = 4 : i32, sem = 4 : i32, scope = 1 : i32}> : (!tt.ptr<i32>, i32) -> i32
  %was = "tt.atomic_cas"(%c, %k, %old) <{sem = 4 : i32, scope = 1 : i32}> : (!tt.ptr<i32>, i32, i32) -> i32
  %unit = tt.splat %was : i32 -> tensor<1xi32>
  %back = tt.unsplat %unit : tensor<1xi32>
  tt.return
}
// CHECK-LABEL: tt.func public @other
// CHECK: "tt.make_tensor_descriptor"({{.*}}) -> !tt.tensordesc<tensor<64x64xf16>>
// CHECK: "tt.descriptor_load"(%desc, %n, %n)
// CHECK: "tt.descriptor_store"(%desc, %tile, %n, %n)
// CHECK: %old = tt.atomic_rmw add %c, %k acq_rel gpu : !tt.ptr<i32>
// CHECK: "tt.atomic_cas"(%c, %k, %old)
// CHECK: %back = tt.unsplat %unit : tensor<1xi32>

// Instructions for their effect on memory.
tt.func public @overlapping(%x: !tt.ptr<f32>) {
  %a = tt.elementwise_inline_asm "griddepcontrol.launch_dependents;"
  %b = tt.elementwise_inline_asm "griddepcontrol.wait;"
  tt.return
}
// CHECK-LABEL: @overlapping
// CHECK-NEXT:    %a = tt.elementwise_inline_asm "griddepcontrol.launch_dependents;"
// CHECK-NEXT:    %b = tt.elementwise_inline_asm "griddepcontrol.wait;"
