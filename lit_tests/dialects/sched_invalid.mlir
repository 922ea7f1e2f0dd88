// RUN: cleave-opt %s --split-input-file --verify-diagnostics | filecheck %s

// A dimension is a power of two.
sched.kernel @k (%i: !sched.buffer<[m : 1], f32>) sizes (%m = m, %n = n) {
  %x = sched.constant 0.0 : !sched.tile<[m = 48], f32>
}
// CHECK: dimension 'm' has size 48, which is not a power of two; round it up and mask
// -----

// A dimension occurs once.
sched.kernel @k (%i: !sched.buffer<[m : 1], f32>) sizes (%m = m, %n = n) {
  %x = sched.constant 0.0 : !sched.tile<[m = 4, m = 4], f32>
}
// CHECK: dimension 'm' is listed twice
// -----

// Element types are those of the algebra.
sched.kernel @k (%i: !sched.buffer<[m : 1], f32>) sizes (%m = m, %n = n) {
  %x = sched.constant 0 : !sched.tile<[m = 4], i7>
}
// CHECK: i7 is not an element type; use f16, bf16, f32, f64, i1, i32, i64 or index
// -----

// A stride is an integer or unknown.
sched.kernel @k (%i: !sched.buffer<[m : x], f32>) {}
// CHECK: {{.*}}:3:{{.*}}error
// -----

// The result has every dimension of the operands.
sched.kernel @k (%i: !sched.buffer<[m : 1], f32>) sizes (%m = m, %n = n) {
  %x = sched.constant 0.0 : !sched.tile<[m = 4], f32>
  %y = sched.constant 0.0 : !sched.tile<[n = 4], f32>
  %z = sched.add %x, %y : !sched.tile<[m = 4], f32>
}
// CHECK: sched.add: dimension 'n' of operand 1 is not in the result [m = 4]; add it or reduce it
// -----

// A dimension has one size.
sched.kernel @k (%i: !sched.buffer<[m : 1], f32>) sizes (%m = m, %n = n) {
  %x = sched.constant 0.0 : !sched.tile<[m = 4], f32>
  %z = sched.neg %x : !sched.tile<[m = 8], f32>
}
// CHECK: sched.neg: dimension 'm' has size 4 in operand 0 and 8 in the result
// -----

// Elements are not converted silently.
sched.kernel @k (%i: !sched.buffer<[m : 1], f32>) sizes (%m = m, %n = n) {
  %x = sched.constant 0.0 : !sched.tile<[m = 4], f32>
  %z = sched.exp %x : !sched.tile<[m = 4], f16>
}
// CHECK: sched.exp: operand 0 has elements f32 and the result f16; cast one
// -----

// The exponential is of floats.
sched.kernel @k (%i: !sched.buffer<[m : 1], f32>) sizes (%m = m, %n = n) {
  %x = sched.constant 0 : !sched.tile<[m = 4], i32>
  %z = sched.exp %x : !sched.tile<[m = 4], i32>
}
// CHECK: sched.exp: the elements are i32; floats are needed
// -----

// Booleans are not added.
sched.kernel @k (%i: !sched.buffer<[m : 1], f32>) sizes (%m = m, %n = n) {
  %x = sched.constant true : !sched.tile<[m = 4], i1>
  %z = sched.add %x, %x : !sched.tile<[m = 4], i1>
}
// CHECK: sched.add: the elements are i1; numbers are needed
// -----

// Floats have no bits.
sched.kernel @k (%i: !sched.buffer<[m : 1], f32>) sizes (%m = m, %n = n) {
  %x = sched.constant 0.0 : !sched.tile<[m = 4], f32>
  %z = sched.and %x, %x : !sched.tile<[m = 4], f32>
}
// CHECK: sched.and: the elements are f32; booleans or integers are needed
// -----

// The predicate is one of six.
sched.kernel @k (%i: !sched.buffer<[m : 1], f32>) sizes (%m = m, %n = n) {
  %z = sched.compare ult %m, %n : !sched.tile<[], i1>
}
// CHECK: sched.compare: 'ult' is not a predicate; use eq, ne, lt, le, gt, ge
// -----

