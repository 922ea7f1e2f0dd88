"""Which exponentials get which shift, and that the value stays what it was, or becomes what it should have been."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

import cleave
from cleave.algebra import degrees, stabilize, stabilized
from cleave.algebra.confirm import independence_error
from cleave.graph import Graph

from .programs import Program, arguments_of, expression, kinds, run

RNG = np.random.default_rng(5)


def rows(subtract_maximum: bool = False, *, product: bool = True) -> Graph:
    """Weights exp(x) over n, applied to v before the quotient."""
    p = Program({"m": 5, "n": 7, "e": 3}, {"x": "m n", "v": "n e"})
    x = p("sub", 0, p.max(0, "n")) if subtract_maximum else 0
    e = p("exp", x)
    return p.graph(p("div", p.contract(e, 1, over="n") if product else e, p.sum(e, "n")))


def test_quotient_of_sums() -> None:
    """The quotient is by a sum of shifted exponentials: guarded."""
    out = stabilize(rows())
    assert expression(out, out.outputs[0].value) == (
        "div(contract(exp(sub(x, shift(x/n))), v/n), reduce(exp(sub(x, shift(x/n)))/sum n)/guarded)"
    )
    x, v = RNG.normal(size=(5, 7)), RNG.normal(size=(7, 3))
    np.testing.assert_allclose(run(out, x, v), run(rows(), x, v), rtol=1e-12)
    assert np.isfinite(run(out, x * 1e4, v)).all()


def test_own_maximum_is_absorbed() -> None:
    """A program that subtracts its maximum reaches the same graph."""
    assert stabilize(rows(subtract_maximum=True)) == stabilize(rows())


def test_nothing_to_do() -> None:
    """Exponentials that are a result, that are only summed, or that divide nothing of their own stay plain."""
    p = Program({"m": 5, "n": 7}, {"x": "m n"})
    e = p("exp", 0)
    for value in (e, p.sum(e, "n"), p("div", p.number(1.0), p("add", e, p.number(1.0))), p("tanh", p.sum(e, "n"))):
        graph = p.graph(value)
        assert stabilize(graph) is graph


def test_twice_is_once() -> None:
    once = stabilize(rows())
    assert stabilize(once) is once


def test_masked_rows_give_zero() -> None:
    """-inf fills: nothing to average over. A finite fill keeps its value: the plain average."""
    x, v = RNG.normal(size=(5, 7)), RNG.normal(size=(7, 3))
    x[2] = -np.inf
    assert (run(stabilize(rows()), x, v)[2] == 0).all()
    for fill in (-1e9, float(np.finfo(np.float32).min)):
        x[2] = fill
        for dtype in (np.float32, np.float64):
            np.testing.assert_allclose(run(stabilize(rows()), x, v, dtype=dtype)[2], v.mean(0), rtol=1e-5)


def test_logsumexp() -> None:
    """log gives its shift back; with an own maximum too, and -inf on a row that is masked throughout."""
    p = Program({"m": 5, "n": 7}, {"x": "m n"})
    plain = p.graph(p("log", p.sum(p("exp", 0), "n")))
    top = p.max(0, "n")
    own = p.graph(p("add", top, p("log", p.sum(p("exp", p("sub", 0, top)), "n"))))
    x = RNG.normal(size=(5, 7)) * 10
    expected = np.log(np.exp(x).sum(1))
    big = x * 1e3
    big[3] = -np.inf
    for graph in (stabilize(plain), stabilize(own)):
        assert expression(graph, graph.outputs[0].value) == "add(log(reduce(exp(sub(x, shift(x/n)))/sum n)), shift(x/n))"
        np.testing.assert_allclose(run(graph, x), expected, rtol=1e-12)
        assert run(graph, big)[3] == -np.inf and np.isfinite(run(graph, big)[[0, 1, 2, 4]]).all()


def test_log_of_quotient_with_own_maximum() -> None:
    p = Program({"m": 5, "n": 7}, {"x": "m n"})
    centred = p("sub", 0, p.max(0, "n"))
    graph = p.graph(p("sub", centred, p("log", p.sum(p("exp", centred), "n"))))
    out = stabilize(graph)
    assert expression(out, out.outputs[0].value).startswith("sub(x, add(log(")
    x = RNG.normal(size=(5, 7))
    np.testing.assert_allclose(run(out, x), run(graph, x), rtol=1e-12)


def test_exponentials_that_meet_share_a_shift() -> None:
    """A sum over n, one over k, and a term without either: the maximum is over all of them."""
    p = Program({"m": 4, "n": 7, "k": 3, "e": 2}, {"x": "m n", "y": "m k", "s": "m", "v": "n e", "w": "k e"})
    a, b, c = p("exp", 0), p("exp", 1), p("exp", 2)
    top = p("add", p.contract(a, 3, over="n"), p.contract(b, 4, over="k"))
    bottom = p("add", p("add", p.sum(a, "n"), p.sum(b, "k")), c)
    graph = p.graph(p("div", top, bottom))
    out = stabilize(graph)
    assert arguments_of(out, "shift") == ["max(max(x, reduce(y/max k)), s)"]
    assert kinds(out).count("exp") == 3
    data = [RNG.normal(size=shape) for shape in ((4, 7), (4, 3), 4, (7, 2), (3, 2))]
    np.testing.assert_allclose(run(out, *data), run(graph, *data), rtol=1e-12)
    for at in range(3):
        large = [value * (1e4 if i == at else 1) for i, value in enumerate(data)]
        assert np.isfinite(run(out, *large)).all()


def test_plain_term_is_a_constant_times_exp_of_zero() -> None:
    """exp(x) / (1 + sum exp(x)) and an epsilon: 0 takes part in the maximum."""
    p = Program({"m": 4, "n": 7}, {"x": "m n"})
    e = p("exp", 0)
    for term in (1.0, 1e-9):
        graph = p.graph(p("div", e, p("add", p.sum(e, "n"), p.number(term))))
        out = stabilize(graph)
        assert arguments_of(out, "shift") == ["max(x, 0.0)"]
        x = RNG.normal(size=(4, 7))
        np.testing.assert_allclose(run(out, x), run(graph, x), rtol=1e-12)
        x[0], x[1] = 1e4, -1e4
        np.testing.assert_allclose(run(out, x)[:2], np.array([[1 / 7], [0]]) * np.ones(7), rtol=1e-6)


def test_hand_written_sigmoid() -> None:
    p = Program({"m": 4}, {"x": "m"})
    e = p("exp", 0)
    out = stabilize(p.graph(p("div", e, p("add", e, p.number(1.0)))))
    np.testing.assert_allclose(run(out, [-1e4, -1.0, 1.0, 1e4]), [0, 1 / (1 + np.e), np.e / (1 + np.e), 1], rtol=1e-12)


def test_removed_axes_grow() -> None:
    """A quotient by a sum over both axes, in two steps: one shift over both."""
    p = Program({"m": 4, "n": 7}, {"x": "m n"})
    e = p("exp", 0)
    out = stabilize(p.graph(p("div", e, p.sum(p.sum(e, "n"), "m"))))
    assert [op.attr for op in out.ops if op.kind == "shift"] == [(("m", "n"),)]


def test_split_axis() -> None:
    """Sums over the inner, then the outer axis; the shift goes over both. The last chunk is short."""
    from cleave.extents import extent
    from cleave.graph import Axis, Builder, Input, Output, Symbol

    axes = [Axis("m", extent(3)), Axis("n", extent("n")), Axis("s", extent("s")), Axis("ni", extent("ceildiv(n, s)"), ("n", "s"))]
    b = Builder("f", [Symbol("n"), Symbol("s")], axes, [Input("x", ("m", "n"), "f32", "m n"), Input("v", ("n",), "f32", "n")])
    x, v = (b.add("split", i, attr=("n", "s", "ni")) for i in (0, 1))
    e = b.add("exp", x)
    o = b.add("reduce", b.add("contract", e, v, attr=(("ni",),)), attr=("sum", ("s",)))
    z = b.add("reduce", b.add("reduce", e, attr=("sum", ("ni",))), attr=("sum", ("s",)))
    graph = b.finish([Output(b.add("div", o, z), "m", "f32")])
    out = stabilize(graph)
    assert [op.attr for op in out.ops if op.kind == "shift"] == [(("s", "ni"),)]
    data = RNG.normal(size=(3, 7)), RNG.normal(size=7)
    np.testing.assert_allclose(run(out, *data, symbols={"n": 7, "s": 3}), run(graph, *data, symbols={"n": 7, "s": 3}), rtol=1e-12)


def test_split_and_whole_share_a_shift() -> None:
    """An alternative may split one sum and not the other."""
    from cleave.extents import extent
    from cleave.graph import Axis, Builder, Input, Output, Symbol

    axes = [Axis("m", extent(3)), Axis("n", extent("n")), Axis("s", extent("s")), Axis("ni", extent("ceildiv(n, s)"), ("n", "s"))]
    b = Builder("f", [Symbol("n"), Symbol("s")], axes, [Input("x", ("m", "n"), "f32", "m n"), Input("v", ("n",), "f32", "n")])
    x, v = (b.add("split", i, attr=("n", "s", "ni")) for i in (0, 1))
    o = b.add("reduce", b.add("contract", b.add("exp", x), v, attr=(("ni",),)), attr=("sum", ("s",)))
    z = b.add("reduce", b.add("exp", 0), attr=("sum", ("n",)))
    graph = b.finish([Output(b.add("div", o, z), "m", "f32")])
    out = stabilize(graph)
    assert kinds(out).count("shift") == 1
    data = RNG.normal(size=(3, 7)), RNG.normal(size=7)
    np.testing.assert_allclose(run(out, *data, symbols={"n": 7, "s": 3}), run(graph, *data, symbols={"n": 7, "s": 3}), rtol=1e-12)


def test_split_and_whole_that_do_not_meet_have_their_own_shifts() -> None:
    """Weights over n, and weights within each chunk of n."""
    p = Program({"m": 3, "n": "n", "s": "s", "ni": "ceildiv(n, s)"}, {"x": "m n"}, chunks={"ni": ("n", "s")})
    whole, parts = p("exp", 0), p("exp", p("split", 0, attr=("n", "s", "ni")))
    values = p("div", whole, p.sum(whole, "n")), p.max(p.max(p("div", parts, p.sum(parts, "ni")), "ni"), "s")
    graph = p.graph(*values)
    out = stabilize(graph)
    assert [op.attr for op in out.ops if op.kind == "shift"] == [(("n",),), (("ni",),)]
    x = RNG.normal(size=(3, 8))
    np.testing.assert_allclose(run(out, x, symbols={"n": 8, "s": 2}), run(graph, x, symbols={"n": 8, "s": 2}), rtol=1e-12)


def test_mask_after_the_exponential_goes_inside() -> None:
    """The maximum is over what is kept: a masked 1e4 does not make the rest vanish."""
    p = Program({"m": 4, "n": 4}, {"x": "m n"})
    keep = p("compare", p("iota", attr=("n",)), p("iota", attr=("m",)), attr=("le",))
    for e in (p("select", keep, p("exp", 0), p.number(0.0)), p("mul", p("exp", 0), p("cast", keep, dtype="f32"))):
        out = stabilize(p.graph(p("div", e, p.sum(e, "n"))))
        assert arguments_of(out, "shift") == ["select(compare(iota(/n), iota(/m)/le), x, -inf)"]
        x = RNG.normal(size=(4, 4))
        x[0, 1:] = 1e4
        np.testing.assert_allclose(run(out, x).sum(1), np.ones(4), rtol=1e-12)


def test_mask_of_a_product_goes_inside() -> None:
    """As a factor of a contraction or a product, and as a select around a product."""
    p = Program({"m": 4, "n": 4}, {"x": "m n", "v": "n"})
    keep = p("compare", p("iota", attr=("n",)), p("iota", attr=("m",)), attr=("le",))
    factor, e = p("cast", keep, dtype="f32"), p("exp", 0)
    z = p.sum(p("select", keep, e, p.number(0.0)), "n")
    tops = [
        p.contract(factor, e, 1, over="n"),
        p.sum(p("mul", p("mul", e, 1), factor), "n"),
        p.sum(p("select", keep, p("mul", 1, e), p.number(0.0)), "n"),
    ]
    x, v = RNG.normal(size=(4, 4)), RNG.normal(size=4)
    expected = [run(p.graph(p("div", top, z)), x, v) for top in tops]
    large = x.copy()
    large[0, 1:] = 1e4
    for top, wanted in zip(tops, expected, strict=True):
        out = stabilize(p.graph(p("div", top, z)))
        assert arguments_of(out, "shift") == ["select(compare(iota(/n), iota(/m)/le), x, -inf)"]
        np.testing.assert_allclose(run(out, x, v), wanted, rtol=1e-12)
        np.testing.assert_allclose(run(out, large, v), wanted, rtol=1e-12)


def test_functions_read_plain_values() -> None:
    """Beside its quotient, exp(x) goes into a function and a sum of it into another; both see what they saw before."""
    p = Program({"m": 4, "n": 7}, {"x": "m n"})
    e = p("exp", 0)
    z = p.sum(e, "n")
    graph = p.graph(p("add", p("add", p("div", e, z), p("tanh", e)), p("sin", z)))
    out = stabilize(graph)
    assert set(arguments_of(out, "tanh")) == {"exp(x)"}
    x = RNG.normal(size=(4, 7))
    np.testing.assert_allclose(run(out, x), run(graph, x), rtol=1e-12)


def test_results_get_their_shifts_back() -> None:
    p = Program({"m": 4, "n": 7}, {"x": "m n"})
    e = p("exp", 0)
    z = p.sum(e, "n")
    graph = p.graph(z, p("div", e, z))
    out = stabilize(graph)
    assert expression(out, out.outputs[0].value) == "mul(reduce(exp(sub(x, shift(x/n)))/sum n), exp(shift(x/n)))"
    x = RNG.normal(size=(4, 7))
    np.testing.assert_allclose(run(out, x), run(graph, x), rtol=1e-12)


def test_norms_of_exponentials() -> None:
    """sqrt halves the degree, and a power multiplies it."""
    p = Program({"m": 4, "n": 7}, {"x": "m n"})
    e = p("exp", 0)
    square = p.sum(p("pow", e, p.number(2.0)), "n")
    for value in (p("div", e, p("sqrt", square)), p("mul", e, p("rsqrt", square)), p("div", p("mul", e, e), square)):
        graph = p.graph(value)
        out = stabilize(graph)
        x = RNG.normal(size=(4, 7))
        np.testing.assert_allclose(run(out, x), run(graph, x), rtol=1e-12)
        assert np.isfinite(run(out, x * 1e4)).all()


def test_own_zero_over_zero_stays_nan() -> None:
    """A sum weighted by an input is not a sum of exponentials."""
    p = Program({"m": 4, "n": 7}, {"x": "m n", "w": "n"})
    e = p("exp", 0)
    out = stabilize(p.graph(p("div", p.contract(e, 1, over="n"), p.contract(e, 1, over="n"))))
    assert "guarded" not in [part for op in out.ops for part in op.attr]
    assert np.isnan(run(out, RNG.normal(size=(4, 7)), np.zeros(7))).all()


def test_products_of_exponentials_summed_together_stay_plain() -> None:
    """exp(q) and exp(k) under one sum over d: the maxima lie apart, and with masks a live row may be far below them."""
    p = Program({"m": 4, "n": 4, "d": 3}, {"q": "m d", "k": "n d"})
    scores = p.causal(p.contract(p("exp", 0), p("exp", 1), over="d"), 0.0)
    graph = p.graph(p("div", scores, p.sum(scores, "n")))
    report = stabilized(graph)
    assert report.graph is graph and all("stays plain" in note for note in report.notes) and len(report.notes) == 2
    x = [np.array([[40.0, -40.0, 0.0]] * 4), np.array([[-40.0, 40.0, 0.0]] + [[40.0, 0.0, 0.0]] * 3)]
    np.testing.assert_allclose(run(report.graph, *x, dtype=np.float32)[0], [1, 0, 0, 0])


def test_row_sums_and_their_total() -> None:
    """Each row keeps its own shift; the total of all sums reads them in plain form."""
    p = Program({"m": 4, "n": 7}, {"x": "m n"})
    e = p("exp", 0)
    z = p.sum(e, "n")
    graph = p.graph(p("div", e, z), p("log", p.sum(z, "m")))
    out = stabilize(graph)
    assert [op.attr for op in out.ops if op.kind == "shift"] == [(("n",),)]
    x = RNG.normal(size=(4, 7))
    x[1] -= 200
    np.testing.assert_allclose(run(out, x, dtype=np.float32).sum(1), np.ones(4), rtol=1e-5)


@pytest.mark.parametrize("graph", [rows(), rows(True), rows(product=False)])
def test_degrees_accept_what_stabilize_makes(graph: Graph) -> None:
    assert not any(degrees(stabilize(graph))[stabilize(graph).outputs[0].value])


NESTED: dict[str, Callable[[Tensor], Tensor]] = {
    "over its logarithm": lambda x: torch.exp(x) / torch.logsumexp(torch.exp(x), -1, keepdim=True),
    "of a sum": lambda x: torch.exp(x).sum(-1) / torch.logsumexp(torch.exp(x).sum(-1), 0),
    "of probabilities": lambda x: torch.logsumexp(torch.exp(torch.log_softmax(x, -1)), -1),
}


@pytest.mark.parametrize("name", NESTED)
def test_exponentials_of_exponentials(name: str) -> None:
    """A shift that a value cannot be scaled back from is not given, which is said."""
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))
    compiled = cleave.compile(NESTED[name], x)
    torch.testing.assert_close(compiled(x), NESTED[name](x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("axes", [3, 14, 60])
def test_shifts_are_confirmed_at_the_sizes_that_can_be_run(axes: int) -> None:
    """A softmax over the last of so many axes; the shift is kept in each case, and told of where nothing could be run."""
    sizes = {f"a{at}": 32 for at in range(axes)}
    p = Program(sizes, {"x": " ".join(sizes)})
    e = p("exp", 0)
    graph = p.graph(p("div", e, p.sum(e, f"a{axes - 1}")))
    found = stabilized(graph)
    assert any(op.kind == "shift" for op in found.graph.ops)
    assert ["not confirmed" in note for note in found.notes] == ([True] if axes == 60 else [])
    p = Program(sizes, {"x": " ".join(sizes)})
    wrong = p.graph(p("exp", p("sub", 0, p("shift", 0, attr=((f"a{axes - 1}",),)))))
    assert independence_error(graph, found.graph) == (None if axes == 60 else "")
    assert independence_error(graph, wrong) == (None if axes == 60 else "result 0 depends on a shift")
