"""Sizes from shapes."""

from __future__ import annotations

import pytest

from cleave.errors import CleaveError
from cleave.extents import extent
from cleave.runtime.plan import Plan, bind_sizes, symbol_sources
from cleave.schedule.program import Buffer


def _plan(layouts: dict[str, str], **sizes: str) -> Plan:
    buffers = tuple(
        Buffer(name, tuple(layout.replace("(", "").replace(")", "").split()), "f32", (None,) * len(layout.split()))
        for name, layout in layouts.items()
    )
    return Plan("f", buffers, (), tuple(layouts.values()), tuple((axis, extent(size)) for axis, size in sizes.items()), ())


def test_symbols_follow_from_products_and_from_each_other() -> None:
    """The second dimension of x is 4 g; that of y is g h, once g is known."""
    plan = _plan({"x": "b (g r)", "y": "(g h) n"}, b="B", g="G", r="4", h="H", n="2*H")
    assert bind_sizes(plan, [(5, 12), (6, 4)]) == {"B": 5, "G": 3, "H": 2, "b": 5, "g": 3, "r": 4, "h": 2, "n": 4}


def test_a_sum_tells_nothing_until_it_is_given() -> None:
    plan = _plan({"x": "n"}, n="a + b")
    assert symbol_sources(plan) == ()
    with pytest.raises(CleaveError, match="symbol 'a' does not follow"):
        bind_sizes(plan, [(5,)])
    assert bind_sizes(plan, [(5,)], {"a": 2, "b": 3})["n"] == 5
    with pytest.raises(CleaveError, match=r"input 'x' has shape \(5,\); layout 'n' makes it \(6,\)"):
        bind_sizes(plan, [(5,)], {"a": 2, "b": 4})


def test_a_shape_that_does_not_divide_is_refused() -> None:
    plan = _plan({"x": "(g r)"}, g="G", r="4")
    with pytest.raises(CleaveError, match=r"input 'x' has shape \(10,\); layout '\(g r\)' makes it \(8,\)"):
        bind_sizes(plan, [(10,)])


def test_an_empty_dimension_does_not_divide_by_zero() -> None:
    plan = _plan({"x": "n", "y": "(n k)"}, n="N", k="K")
    with pytest.raises(CleaveError, match=r"input 'y' has shape \(6,\)"):
        bind_sizes(plan, [(0,), (6,)])
    assert bind_sizes(plan, [(0,), (0,)])["k"] == 0
