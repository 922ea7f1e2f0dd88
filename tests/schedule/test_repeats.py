"""Results that are repeated along an axis that they were reduced over."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from cleave.graph import Graph, Input, Symbol

from .programs import Sketch, agrees, scheduled

Made = Callable[[Sketch], int]

MADE: dict[str, Made] = {
    "a sum": lambda s: s.reduce("sum", 0, "m k"),
    "a maximum of sums": lambda s: s.reduce("max", s.reduce("sum", 0, "k"), "m"),
    "its exponential": lambda s: s.op("exp", s.op("mul", s.reduce("sum", 0, "m k"), 0.01)),
    "a sum over the axis alone": lambda s: s.reduce("sum", 0, "m"),
    "a mean that another result needs": lambda s: s.reduce("sum", s.op("sub", 0, s.reduce("max", 0, "m k")), "m k"),
}


def _graph(made: Made) -> Graph:
    s = Sketch("repeat", "m=m k=k", [Input("x", ("m", "k"), "f32", "m k")], [Symbol("m", (7,)), Symbol("k", (9,))])
    value = made(s)
    s.output(value, "m k" if s.builder.ops[value].axes else "m", "f32")
    return s.graph()


@pytest.mark.parametrize("what", MADE)
@pytest.mark.parametrize("dynamic", ["", "m", "k", "mk"])
@pytest.mark.parametrize("sizes", [{"m": 7, "k": 9}, {"m": 300, "k": 4}, {"m": 1, "k": 130}])
def test_a_value_repeated_along_what_it_was_reduced_over(what: str, dynamic: str, sizes: Mapping[str, int]) -> None:
    graph = _graph(MADE[what])
    hints = {name: 20 if name in dynamic else size for name, size in sizes.items()}
    agrees(graph, scheduled(graph, hints, tuple(dynamic)), sizes)
