"""A number of chunks is the scheduler's to choose only where no result depends on it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cleave.extents import extent
from cleave.graph import Graph, Input, Symbol
from cleave.schedule import split_symbols

from .programs import Sketch, agrees, scheduled

Made = Callable[[Sketch, int], int]


def _graph(made: Made, layout: str, more: str = "", inputs: tuple[Input, ...] = ()) -> Graph:
    """What is made of a vector x, split into chunks, over the axes of a layout."""
    s = Sketch(
        "reads",
        f"n=n s=s ni=ceildiv(n,s) d=3 {more}",
        [Input("x", ("n", "d"), "f32", "n d"), *inputs],
        [Symbol("n", (7,)), Symbol("s", (2,), positive=True)],
        {"ni": ("n", "s")},
    )
    s.output(made(s, s.op("split", 0, attr=("n", "s", "ni"))), layout, "f32")
    return s.graph()


def _total(s: Sketch, value: int) -> int:
    return s.reduce("sum", value, "s ni")


def _number(s: Sketch, axis: str) -> int:
    return s.cast(s.op("size", attr=(axis,)), "f32")


BOUND: dict[str, tuple[Made, str]] = {
    "the count": (lambda s, x: s.op("mul", _total(s, x), _number(s, "s")), "d"),
    "the length of a chunk": (lambda s, x: s.op("mul", _total(s, x), _number(s, "ni")), "d"),
    "chunks, counted": (lambda s, x: s.op("add", _total(s, x), s.reduce("sum", s.cast(s.op("iota", attr=("s",)), "f32"), "s")), "d"),
    "an element there": (lambda s, x: s.op("index", 0, attr=("n", extent("s"))), "d"),
    "a maximum of sums": (lambda s, x: s.reduce("max", s.reduce("sum", x, "ni"), "s"), "d"),
    "a sum of maxima": (lambda s, x: s.reduce("sum", s.reduce("max", x, "ni"), "s"), "d"),
    "a sum of squared sums": (lambda s, x: s.reduce("sum", s.op("mul", s.reduce("sum", x, "ni"), s.reduce("sum", x, "ni")), "s"), "d"),
    "a sum of exponentials of sums": (lambda s, x: s.reduce("sum", s.op("exp", s.reduce("sum", x, "ni")), "s"), "d"),
    "a number for every chunk": (lambda s, x: s.reduce("sum", s.op("add", s.reduce("sum", x, "ni"), 1.0), "s"), "d"),
    "chunks as a result": (lambda s, x: s.reduce("sum", x, "ni"), "s d"),
    "a result repeated for chunks": (_total, "s d"),
}

FREE: dict[str, tuple[Made, str]] = {
    "a sum": (_total, "d"),
    "a sum within, then over chunks": (lambda s, x: s.reduce("sum", s.reduce("sum", x, "ni"), "s"), "d"),
    "a sum over chunks, then within": (lambda s, x: s.reduce("sum", s.reduce("sum", x, "s"), "ni"), "d"),
    "a scaled sum": (lambda s, x: s.reduce("sum", s.op("mul", s.reduce("sum", x, "ni"), 2.0), "s"), "d"),
    "a sum of differences": (
        lambda s, x: s.reduce("sum", s.op("sub", s.reduce("sum", x, "ni"), s.reduce("sum", s.op("exp", x), "ni")), "s"),
        "d",
    ),
    "a maximum": (lambda s, x: s.reduce("max", s.op("exp", s.reduce("max", x, "ni")), "s"), "d"),
    "a minimum of a negated maximum": (lambda s, x: s.reduce("min", s.op("neg", s.reduce("max", x, "ni")), "s"), "d"),
    "a contraction": (lambda s, x: s.contract(x, x, over="s ni"), "d"),
    "the size of the whole": (lambda s, x: s.op("div", _total(s, x), _number(s, "n")), "d"),
}


@pytest.mark.parametrize("what", BOUND)
@pytest.mark.parametrize("count", [1, 3, 4])
def test_a_count_that_results_depend_on_stays_open(what: str, count: int) -> None:
    graph = _graph(*BOUND[what])
    assert split_symbols(graph) == ()
    program = scheduled(graph, {"n": 7, "s": 2}, ("n", "s"))
    agrees(graph, program, {"n": 7, "s": count})


@pytest.mark.parametrize("what", FREE)
def test_a_count_that_no_result_depends_on_is_chosen(what: str) -> None:
    graph = _graph(*FREE[what])
    assert split_symbols(graph) == ("s",)
    agrees(graph, scheduled(graph, {"n": 7}, ("n",)), {"n": 11, "s": 3}, given={"n": 11})


def test_a_count_that_another_axis_is_made_of_stays_open() -> None:
    assert split_symbols(_graph(_total, "d", "t=s+3")) == ()


def test_a_count_that_is_the_shape_of_an_argument_stays_open() -> None:
    assert split_symbols(_graph(_total, "d", "", (Input("y", ("s",), "f32", "s"),))) == ()