// A comparison gives i1.
sched.kernel @k (%i: !sched.buffer<[m : 1], f32>) sizes (%m = m, %n = n) {
  %z = sched.compare lt %m, %n : !sched.tile<[], index>
}
// CHECK: sched.compare: the result has elements index; a comparison gives i1
// -----

// A condition is i1.
sched.kernel @k (%i: !sched.buffer<[m : 1], f32>) sizes (%m = m, %n = n) {
  %z = sched.select %m, %m, %n : !sched.tile<[], index>
}
// CHECK: sched.select: the condition has elements index; i1 is needed
// -----

// A cast is no broadcast.
sched.kernel @k (%i: !sched.buffer<[m : 1], f32>) sizes (%m = m, %n = n) {
  %x = sched.constant 0.0 : !sched.tile<[m = 4], f32>
  %z = sched.cast %x : !sched.tile<[m = 4, n = 4], f16>
}
// CHECK: sched.cast: a cast keeps dimensions; use sched.broadcast for others
// -----

// A constant suits its elements.
sched.kernel @k (%i: !sched.buffer<[m : 1], f32>) sizes (%m = m, %n = n) {
  %x = sched.constant 0.5 : !sched.tile<[m = 4], index>
}
// CHECK: '0.5' is no index
// -----

// A range has one dimension.
sched.kernel @k (%i: !sched.buffer<[m : 1], f32>) sizes (%m = m, %n = n) {
  %x = sched.range %m : !sched.tile<[m = 4, n = 4], index>
}
// CHECK: sched.range: the result is !sched.tile<[m = 4, n = 4], index>; an index tile of one dimension is needed
// -----

// A load gives every axis an index.
sched.kernel @k (%b: !sched.buffer<[m : 4, n : 1], f32>) sizes (%m = m, %n = n) {
  %x = sched.load %b [m = %m] : !sched.tile<[], f32>
}
// CHECK: sched.load: axis 'n' of the buffer has no index
// -----

// A load knows the axes of its buffer.
sched.kernel @k (%i: !sched.buffer<[m : 1], f32>) sizes (%m = m, %n = n) {
  %x = sched.load %i [m = %m, q = %m] : !sched.tile<[], f32>
}
// CHECK: sched.load: axis 'q' is not in the buffer (has m)
// -----

// A checked axis is an axis.
sched.kernel @k (%i: !sched.buffer<[m : 1], f32>) sizes (%m = m, %n = n) {
  %x = sched.load %i [m = %m] check [n < %n] : !sched.tile<[], f32>
}
// CHECK: sched.load: checked axis 'n' is not in the buffer (has m)
// -----

// A load gives what the buffer holds.
sched.kernel @k (%i: !sched.buffer<[m : 1], f32>) sizes (%m = m, %n = n) {
  %x = sched.load %i [m = %m] : !sched.tile<[], f16>
}
// CHECK: sched.load: the result is !sched.tile<[], f16>; the indices and the buffer give [] of f32
// -----

// A cache hint is one of two.
sched.kernel @k (%i: !sched.buffer<[m : 1], f32>) sizes (%m = m, %n = n) {
  %x = sched.load %i [m = %m] evict never : !sched.tile<[], f32>
}
// CHECK: sched.load: 'never' is not a cache hint; use evict_first or evict_last
// -----

// A store does not convert.
sched.kernel @k (%i: !sched.buffer<[m : 1], f32>) sizes (%m = m, %n = n) {
  %x = sched.constant 0.0 : !sched.tile<[], f16>
  sched.store %x to %i [m = %m]
}
// CHECK: sched.store: the value has elements f16 and the buffer f32; cast it
// -----

// A store has a place for every lane.
sched.kernel @k (%i: !sched.buffer<[m : 1], f32>) sizes (%m = m, %n = n) {
  %x = sched.constant 0.0 : !sched.tile<[m = 4], f32>
  sched.store %x to %i [m = %m]
}
// CHECK: sched.store: dimension 'm' = 4 of the value is not in the indices []
// -----

