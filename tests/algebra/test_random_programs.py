"""
Laws of `stabilize` on random programs with many exponentials.

The programs come from seeds, so a failure names the one to look at.
"""

from __future__ import annotations

import numpy as np

from cleave.algebra import degrees, stabilize
from cleave.extents import extent
from cleave.graph import Axis, Builder, Graph, Input, Output
from cleave.reference import evaluate

SIZES = {"m": 3, "n": 4, "k": 2}
INPUTS = {"x": "m n", "y": "n k", "z": "m", "w": "k"}
MOVES = ("exp", "mul", "add", "sub", "max", "quotient", "div", "sum", "sum", "greatest", "contract", "log", "sqrt", "tanh", "mask", "one")


def program(seed: int) -> Graph:
    """Up to fourteen operations; each reads recent values for choice."""
    rng = np.random.default_rng(seed)
    inputs = [Input(name, tuple(layout.split()), "f32", layout) for name, layout in INPUTS.items()]
    b = Builder("f", [], [Axis(name, extent(size)) for name, size in SIZES.items()], inputs)
    pool = list(range(len(inputs)))
    exponentials: list[int] = []

    def some(values: list[int]) -> int:
        return values[-1 - min(int(rng.exponential(3)), len(values) - 1)]

    def some_axis(value: int) -> tuple[str, ...]:
        return (str(rng.choice(b.ops[value].axes)),) if b.ops[value].axes else ()

    for _ in range(int(rng.integers(4, 15))):
        left, right = some(pool), some(exponentials or pool)
        match str(rng.choice(MOVES)):
            case "exp":
                made = b.add("exp", some(pool[:4] + pool[-2:]))
                exponentials.append(made)
            case "quotient":
                made = b.add("div", right if rng.random() < 0.5 else left, b.add("reduce", right, attr=("sum", some_axis(right))))
            case "sum" | "greatest" as kind:
                made = b.add("reduce", left, attr=("sum" if kind == "sum" else "max", some_axis(left)))
            case "contract":
                made = b.add("contract", left, right, attr=(some_axis(left),))
            case "mask":
                keep = b.add("compare", b.add("iota", attr=("n",)), b.add("iota", attr=("m",)), attr=("le",))
                made = b.add("select", keep, left, b.add("constant", attr=(float(rng.choice([0, -np.inf])),)))
            case "one":
                made = b.add("add", left, b.add("constant", attr=(1.0,)))
            case "log" | "sqrt" | "tanh" as kind:
                made = b.add(kind, left)
            case kind:
                made = b.add(kind, left, right)
        pool.append(made)
    return b.finish([Output(pool[-1], " ".join(b.ops[pool[-1]].axes), "f32")])


def test_value_and_degrees() -> None:
    """
    Wherever the program has a finite value it keeps it, for arguments up to 50 in size, and no result depends on a shift.

    Where terms cancel (log of a sum of weights that is 1) only the size of the terms counts: 1e-9 of at least 1.
    """
    shifted = 0
    for seed in range(1500):
        graph = program(seed)
        out = stabilize(graph)
        if out is graph:
            continue
        shifted += 1
        assert not any(degrees(out)[output.value] for output in out.outputs), seed
        rng = np.random.default_rng(seed)
        for largest in (2, 50):
            inputs = [rng.uniform(-largest, largest, [SIZES[axis] for axis in entry.axes]) for entry in graph.inputs]
            before, after = evaluate(graph, inputs, {})[0], evaluate(out, inputs, {})[0]
            sound = np.isfinite(before) & (np.abs(before) < 1e100)
            np.testing.assert_allclose(after[sound], before[sound], rtol=1e-7, atol=1e-9, err_msg=f"seed {seed}")
    assert shifted > 100


def test_one_large_argument_does_not_break_a_quotient() -> None:
    """Any of the inputs at 1e4: exponentials over one axis, normalised, stay finite."""
    checked = 0
    for seed in range(1500):
        graph = program(seed)
        out = stabilize(graph)
        kinds = [op.kind for op in graph.ops]
        if out is graph or set(kinds) - {"input", "exp", "reduce", "div", "mul", "contract", "tanh"} or kinds.count("exp") > 1:
            continue
        if kinds.count("exp") != [op.kind for op in out.ops].count("exp") or any(op.attr[:1] == ("max",) for op in graph.ops):
            continue
        checked += 1
        rng = np.random.default_rng(seed)
        inputs = [1e4 * rng.normal(size=[SIZES[axis] for axis in entry.axes]) for entry in graph.inputs]
        assert np.isfinite(evaluate(out, inputs, {})[0]).all(), seed
    assert checked > 5
