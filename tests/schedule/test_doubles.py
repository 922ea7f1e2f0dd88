"""What is f64 is computed in f64: levels, exponentials, their sums, and what chunks store."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cleave.bridge.sched import module_of
from cleave.graph import Graph, Input, Symbol
from cleave.reference import evaluate
from cleave.reference.sched import run_program
from cleave.schedule.program import Kernel, Program, walk
from cleave.schedule.scheduler import schedule

from .programs import H200, Sketch


def weights(n: str, stored: bool) -> Graph:
    """Normalised exponentials of rows, or the logarithm of their sums."""
    s = Sketch("weights", f"m=17 n={n}", [Input("x", ("m", "n"), "f64", "m n")])
    shift = s.op("shift", 0, attr=(("n",),), dtype="f64")
    p = s.op("exp", s.op("sub", 0, shift))
    total = s.reduce("sum", p, "n")
    if stored:
        s.output(s.op("div", p, total, attr=("guarded",)), "m n", "f64")
    else:
        s.output(s.op("add", s.op("log", total), shift), "m", "f64")
    return s.graph()


def attention(n: str, split: bool = False) -> Graph:
    chunks = {"ni": ("n", "s")} if split else {}
    inputs = [Input(name, axes, "f64", " ".join(axes)) for name, axes in (("q", ("m", "d")), ("k", ("n", "d")), ("v", ("n", "e")))]
    axes = f"m=5 n={n} d=16 e=16" + (f" s=s ni=ceildiv({n},s)" if split else "")
    s = Sketch("attend", axes, inputs, [Symbol("s", positive=True)] if split else [], chunks)
    k, v, over = 1, 2, "n"
    if split:
        k, v, over = *(s.op("split", arg, attr=("n", "s", "ni")) for arg in (1, 2)), "s ni"
    x = s.op("contract", 0, k, attr=(("d",),), dtype="f64")
    p = s.op("exp", s.op("sub", x, s.op("shift", x, attr=(tuple(over.split()),), dtype="f64")))
    total, acc = s.reduce("sum", p, over.split()[-1]), s.op("contract", p, v, attr=((over.split()[-1],),), dtype="f64")
    if split:
        total, acc = s.reduce("sum", total, "s"), s.reduce("sum", acc, "s")
    s.output(s.op("div", acc, total, attr=("guarded",)), "m e", "f64")
    return s.graph()


def error(graph: Graph, program: Program) -> float:
    """The largest error of a program whose values are rounded to their types."""
    extents = graph.sizes({"s": 4})
    rng = np.random.default_rng(0)
    given: list[Any] = [rng.standard_normal([extents[axis] for axis in entry.axes]) for entry in graph.inputs]
    (found,), (wanted,) = run_program(program, given, {"s": 4}, rounding=True), evaluate(graph, given, {"s": 4})
    return float(np.abs(np.asarray(found) - np.asarray(wanted)).max())


def floats(kernel: Kernel) -> set[str]:
    made = [getattr(statement, "out", None) for statement in walk(kernel.body)]
    return {var.type.dtype for var in made if var is not None} - {"index", "i1"}


GRAPHS = {
    "softmax": weights("33", True),
    "long softmax": weights("40000", True),
    "logsumexp": weights("33", False),
    "attention": attention("300"),
    "split attention": attention("2000", split=True),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_doubles_stay_doubles(name: str) -> None:
    graph = GRAPHS[name]
    program = schedule([graph], {"s": 4} if graph.symbols else {}, frozenset(), H200)
    module_of(program).verify()
    assert [floats(kernel) for kernel in program.kernels] == [{"f64"}] * len(program.kernels)
    assert error(graph, program) < 1e-13