// An axis has one extent in a kernel.
sched.kernel @k (%i: !sched.buffer<[m : 1], f32>) sizes (%m = m, %n = n) {
  %x = sched.load %i [m = %m] check [m < %m] : !sched.tile<[], f32>
  sched.store %x to %i [m = %m] check [m < %n]
}
// CHECK: sched.kernel: axis 'm' is checked against two extents; use one value for an axis
// -----

// Reductions are sum, max, min and maxnum, the last of floats.
sched.kernel @k (%i: !sched.buffer<[m : 1], f32>) sizes (%m = m, %n = n) {
  %x = sched.constant 0.0 : !sched.tile<[m = 4], f32>
  %z = sched.reduce prod %x over m : !sched.tile<[], f32>
}
// CHECK: sched.reduce: 'prod' is not a reduction; use sum, max, min or maxnum
// -----

sched.kernel @k (%i: !sched.buffer<[m : 1], f32>) sizes (%m = m, %n = n) {
  %x = sched.constant 0 : !sched.tile<[m = 4], i32>
  %z = sched.reduce maxnum %x over m : !sched.tile<[], i32>
}
// CHECK: sched.reduce: maxnum is a reduction of floats, not of i32; use max
// -----

// A reduction removes a dimension that is there.
sched.kernel @k (%i: !sched.buffer<[m : 1], f32>) sizes (%m = m, %n = n) {
  %x = sched.constant 0.0 : !sched.tile<[m = 4], f32>
  %z = sched.reduce sum %x over n : !sched.tile<[m = 4], f32>
}
// CHECK: sched.reduce: dimension 'n' is not in the operand [m = 4]
// -----

// A dot contracts the last with the last but one.
sched.kernel @k (%i: !sched.buffer<[m : 1], f32>) sizes (%m = m, %n = n) {
  %x = sched.constant 0.0 : !sched.tile<[m = 16, k = 16], f16>
  %y = sched.constant 0.0 : !sched.tile<[n = 16, k = 16], f16>
  %z = sched.dot %x, %y over k : !sched.tile<[m = 16, n = 16], f32>
}
// CHECK: sched.dot: 'k' is not last in [m = 16, k = 16] and last but one in [n = 16, k = 16]
// -----

// A dot accumulates in f32.
sched.kernel @k (%i: !sched.buffer<[m : 1], f32>) sizes (%m = m, %n = n) {
  %x = sched.constant 0.0 : !sched.tile<[m = 16, k = 16], f16>
  %y = sched.constant 0.0 : !sched.tile<[k = 16, n = 16], f16>
  %z = sched.dot %x, %y over k : !sched.tile<[m = 16, n = 16], f16>
}
// CHECK: sched.dot: the result is !sched.tile<[m = 16, n = 16], f16>; the product is [m = 16, n = 16] of f32
// -----

// A loop yields what it carries.
sched.kernel @k (%i: !sched.buffer<[m : 1], f32>) sizes (%m = m, %n = n) {
  %x = sched.constant 0.0 : !sched.tile<[m = 4], f32>
  %z = sched.for m %j = %m to %n step 4 carry (%c = %x) {
    sched.yield %j
  }
}
// CHECK: sched.for: the body yields !sched.tile<[], index>; the loop carries !sched.tile<[m = 4], f32>
// -----

// A loop advances.
sched.kernel @k (%i: !sched.buffer<[m : 1], f32>) sizes (%m = m, %n = n) {
  sched.for m %j = %m to %n step 0 {
  }
}
// CHECK: sched.for: step 0 is not positive
// -----

// Warps are a power of two.
sched.kernel @k () warps 3 stages 1 {
}
// CHECK: sched.kernel: 3 warps; use a power of two up to 32
// -----

// Groups of tiles along one dimension are for another one.
sched.kernel @k () grid (%m0 = m by 4 count 8) group 2 warps 1 stages 1 {
}
// CHECK: sched.kernel: groups are of tiles along one dimension of a grid, for another; this one has 1
// -----

// A group has tiles.
sched.kernel @k () grid (%m0 = m by 4 count 8, %n0 = n by 4 count 8) group 0 warps 1 stages 1 {
}
// CHECK: groups of 0 tiles; use at least 1
// -----

