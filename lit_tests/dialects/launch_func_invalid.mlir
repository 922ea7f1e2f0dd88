// RUN: cleave-opt %s --split-input-file --verify-diagnostics | filecheck %s

// A launch of a lowered kernel has a function.
tt.func public @f(%x: !tt.ptr<f16>, %y: !tt.ptr<i8>, %m: i32, %stride: i64) attributes {dims = "m, n"} {
  tt.return
}
sched.program @p sizes [m = m] (%x: !sched.buffer<[m : ?], f16> layout "m") -> (%y: !sched.buffer<[m : 1], i1> layout "m") {
  sched.launch_func @g(%x, %y) grid [m, 2] scalars ["size m", "stride 0 m by 1"] warps 1 stages 1
}
// CHECK: sched.launch_func: '@g' is not a tt.func of the module
// -----

// It gives what the function takes.
tt.func public @f(%x: !tt.ptr<f16>, %y: !tt.ptr<i8>, %m: i32, %stride: i64) attributes {dims = "m, n"} {
  tt.return
}
sched.program @p sizes [m = m] (%x: !sched.buffer<[m : ?], f16> layout "m") -> (%y: !sched.buffer<[m : 1], i1> layout "m") {
  sched.launch_func @f(%x, %y) grid [m, 2] scalars ["size m"] warps 1 stages 1
}
// CHECK: sched.launch_func: 2 buffers and 1 scalars are given; function '@f' takes 4
// -----

// Each in its place.
tt.func public @f(%x: !tt.ptr<f16>, %y: !tt.ptr<i8>, %m: i32, %stride: i64) attributes {dims = "m, n"} {
  tt.return
}
sched.program @p sizes [m = m] (%x: !sched.buffer<[m : ?], f16> layout "m") -> (%y: !sched.buffer<[m : 1], i1> layout "m") {
  sched.launch_func @f(%x, %y) grid [m, 2] scalars ["stride 0 m by 1", "size m"] warps 1 stages 1
}
// CHECK: sched.launch_func: argument 2 is i64; function '@f' takes i32
// -----

// Buffers too.
tt.func public @f(%x: !tt.ptr<f16>, %y: !tt.ptr<i8>, %m: i32, %stride: i64) attributes {dims = "m, n"} {
  tt.return
}
sched.program @p sizes [m = m] (%x: !sched.buffer<[m : ?], f16> layout "m") -> (%y: !sched.buffer<[m : 1], i1> layout "m") {
  sched.launch_func @f(%y, %x) grid [m, 2] scalars ["size m", "stride 1 m by 1"] warps 1 stages 1
}
// CHECK: sched.launch_func: argument 0 is !tt.ptr<i8>; function '@f' takes !tt.ptr<f16>
// -----

// The grid is that of the function.
tt.func public @f(%x: !tt.ptr<f16>, %y: !tt.ptr<i8>, %m: i32, %stride: i64) attributes {dims = "m, n"} {
  tt.return
}
sched.program @p sizes [m = m] (%x: !sched.buffer<[m : ?], f16> layout "m") -> (%y: !sched.buffer<[m : 1], i1> layout "m") {
  sched.launch_func @f(%x, %y) grid [m] scalars ["size m", "stride 0 m by 1"] warps 1 stages 1
}
// CHECK: sched.launch_func: the grid has 1 dimensions; function '@f' takes m, n
// -----

// Sizes are those of the program.
tt.func public @f(%x: !tt.ptr<f16>, %y: !tt.ptr<i8>, %m: i32, %stride: i64) attributes {dims = "m, n"} {
  tt.return
}
sched.program @p sizes [m = m] (%x: !sched.buffer<[m : ?], f16> layout "m") -> (%y: !sched.buffer<[m : 1], i1> layout "m") {
  sched.launch_func @f(%x, %y) grid [m, 2] scalars ["size n", "stride 0 m by 1"] warps 1 stages 1
}
// CHECK: sched.launch_func: function '@f' takes the size of 'n', which the program does not have
// -----

// So are those that counts are made of.
tt.func public @f(%x: !tt.ptr<f16>, %y: !tt.ptr<i8>, %m: i32, %stride: i64) attributes {dims = "m, n"} {
  tt.return
}
sched.program @p sizes [m = m] (%x: !sched.buffer<[m : ?], f16> layout "m") -> (%y: !sched.buffer<[m : 1], i1> layout "m") {
  sched.launch_func @f(%x, %y) grid [m, ceildiv(n, 2)] scalars ["size m", "stride 0 m by 1"] warps 1 stages 1
}
// CHECK: sched.launch_func: function '@f' takes the size of 'n', which the program does not have
// -----

// Warps are as in a kernel.
tt.func public @f(%x: !tt.ptr<f16>, %y: !tt.ptr<i8>, %m: i32, %stride: i64) attributes {dims = "m, n"} {
  tt.return
}
sched.program @p sizes [m = m] (%x: !sched.buffer<[m : ?], f16> layout "m") -> (%y: !sched.buffer<[m : 1], i1> layout "m") {
  sched.launch_func @f(%x, %y) grid [m, 2] scalars ["size m", "stride 0 m by 1"] warps 3 stages 1
}
// CHECK: sched.launch_func: 3 warps; use a power of two up to 32
// -----

// Stages too.
tt.func public @f(%x: !tt.ptr<f16>, %y: !tt.ptr<i8>, %m: i32, %stride: i64) attributes {dims = "m, n"} {
  tt.return
}
sched.program @p sizes [m = m] (%x: !sched.buffer<[m : ?], f16> layout "m") -> (%y: !sched.buffer<[m : 1], i1> layout "m") {
  sched.launch_func @f(%x, %y) grid [m, 2] scalars ["size m", "stride 0 m by 1"] warps 1 stages 0
}
// CHECK: sched.launch_func: 0 stages; use at least 1
// -----

// What is early waits.
tt.func public @f(%x: !tt.ptr<f16>, %y: !tt.ptr<i8>, %m: i32, %stride: i64) attributes {dims = "m, n"} {
  tt.return
}
sched.program @p sizes [m = m] (%x: !sched.buffer<[m : ?], f16> layout "m") -> (%y: !sched.buffer<[m : 1], i1> layout "m") {
  sched.launch_func @f(%x, %y) grid [m, 2] scalars ["size m", "stride 0 m by 1"] warps 1 stages 1
  sched.launch_func @f(%x, %y) grid [m, 2] scalars ["size m", "stride 0 m by 1"] warps 1 stages 1 early
}
// CHECK: sched.launch_func: the launch is early and function '@f' does not wait; put 'griddepcontrol.wait;' into it
// -----

// Persistent programs run the tiles of a grid.
sched.program @p sizes [] () -> () {
  sched.launch_func @f() grid [] scalars [] warps 1 stages 1 persistent 4
}
// CHECK: sched.launch_func: persistent programs run the tiles of a grid; this one has no dimensions
// -----

// A program has the sizes that counts of a kernel's grid are made of.
sched.kernel @k () grid (%n0 = n by 1 count n) warps 1 stages 1 {
}
sched.program @p sizes [m = m] () -> () {
  sched.launch @k()
}
// CHECK: sched.launch: kernel '@k' takes the size of 'n', which the program does not have
