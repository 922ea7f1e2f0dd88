"""Operations on axes become indices of loads."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cleave.algebra import degrees
from cleave.extents import extent
from cleave.graph import Graph, Input, Symbol
from cleave.schedule.nodes import EntangledError, Resolver, axis_index
from cleave.schedule.sizes import Sizes

from .programs import Sketch, agrees, scheduled


def rotated_halves() -> Graph:
    """x * cos + rotate_half(x) * sin with the halves an axis t."""
    table = ("s", "t", "r")
    inputs = [Input("x", ("b", *table), "f16", "b s (t r)"), Input("cos", table, "f32", "s (t r)"), Input("sin", table, "f32", "s (t r)")]
    s = Sketch("rotate", "b=2 s=20 t=2 r=8", inputs)
    x = s.cast(0, "f32")
    first, second = (s.op("index", x, attr=("t", extent(place))) for place in (0, 1))
    zero = s.builder.add("constant", attr=(0,))
    low = s.op("compare", s.op("iota", attr=("t",)), zero, attr=("eq",))
    turned = s.op("select", low, s.op("neg", second), first)
    s.output(s.op("add", s.op("mul", x, 1), s.op("mul", turned, 2)), "b s (t r)")
    return s.graph()


def joined() -> Graph:
    s = Sketch("join", "m=10 n=13 p=23 k=5", [Input("x", ("m", "k"), "f32", "m k"), Input("y", ("n", "k"), "f32", "n k")])
    value = s.op("concat", 0, 1, attr=(("m", "n"), "p"))
    s.output(s.op("silu", value), "p k", "f32")
    s.output(s.reduce("sum", s.op("exp", value), "p"), "k", "f32")
    s.output(s.reduce("max", value, "p"), "k", "f32")
    return s.graph()


def padded() -> Graph:
    s = Sketch("pad", "m=10 p=23 k=5", [Input("x", ("m", "k"), "f32", "m k")])
    s.output(s.op("silu", s.op("pad", 0, attr=("m", "p", extent(4), 1.5))), "p k", "f32")
    return s.graph()


def sliced() -> Graph:
    s = Sketch("slice", "m=30 p=9 k=5", [Input("x", ("m", "k"), "f32", "m k")])
    value = s.op("slice", 0, attr=("m", "p", extent(4), extent(2)))
    s.output(s.reduce("sum", value, "p"), "k", "f32")
    s.output(s.reduce("max", s.op("exp", value), "p"), "k", "f32")
    return s.graph()


def reversed_slice() -> Graph:
    s = Sketch("reverse", "m=30 p=9 k=5", [Input("x", ("m", "k"), "f32", "m k")])
    s.output(s.reduce("min", s.op("slice", 0, attr=("m", "p", extent(17), -2)), "p"), "k", "f32")
    return s.graph()


def regrouped() -> Graph:
    """Split one axis, merge a part of it with another."""
    s = Sketch("regroup", "m=30 a=5 c=6 k=4 q=20", [Input("x", ("m", "k"), "f32", "m k")])
    value = s.op("merge", s.op("split", 0, attr=("m", "a", "c")), attr=(("a", "k"), "q"))
    s.output(s.reduce("sum", s.op("exp", value), "q"), "c", "f32")
    return s.graph()


def gathered() -> Graph:
    s = Sketch("gather", "v=30 t=21 k=40", [Input("x", ("v", "k"), "f32", "v k"), Input("i", ("t",), "i64", "t")])
    s.output(s.reduce("sum", s.op("exp", s.op("gather", 0, 1, attr=("v",))), "k"), "t", "f32")
    return s.graph()


def symmetric() -> Graph:
    """x x^T plus its transpose: a swap of two axes."""
    s = Sketch("symmetric", "m=30 n=30 k=40", [Input("x", ("m", "k"), "f32", "m k")])
    value = s.contract(0, s.op("rename", 0, attr=((("m", "n"),),)), over="k")
    swapped = s.op("rename", value, attr=((("m", "n"), ("n", "m")),))
    s.output(s.op("add", value, swapped), "m n", "f32")
    return s.graph()


def entangled() -> Graph:
    """Row sums read along the columns."""
    s = Sketch("entangled", "m=30 n=30", [Input("x", ("m", "n"), "f32", "m n")])
    sums = s.op("rename", s.reduce("sum", 0, "n"), attr=((("m", "n"),),))
    s.output(s.reduce("sum", s.op("mul", 0, sums), "n"), "m", "f32")
    return s.graph()


def heads() -> Graph:
    """A contraction over two axes."""
    s = Sketch(
        "heads", "m=30 h=4 d=24 c=50", [Input("x", ("m", "h", "d"), "f16", "m (h d)"), Input("w", ("h", "d", "c"), "f16", "(h d) c")]
    )
    s.output(s.contract(0, 1, over="h d"), "m c")
    return s.graph()


def centred() -> Graph:
    """Two passes over a row."""
    s = Sketch("center", "m=30 k=100", [Input("x", ("m", "k"), "f16", "m k")])
    x = s.cast(0, "f32")
    moved = s.op("sub", x, s.op("div", s.reduce("sum", x, "k"), 100.0))
    spread = s.op("div", s.reduce("sum", s.op("mul", moved, moved), "k"), 100.0)
    s.output(s.op("mul", moved, s.op("rsqrt", s.op("add", spread, 1e-5))), "m k")
    return s.graph()


def repeated() -> Graph:
    """A layout axis the value lacks."""
    s = Sketch("repeat", "m=30 k=100 q=3", [Input("x", ("m", "k"), "f16", "m k")])
    s.output(s.reduce("sum", s.cast(0, "f32"), "k"), "q m")
    return s.graph()


GRAPHS = (
    rotated_halves, joined, padded, sliced, reversed_slice, regrouped, gathered, symmetric, entangled, heads, centred, repeated,
)  # fmt: skip


@pytest.mark.parametrize("make", GRAPHS, ids=lambda make: make.__name__)
def test_values(make: Callable[[], Graph]) -> None:
    graph = make()
    agrees(graph, scheduled(graph), high=30)


def _resolve(resolver: Resolver, graph: Graph) -> None:
    """Resolves the first result at its own axes."""
    value = graph.outputs[0].value
    (where,) = resolver.places(graph.ops[value].axes)
    resolver.value(value, where)


def test_equal_reads_are_one_load() -> None:
    """x x^T of one array: two nodes, at m and at n, however often they are used."""
    graph = symmetric()
    resolver = Resolver(graph, Sizes(graph, {}, frozenset()), frozenset())
    _resolve(resolver, graph)
    assert sum(node.kind == "load" for node in resolver.nodes) == 2


def test_an_entangled_reduction_is_named() -> None:
    graph = entangled()
    resolver = Resolver(graph, Sizes(graph, {}, frozenset()), frozenset())
    with pytest.raises(EntangledError) as caught:
        _resolve(resolver, graph)
    assert graph.ops[caught.value.op].kind == "reduce"
    assert len(scheduled(graph).kernels) == 2


def test_a_split_undone_by_a_merge_costs_no_arithmetic() -> None:
    s = Sketch("undo", "m=30 a=5 c=6 k=4", [Input("x", ("m", "k"), "f32", "m k")])
    back = s.op("merge", s.op("split", 0, attr=("m", "a", "c")), attr=(("a", "c"), "m"))
    s.output(s.op("neg", back), "m k", "f32")
    graph = s.graph()
    resolver = Resolver(graph, Sizes(graph, {}, frozenset()), frozenset())
    _resolve(resolver, graph)
    (load,) = (node for node in resolver.nodes if node.kind == "load")
    agrees(graph, scheduled(graph))
    assert dict(load.where)["k"] == axis_index("k")


def test_constant_factors_join_the_scale_of_a_shift() -> None:
    """exp(0.125 * x - m) is one exponential of x with scale 0.125, masked or not."""
    s = Sketch("scaled", "m=4 n=8", [Input("x", ("m", "n"), "f32", "m n")])
    ok = s.op("compare", s.op("iota", attr=("n",)), s.op("iota", attr=("m",)), attr=("le",))
    x = s.op("select", ok, s.op("mul", 0, 0.125), float("-inf"))
    top = s.shift(x, "n")
    z = s.reduce("sum", s.op("exp", s.op("sub", x, top)), "n")
    s.output(s.op("add", s.op("log", z), top), "m", "f32")
    graph = s.graph()
    assert any(degrees(graph))
    resolver = Resolver(graph, Sizes(graph, {}, frozenset()), frozenset())
    _resolve(resolver, graph)
    assert [node.scale for node in resolver.nodes if node.kind in ("shift", "shifted_exp")] == [0.125, 0.125]
    agrees(graph, scheduled(graph))


@pytest.mark.parametrize("start", ["N // 3", "ceildiv(N, 4)", "min(N, 5)", "N - 7", "N*N % 3"])
def test_a_position_computed_from_symbols(start: str) -> None:
    """The scalar is arithmetic on run-time sizes."""
    s = Sketch("window", "n=N p=7", [Input("x", ("n",), "f32", "n")], [Symbol("N", (16,))])
    s.output(s.op("slice", 0, attr=("n", "p", extent(start), extent(1))), "p", "f32")
    graph = s.graph()
    program = scheduled(graph, {"N": 16}, ("N",))
    for size in (14, 16, 19):
        agrees(graph, program, {"N": size})