// Some program runs the tiles.
sched.kernel @k () grid (%m0 = m by 4 count 8) persistent 0 warps 1 stages 1 {
}
// CHECK: persistent programs are 0; use at least 1
// -----

// There are tiles to run in turn.
sched.kernel @k () persistent 132 warps 1 stages 1 {
}
// CHECK: persistent programs run the tiles of a grid; this one has no dimensions
// -----

// A program of a persistent kernel would arrive more than once.
sched.kernel @k (%c: !sched.buffer<[tile : 1], i32>) grid (%m0 = m by 4 count 8) persistent 2 warps 1 stages 1 {
  %zero = sched.constant 0 : !sched.tile<[], index>
  %eight = sched.constant 8 : !sched.tile<[], index>
  sched.last %c [tile = %zero] of %eight {
  }
}
// CHECK: sched.last: the kernel is persistent, whose programs come here more than once; remove 'persistent'
// -----

// A layout names the axes of its buffer.
sched.program @p sizes [m = m] (%x: !sched.buffer<[m : 1], f32> layout "n") -> () {
}
// CHECK: sched.program: axis 'm' of buffer 'x' is not in its layout 'n'
// -----

// Every axis has a size.
sched.program @p sizes [] (%x: !sched.buffer<[m : 1], f32> layout "m") -> () {
}
// CHECK: sched.program: axis 'm' of buffer 'x' has no size; add it to sizes
// -----

// An extent is an expression over symbols.
sched.program @p sizes [m = "m.n"] () -> () {
}
// CHECK: unexpected '.' in extent 'm.n'
// -----

// A launch names a kernel of the module.
sched.program @p sizes [] () -> () {
  sched.launch @k()
}
// CHECK: sched.launch: '@k' is not a sched.kernel of the module
// -----

// A launch passes what the kernel takes.
sched.kernel @k (%x: !sched.buffer<[m : 1], f32>) {
}
sched.program @p sizes [n = n] (%x: !sched.buffer<[n : 1], f32> layout "n") -> () {
  sched.launch @k(%x)
}
// CHECK: sched.launch: buffer 0 is !sched.buffer<[n : 1], f32>; kernel '@k' takes !sched.buffer<[m : 1], f32>
// -----

// A launch can find the sizes.
sched.kernel @k () sizes (%q = q) {
}
sched.program @p sizes [n = n] () -> () {
  sched.launch @k()
}
// CHECK: sched.launch: kernel '@k' takes the size of 'q', which the program does not have
// -----

// Library routines are a closed list.
sched.program @p sizes [n = n] (%x: !sched.buffer<[n : 1], f32> layout "n") -> () {
  sched.library_call sort(%x) into %x over [n]
}
// CHECK: sched.library_call: 'sort' is not a library routine; use matmul
// -----

// A product removes the axes it sums over.
sched.program @p sizes [n = n] (%x: !sched.buffer<[n : 1], f32> layout "n") -> (%y: !sched.buffer<[n : 1], f32> layout "n") {
  sched.library_call matmul(%x, %x) into %y over [n]
}
// CHECK: sched.library_call: the result has axes n; the product has 
// -----

// A workspace has sizes.
sched.program @p sizes [] () -> () {
  %x = sched.allocate x : !sched.buffer<[n : 1], f32>
}
// CHECK: sched.allocate: axis 'n' has no size; add it to the sizes of the program
// -----

// A scalar argument is a size or a stride.
sched.program @p sizes [] () -> () {
  sched.launch_func @k() grid [] scalars ["m"] warps 1 stages 1
}
// CHECK: sched.launch_func: 'm' is not a scalar argument; use 'size NAME', 'stride POSITION AXIS by DIVISOR' or 'count POSITION'

// -----
// A tile is not larger than a tensor of Triton may be.
sched.kernel @k () {
  %x = sched.constant 0.0 : !sched.tile<[m = 2048, n = 1024], f32>
}
// CHECK: the tile has 2097152 elements; 1048576 are the most
// -----

