// RUN: cleave-opt %s -p 'sched-stream{sizes="n=0"}' --verify-diagnostics | filecheck %s

// Sizes at which an axis has none.
sched.kernel @k (%x: !sched.buffer<[m : 1], f32>) warps 1 stages 1 {}
sched.program @f sizes [m = ceildiv(8, n)] (%x: !sched.buffer<[m : 1], f32> layout "m") -> () {
  sched.launch @k(%x)
}
// CHECK: error: sched.program: at these sizes there is a division by zero in extent 'ceildiv(8, n)'; give other sizes
