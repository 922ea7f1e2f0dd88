"""Programs of the algebra as text, for tests: one with every operation, one with alternatives."""

from __future__ import annotations

from io import StringIO

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.ir import Operation
from xdsl.printer import Printer

from cleave.bridge.alg import graph_of
from cleave.dialects.alg import Alg, GraphOp
from cleave.graph import Graph
from cleave.parsing import parse_module, verify

CAUSAL = """
alg.graph @causal axes [b = 2, g = 2, r = 2, m = ?(hint 512), n = ?(hint 4096, multiple_of 16, positive), d = 8, e = 8]
    (%q: !alg.tensor<[b, g, r, m, d], f16> layout "b (g r) m d", %k: !alg.tensor<[b, g, n, d], f16> layout "b g n d",
     %v: !alg.tensor<[b, g, n, e], f16> layout "b g n e" weight) -> (!alg.tensor<[b, g, r, m, e], f16> layout "b (g r) m e") {
  %s = alg.contract %q, %k over [d] : !alg.tensor<[b, g, r, m, n], f32>
  %i = alg.iota m : !alg.tensor<[m], index>
  %j = alg.iota n : !alg.tensor<[n], index>
  %ok = alg.compare le %j, %i : !alg.tensor<[m, n], i1>
  %inf = alg.constant 0xFF800000 : f32
  %x = alg.select %ok, %s, %inf : !alg.tensor<[b, g, r, m, n], f32>
  %p = alg.exp %x : !alg.tensor<[b, g, r, m, n], f32>
  %z = alg.reduce sum %p over [n] : !alg.tensor<[b, g, r, m], f32>
  %w = alg.div %p, %z guarded : !alg.tensor<[b, g, r, m, n], f32>
  %o = alg.contract %w, %v over [n] : !alg.tensor<[b, g, r, m, e], f32>
  %c = alg.cast %o : !alg.tensor<[b, g, r, m, e], f16>
  alg.yield %c : !alg.tensor<[b, g, r, m, e], f16>
}
"""

EVERYTHING = """
alg.graph @everything
    symbols [N(hint 8, hint 16, multiple_of 2), s(positive)]
    axes [m = 3, n = N, t = 2*N + 1, k = 3, ni = ceildiv(N, s) chunk of n by s_axis, s_axis = s, h = N floordiv 2, p = N mod 3 + 5,
          q = N + 3, c = 6, c0 = 2, c1 = 3]
    (%x: !alg.tensor<[m, n], f32> layout "n 1 m", %y: !alg.tensor<[n], bf16>, %i: !alg.tensor<[k], i64> layout "k" weight,
     %x_1: !alg.tensor<[c, t], f64> layout "(c t)", %a: !alg.tensor<[], i32> layout "")
    -> (!alg.tensor<[m, n, k], f32> layout "k (m n)", !alg.tensor<[k, n], f32>, !alg.tensor<[m], f32> layout "m",
        !alg.tensor<[c], i1> layout "c", !alg.tensor<[q, m], f32>, !alg.tensor<[h, c0, c1, t], f64> layout "h c0 c1 t") {
  %half = alg.constant 0.5 : f32
  %tiny = alg.constant 1.0e-06 : f32
  %two = alg.constant 2 : i32
  %yes = alg.constant true : i1
  %size = alg.size n : index
  %iota = alg.iota n : !alg.tensor<[n], index>
  %0 = alg.neg %x : !alg.tensor<[m, n], f32>
  %1 = alg.exp %0 : !alg.tensor<[m, n], f32>
  %2 = alg.log %1 : !alg.tensor<[m, n], f32>
  %3 = alg.sqrt %1 : !alg.tensor<[n, m], f32>
  %4 = alg.rsqrt %3 : !alg.tensor<[m, n], f32>
  %5 = alg.tanh %4 : !alg.tensor<[m, n], f32>
  %6 = alg.sigmoid %5 : !alg.tensor<[m, n], f32>
  %7 = alg.silu %6 : !alg.tensor<[m, n], f32>
  %8 = alg.gelu %7 : !alg.tensor<[m, n], f32>
  %9 = alg.gelu_tanh %8 : !alg.tensor<[m, n], f32>
  %10 = alg.relu %9 : !alg.tensor<[m, n], f32>
  %11 = alg.sin %10 : !alg.tensor<[m, n], f32>
  %12 = alg.cos %11 : !alg.tensor<[m, n], f32>
  %13 = alg.abs %12 : !alg.tensor<[m, n], f32>
  %14 = alg.erf %13 : !alg.tensor<[m, n], f32>
  %grown = alg.expm1 %14 : !alg.tensor<[m, n], f32>
  %slow = alg.log1p %grown : !alg.tensor<[m, n], f32>
  %rest = alg.erfc %slow : !alg.tensor<[m, n], f32>
  %15 = alg.add %rest, %y : !alg.tensor<[m, n], f32>
  %16 = alg.sub %15, %half : !alg.tensor<[m, n], f32>
  %17 = alg.mul %16, %2 : !alg.tensor<[m, n], f32>
  %18 = alg.div %17, %size : !alg.tensor<[m, n], f32>
  %19 = alg.div %1, %3 guarded : !alg.tensor<[m, n], f32>
  %20 = alg.max %18, %19 : !alg.tensor<[m, n], f32>
  %21 = alg.min %20, %tiny : !alg.tensor<[m, n], f32>
  %22 = alg.pow %3, %half : !alg.tensor<[m, n], f32>
  %23 = alg.floordiv %iota, %size : !alg.tensor<[n], index>
  %24 = alg.mod %a, %two : i32
  %25 = alg.compare ge %iota, %23 : !alg.tensor<[n], i1>
  %26 = alg.not %25 : !alg.tensor<[n], i1>
  %27 = alg.and %26, %25 : !alg.tensor<[n], i1>
  %28 = alg.or %27, %yes : !alg.tensor<[n], i1>
  %29 = alg.select %28, %21, %22 : !alg.tensor<[m, n], f32>
  %30 = alg.cast %24 : f32
  %31 = alg.reduce max %29 over [n] : !alg.tensor<[m], f32>
  %32 = alg.shift %29 over [m, n] : f32
  %33 = alg.contract %29, %y, %30 over [n] : !alg.tensor<[m], f32>
  %34 = alg.rename %29 [m -> k] : !alg.tensor<[n, k], f32>
  %35 = alg.split %29 n into [s_axis, ni] : !alg.tensor<[m, s_axis, ni], f32>
  %36 = alg.merge %35 [s_axis, ni] into n : !alg.tensor<[m, n], f32>
  %37 = alg.slice %x_1 t into h from 1 step 2 : !alg.tensor<[c, h], f64>
  %38 = alg.split %37 c into [c0, c1] : !alg.tensor<[h, c0, c1], f64>
  %39 = alg.index %36 n at N floordiv 4 : !alg.tensor<[m], f32>
  %40 = alg.concat %36, %34 along [n, k] into q : !alg.tensor<[m, n, q], f32>
  %41 = alg.reduce min %40 over [n] : !alg.tensor<[m, q], f32>
  %42 = alg.pad %39 m into c low 1 value -inf : !alg.tensor<[c], f32>
  %43 = alg.compare eq %42, %42 : !alg.tensor<[c], i1>
  %44 = alg.gather %36, %i along m : !alg.tensor<[n, k], f32>
  %45 = alg.add %33, %32 : !alg.tensor<[m], f32>
  %46 = alg.mul %29, %34 : !alg.tensor<[m, n, k], f32>
  %47 = alg.add %31, %45 : !alg.tensor<[m], f32>
  alg.yield %46, %44, %47, %43, %41, %38
}
"""

