"""The programs that property tests draw are what they promise to be."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cleave.bridge.alg import graph_of, graph_op
from cleave.reference import evaluate
from tests.alg_programs import graph_from, printed
from tests.strategies import alg_programs, random_inputs, symbol_sizes


@settings(max_examples=150)
@given(alg_programs(), symbol_sizes(), st.integers(0, 9))
def test_programs_are_well_formed_and_their_values_tame(text: str, sizes: dict[str, int], seed: int) -> None:
    graph = graph_from(text)
    for value in evaluate(graph, random_inputs(graph, sizes, seed), sizes):
        assert np.isfinite(value).all() and (np.abs(value) <= 1000).all()


@settings(max_examples=100)
@given(alg_programs())
def test_programs_survive_printing_and_plain_values(text: str) -> None:
    """In the custom and the generic form, and by way of graphs."""
    graph = graph_from(text)
    op = graph_op(graph)
    op.verify()
    assert graph_of(op) == graph
    assert graph_from(printed(op)) == graph
    assert graph_from(printed(op, generic=True)) == graph
    assert printed(graph_op(graph_from(printed(op)))) == printed(op)


def test_programs_are_varied() -> None:
    """Every operation that the writer knows occurs in a few hundred programs."""
    kinds: Counter[str] = Counter()

    @settings(max_examples=120, database=None)
    @given(alg_programs(least=12, most=24))
    def collect(text: str) -> None:
        kinds.update(line.split()[2] for line in text.splitlines() if " = alg." in line)

    collect()
    functions = {"exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "silu", "gelu", "gelu_tanh", "sin", "cos", "erf", "neg", "abs", "relu"}
    others = {"add", "sub", "mul", "div", "max", "min", "compare", "select", "cast", "reduce", "contract", "or", "constant", "iota", "size"}
    shapes = {"rename", "split", "merge", "slice", "index", "pad", "concat"}
    assert {f"alg.{kind}" for kind in functions | others | shapes} == set(kinds)
