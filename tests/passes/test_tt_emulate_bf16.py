"""What is computed in float32 with explicit rounding is what bfloat16 gives: random programs, and every rounding of a number."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from cleave.algebra import stabilize
from cleave.graph import Graph, Output
from cleave.layouts import memory_shape
from cleave.passes.tt_emulate_bf16 import nearest
from cleave.reference.dtypes import rounded
from cleave.reference.sched import run_program
from cleave.runtime.execute import executable, execute
from tests.schedule.programs import scheduled
from tests.schedule.test_random import random_graph


def in_bf16(graph: Graph) -> Graph:
    """The graph with inputs and results in bf16."""
    inputs = tuple(replace(entry, dtype="bf16") for entry in graph.inputs)
    ops = [replace(op, dtype="bf16") if op.kind == "input" else op for op in graph.ops]
    outputs: list[Output] = []
    for output in graph.outputs:
        ops.append(replace(ops[output.value], kind="cast", args=(output.value,), attr=(), dtype="bf16"))
        outputs.append(replace(output, value=len(ops) - 1, dtype="bf16"))
    places = (*graph.places, *("" for _ in outputs)) if graph.places else graph.places
    return replace(graph, inputs=inputs, ops=tuple(ops), outputs=tuple(outputs), places=places)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("seed", range(16))
def test_random_programs(seed: int, dynamic: bool) -> None:
    graph, symbols = random_graph(seed, dynamic)
    made = scheduled(stabilize(in_bf16(graph)), symbols, tuple(symbols) if dynamic else ())
    extents = {axis: size.evaluate(symbols) for axis, size in made.sizes}
    rng = np.random.default_rng(seed)
    shapes = [memory_shape(layout, extents) for layout in made.layouts[: len(made.inputs)]]
    inputs = [rounded(rng.standard_normal(shape), "bf16") for shape in shapes]
    expected = run_program(made, inputs, symbols, rounding=True)
    ready = executable(made)
    assert "bfloat16" not in ready.interpreted.text
    for one, other in zip(execute(ready, inputs, symbols), expected, strict=True):
        found = np.asarray(one, np.float64)
        # Sums in another order may round to the other side, hardly ever.
        np.testing.assert_allclose(found, other, rtol=2**-7, atol=2**-8)
        assert np.mean(found == other) > 0.95


@pytest.mark.parametrize(
    "value", [0.0, -0.0, 1.0, 1 + 2**-8, 1 + 3 * 2**-8, 3.389e38, 3.4e38, 1e39, -1e39, 1e-40, 1e-60, math.inf, -math.inf]
)
def test_constants_are_rounded(value: float) -> None:
    wanted = torch.tensor(value, dtype=torch.float64).to(torch.bfloat16).item()
    assert nearest(value) == wanted and math.copysign(1, nearest(value)) == math.copysign(1, value)


def test_constants_are_rounded_once() -> None:
    """By way of float32 the first would be a tie."""
    assert nearest(1 + 2**-8 + 2**-40) == 1 + 2**-7
    assert math.isnan(nearest(math.nan))
