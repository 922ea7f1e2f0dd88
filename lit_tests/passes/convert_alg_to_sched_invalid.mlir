// RUN: not cleave-opt %s -p 'convert-alg-to-sched{target="abacus"}' 2>&1 | filecheck %s
// RUN: not cleave-opt %s -p 'convert-alg-to-sched{alternatives=0}' 2>&1 | filecheck %s --check-prefix=NONE
// RUN: not cleave-opt %s -p 'convert-alg-to-sched{alternatives=1 alternatives=2}' 2>&1 | filecheck %s --check-prefix=TWICE
// RUN: not cleave-opt %s -p 'convert-alg-to-sched,sched-stream{least=-1}' 2>&1 | filecheck %s --check-prefix=LEAST

// NONE: error: {{.*}}option alternatives is 0; give at least 1
// TWICE: option alternatives is given 2 times; give it once
// LEAST: error: {{.*}}sched-stream: option least is -1; give at least 0

// An unknown machine is refused with the list of known ones.
// CHECK: error: {{.*}}unknown target 'abacus'; known are a100, h100, h200, b200, rtx4090, mi300x
alg.graph @copy axes [m = 4] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[m], f32>) {
  alg.yield %x : !alg.tensor<[m], f32>
}