ALTERNATIVES = """
alg.graph @mean symbols [s(hint 4, positive)] axes [m = ?(hint 64), n = ?(hint 4096), k = s, ni = ceildiv(n, s) chunk of n by k]
    (%x: !alg.tensor<[m, n], f32> layout "m n") -> (!alg.tensor<[m], f32> layout "m") {
  alg.alternatives
    alternative "as written" flops "m*n + m" bytes "4*m*n + 4*m" {
      %sum = alg.reduce sum %x over [n] : !alg.tensor<[m], f32>
      %size = alg.size n : index
      %mean = alg.div %sum, %size : !alg.tensor<[m], f32>
      alg.yield %mean : !alg.tensor<[m], f32>
    }
    alternative "split" flops "m*n + 2*m" bytes "4*m*n + 4*m" phases 2 {
      %parts = alg.split %x n into [k, ni] : !alg.tensor<[m, k, ni], f32>
      %inner = alg.reduce sum %parts over [ni] : !alg.tensor<[m, k], f32>
      %sum = alg.reduce sum %inner over [k] : !alg.tensor<[m], f32>
      %size = alg.size n : index
      %mean = alg.div %sum, %size : !alg.tensor<[m], f32>
      alg.yield %mean : !alg.tensor<[m], f32>
    }
}
"""


def context() -> Context:
    """A context that knows the algebra."""
    ctx = Context()
    ctx.load_dialect(Builtin)
    ctx.load_dialect(Alg)
    return ctx


def parsed(text: str, name: str = "program.mlir") -> ModuleOp:
    """The verified module of a text."""
    module = parse_module(context(), text, name)
    verify(module)
    return module


def printed(op: Operation, *, generic: bool = False) -> str:
    """The text of an operation."""
    stream = StringIO()
    Printer(stream, print_generic_format=generic).print_op(op)
    return stream.getvalue()


def graph_op_of(text: str) -> GraphOp:
    """The first graph in a text."""
    module = parsed(text)
    first = module.body.block.first_op
    assert isinstance(first, GraphOp)
    return first


def graph_from(text: str) -> Graph:
    """The first graph in a text, as plain values."""
    return graph_of(graph_op_of(text))
