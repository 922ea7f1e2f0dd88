"""The meaning of graphs in torch against the one in numpy."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cleave.layouts import layout_axes
from cleave.reference import evaluate as numpy_evaluate
from cleave.reference.memory import to_memory
from cleave.runtime.reference import evaluate, has_reference
from tests.alg_programs import graph_from
from tests.strategies import alg_programs, random_inputs, symbol_sizes


@settings(max_examples=60)
@given(alg_programs(), symbol_sizes(), st.integers(0, 5))
def test_random_programs_have_the_same_results(text: str, sizes: dict[str, int], seed: int) -> None:
    """f32 against f64; the programs' values stay moderate, at most a few dozen roundings of 2^-24."""
    graph = graph_from(text)
    if not has_reference(graph):
        return
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
