"""A chunk that is reduced without its outer axis: joined with the reduction before it, or left as it is, which is said."""

from __future__ import annotations

import numpy as np
import pytest

from cleave.extents import extent
from cleave.graph import Axis, Builder, Graph, Input, Output, Symbol
from cleave.reference import evaluate
from cleave.search import superoptimize
from cleave.search.chunk_order import together
from cleave.search.equivalence import equivalence
from cleave.search.split import lone_chunk


def program(order: tuple[tuple[str, ...], ...], again: bool, kinds: tuple[str, ...] = ("sum", "sum")) -> Graph:
    """The sum of x over n in chunks, or another reduction, in the given order; `again` uses it in a second split."""
    axes = [Axis("n", extent("n")), Axis("s", extent("s")), Axis("ni", extent("ceildiv(n, s)"), ("n", "s"))]
    b = Builder("program", [Symbol("n", (8,)), Symbol("s", (2,), positive=True)], axes, [Input("x", ("n",), "f32", "n")])

    def total(value: int) -> int:
        value = b.add("split", value, attr=("n", "s", "ni"))
        for removed, kind in zip(order, kinds, strict=False):
            value = b.add("reduce", value, attr=(kind, removed))
        return value

    out = total(0)
    if again:
        out = total(b.add("mul", out, 0))
    return b.finish([Output(out, "", "f32")])


@pytest.mark.parametrize("again", [False, True])
def test_reductions_in_the_other_order_are_one_reduction(again: bool) -> None:
    """The number of chunks is summed first, then the chunk: the search takes both at once, and all it finds agrees in float64."""
    graph = program((("s",), ("ni",)), again)
    assert lone_chunk(graph) == "ni"
    assert lone_chunk(together(graph)) is None
    result = superoptimize(graph)
    assert result.alternatives[0].graph == graph
    assert len(result.alternatives) > 1
    assert not any("without the axis" in cap for cap in result.caps)
    for n, chunks in ((7, 3), (8, 4), (2, 3), (1, 2)):
        sizes = {"n": n, "s": chunks}
        inputs = [np.random.default_rng(0).normal(size=n)]
        for entry in result.alternatives:
            symbols = {symbol.name: sizes.get(symbol.name, 2) for symbol in entry.graph.symbols}
            np.testing.assert_allclose(evaluate(entry.graph, inputs, symbols)[0], evaluate(graph, inputs, sizes)[0], rtol=1e-12)
    assert equivalence(graph, program((("ni",), ("s",)), again)).equivalent is True
    assert equivalence(graph, program((("ni",), ("s",)), not again)).equivalent is False


@pytest.mark.parametrize("kinds", [("max", "max", True), ("min", "min", True), ("max", "sum", False), ("sum", "max", False)])
def test_only_reductions_of_one_kind_are_joined(kinds: tuple[str, str, bool]) -> None:
    first, second, joins = kinds
    graph = program((("s",), ("ni",)), False, (first, second))
    assert (lone_chunk(together(graph)) is None) == joins
    inputs = [np.random.default_rng(0).normal(size=7)]
    sizes = {"n": 7, "s": 3}
    np.testing.assert_allclose(evaluate(together(graph), inputs, sizes)[0], evaluate(graph, inputs, sizes)[0], rtol=1e-12)


def test_what_cannot_be_joined_is_left_as_it_is() -> None:
    """A maximum over a chunk of sums over the chunks has no value of the search's, which is said."""
    graph = program((("s",), ("ni",)), False, ("sum", "max"))
    result = superoptimize(graph)
    assert [entry.graph for entry in result.alternatives] == [graph]
    assert any("'ni' is reduced without" in cap for cap in result.caps)
    assert equivalence(graph, graph).equivalent is not False


@pytest.mark.parametrize("order", [(("ni",), ("s",)), (("s", "ni"),)])
def test_chunks_reduced_with_their_count_are_searched(order: tuple[tuple[str, ...], ...]) -> None:
    graph = program(order, again=True)
    assert lone_chunk(graph) is None
    assert not any("without the axis" in cap for cap in superoptimize(graph).caps)
    assert equivalence(graph, graph).equivalent
