// RUN: cleave-opt %s -t triton --verify-diagnostics | filecheck %s

// Only what is lowered has a text.
sched.kernel @k () warps 1 stages 1 {
}
// CHECK: triton_invalid.mlir:4:1: error: sched.kernel: is not lowered to Triton's IR; run convert-sched-to-tt first