// A program arrives at one element.
sched.kernel @k (%p: !sched.buffer<[s : 1], f32>, %c: !sched.buffer<[tile : 1], i32>) sizes (%n = n) grid (%s0 = s by 1 count s) {
  %x = sched.constant 0.0 : !sched.tile<[], f32>
  %t = sched.range %s0 : !sched.tile<[t = 2], index>
  sched.store %x to %p [s = %s0]
  sched.last %c [tile = %t] of %n {}
}
// CHECK: sched.last: the indices have dimensions [t = 2]; a program arrives at one element
// -----

// A counter counts.
sched.kernel @k (%p: !sched.buffer<[s : 1], f32>, %c: !sched.buffer<[tile : 1], i32>) sizes (%n = n) grid (%s0 = s by 1 count s) {
  %x = sched.constant 0.0 : !sched.tile<[], f32>
  %t = sched.range %s0 : !sched.tile<[t = 2], index>
  sched.store %x to %p [s = %s0]
  sched.last %p [s = %n] of %n {}
}
// CHECK: sched.last: the counter has elements f32; i32 is needed
// -----

// The number of programs is a scalar.
sched.kernel @k (%p: !sched.buffer<[s : 1], f32>, %c: !sched.buffer<[tile : 1], i32>) sizes (%n = n) grid (%s0 = s by 1 count s) {
  %x = sched.constant 0.0 : !sched.tile<[], f32>
  %t = sched.range %s0 : !sched.tile<[t = 2], index>
  sched.store %x to %p [s = %s0]
  sched.last %c [tile = %n] of %t {}
}
// CHECK: sched.last: the count is !sched.tile<[t = 2], index>; an index scalar is needed
// -----

// Every axis of the counter has an index.
sched.kernel @k (%p: !sched.buffer<[s : 1], f32>, %c: !sched.buffer<[tile : 1], i32>) sizes (%n = n) grid (%s0 = s by 1 count s) {
  %x = sched.constant 0.0 : !sched.tile<[], f32>
  %t = sched.range %s0 : !sched.tile<[t = 2], index>
  sched.store %x to %p [s = %s0]
  sched.last %c [] of %n {}
}
// CHECK: sched.last: axis 'tile' of the buffer has no index
// -----

// What other programs stored may lie in a cache of their own.
sched.kernel @k (%p: !sched.buffer<[s : 1], f32>, %c: !sched.buffer<[tile : 1], i32>) sizes (%n = n) grid (%s0 = s by 1 count s) {
  %x = sched.constant 0.0 : !sched.tile<[], f32>
  %t = sched.range %s0 : !sched.tile<[t = 2], index>
  sched.store %x to %p [s = %s0]
  sched.last %c [tile = %n] of %n {
    %y = sched.load %p [s = %n] : !sched.tile<[], f32>
  }
}
// CHECK: sched.last: a load in the body reads what the kernel stores before, which other programs did too; make it fresh
// -----

// Every program comes by once.
sched.kernel @k (%p: !sched.buffer<[s : 1], f32>, %c: !sched.buffer<[tile : 1], i32>) sizes (%n = n) grid (%s0 = s by 1 count s) {
  %x = sched.constant 0.0 : !sched.tile<[], f32>
  %t = sched.range %s0 : !sched.tile<[t = 2], index>
  sched.store %x to %p [s = %s0]
  sched.for n %i = %n to %n step 1 {
    sched.last %c [tile = %n] of %n {}
  }
}
// CHECK: sched.last:

// -----

// A box ends with its axes.
sched.kernel @k (%k: !sched.buffer<[n : 64, d : 1], f16>) sizes (%n_size = n) warps 1 stages 1 {
  %zero = sched.constant 0 : !sched.tile<[], index>
  %n = sched.range %zero : !sched.tile<[n = 16], index>
  %d = sched.range %zero : !sched.tile<[d = 16], index>
  %x = sched.load %k [n = %n, d = %d] check [n < %n_size] other 0.0 descriptor : !sched.tile<[n = 16, d = 16], f16>
}
// CHECK: sched.load: a load by descriptor checks the axes of its tiles, d and n, with other 0.0

// -----

