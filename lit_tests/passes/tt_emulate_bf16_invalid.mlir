// RUN: cleave-opt %s -p tt-emulate-bf16 --verify-diagnostics | filecheck %s

// Kernels of two modules may share names.
builtin.module {
  tt.func public @k(%x: !tt.ptr<bf16>) {
    tt.return
  }
}
builtin.module {
  tt.func public @k(%x: !tt.ptr<bf16>) {
    tt.return
  }
}
// CHECK: :4:1: error: builtin.module: 2 modules are inside of a module, and one at a time is taken; put each into a file of its own
