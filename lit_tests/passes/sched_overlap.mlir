// RUN: cleave-opt %s -p sched-overlap | filecheck %s
// RUN: cleave-opt %s -p 'sched-overlap{release=false}' | filecheck %s --check-prefix=ENDS
// RUN: cleave-opt %s -p sched-overlap,convert-sched-to-tt | filecheck %s --check-prefix=TT
// RUN: cleave-opt %s -p sched-overlap,convert-sched-to-tt -t triton | filecheck %s --check-prefix=TRITON

// The second kernel reads its own input before it waits, and what the first one stored after.
sched.kernel @first (%x: !sched.buffer<[m : 1], f32>, %s: !sched.buffer<[m : 1], f32>) grid (%m0 = m by 4 count 2) warps 1 stages 1 {
  %m = sched.range %m0 : !sched.tile<[m = 4], index>
  %a = sched.load %x [m = %m] : !sched.tile<[m = 4], f32>
  %b = sched.exp %a : !sched.tile<[m = 4], f32>
  sched.store %b to %s [m = %m]
}
sched.kernel @second (%s: !sched.buffer<[m : 1], f32>, %w: !sched.buffer<[m : 1], f32>, %y: !sched.buffer<[m : 1], f32>) grid (%m0 = m by 4 count 2) warps 1 stages 1 {
  %m = sched.range %m0 : !sched.tile<[m = 4], index>
  %b = sched.load %s [m = %m] : !sched.tile<[m = 4], f32>
  %c = sched.load %w [m = %m] : !sched.tile<[m = 4], f32>
  %d = sched.mul %b, %c : !sched.tile<[m = 4], f32>
  sched.store %d to %y [m = %m]
}
sched.program @f sizes [m = 8] (%x: !sched.buffer<[m : 1], f32> layout "m", %w: !sched.buffer<[m : 1], f32> layout "m") -> (%y: !sched.buffer<[m : 1], f32> layout "m") {
  %s = sched.allocate s : !sched.buffer<[m : 1], f32>
  sched.launch @first(%x, %s)
  sched.launch @second(%s, %w, %y)
}
// CHECK-LABEL: @first
// CHECK-NEXT:    sched.release
// CHECK-NEXT:    %m = sched.range
// CHECK-LABEL: @second
// CHECK-NEXT:    %m = sched.range
// CHECK-NEXT:    %c = sched.load %w
// CHECK-NEXT:    sched.wait
// CHECK-NEXT:    %b = sched.load %s
// CHECK-NEXT:    %d = sched.mul %b, %c
// CHECK-NEXT:    sched.store %d to %y
// CHECK:         sched.launch @first(%x, %s)
// CHECK-NEXT:    sched.launch @second(%s, %w, %y) early

// ENDS-NOT:      sched.release
// ENDS:          sched.wait
// ENDS:          sched.launch @second(%s, %w, %y) early

// TT-LABEL:  @first
// TT:          tt.elementwise_inline_asm "griddepcontrol.launch_dependents;"
// TT-LABEL:  @second
// TT:          tt.elementwise_inline_asm "griddepcontrol.wait;"
// TT:          sched.launch_func @second(%s, %w, %y) grid [2] scalars [] warps 1 stages 1 early

// TRITON:      from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait
// TRITON:      COMPILED = tl.constexpr(not triton.knobs.runtime.interpret)
// TRITON:      def first
// TRITON:        if COMPILED:
// TRITON-NEXT:     gdc_launch_dependents()
// TRITON:      def second
// TRITON:        if COMPILED:
// TRITON-NEXT:     gdc_wait()
// TRITON:      **({"launch_pdl": True} if COMPILED and running else {})