// What is outside a box is 0.
sched.kernel @k (%k: !sched.buffer<[n : 64, d : 1], f16>) sizes (%n_size = n) warps 1 stages 1 {
  %zero = sched.constant 0 : !sched.tile<[], index>
  %n = sched.range %zero : !sched.tile<[n = 16], index>
  %d = sched.range %zero : !sched.tile<[d = 16], index>
  %x = sched.load %k [n = %n, d = %d] check [n < %n_size, d < %n_size] descriptor : !sched.tile<[n = 16, d = 16], f16>
}
// CHECK: sched.load: a load by descriptor checks the axes of its tiles, d and n, with other 0.0

// -----

// A machine reads boxes past its caches.
sched.kernel @k (%k: !sched.buffer<[n : 64, d : 1], f16>) sizes (%n_size = n) warps 1 stages 1 {
  %zero = sched.constant 0 : !sched.tile<[], index>
  %n = sched.range %zero : !sched.tile<[n = 16], index>
  %d = sched.range %zero : !sched.tile<[d = 16], index>
  %x = sched.load %k [n = %n, d = %d] check [n < %n_size, d < %n_size] other 0.0 evict evict_last descriptor : !sched.tile<[n = 16, d = 16], f16>
}
// CHECK: sched.load: a load by descriptor has no cache hint and is not fresh

// -----

// A box has two dimensions.
sched.kernel @k (%k: !sched.buffer<[n : 64, d : 1], f16>) sizes (%n_size = n) warps 1 stages 1 {
  %zero = sched.constant 0 : !sched.tile<[], index>
  %n = sched.range %zero : !sched.tile<[n = 16], index>
  %d = sched.range %zero : !sched.tile<[d = 16], index>
  %x = sched.load %k [n = %zero, d = %d] check [d < %n_size] other 0.0 descriptor : !sched.tile<[d = 16], f16>
}
// CHECK: sched.load: a load by descriptor has one dimension on each of two axes; 1 axes have tiles

// -----

// Rows of a box are 16 bytes apart, or a multiple.
sched.kernel @k (%k: !sched.buffer<[n : 60, d : 1], f16>) sizes (%n_size = n) warps 1 stages 1 {
  %zero = sched.constant 0 : !sched.tile<[], index>
  %n = sched.range %zero : !sched.tile<[n = 16], index>
  %d = sched.range %zero : !sched.tile<[d = 16], index>
  %x = sched.load %k [n = %n, d = %d] check [n < %n_size, d < %n_size] other 0.0 descriptor : !sched.tile<[n = 16, d = 16], f16>
}
// CHECK: sched.load: a load by descriptor needs an aligned buffer of 16-bit floats, known strides

// -----

// Nor are machines made for boxes of a few elements.
sched.kernel @k (%k: !sched.buffer<[n : 64, d : 1], f16>) sizes (%n_size = n) warps 1 stages 1 {
  %zero = sched.constant 0 : !sched.tile<[], index>
  %n = sched.range %zero : !sched.tile<[n = 16], index>
  %d = sched.range %zero : !sched.tile<[d = 4], index>
  %x = sched.load %k [n = %n, d = %d] check [n < %n_size, d < %n_size] other 0.0 descriptor : !sched.tile<[n = 16, d = 4], f16>
}
// CHECK: sched.load: a load by descriptor reads at least 16 bytes that lie together; these are 8

// -----

// Machines have up to 255 registers for a thread, and no code gets by with very few.
sched.kernel @k () warps 1 stages 1 registers 256 {
}
// CHECK: a thread has at most 256 registers; use 16 to 255

// -----

sched.program @p sizes [] () -> () {
  sched.launch_func @f() grid [] scalars [] warps 1 stages 1 registers 8
}
// CHECK: sched.launch_func: a thread has at most 8 registers; use 16 to 255

// -----

// One condition for all lanes.
sched.kernel @k () sizes (%m_size = m) {
  %m = sched.range %m_size : !sched.tile<[m = 4], index>
  %lanes = sched.compare lt %m, %m_size : !sched.tile<[m = 4], i1>
  sched.if %lanes {}
}
// CHECK: sched.if: the condition is !sched.tile<[m = 4], i1>; a scalar of i1 is needed

