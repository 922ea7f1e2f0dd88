"""Accurate rewrites pass the float gate; inaccurate ones and mutants do not."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch

from cleave.algebra import gate
from cleave.frontend import capture
from cleave.graph import Graph
from cleave.search import superoptimize

from .programs import Program

Make = Callable[[Program], int]
ROWS, WIDTH = 4, 96


def variance(p: Program, one_pass: bool) -> int:
    mean = p("mul", p.sum(0, "d"), p.number(1 / WIDTH))
    if one_pass:
        return p("sub", p("mul", p.sum(p("mul", 0, 0), "d"), p.number(1 / WIDTH)), p("mul", mean, mean))
    centred = p("sub", 0, mean)
    return p("mul", p.sum(p("mul", centred, centred), "d"), p.number(1 / WIDTH))


def variances(dtype: str) -> tuple[Graph, Graph]:
    out: list[Graph] = []
    for one_pass in (False, True):
        p = Program({"m": ROWS, "d": WIDTH}, {"x": "m d"}, dtype)
        out.append(p.graph(p("rsqrt", p("add", variance(p, one_pass), p.number(1e-5)))))
    return out[0], out[1]


def test_one_pass_variance_is_dropped_for_a_large_mean() -> None:
    """Exact algebra, useless digits."""
    two_pass, one_pass = variances("f32")
    result = gate(two_pass, [two_pass, one_pass])
    assert result.kept == (0,)
    assert "large mean" in result.dropped[1] or "equal values" in result.dropped[1]


def test_the_other_way_round_both_pass() -> None:
    two_pass, one_pass = variances("f32")
    assert gate(one_pass, [two_pass, one_pass]).kept == (0, 1)


def norm(p: Program, *, root: str = "inside", over: str = "d", late: bool = False, epsilon: bool = True) -> int:
    """x over its root mean square, times a matrix; the scale before the product or after."""
    square = p("mul", p.sum(p("mul", 0, 0), over), p.number(1 / WIDTH))
    small = p.number(1e-5 if epsilon else 0.0)
    if root == "inside":
        scale = p("rsqrt", p("add", square, small))
    else:
        scale = p("div", p.number(1.0), p("add", p("sqrt", square), small))
    return p("mul", p.contract(0, 1, over="d"), scale) if late else p.contract(p("mul", 0, scale), 1, over="d")


def norm_graph(dtype: str = "f16", **options: str | bool) -> Graph:
    p = Program({"m": WIDTH, "d": WIDTH, "e": 8}, {"x": "m d", "w": "d e"}, dtype)
    value = norm(p, **options)  # pyright: ignore[reportArgumentType]
    return p.graph(value, layout="m e")


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_scale_after_the_product_passes(dtype: str) -> None:
    assert gate(norm_graph(dtype), [norm_graph(dtype, late=True)]).kept == (0,)


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_roundings_that_differ_by_chance_pass(dtype: str, gated: bool) -> None:
    """The scale before the products or after: as accurate, at any width. Differences of a few rounding errors are no reason."""
    for width in range(40, 64):
        graphs: list[Graph] = []
        for late in (False, True):
            p = Program({"m": 8, "d": width, "e": 8}, {"x": "m d", "w": "d e", "u": "d e"}, dtype)
            scale = p("rsqrt", p("add", p("mul", p.sum(p("mul", 0, 0), "d"), p.number(1 / width)), p.number(1e-5)))
            products = [
                p("mul", p.contract(0, w, over="d"), scale) if late else p.contract(p("mul", 0, scale), w, over="d") for w in (1, 2)
            ]
            graphs.append(p.graph(p("mul", p("silu", products[0]), products[1]) if gated else products[0], layout="m e"))
        assert gate(graphs[0], graphs).kept == (0, 1), width


@pytest.mark.parametrize("width", range(30, 50))
def test_redrawing_only_forgives_chance(width: int) -> None:
    """Of the same kind of error, twice as much is within the bound on every draw, four times as much beyond it."""

    def shifted_by(size: float) -> Graph:
        p = Program({"m": ROWS, "d": width}, {"x": "m d"}, "f32")
        small = p("div", 0, p("add", p("abs", 0), p.number(1.0)))
        return p.graph(p("sub", p("add", small, p.number(size)), p.number(size)))

    result = gate(shifted_by(1.0), [shifted_by(1.0), shifted_by(2.0), shifted_by(4.0)])
    assert result.kept == (0, 1)


@pytest.mark.parametrize(
    "mutant",
    [{"root": "outside"}, {"epsilon": False}, {"over": "m"}],
    ids=["epsilon outside the root", "epsilon lost", "wrong axis"],
)
def test_mutants_of_a_norm_are_dropped(mutant: dict[str, str | bool]) -> None:
    result = gate(norm_graph("f32"), [norm_graph("f32", **mutant)])
    assert result.kept == ()


def average(p: Program, mutant: str = "", *, late: bool = True) -> int:
    """The average of v weighted by exp(x * scale) under a causal mask."""
    x = p("mul", 0, p.number(1.4427 * 0.3 if mutant == "wrong base of exp" else 0.3))
    e = p("exp", p.causal(x, float("-inf")))
    over = "m" if mutant == "wrong axis" else "n"
    z = p.sum(e, over)
    if mutant == "dropped scale":
        return p.contract(e, 1, over="n")
    if mutant == "missing tail":
        tail = p("compare", p("iota", attr=("n",)), p.number(5.0), attr=("le",))
        e = p("select", tail, e, p.number(0.0))
    if mutant == "log of z":
        return p("div", p.contract(e, 1, over="n"), p("log", z))
    if late:
        top = p.contract(e, 1, over="n")
        return p("div", z, top) if mutant == "swapped operands" else p("div", top, z)
    return p.contract(p("div", e, z), 1, over="n")


def average_graph(mutant: str = "", *, late: bool = True) -> Graph:
    p = Program({"m": "m", "n": "n", "e": 8}, {"x": "m n", "v": "n e"}, "f16")
    return p.graph(average(p, mutant, late=late), layout="m e")


def test_late_quotient_passes() -> None:
    """Large logits and rows with one live key among the inputs."""
    assert gate(average_graph(late=False), [average_graph()] * 3).kept == (0, 1, 2)


@pytest.mark.parametrize("mutant", ["wrong base of exp", "wrong axis", "dropped scale", "missing tail", "log of z", "swapped operands"])
def test_mutants_of_an_average_are_dropped(mutant: str) -> None:
    result = gate(average_graph(late=False), [average_graph(mutant), average_graph()])
    assert result.kept == (1,), result.dropped


def test_chunks_are_small_too() -> None:
    """An alternative that splits an axis of 2^20 elements is run on a few of them."""
    graphs: list[Graph] = []
    for split in (False, True):
        axes = {"m": 2**20, "s": "s", "mi": f"ceildiv({2**20}, s)"} if split else {"m": 2**20}
        p = Program(axes, {"x": "m"}, chunks={"mi": ("m", "s")} if split else {})
        if split:
            parts = p("split", 0, attr=("m", "s", "mi"))
            graphs.append(p.graph(p.sum(p.sum(parts, "mi"), "s")))
        else:
            graphs.append(p.graph(p.sum(0, "m")))
    result = gate(graphs[0], graphs)
    assert result.kept == (0, 1) and not result.unchecked


def test_exact_results_without_a_square_in_float64_warn_of_nothing() -> None:
    """Elements that f32 has no value for say nothing of a candidate, whatever they are in float64."""
    p = Program({"m": ROWS, "n": 5}, {"x": "m n"}, "f32")
    large = p.graph(p("mul", p("exp", p("mul", 0, 0)), p.number(1e30)), p("mul", p("mul", 0, p.number(1e30)), p.number(1e200)))
    with warnings.catch_warnings(action="error"):
        assert gate(large, [large]).kept == (0,)


def test_long_axes_in_chunks_are_run_like_whole_ones() -> None:
    """What a split takes apart counts once: a mean over 8192 elements is few enough, and a program in one pass is dropped in chunks too."""
    arguments = [torch.empty(*shape) for shape in ((16, 8192), (8192,), (8192,), (8192, 32))]
    graph = capture(lambda x, g, b, w: torch.layer_norm(x, (8192,), g, b) @ w, arguments).graph
    found = superoptimize(graph).alternatives[1:]
    assert any("split" in entry.name for entry in found)
    judged = gate(graph, [entry.graph for entry in found])
    assert not judged.unchecked
    dropped = {found[index].name for index in judged.dropped}
    assert "1" in dropped and "1 split d" in dropped


@pytest.mark.parametrize("axes, unchecked", [(8, True), (9, True), (4, False), (14, True)])
def test_what_is_too_large_for_one_kind_of_input_is_run_on_the_others(axes: int, unchecked: bool) -> None:
    """What does not fit is dropped at any size; accuracy counts at every size that can be run, and the rest is told of."""
    sizes = {f"a{at}": 32 for at in range(axes)}
    layout = " ".join(list(sizes)[1:])

    def graph(of: Callable[[Program, int], int]) -> Graph:
        p = Program(sizes, {"x": " ".join(sizes)}, "f32")
        return p.graph(of(p, p.sum(0, "a0")), layout=layout)

    plain = graph(lambda p, x: p("add", x, x))
    same = graph(lambda p, x: p("mul", x, p.number(2.0)))
    unsound = graph(lambda p, x: p("add", p("div", p("mul", x, x), x), x))
    other = graph(lambda p, x: p("add", 0, 0))
    judged = gate(plain, [same, unsound, other])
    runs = axes < 14
    assert judged.kept == ((0,) if runs else (0, 1))
    assert judged.unchecked == (judged.kept if unchecked else ())
    assert 2 in judged.dropped and ("zeros" in judged.dropped[1] if runs else 1 not in judged.dropped)
