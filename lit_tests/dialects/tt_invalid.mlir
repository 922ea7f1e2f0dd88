// RUN: cleave-opt %s --split-input-file --verify-diagnostics | filecheck %s

// A range has its length.
tt.func public @k(%p: !tt.ptr<f16>, %n: i32, %f: f32, %t: tensor<16xi32>, %u: tensor<16x16xf32>, %h: tensor<16x32xf16>, %m: tensor<16xi1>, %q: tensor<16x!tt.ptr<f16>>) {
  %x = tt.make_range {start = 0 : i32, end = 16 : i32} : tensor<8xi32>
  tt.return
}
// CHECK: tt.make_range: the result is tensor<8xi32>; the range is tensor<16xi32>
// -----

// A splat keeps the type.
tt.func public @k(%p: !tt.ptr<f16>, %n: i32, %f: f32, %t: tensor<16xi32>, %u: tensor<16x16xf32>, %h: tensor<16x32xf16>, %m: tensor<16xi1>, %q: tensor<16x!tt.ptr<f16>>) {
  %x = tt.splat %n : i32 -> tensor<8xf32>
  tt.return
}
// CHECK: tt.splat: the operand is i32 and the result has elements f32
// -----

// Only dimensions of size one are repeated.
tt.func public @k(%p: !tt.ptr<f16>, %n: i32, %f: f32, %t: tensor<16xi32>, %u: tensor<16x16xf32>, %h: tensor<16x32xf16>, %m: tensor<16xi1>, %q: tensor<16x!tt.ptr<f16>>) {
  %x = tt.broadcast %t : tensor<16xi32> -> tensor<32xi32>
  tt.return
}
// CHECK: tt.broadcast: tensor<16xi32> does not broadcast to tensor<32xi32>
// -----

// The new axis is in range.
tt.func public @k(%p: !tt.ptr<f16>, %n: i32, %f: f32, %t: tensor<16xi32>, %u: tensor<16x16xf32>, %h: tensor<16x32xf16>, %m: tensor<16xi1>, %q: tensor<16x!tt.ptr<f16>>) {
  %x = tt.expand_dims %t {axis = 3 : i32} : tensor<16xi32> -> tensor<16x1xi32>
  tt.return
}
// CHECK: tt.expand_dims: axis 3 is not in 0 to 1
// -----

// The new axis is where it says.
tt.func public @k(%p: !tt.ptr<f16>, %n: i32, %f: f32, %t: tensor<16xi32>, %u: tensor<16x16xf32>, %h: tensor<16x32xf16>, %m: tensor<16xi1>, %q: tensor<16x!tt.ptr<f16>>) {
  %x = tt.expand_dims %t {axis = 0 : i32} : tensor<16xi32> -> tensor<16x1xi32>
  tt.return
}
// CHECK: tt.expand_dims: the result is tensor<16x1xi32>; its shape is 1x16
// -----

// An order is a permutation.
tt.func public @k(%p: !tt.ptr<f16>, %n: i32, %f: f32, %t: tensor<16xi32>, %u: tensor<16x16xf32>, %h: tensor<16x32xf16>, %m: tensor<16xi1>, %q: tensor<16x!tt.ptr<f16>>) {
  %x = tt.trans %u {order = array<i32: 1, 1>} : tensor<16x16xf32> -> tensor<16x16xf32>
  tt.return
}
// CHECK: tt.trans: order [1, 1] does not list the dimensions 0 to 1 once each
// -----

// A reshape keeps the number of elements.
tt.func public @k(%p: !tt.ptr<f16>, %n: i32, %f: f32, %t: tensor<16xi32>, %u: tensor<16x16xf32>, %h: tensor<16x32xf16>, %m: tensor<16xi1>, %q: tensor<16x!tt.ptr<f16>>) {
  %x = tt.reshape %t : tensor<16xi32> -> tensor<32xi32>
  tt.return
}
// CHECK: tt.reshape: tensor<16xi32> has 16 elements and tensor<32xi32> 32
// -----

// A conversion keeps the shape.
tt.func public @k(%p: !tt.ptr<f16>, %n: i32, %f: f32, %t: tensor<16xi32>, %u: tensor<16x16xf32>, %h: tensor<16x32xf16>, %m: tensor<16xi1>, %q: tensor<16x!tt.ptr<f16>>) {
  %x = tt.extsi %t : tensor<16xi32> -> tensor<8xi64>
  tt.return
}
// CHECK: tt.extsi: the operand is tensor<16xi32> and the result tensor<8xi64>; a conversion keeps the shape
// -----

