"""Cuts between kernels keep the value, wherever they are made."""

from __future__ import annotations

from itertools import combinations

import pytest

from cleave.algebra import degrees
from cleave.graph import Graph
from cleave.schedule import ScheduleOptions
from cleave.schedule.chunks import Aligned, aligned
from cleave.schedule.fusion import Fusion
from cleave.schedule.partition import cut_candidates, grounded, operand_cuts, products, source_of
from cleave.schedule.program import Allocate, Dot, LibraryCall, Load, Program, walk
from cleave.schedule.scheduler import assemble
from cleave.schedule.sizes import Sizes

from .programs import H200, Input, Sketch, agrees, attention, candidates, norm_linear


def early_division(mask: bool) -> Graph:
    """Attention as written: every probability is divided before the second contraction."""
    inputs = [Input("q", ("m", "d"), "f32", "m d"), Input("k", ("n", "d"), "f32", "n d"), Input("v", ("n", "e"), "f32", "n e")]
    s = Sketch("attend", "m=40 n=600 d=16 e=16", inputs)
    x = s.op("mul", s.contract(0, 1, over="d"), 0.25)
    if mask:
        x = s.op("select", s.op("compare", s.op("iota", attr=("n",)), s.op("iota", attr=("m",)), attr=("lt",)), x, -float("inf"))
    p = s.op("exp", s.op("sub", x, s.shift(x, "n")))
    w = s.op("div", p, s.reduce("sum", p, "n"), attr=("guarded",))
    s.output(s.contract(w, 2, over="n"), "m e", "f32")
    return s.graph()


def cut(graph: Graph, cuts: tuple[int, ...]) -> Program | None:
    """The program with values stored at `cuts`."""
    source = source_of(Aligned(graph, degrees(graph), (), frozenset()), Sizes(graph, {}, frozenset()))
    found = Fusion(source, H200, ScheduleOptions(plans=40)).partition(cuts)
    return None if found is None else assemble(found, found.choices, ())


@pytest.mark.parametrize(
    "graph", [early_division(False), early_division(True), attention(m="40", n="600", d="16", e="16", dtype="f32", lse=True)]
)
def test_any_one_or_two_cuts_keep_the_value(graph: Graph) -> None:
    """Keys take several loop steps, so a running maximum and the final one differ; a stored sum is relative to the final one."""
    candidates = cut_candidates(graph)
    programs = [cut(graph, cuts) for count in (1, 2) for cuts in combinations(candidates, count)]
    assert sum(program is not None and len(program.kernels) > 1 for program in programs) >= 3
    for program in programs:
        if program is not None:
            agrees(graph, program)


def test_a_stored_sum_takes_its_shift_along() -> None:
    graph = early_division(False)
    source = source_of(Aligned(graph, degrees(graph), (), frozenset()), Sizes(graph, {}, frozenset()))
    total = next(place for place, op in enumerate(graph.ops) if op.kind == "reduce")
    shift = next(place for place, op in enumerate(graph.ops) if op.kind == "shift")
    (logits,) = graph.ops[shift].args
    assert grounded(source, (total,)) == tuple(sorted((total, shift, logits)))
    assert grounded(source, (shift,)) == tuple(sorted((shift, logits)))


def test_a_shift_of_exact_products_takes_them_along() -> None:
    """Another kernel would round them otherwise: exp(1000.1 - 1000) for what is the largest."""
    for dtype, kept in (("f32", True), ("f16", False)):
        graph = attention(dtype=dtype)
        shift = next(at for at, op in enumerate(graph.ops) if op.kind == "shift")
        source = source_of(Aligned(graph, degrees(graph), (), frozenset()), Sizes(graph, {}, frozenset()))
        logits = graph.ops[shift].args[0]
        assert grounded(source, (shift,)) == (tuple(sorted((logits, shift))) if kept else (shift,))


def fed_from_memory(program: Program) -> bool:
    """Whether every operand of every dot is loaded as it is."""
    statements = [statement for kernel in program.kernels for statement in walk(kernel.body)]
    loaded = {id(statement.out) for statement in statements if isinstance(statement, Load)}
    dots = [statement for statement in statements if isinstance(statement, Dot)]
    return bool(dots) and all(id(side) in loaded for dot in dots for side in (dot.a, dot.b))


