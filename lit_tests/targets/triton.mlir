// RUN: cleave-opt %s -p convert-sched-to-tt -t triton | filecheck %s

// The file a person would edit: named values, dimensions in comments, expressions for what is used once, no broadcasts.
// Names that mean something to Python or to the file are changed; the kernel and the host share no name.
sched.kernel @scale (%lambda: !sched.buffer<[b : ?, n : 1], f16>, %y: !sched.buffer<[b : ?, n : 1], f16>)
    sizes (%tl = n) grid (%row = b by 1 count b) warps 2 stages 3 {
  %zero = sched.constant 0 : !sched.tile<[], index>
  %n = sched.range %zero : !sched.tile<[n = 64], index>
  %t = sched.load %lambda [b = %row, n = %n] check [n < %tl] other -inf : !sched.tile<[n = 64], f16>
  %x = sched.cast %t {note = "in f32"} : !sched.tile<[n = 64], f32>
  %top = sched.reduce maxnum %x over n : !sched.tile<[], f32>
  %low = sched.sub %x, %top : !sched.tile<[n = 64], f32>
  %p = sched.exp %low : !sched.tile<[n = 64], f32>
  %sum = sched.reduce sum %p over n : !sched.tile<[], f32>
  %out = sched.div %p, %sum : !sched.tile<[n = 64], f32>
  %narrow = sched.cast %out : !sched.tile<[n = 64], f16>
  sched.store %narrow to %y [b = %row, n = %n] check [n < %tl]
}
sched.program @main sizes [b = b, n = 2 * half] (%x: !sched.buffer<[b : ?, n : 1], f16> layout "b n")
    -> (%y: !sched.buffer<[b : ?, n : 1], f16> layout "b n") {
  sched.launch @scale(%x, %y)
}
// CHECK:      """Triton kernels of main."""
// CHECK:      import torch
// CHECK-NEXT: import triton
// CHECK-NEXT: import triton.language as tl
// CHECK:      @triton.jit
// CHECK-NEXT: def scale(lambda_ptr, y_ptr, lambda_stride_b, y_stride_b, tl_):
// CHECK-NEXT:     row_i64 = tl.cast(tl.program_id(0), tl.int64)
// CHECK-NEXT:     n_inside = tl.arange(0, 64) < tl_
// CHECK-NEXT:     t = tl.load(lambda_ptr + row_i64 * lambda_stride_b + tl.arange(0, 64), mask=n_inside, other=float("-inf"))  # [n]
// CHECK-NEXT:     x = t.to(tl.float32)  # [n] in f32
// CHECK-NEXT:     p = tl.exp(x - tl.max(x, 0))  # [n]
// CHECK-NEXT:     tl.store(y_ptr + row_i64 * y_stride_b + tl.arange(0, 64), (p / tl.sum(p, 0)).to(tl.float16), mask=n_inside)
// CHECK:      def launch(x):
// CHECK-NEXT:     """Returns y (f16 b n)."""
// CHECK-NEXT:     b = x.shape[0]
// CHECK-NEXT:     half = x.shape[1] // 2
// CHECK-NEXT:     n = 2 * half
// CHECK-NEXT:     assert x.shape == (b, n)
// CHECK-NEXT:     x = x.contiguous()
// CHECK-NEXT:     y = torch.empty((b, n), dtype=torch.float16, device=x.device)
// CHECK-NEXT:     programs = b
// CHECK-NEXT:     if programs:
// CHECK-NEXT:         scale[(programs,)](x, y, x.stride(0), y.stride(0), n, num_warps=2, num_stages=3)
// CHECK-NEXT:     return y
