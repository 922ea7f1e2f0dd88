"""Every alternative of random programs has the value of the program."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cleave.reference import evaluate
from cleave.search import SearchOptions, superoptimize
from tests.alg_programs import graph_from
from tests.strategies import alg_programs, random_inputs, symbol_sizes


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(alg_programs(), symbol_sizes(), st.integers(0, 2**31))
def test_alternatives_keep_the_value(text: str, symbols: dict[str, int], seed: int) -> None:
    """In float64, at sizes from 1; values are below 1000, so 1e-8 leaves room for the cancellation in a one-pass variance."""
    graph = graph_from(text)
    inputs = random_inputs(graph, symbols, seed)
    expected = evaluate(graph, inputs, symbols)
    for alternative in superoptimize(graph, SearchOptions(split_at_least=1)).alternatives:
        chunks = {symbol.name: 2 for symbol in alternative.graph.symbols if symbol.name not in symbols}
        for out, want in zip(evaluate(alternative.graph, inputs, {**symbols, **chunks}), expected, strict=True):
            np.testing.assert_allclose(*np.broadcast_arrays(out, want), rtol=1e-8, atol=1e-8, err_msg=alternative.name)