// An extension is of integers.
tt.func public @k(%p: !tt.ptr<f16>, %n: i32, %f: f32, %t: tensor<16xi32>, %u: tensor<16x16xf32>, %h: tensor<16x32xf16>, %m: tensor<16xi1>, %q: tensor<16x!tt.ptr<f16>>) {
  %x = tt.extsi %f : f32 -> i64
  tt.return
}
// CHECK: tt.extsi: f32 to i64 is not between integers
// -----

// Bits keep their number.
tt.func public @k(%p: !tt.ptr<f16>, %n: i32, %f: f32, %t: tensor<16xi32>, %u: tensor<16x16xf32>, %h: tensor<16x32xf16>, %m: tensor<16xi1>, %q: tensor<16x!tt.ptr<f16>>) {
  %x = tt.bitcast %u : tensor<16x16xf32> -> tensor<16x16xi16>
  tt.return
}
// CHECK: tt.bitcast: f32 has 32 bits and i16 16
// -----

// A comparison has a predicate.
tt.func public @k(%p: !tt.ptr<f16>, %n: i32, %f: f32, %t: tensor<16xi32>, %u: tensor<16x16xf32>, %h: tensor<16x32xf16>, %m: tensor<16xi1>, %q: tensor<16x!tt.ptr<f16>>) {
  %x = tt.cmpi less, %n, %n : i32
  tt.return
}
// CHECK: expected one of eq, ne, slt
// -----

// A condition has the shape of what it selects.
tt.func public @k(%p: !tt.ptr<f16>, %n: i32, %f: f32, %t: tensor<16xi32>, %u: tensor<16x16xf32>, %h: tensor<16x32xf16>, %m: tensor<16xi1>, %q: tensor<16x!tt.ptr<f16>>) {
  %x = tt.select %m, %u, %u : tensor<16xi1>, tensor<16x16xf32>
  tt.return
}
// CHECK: tt.select: the condition is tensor<16xi1>; i1 of shape 16x16 is needed
// -----

// An offset has the shape of the address.
tt.func public @k(%p: !tt.ptr<f16>, %n: i32, %f: f32, %t: tensor<16xi32>, %u: tensor<16x16xf32>, %h: tensor<16x32xf16>, %m: tensor<16xi1>, %q: tensor<16x!tt.ptr<f16>>) {
  %x = tt.addptr %q, %n : tensor<16x!tt.ptr<f16>>, i32
  tt.return
}
// CHECK: tt.addptr: the offset is i32; integers of shape 16 are needed
// -----

// An address is a pointer.
tt.func public @k(%p: !tt.ptr<f16>, %n: i32, %f: f32, %t: tensor<16xi32>, %u: tensor<16x16xf32>, %h: tensor<16x32xf16>, %m: tensor<16xi1>, %q: tensor<16x!tt.ptr<f16>>) {
  %x = tt.addptr %n, %n : i32, i32
  tt.return
}
// CHECK: tt.addptr: i32 is not a pointer or a tensor of pointers
// -----

// A load reads through a pointer.
tt.func public @k(%p: !tt.ptr<f16>, %n: i32, %f: f32, %t: tensor<16xi32>, %u: tensor<16x16xf32>, %h: tensor<16x32xf16>, %m: tensor<16xi1>, %q: tensor<16x!tt.ptr<f16>>) {
  %x = tt.load %n : i32
  tt.return
}
// CHECK: i32 is not a pointer or a tensor of pointers
// -----

// A mask has the shape of the addresses.
tt.func public @k(%p: !tt.ptr<f16>, %n: i32, %f: f32, %t: tensor<16xi32>, %u: tensor<16x16xf32>, %h: tensor<16x32xf16>, %m: tensor<16xi1>, %q: tensor<16x!tt.ptr<f16>>) {
  %x = "tt.load"(%p, %m) <{cache = 1 : i32, evict = 1 : i32, isVolatile = false, operandSegmentSizes = array<i32: 1, 1, 0>}> : (!tt.ptr<f16>, tensor<16xi1>) -> f16
  tt.return
}
// CHECK: tt.load: the mask is tensor<16xi1>; i1 is needed
// -----

// A store writes what the pointer points at.
tt.func public @k(%p: !tt.ptr<f16>, %n: i32, %f: f32, %t: tensor<16xi32>, %u: tensor<16x16xf32>, %h: tensor<16x32xf16>, %m: tensor<16xi1>, %q: tensor<16x!tt.ptr<f16>>) {
  "tt.store"(%p, %f) <{cache = 1 : i32, evict = 1 : i32}> : (!tt.ptr<f16>, f32) -> ()
  tt.return
}
// CHECK: tt.store: the value is f32; the pointer writes f16
// -----

