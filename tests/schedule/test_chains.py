"""Exact f32 dots sum in short chains: the pieces, their value, and what keeps Triton from joining them."""

from __future__ import annotations

import pytest

from cleave.extents import extent
from cleave.graph import Axis, Graph
from cleave.runtime.build import lowered
from cleave.schedule.pieces import chains
from cleave.schedule.program import Dot, Kernel, walk
from cleave.targets.triton_python import triton_file

from .programs import Input, Sketch, agrees, attention, scheduled


def exact(kernel: Kernel) -> list[int]:
    """How many elements each dot of f32 operands sums."""
    dots = [statement for statement in walk(kernel.body) if isinstance(statement, Dot)]
    return [dot.a.type.dims[-1][1] for dot in dots if dot.a.type.dtype == "f32"]


def product(k: str, dtype: str = "f32") -> Graph:
    s = Sketch("product", f"m=70 k={k} n=40", (Input("x", ("m", "k"), dtype, "m k"), Input("w", ("k", "n"), dtype, "k n")))
    s.output(s.contract(0, 1, over="k"), "m n", "f32")
    return s.graph()


@pytest.mark.parametrize(("k", "longest"), [("16", 16), ("20", 16), ("64", 16), ("80", 32), ("100", 32), ("128", 32), ("256", 64)])
def test_chains_are_short_and_keep_the_value(k: str, longest: int) -> None:
    graph = product(k)
    program = scheduled(graph)
    (kernel,) = program.kernels
    assert max(exact(kernel)) <= longest
    assert sum(exact(kernel)) >= int(k)
    agrees(graph, program)


def test_half_precision_stays_in_one_dot() -> None:
    """Its products are exact and its sums are the tensor core's."""
    (kernel,) = scheduled(product("64", "f16")).kernels
    assert [dot.a.type.dims[-1][1] for dot in walk(kernel.body) if isinstance(dot, Dot)] == [64]


def test_logits_are_summed_in_chains_within_the_one_loop() -> None:
    graph = attention(m="40", n="300", d="64", e="32", dtype="f32")
    program = scheduled(graph)
    (kernel,) = program.kernels
    assert exact(kernel)[:4] == [16] * 4
    agrees(graph, program)


def test_an_addition_of_exact_dots_is_a_fused_multiply_add() -> None:
    """Triton would make the one the start of the other's chain."""
    program = scheduled(product("64"))
    text = triton_file(lowered(program)).text
    assert text.count("tl.fma(") == 3
    assert text.count("tl.dot(") == 4


def test_axes_that_other_things_need_whole_are_left_alone() -> None:
    s = Sketch("scaled", "m=70 k=64 n=40", (Input("x", ("m", "k"), "f32", "m k"), Input("w", ("k", "n"), "f32", "k n")))
    total = s.reduce("sum", s.op("mul", 0, 0), "k")
    s.output(s.op("mul", s.contract(0, 1, over="k"), s.op("rsqrt", total)), "m n", "f32")
    graph = s.graph()
    assert Axis("k", extent(64)) in graph.axes
    agrees(graph, scheduled(graph))
    assert not chains_of(graph)


def chains_of(graph: Graph) -> tuple[str, ...]:
    from cleave.algebra import degrees
    from cleave.schedule.chunks import aligned
    from cleave.schedule.partition import items, problem_of, source_of
    from cleave.schedule.sizes import Sizes

    source = source_of(aligned(graph, degrees(graph)), Sizes(graph, {}, frozenset()))
    return tuple(entry.axis for entry in chains(problem_of(source, "f", items(source, ()), {})))
