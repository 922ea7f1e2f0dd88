// RUN: cleave-opt %s -p convert-sched-to-tt | filecheck %s

// A tile and the same one with its dimensions turned, both for dots of few rows: one load.
sched.kernel @turned (%x: !sched.buffer<[m : 32, k : 1], f16>, %y: !sched.buffer<[m : 16, o : 1], f32>) grid (%m0 = m by 16 count 2) warps 4 stages 2 {
  %zero = sched.constant 0 : !sched.tile<[], index>
  %m = sched.range %m0 : !sched.tile<[m = 16], index>
  %o = sched.range %m0 : !sched.tile<[o = 16], index>
  %k = sched.range %zero : !sched.tile<[k = 32], index>
  %a = sched.load %x [m = %m, k = %k] : !sched.tile<[m = 16, k = 32], f16>
  %b = sched.load %x [m = %o, k = %k] : !sched.tile<[k = 32, o = 16], f16>
  %c = sched.dot %a, %b over k : !sched.tile<[m = 16, o = 16], f32>
  sched.store %c to %y [m = %m, o = %o]
}
// CHECK-LABEL: tt.func public @turned
// CHECK:         [[A:%.*]] = tt.load
// CHECK-NOT:     tt.load
// CHECK:         [[B:%.*]] = tt.trans [[A]]
// CHECK-NOT:     tt.load
// CHECK:         tt.dot [[A]], [[B]]

// Other rows are another tile.
sched.kernel @others (%x: !sched.buffer<[m : 32, k : 1], f16>, %y: !sched.buffer<[m : 16, o : 1], f32>) grid (%m0 = m by 16 count 2) warps 4 stages 2 {
  %zero = sched.constant 0 : !sched.tile<[], index>
  %m = sched.range %m0 : !sched.tile<[m = 16], index>
  %o = sched.range %zero : !sched.tile<[o = 16], index>
  %k = sched.range %zero : !sched.tile<[k = 32], index>
  %a = sched.load %x [m = %m, k = %k] : !sched.tile<[m = 16, k = 32], f16>
  %b = sched.load %x [m = %o, k = %k] : !sched.tile<[k = 32, o = 16], f16>
  %c = sched.dot %a, %b over k : !sched.tile<[m = 16, o = 16], f32>
  sched.store %c to %y [m = %m, o = %o]
}
// CHECK-LABEL: tt.func public @others
// CHECK:         tt.load
// CHECK:         tt.load
// CHECK:         tt.dot

// What registers use as well is loaded by itself.
sched.kernel @registers (%x: !sched.buffer<[m : 32, k : 1], f16>, %y: !sched.buffer<[m : 16, o : 1], f32>, %z: !sched.buffer<[m : 32, k : 1], f16>) grid (%m0 = m by 16 count 2) warps 4 stages 2 {
  %zero = sched.constant 0 : !sched.tile<[], index>
  %m = sched.range %m0 : !sched.tile<[m = 16], index>
  %o = sched.range %m0 : !sched.tile<[o = 16], index>
  %k = sched.range %zero : !sched.tile<[k = 32], index>
  %a = sched.load %x [m = %m, k = %k] : !sched.tile<[m = 16, k = 32], f16>
  %b = sched.load %x [m = %o, k = %k] : !sched.tile<[k = 32, o = 16], f16>
  %c = sched.dot %a, %b over k : !sched.tile<[m = 16, o = 16], f32>
  sched.store %a to %z [m = %m, k = %k]
  sched.store %c to %y [m = %m, o = %o]
}
// CHECK-LABEL: tt.func public @registers
// CHECK:         tt.load
// CHECK:         tt.load
// CHECK:         tt.dot

