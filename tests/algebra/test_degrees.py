"""Degrees of hand-written shifted programs, and what has none."""

from __future__ import annotations

import pytest

from cleave.algebra import degrees
from cleave.algebra.degrees import _infer
from cleave.extents import extent
from cleave.graph import Axis, Builder, Graph, Input, Output


def builder() -> Builder:
    axes = [Axis(name, extent(size)) for name, size in (("m", 3), ("n", 4), ("e", 2))]
    return Builder("f", [], axes, [Input("x", ("m", "n"), "f32", "m n"), Input("w", ("n", "e"), "f32", "n e")])


def shifted(b: Builder, over: tuple[str, ...] = ("n",)) -> tuple[int, int]:
    """exp(x - shift x) and the position of the shift."""
    shift = b.add("shift", 0, attr=(over,))
    return b.add("exp", b.add("sub", 0, shift)), shift


def finished(b: Builder, value: int) -> Graph:
    return b.finish([Output(value, " ".join(b.ops[value].axes), "f32")])


def test_quotient_of_sums_has_degree_zero() -> None:
    b = builder()
    p, _ = shifted(b)
    z = b.add("reduce", p, attr=("sum", ("n",)))
    o = b.add("contract", p, 1, attr=(("n",),))
    graph = finished(b, b.add("div", o, z))
    shift = next(i for i, op in enumerate(graph.ops) if op.kind == "shift")
    by_kind = {op.kind: dict(degree) for op, degree in zip(graph.ops, degrees(graph), strict=True)}
    assert by_kind == {"input": {}, "shift": {}, "sub": {}, "exp": {shift: -1}, "reduce": {shift: -1}, "contract": {shift: -1}, "div": {}}


def test_products_add_and_logarithms_give_terms() -> None:
    b = builder()
    p, shift = shifted(b)
    square = b.add("reduce", b.add("mul", p, p), attr=("sum", ("n",)))
    log = b.add("log", square)
    back = b.add("add", log, b.add("mul", b.add("constant", attr=(2.0,)), shift))
    graph = finished(b, back)
    shift = next(i for i, op in enumerate(graph.ops) if op.kind == "shift")
    assert [dict(degree) for op, degree in zip(graph.ops, degrees(graph), strict=True) if op.kind in ("reduce", "mul")][:2] == [
        {shift: -2},
        {shift: -2},
    ]
    log_at = next(i for i, op in enumerate(graph.ops) if op.kind == "log")
    assert dict(_infer(graph)[1][log_at]) == {shift: -2}


def test_roots_and_masks() -> None:
    """sqrt halves an even degree; a zero takes any degree."""
    b = builder()
    p, _ = shifted(b)
    mask = b.add("compare", b.add("iota", attr=("m",)), b.add("iota", attr=("n",)), attr=("ge",))
    p = b.add("select", mask, p, b.add("constant", attr=(0.0,)))
    norm = b.add("sqrt", b.add("reduce", b.add("mul", p, p), attr=("sum", ("n",))))
    assert not any(degrees(finished(b, b.add("div", p, norm)))[-1])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("result", "is a result and depends on a shift"),
        ("sum", "joins operands of unequal degree"),
        ("function", "is applied to a shifted value"),
        ("axis", "removes axis 'm', which the shift"),
        ("root", "has a fractional degree"),
        ("term", "is applied to a shift"),
    ],
)
def test_what_has_no_degree(wrong: str, message: str) -> None:
    b = builder()
    p, shift = shifted(b)
    z = b.add("reduce", p, attr=("sum", ("n",)))
    match wrong:
        case "result":
            value = z
        case "sum":
            value = b.add("add", p, 0)
        case "function":
            value = b.add("tanh", z)
        case "axis":
            value = b.add("reduce", z, attr=("sum", ("m",)))
        case "root":
            value = b.add("sqrt", z)
        case _:
            value = b.add("tanh", shift)
    with pytest.raises(ValueError, match=message):
        degrees(finished(b, value))
