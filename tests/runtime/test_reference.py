"""The meaning of graphs in torch against the one in numpy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cleave.algebra import stabilized, without_unit_axes
from cleave.extents import extent
from cleave.graph import REDUCTIONS, Attr, Axis, Builder, Input, Output
from cleave.layouts import layout_axes
from cleave.reference import evaluate as numpy_evaluate
from cleave.reference.memory import to_memory
from cleave.runtime.reference import evaluate, has_reference
from tests.alg_programs import graph_from
from tests.strategies import alg_programs, random_inputs, symbol_sizes


@settings(max_examples=60)
@given(alg_programs(), symbol_sizes(), st.integers(0, 5), st.booleans())
def test_random_programs_have_the_same_results(text: str, sizes: dict[str, int], seed: int, folds: bool) -> None:
    """f32 against f64; the programs' values stay moderate, at most a few dozen roundings of 2^-24. Also with axes folded away."""
    graph = graph_from(text)
    if not has_reference(graph):
        return
    if folds:
        single = [replace(axis, extent=extent(1)) if axis.name in ("m", "e") else axis for axis in graph.axes]
        graph = stabilized(without_unit_axes([replace(graph, axes=tuple(single))])[0]).graph
    inputs = random_inputs(graph, sizes, seed)
    extents = graph.sizes(sizes)
    expected = numpy_evaluate(graph, inputs, sizes)
    tensors = [
        torch.from_numpy(np.ascontiguousarray(to_memory(data, entry.axes, entry.layout, extents)))
        for data, entry in zip(inputs, graph.inputs, strict=True)
    ]
    for found, exact, output in zip(evaluate(graph, tensors, sizes), expected, graph.outputs, strict=True):
        wanted = to_memory(exact, graph.ops[output.value].axes, output.layout, extents)
        assert tuple(found.shape) == wanted.shape and layout_axes(output.layout) is not None
        np.testing.assert_allclose(found.double().numpy(), wanted.astype(np.float64), rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize(("kind", "attr"), [("shift", ((),)), *(("reduce", (name, ())) for name in REDUCTIONS)])
def test_nothing_is_reduced_over_no_axes(kind: str, attr: tuple[Attr, ...]) -> None:
    """As where axes of size 1 were folded away: torch takes an empty list of dimensions for all of them."""
    builder = Builder("none", [], [Axis("m", extent(2)), Axis("n", extent(3))], [Input("x", ("m", "n"), "f32", "m n")])
    graph = builder.finish([Output(builder.add(kind, 0, attr=attr), "n m", "f32")])
    data = np.arange(6.0).reshape(2, 3)
    (found,) = evaluate(graph, [torch.from_numpy(data)], {})
    (wanted,) = numpy_evaluate(graph, [data], {})
    np.testing.assert_array_equal(wanted, data)
    np.testing.assert_array_equal(found.numpy(), data.T)