@pytest.mark.parametrize("gated", [False, True])
def test_what_dots_read_may_be_stored_first(gated: bool) -> None:
    """Scaled rows are in the registers of one kernel, or in a workspace whose reader has nothing to do but dots."""
    graph = norm_linear(m="2048", k="4096", c="6144", gated=gated)
    (operand,) = operand_cuts(graph, Sizes(graph, {}, frozenset()))
    assert graph.ops[operand].dtype == "f16"
    found = [program for program in candidates([graph], {}, frozenset(), H200, count=32) if fed_from_memory(program)]
    assert found and all(len(program.kernels) > 1 for program in found)


def test_a_library_may_take_the_product_of_what_is_stored() -> None:
    """Beside kernels, and never as what is taken untimed."""
    s = Sketch("product", "m=2048 k=4096 c=6144", norm_linear().inputs)
    x = s.cast(0, "f32")
    scale = s.op("rsqrt", s.reduce("sum", s.op("mul", x, x), "k"))
    normed = s.cast(s.op("mul", s.op("mul", x, scale), s.cast(1, "f32")), "f16")
    s.output(s.contract(normed, 2, over="k"), "m c")
    found = candidates([s.graph()], {}, frozenset(), H200, count=16)
    calls = [any(isinstance(step, LibraryCall) for step in program.steps) for program in found]
    assert not calls[0] and any(calls) and not all(calls)
    assert all(program.kernels for program in found)


def gated_products(m: str, k: str, c: str) -> Graph:
    s = Sketch(
        "gated", f"m={m} k={k} c={c}", (Input("x", ("m", "k"), "f16", "m k"), *(Input(w, ("k", "c"), "f16", "k c") for w in ("u", "w")))
    )
    first, second = (s.contract(0, weight, over="k") for weight in (1, 2))
    s.output(s.cast(s.op("mul", s.op("silu", first), second), "f16"), "m c")
    return s.graph()


def test_products_that_are_written_in_half_precision_may_be_stored_so() -> None:
    """As PyTorch stores them, for a library to compute; an invented product, or one of f32, is stored in f32."""
    graph = gated_products("2048", "4096", "6144")
    found = candidates([graph], {}, frozenset(), H200, count=48)
    both = [program for program in found if sum(isinstance(step, LibraryCall) for step in program.steps) == 2]
    one = [program for program in found if sum(isinstance(step, LibraryCall) for step in program.steps) == 1]
    assert one and all(len(program.kernels) == 2 for program in one if len(program.steps) == 5)
    stored = [step.buffer for program in (*both, *one) for step in program.steps if isinstance(step, Allocate)]
    assert stored and all(buffer.dtype == "f16" for buffer in stored)
    sizes = Sizes(graph, {}, frozenset())
    written = frozenset(product for product, _ in products(graph).values())
    made = aligned(graph, degrees(graph))
    assert len(source_of(made, sizes, written).narrow) == 2
    assert not source_of(made, sizes).narrow
    assert not products(norm_linear())


@pytest.mark.parametrize("called", [0, 1, 2])
def test_products_left_to_a_library_keep_the_value(called: int) -> None:
    """Two roundings to half precision more than in one kernel, as PyTorch has them."""
    graph = gated_products("33", "200", "72")
    written = frozenset(product for product, _ in products(graph).values())
    source = source_of(aligned(graph, degrees(graph)), Sizes(graph, {}, frozenset()), written)
    fusion = Fusion(source, H200, ScheduleOptions(library=True, compare=True))
    found = fusion.partition(tuple(source.narrow))
    assert found is not None and len(found.groups) == 3
    choices = [
        next(way for way in fusion.kernels.ranked(group, found.stored, False) if (way.call is not None) == (place < called))
        for place, group in enumerate(found.groups)
    ]
    program = assemble(found, choices, ())
    assert sum(isinstance(step, LibraryCall) for step in program.steps) == called
    agrees(graph, program)


@pytest.mark.parametrize("gated", [False, True])
def test_operands_stored_first_keep_the_value(gated: bool) -> None:
    graph = norm_linear(gated=gated)
    program = cut(graph, operand_cuts(graph, Sizes(graph, {}, frozenset())))
    assert program is not None and fed_from_memory(program)
    agrees(graph, program)


def test_operands_larger_than_what_is_moved_are_not_stored() -> None:
    for n, stored in (("16", 1), ("4096", 0)):
        graph = attention(m=n, n=n, d="64", e="64")
        assert len(operand_cuts(graph, Sizes(graph, {}, frozenset()))) == stored