// A product has an inner dimension.
tt.func public @k(%p: !tt.ptr<f16>, %n: i32, %f: f32, %t: tensor<16xi32>, %u: tensor<16x16xf32>, %h: tensor<16x32xf16>, %m: tensor<16xi1>, %q: tensor<16x!tt.ptr<f16>>) {
  %x = tt.dot %h, %h, %u precision ieee : tensor<16x32xf16> * tensor<16x32xf16> -> tensor<16x16xf32>
  tt.return
}
// CHECK: tt.dot: 16x32 and 16x32 do not multiply
// -----

// A product has a precision.
tt.func public @k(%p: !tt.ptr<f16>, %n: i32, %f: f32, %t: tensor<16xi32>, %u: tensor<16x16xf32>, %h: tensor<16x32xf16>, %m: tensor<16xi1>, %q: tensor<16x!tt.ptr<f16>>) {
  %x = tt.dot %h, %h, %u precision fast : tensor<16x32xf16> * tensor<16x32xf16> -> tensor<16x16xf32>
  tt.return
}
// CHECK: expected tf32, tf32x3 or ieee
// -----

// A reduction ends in the element type.
tt.func public @k(%p: !tt.ptr<f16>, %n: i32, %f: f32, %t: tensor<16xi32>, %u: tensor<16x16xf32>, %h: tensor<16x32xf16>, %m: tensor<16xi1>, %q: tensor<16x!tt.ptr<f16>>) {
  %x = "tt.reduce"(%u) <{axis = 1 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    tt.reduce.return %n : i32
  }) : (tensor<16x16xf32>) -> tensor<16xf32>
  tt.return
}
// CHECK: tt.reduce: the combination ends in tt.reduce.return of f32
// -----

// A reduction is over an axis.
tt.func public @k(%p: !tt.ptr<f16>, %n: i32, %f: f32, %t: tensor<16xi32>, %u: tensor<16x16xf32>, %h: tensor<16x32xf16>, %m: tensor<16xi1>, %q: tensor<16x!tt.ptr<f16>>) {
  %x = "tt.reduce"(%u) <{axis = 2 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    tt.reduce.return %a : f32
  }) : (tensor<16x16xf32>) -> tensor<16xf32>
  tt.return
}
// CHECK: tt.reduce: axis 2 is not in 0 to 1
// -----

// A grid has three axes.
tt.func public @k(%p: !tt.ptr<f16>, %n: i32, %f: f32, %t: tensor<16xi32>, %u: tensor<16x16xf32>, %h: tensor<16x32xf16>, %m: tensor<16xi1>, %q: tensor<16x!tt.ptr<f16>>) {
  %x = "tt.get_program_id"() <{axis = 3 : i32}> : () -> i32
  tt.return
}
// CHECK: tt.get_program_id: axis 3 is not one of 0, 1, 2
// -----

// An atomic has a kind.
tt.func public @k(%p: !tt.ptr<f16>, %n: i32, %f: f32, %t: tensor<16xi32>, %u: tensor<16x16xf32>, %h: tensor<16x32xf16>, %m: tensor<16xi1>, %q: tensor<16x!tt.ptr<f16>>) {
  %x = "tt.atomic_rmw"(%p, %f) <{atomic_rmw_op = 40 : i32, sem = 4 : i32, scope = 1 : i32}> : (!tt.ptr<f16>, f32) -> f32
  tt.return
}
// CHECK: tt.atomic_rmw: 40 is not a kind
// -----

// A kernel returns nothing.
"tt.func"() <{sym_name = "k", function_type = () -> i32}> ({
  tt.return
}) : () -> ()
// CHECK: tt.func: a kernel returns nothing; store its results
// -----

// A function has the type of its body.
"tt.func"() <{sym_name = "k", function_type = (i32) -> ()}> ({
  tt.return
}) : () -> ()
// CHECK: tt.func: the function's type and the arguments of its body differ
// -----

// Remainders of integers are arith's.
tt.func public @k(%p: !tt.ptr<f16>, %n: i32, %f: f32, %t: tensor<16xi32>, %u: tensor<16x16xf32>, %h: tensor<16x32xf16>, %m: tensor<16xi1>, %q: tensor<16x!tt.ptr<f16>>) {
  %x = tt.remf %t, %t : tensor<16xi32>
  tt.return
}
// CHECK: tt.remf: the result is tensor<16xi32>; a remainder of floats is needed
