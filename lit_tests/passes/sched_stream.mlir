// RUN: cleave-opt %s -p sched-stream | filecheck %s
// RUN: cleave-opt %s -p 'sched-stream{least=100}' | filecheck %s --check-prefix=LEAST
// RUN: cleave-opt %s -p sched-overlap,sched-stream | filecheck %s --check-prefix=EARLY
// RUN: cleave-opt %s -p sched-stream,sched-stream | filecheck %s
// RUN: cleave-opt %s -p sched-stream,convert-sched-to-tt | filecheck %s --check-prefix=TT
// RUN: cleave-opt %s -p sched-stream,convert-sched-to-tt -t triton | filecheck %s --check-prefix=TRITON

// The second kernel reads 64 bytes of weights, and a workspace of as many, which is no input. The first one's input has 32 bytes.
sched.kernel @first (%x: !sched.buffer<[m : 1], f16>, %s: !sched.buffer<[m : 1], f32>) grid (%m0 = m by 4 count 4) warps 1 stages 1 {
  %m = sched.range %m0 : !sched.tile<[m = 4], index>
  %a = sched.load %x [m = %m] : !sched.tile<[m = 4], f16>
  %b = sched.cast %a : !sched.tile<[m = 4], f32>
  sched.store %b to %s [m = %m]
}
sched.kernel @second (%s: !sched.buffer<[m : 1], f32>, %w: !sched.buffer<[m : 1], f32>, %y: !sched.buffer<[m : 1], f32>) grid (%m0 = m by 4 count 4) warps 1 stages 1 {
  %m = sched.range %m0 : !sched.tile<[m = 4], index>
  %b = sched.load %s [m = %m] : !sched.tile<[m = 4], f32>
  %c = sched.load %w [m = %m] : !sched.tile<[m = 4], f32>
  %d = sched.mul %b, %c : !sched.tile<[m = 4], f32>
  sched.store %d to %y [m = %m]
}
sched.program @f sizes [m = 16] (%x: !sched.buffer<[m : 1], f16> layout "m", %w: !sched.buffer<[m : 1], f32> layout "m") -> (%y: !sched.buffer<[m : 1], f32> layout "m") {
  %s = sched.allocate s : !sched.buffer<[m : 1], f32>
  sched.launch @first(%x, %s)
  sched.launch @second(%s, %w, %y)
}
// CHECK:      sched.launch @first(%x, %s) streaming 0
// CHECK-NEXT: sched.launch @second(%s, %w, %y) streaming 1

// LEAST-NOT:  streaming

// EARLY:      sched.launch @first(%x, %s) streaming 0
// EARLY-NEXT: sched.launch @second(%s, %w, %y) early streaming 1

// TT:         sched.launch_func @first(%x, %s) grid [4] scalars [] warps 1 stages 1 streaming 0
// TT:         sched.launch_func @second(%s, %w, %y) grid [4] scalars [] warps 1 stages 1 streaming 1

// TRITON:     # w should leave the cache first, which a launch by Triton cannot say.
// TRITON-NEXT: if programs:
