"""Stabilized graphs, in the forms the search gives, and running what the scheduler makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cleave.extents import extent
from cleave.graph import Axis, Builder, Graph, Input, Output, Symbol
from cleave.layouts import layout_axes, memory_shape
from cleave.reference import evaluate
from cleave.reference.sched import run_program
from cleave.schedule import TARGETS, ScheduleOptions, Target, schedule, space
from cleave.schedule.program import For, Kernel, Program

H200 = TARGETS["h200"]
INFINITY = float("inf")


class Sketch:
    """A `Builder` with axes from text, `Sketch("f", "m=50 n=n", "q[m d]:f16 layout")` style inputs left to the caller."""

    def __init__(
        self,
        name: str,
        axes: str,
        inputs: Sequence[Input],
        symbols: Sequence[Symbol] = (),
        chunks: Mapping[str, tuple[str, str]] | None = None,
    ) -> None:
        declared: list[Axis] = []
        for entry in axes.split():
            axis, size = entry.split("=", 1)
            declared.append(Axis(axis, extent(size), (chunks or {}).get(axis)))
        self.builder = Builder(name, symbols, declared, inputs)
        self.outputs: list[Output] = []

    def op(self, kind: str, *args: int | float, attr: tuple[Any, ...] = (), dtype: str | None = None) -> int:
        """Adds an operation; float operands become constants."""
        places = [arg if isinstance(arg, int) else self.builder.add("constant", attr=(arg,)) for arg in args]
        return self.builder.add(kind, *places, attr=attr, dtype=dtype)

    def contract(self, *args: int, over: str) -> int:
        return self.op("contract", *args, attr=(tuple(over.split()),), dtype="f32")

    def reduce(self, kind: str, arg: int, over: str) -> int:
        return self.op("reduce", arg, attr=(kind, tuple(over.split())))

    def shift(self, arg: int, over: str) -> int:
        return self.op("shift", arg, attr=(tuple(over.split()),))

    def cast(self, arg: int, dtype: str) -> int:
        return self.op("cast", arg, dtype=dtype)

    def output(self, value: int, layout: str, dtype: str = "f16") -> None:
        """Casts and adds a result."""
        if self.builder.ops[value].dtype != dtype:
            value = self.cast(value, dtype)
        self.outputs.append(Output(value, layout, dtype))

    def graph(self) -> Graph:
        return self.builder.finish(self.outputs)


def attention(
    b: str = "1", g: str = "1", r: str = "1", m: str = "64", n: str = "64", d: str = "64", e: str = "64",
    mask: str = "", dtype: str = "f16", symbols: Sequence[Symbol] = (), lse: bool = False, keep: Sequence[str] = (),
) -> Graph:  # fmt: skip
    """Softmax attention with the division after the second contraction; `mask` is "", causal, window, input or dead."""
    sizes = {"b": b, "g": g, "r": r, "m": m, "d": d, "n": n, "e": e}
    axes = [axis for axis in sizes if axis in "mdne" or sizes[axis] != "1" or axis in keep]
    lead = [axis for axis in ("b", "g", "r") if axis in axes]
    batch = [axis for axis in lead if axis != "r"]
    inputs = [
        Input(
            "q",
            (*lead, "m", "d"),
            dtype,
            " ".join([*(x for x in batch if x != "g"), *(["(g r)"] if "r" in axes else ["g"] if "g" in axes else []), "m d"]),
        ),
        Input("k", (*batch, "n", "d"), dtype, " ".join([*batch, "n d"])),
        Input("v", (*batch, "n", "e"), dtype, " ".join([*batch, "n e"])),
    ]
    if mask == "input":
        inputs.append(Input("bias", ("m", "n"), "f32", "m n"))
    s = Sketch("attend", " ".join(f"{axis}={sizes[axis]}" for axis in axes), inputs, symbols)
    x = s.op("mul", s.contract(0, 1, over="d"), 0.125)
    if mask in ("causal", "window", "dead"):
        i, j = s.op("iota", attr=("m",)), s.op("iota", attr=("n",))
        ok = s.op("compare", j, i, attr=("lt" if mask == "dead" else "le",))
        if mask == "window":
            near = s.op("compare", s.op("sub", i, j), s.builder.add("constant", attr=(5,)), attr=("lt",))
            ok = s.op("and", ok, near)
        x = s.op("select", ok, x, -INFINITY)
    if mask == "input":
        x = s.op("add", x, 3)
    top = s.shift(x, "n")
    p = s.op("exp", s.op("sub", x, top))
    z = s.reduce("sum", p, "n")
    acc = s.contract(s.cast(p, dtype), 2, over="n")
    o = s.op("div", acc, z, attr=("guarded",))
    s.output(o, inputs[0].layout.replace("d", "e"), dtype)
    if lse:
        s.output(s.op("add", s.op("log", z), top), " ".join([*lead, "m"]), "f32")
    return s.graph()


def split_attention(
    m: str = "4",
    n: str = "300",
    d: str = "32",
    e: str = "32",
    mask: str = "",
    lse: bool = False,
    dtype: str = "f16",
    g: str = "2",
    symbols: Sequence[Symbol] = (),
) -> Graph:
    """Attention whose keys are split into s chunks."""
    inputs = [
        Input("q", ("g", "m", "d"), dtype, "g m d"),
        Input("k", ("g", "n", "d"), dtype, "g n d"),
        Input("v", ("g", "n", "e"), dtype, "g n e"),
    ]
    s = Sketch(
        "attend", f"g={g} m={m} d={d} n={n} s=s ni=ceildiv({n},s) e={e}", inputs, [Symbol("s", positive=True), *symbols], {"ni": ("n", "s")}
    )
    k, v = (s.op("split", arg, attr=("n", "s", "ni")) for arg in (1, 2))
    x = s.op("mul", s.contract(0, k, over="d"), 0.125)
    if mask == "causal":
        j = s.op("split", s.op("iota", attr=("n",)), attr=("n", "s", "ni"))
        x = s.op("select", s.op("compare", j, s.op("iota", attr=("m",)), attr=("le",)), x, -INFINITY)
    top = s.shift(x, "s ni")
    p = s.op("exp", s.op("sub", x, top))
    z = s.reduce("sum", s.reduce("sum", p, "ni"), "s")
    acc = s.reduce("sum", s.contract(s.cast(p, dtype), v, over="ni"), "s")
    s.output(s.op("div", acc, z, attr=("guarded",)), "g m e", dtype)
    if lse:
        s.output(s.op("add", s.op("log", z), top), "g m", "f32")
    return s.graph()


def norm_linear(m: str = "33", k: str = "200", c: str = "72", gated: bool = False, symbols: Sequence[Symbol] = ()) -> Graph:
    """RMSNorm and a linear layer, or two and a SwiGLU, with the normalisation moved behind the contractions."""
    inputs = [
        Input("x", ("m", "k"), "f16", "m k"),
        Input("gain", ("k",), "f16", "k", weight=True),
        Input("w", ("k", "c"), "f16", "c k", weight=True),
    ]
    if gated:
        inputs.append(Input("u", ("k", "c"), "f16", "c k", weight=True))
    s = Sketch("project", f"m={m} k={k} c={c}", inputs, symbols)
    x = s.cast(0, "f32")
    squares = s.contract(x, x, over="k")
    size = s.cast(s.op("size", attr=("k",)), "f32")
    scale = s.op("rsqrt", s.op("add", s.op("div", squares, size), 1e-6))
    scaled = s.cast(s.op("mul", x, s.cast(1, "f32")), "f16")
    y = s.op("mul", s.contract(scaled, 2, over="k"), scale)
    if gated:
        y = s.op("mul", s.op("silu", y), s.op("mul", s.contract(scaled, 3, over="k"), scale))
    s.output(y, "m c")
    return s.graph()


def linear_attention(h: str = "4", m: str = "100", n: str = "300", d: str = "32", e: str = "48") -> Graph:
    """(Q K^T) V reassociated to Q (K^T V)."""
    inputs = [
        Input("q", ("h", "m", "d"), "f16", "h m d"),
        Input("k", ("h", "n", "d"), "f16", "h n d"),
        Input("v", ("h", "n", "e"), "f16", "h n e"),
    ]
    s = Sketch("mix", f"h={h} m={m} n={n} d={d} e={e}", inputs)
    kv = s.cast(s.contract(1, 2, over="n"), "f16")
    s.output(s.contract(0, kv, over="d"), "h m e")
    return s.graph()


def loops(kernel: Kernel) -> list[For]:
    """The loops of a kernel, outermost ones only."""
    return [statement for statement in kernel.body if isinstance(statement, For)]


def scheduled(
    graph: Graph, sizes: Mapping[str, int] | None = None, dynamic: Sequence[str] = (), options: ScheduleOptions | None = None
) -> Program:
    """The program for one graph on an H200."""
    return schedule([graph], sizes or {}, frozenset(dynamic), H200, options)


def agrees(
    graph: Graph,
    program: Program,
    sizes: Mapping[str, int] | None = None,
    tolerance: float = 1e-9,
    scale: float = 1.0,
    seed: int = 0,
    high: int = 2,
    changed: Mapping[str, Any] | None = None,
    shuffled: int | None = None,
    given: Mapping[str, int] | None = None,
) -> None:
    """
    Asserts that a program gives the graph's values at the given sizes, in float64; `shuffled` seeds the order of its programs, `given` are
    the sizes that the program is told, where it is not told all.
    """
    symbols = {entry.name: 1 for entry in graph.symbols} | dict(sizes or {})
    extents = graph.sizes(symbols)
    rng = np.random.default_rng(seed)
    named: list[Any] = []
    memory: list[Any] = []
    for entry in graph.inputs:
        shape = [extents[axis] for axis in entry.axes]
        data = rng.standard_normal(shape) * scale if entry.dtype in ("f16", "bf16", "f32", "f64") else rng.integers(0, high, shape)
        data = (changed or {}).get(entry.name, data)
        named.append(data)
        order = layout_axes(entry.layout)
        memory.append(np.transpose(data, [entry.axes.index(axis) for axis in order]).reshape(memory_shape(entry.layout, extents)))
    found = run_program(program, memory, symbols if given is None else given, seed=shuffled)
    for output, value, wanted in zip(graph.outputs, found, evaluate(graph, named, symbols), strict=True):
        order = layout_axes(output.layout)
        axes = graph.ops[output.value].axes
        expected = np.transpose(wanted, [axes.index(axis) for axis in order if axis in axes])
        expected = expected.reshape([extents[axis] if axis in axes else 1 for axis in order])
        expected = np.broadcast_to(expected, [extents[axis] for axis in order]).reshape(value.shape)
        np.testing.assert_allclose(value, expected, rtol=tolerance, atol=tolerance)


def candidates(
    graphs: Sequence[Graph],
    sizes: Mapping[str, int],
    dynamic: frozenset[str],
    target: Target,
    options: ScheduleOptions | None = None,
    count: int = 8,
) -> list[Program]:
    """The most promising programs, the best first, at most `count`; arguments and errors as for `cleave.schedule.space`."""
    found = space(graphs, sizes, dynamic, target, options)
    return [found.program(trial) for trial in found.trials(count)]
