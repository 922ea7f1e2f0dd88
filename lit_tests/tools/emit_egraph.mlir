// RUN: cleave-opt %s -p alg-superoptimize --emit-egraph %t.json && filecheck %s --input-file %t.json --check-prefix=JSON
// RUN: cleave-opt %s -p 'alg-superoptimize{emit_egraph="%t.dot"}' && filecheck %s --input-file %t.dot --check-prefix=DOT
// RUN: not cleave-opt %s --emit-egraph %t.json 2>&1 | filecheck %s --check-prefix=USAGE
// RUN: not cleave-opt %s -p alg-superoptimize --emit-egraph %t/no/such.json 2>&1 | filecheck %s --check-prefix=FILE
// RUN: cleave-opt %s -p alg-superoptimize | not cleave-opt -p alg-superoptimize --emit-egraph %t.json 2>&1 | filecheck %s --check-prefix=SEARCHED

// Every class has a line with its axes, the operations that compute it as written, and all forms that were found for it.
// JSON:      "sides": {"results": ["c4"], "caps": [],
// JSON-NEXT: {"class": "c0", "axes": ["m", "k"], "stored": true, "operations": ["%0 input"], "forms": ["x"]},
// JSON:      {"class": "c4", "axes": ["m"], "stored": true, "operations": ["%3 reduce"], "forms": ["sum[n] c3",
// JSON-SAME: sum[k] c

// The same as a picture: a box for a class, an ellipse for a form, results in bold.
// DOT:       digraph egraph {
// DOT:       label="sides";
// DOT:       [shape=box, label="c0 [m, k]"];
// DOT:       [shape=ellipse, label="x"];
// DOT:       style=bold, label="c{{[0-9]+}} [m]"];

// USAGE:     cleave-opt: error: --emit-egraph needs alg-superoptimize among the passes
// FILE:      emit_egraph.mlir:{{.*}}: error: {{.*}}such.json: {{.*}}; name a file that can be written as emit-egraph
// SEARCHED:  error: alg.graph: @sides has alternatives already, so it is not searched; give the program as it was before the search
alg.graph @sides axes [m = ?(hint 128), k = 64, n = 512]
    (%x: !alg.tensor<[m, k], f32>, %w: !alg.tensor<[k, n], f32>) -> (!alg.tensor<[m], f32>) {
  %p = alg.contract %x, %w over [k] : !alg.tensor<[m, n], f32>
  %s = alg.reduce sum %p over [n] : !alg.tensor<[m], f32>
  alg.yield %s : !alg.tensor<[m], f32>
}
