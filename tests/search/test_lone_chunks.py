"""A chunk that is reduced without its outer axis: the search leaves the program as it is and says so."""

from __future__ import annotations

import pytest

from cleave.extents import extent
from cleave.graph import Axis, Builder, Graph, Input, Output, Symbol
from cleave.search import superoptimize
from cleave.search.equivalence import equivalence
from cleave.search.split import lone_chunk


def program(order: tuple[tuple[str, ...], ...], again: bool) -> Graph:
    """The sum of x over n in chunks, reduced in the given order; `again` uses it in a second split."""
    axes = [Axis("n", extent("n")), Axis("s", extent("s")), Axis("ni", extent("ceildiv(n, s)"), ("n", "s"))]
    b = Builder("program", [Symbol("n", (8,)), Symbol("s", (2,), positive=True)], axes, [Input("x", ("n",), "f32", "n")])

    def total(value: int) -> int:
        value = b.add("split", value, attr=("n", "s", "ni"))
        for removed in order:
            value = b.add("reduce", value, attr=("sum", removed))
        return value

    out = total(0)
    if again:
        out = total(b.add("mul", out, 0))
    return b.finish([Output(out, "", "f32")])


@pytest.mark.parametrize("again", [False, True])
def test_the_program_is_left_as_it_is(again: bool) -> None:
    graph = program((("s",), ("ni",)), again)
    result = superoptimize(graph)
    assert lone_chunk(graph) == "ni"
    assert [entry.graph for entry in result.alternatives] == [graph]
    assert any("'ni' is reduced without" in cap for cap in result.caps)
    verdict = equivalence(graph, graph)
    assert verdict.equivalent is not False


@pytest.mark.parametrize("order", [(("ni",), ("s",)), (("s", "ni"),)])
def test_chunks_reduced_with_their_count_are_searched(order: tuple[tuple[str, ...], ...]) -> None:
    graph = program(order, again=True)
    assert lone_chunk(graph) is None
    assert not any("without the axis" in cap for cap in superoptimize(graph).caps)
    assert equivalence(graph, graph).equivalent