// So is what the kernel may have stored to in between.
sched.kernel @stored (%x: !sched.buffer<[m : 32, k : 1], f16>, %y: !sched.buffer<[m : 16, o : 1], f32>) grid (%m0 = m by 16 count 2) warps 4 stages 2 {
  %zero = sched.constant 0 : !sched.tile<[], index>
  %m = sched.range %m0 : !sched.tile<[m = 16], index>
  %o = sched.range %m0 : !sched.tile<[o = 16], index>
  %k = sched.range %zero : !sched.tile<[k = 32], index>
  %a = sched.load %x [m = %m, k = %k] : !sched.tile<[m = 16, k = 32], f16>
  %one = sched.constant 1.0 : !sched.tile<[m = 16, k = 32], f16>
  sched.store %one to %x [m = %m, k = %k]
  %b = sched.load %x [m = %o, k = %k] : !sched.tile<[k = 32, o = 16], f16>
  %c = sched.dot %a, %b over k : !sched.tile<[m = 16, o = 16], f32>
  sched.store %c to %y [m = %m, o = %o]
}
// CHECK-LABEL: tt.func public @stored
// CHECK:         tt.load
// CHECK:         tt.store
// CHECK:         tt.load
// CHECK:         tt.dot

// A launch may pass one buffer as both: what is stored to another may be the same memory.
sched.kernel @passed_twice (%x: !sched.buffer<[m : 32, k : 1], f16>, %z: !sched.buffer<[m : 32, k : 1], f16>, %y: !sched.buffer<[m : 16, o : 1], f32>) grid (%m0 = m by 16 count 2) warps 4 stages 2 {
  %zero = sched.constant 0 : !sched.tile<[], index>
  %m = sched.range %m0 : !sched.tile<[m = 16], index>
  %o = sched.range %m0 : !sched.tile<[o = 16], index>
  %k = sched.range %zero : !sched.tile<[k = 32], index>
  %a = sched.load %x [m = %m, k = %k] : !sched.tile<[m = 16, k = 32], f16>
  %one = sched.constant 1.0 : !sched.tile<[m = 16, k = 32], f16>
  sched.store %one to %z [m = %m, k = %k]
  %b = sched.load %x [m = %o, k = %k] : !sched.tile<[k = 32, o = 16], f16>
  %c = sched.dot %a, %b over k : !sched.tile<[m = 16, o = 16], f32>
  sched.store %c to %y [m = %m, o = %o]
}
// CHECK-LABEL: tt.func public @passed_twice
// CHECK:         tt.load
// CHECK:         tt.store
// CHECK:         tt.load
// CHECK:         tt.dot

// A dot of the rows of a warp group and one of fewer each have a load.
sched.kernel @kinds (%x: !sched.buffer<[k : 64, m : 1], f16>, %w: !sched.buffer<[n : 64, k : 1], f16>, %y: !sched.buffer<[n : 16, m : 1], f32>, %z: !sched.buffer<[m : 16, o : 1], f32>) grid (%m0 = m by 16 count 2) warps 4 stages 2 {
  %zero = sched.constant 0 : !sched.tile<[], index>
  %m = sched.range %m0 : !sched.tile<[m = 16], index>
  %o = sched.range %m0 : !sched.tile<[o = 16], index>
  %n = sched.range %zero : !sched.tile<[n = 64], index>
  %k = sched.range %zero : !sched.tile<[k = 64], index>
  %a = sched.load %x [k = %k, m = %m] : !sched.tile<[k = 64, m = 16], f16>
  %b = sched.load %w [n = %n, k = %k] : !sched.tile<[n = 64, k = 64], f16>
  %c = sched.dot %b, %a over k : !sched.tile<[n = 64, m = 16], f32>
  %d = sched.load %x [k = %k, m = %m] : !sched.tile<[m = 16, k = 64], f16>
  %e = sched.load %x [k = %k, m = %o] : !sched.tile<[k = 64, o = 16], f16>
  %f = sched.dot %d, %e over k : !sched.tile<[m = 16, o = 16], f32>
  sched.store %c to %y [n = %n, m = %m]
  sched.store %f to %z [m = %m, o = %o]
}
// CHECK-LABEL: tt.func public @kinds
// CHECK:         [[X:%.*]] = tt.load
// CHECK:         [[W:%.*]] = tt.load
// CHECK:         tt.dot [[W]], [[X]]
// CHECK:         [[D:%.*]] = tt.load
// CHECK-NOT:     tt.load
// CHECK:         [[E:%.*]] = tt.trans [[D]]
// CHECK:         tt.dot [[D]], [[E]]