// -----

// An index is no truth value.
sched.kernel @k () sizes (%m_size = m) {
  sched.if %m_size {}
}
// CHECK: sched.if: the condition is !sched.tile<[], index>; a scalar of i1 is needed

// -----

// What a branch gives does not depend on the way in type.
sched.kernel @k () {
  %c = sched.constant true : !sched.tile<[], i1>
  %x = sched.constant 0.0 : !sched.tile<[m = 4], f32>
  %y = sched.constant 0.0 : !sched.tile<[m = 4], f16>
  %z = sched.if %c {
    sched.yield %y
  } else %x
}
// CHECK: sched.if: the body yields !sched.tile<[m = 4], f16>; after 'else' there is !sched.tile<[m = 4], f32>

// -----

// A result has a value either way.
sched.kernel @k () {
  %c = sched.constant true : !sched.tile<[], i1>
  %x = sched.constant 0.0 : !sched.tile<[m = 4], f32>
  sched.if %c {
    sched.yield %x
  }
}
// CHECK: sched.if: the body yields !sched.tile<[m = 4], f32>; after 'else' there is nothing

// -----

// Nor is there another one without the body's.
sched.kernel @k () {
  %c = sched.constant true : !sched.tile<[], i1>
  %x = sched.constant 0.0 : !sched.tile<[m = 4], f32>
  %z = "sched.if"(%c, %x) ({
    sched.yield
  }) : (!sched.tile<[], i1>, !sched.tile<[m = 4], f32>) -> !sched.tile<[m = 4], f32>
}
// CHECK: sched.if: the body yields nothing; after 'else' there is !sched.tile<[m = 4], f32>

// -----

// Results have the types of what they are.
sched.kernel @k () {
  %c = sched.constant true : !sched.tile<[], i1>
  %x = sched.constant 0.0 : !sched.tile<[m = 4], f32>
  %z = "sched.if"(%c, %x) ({
    sched.yield %x
  }) : (!sched.tile<[], i1>, !sched.tile<[m = 4], f32>) -> !sched.tile<[m = 4], f16>
}
// CHECK: sched.if: the results do not have the types of the tiles after 'else'

// -----

// Nothing is carried into a branch.
sched.kernel @k () {
  %c = sched.constant true : !sched.tile<[], i1>
  "sched.if"(%c) ({
  ^bb0(%x: !sched.tile<[], i1>):
    sched.yield
  }) : (!sched.tile<[], i1>) -> ()
}
// CHECK: sched.if: the body takes no arguments

// -----

// A branch has a body.
sched.kernel @k () {
  %c = sched.constant true : !sched.tile<[], i1>
  %x = sched.constant 0.0 : !sched.tile<[m = 4], f32>
  %z = sched.if %c else %x
}
// CHECK: sched.if: Expected region!

// -----

// Not even in generic form is it without one.
sched.kernel @k () {
  %c = sched.constant true : !sched.tile<[], i1>
  "sched.if"(%c) : (!sched.tile<[], i1>) -> ()
}
// CHECK: sched.if: Expected 1 region, but got 0

// -----

// What a body makes is not seen after it.
sched.kernel @k (%y: !sched.buffer<[], f32>) {
  %c = sched.constant true : !sched.tile<[], i1>
  sched.if %c {
    %x = sched.constant 0.0 : !sched.tile<[], f32>
  }
  sched.store %x to %y []
}
// CHECK: sched.store: %x is used but not defined

// -----

// A size names axes before it only.
sched.program @p sizes [m = s + 1, s = 4] () -> (%y: !sched.buffer<[m : 1], f32> layout "m") {
}
// CHECK: sched.program: the size of axis 'm' names axis 's', which stands after it; name symbols and axes before it only

// -----

// Nor does it name itself, unless it is that symbol.
sched.program @p sizes [s = s, m = m + 1] () -> (%y: !sched.buffer<[m : 1], f32> layout "m") {
}
// CHECK: sched.program: the size of axis 'm' names itself; name symbols and axes before it only
