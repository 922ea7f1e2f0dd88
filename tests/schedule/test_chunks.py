"""Split reductions: a kernel over chunks and one that combines them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from cleave.algebra import degrees
from cleave.graph import Graph, Input, Symbol
from cleave.reference import evaluate
from cleave.schedule import TARGETS, ScheduleOptions, space, split_symbols
from cleave.schedule.chunks import aligned
from cleave.schedule.program import Load, walk

from .programs import H200, Sketch, agrees, candidates, loops, scheduled, split_attention


@pytest.mark.parametrize("count", [1, 2, 4, 7, 16])
def test_chunks_and_their_combination(count: int) -> None:
    """One loop over the keys of a chunk, then the alignment, in a kernel of its own or not. The last chunk may be short or empty."""
    graph = split_attention(n="300", lse=True)
    program = scheduled(graph, {"s": count})
    agrees(graph, program, {"s": count})
    partial = program.kernels[0]
    assert [loop.dim for loop in loops(partial)] == ["ni"]
    assert sorted(entry.inner.name for entry in loops(partial)[0].carried) == ["acc", "level", "sum"]
    assert any(dim.dim == "s" for dim in partial.grid)


@pytest.mark.parametrize("count", [16, 20, 32])
def test_chunks_held_whole(count: int) -> None:
    """Chunks of so few keys are one tile; rounded up to fill it, they leave some past the last key."""
    graph = split_attention(m="20", n="300", lse=True)
    programs = candidates([graph], {"s": count}, frozenset(), H200, ScheduleOptions(plans=64), count=16)
    whole = [program for program in programs if not loops(program.kernels[0]) or loops(program.kernels[0])[0].dim != "ni"]
    assert whole or count == 16
    for program in programs:
        agrees(graph, program, {"s": count})


def test_large_logits_in_different_chunks() -> None:
    graph = split_attention(n="300", lse=True)
    agrees(graph, scheduled(graph, {"s": 4}), {"s": 4}, scale=60.0, tolerance=1e-7)


def test_chunks_without_a_live_key() -> None:
    """A causal mask over 4 rows and 300 keys leaves all chunks but the first dead."""
    graph = split_attention(n="300", mask="causal", lse=True)
    agrees(graph, scheduled(graph, {"s": 8}), {"s": 8})


@pytest.mark.parametrize("count", [1, 3, 7])
@pytest.mark.parametrize("cast", [False, True])
def test_the_highest_weight_of_chunks_that_may_be_empty(count: int, cast: bool) -> None:
    """A maximum over nothing is -inf, which no weight of 0 may touch: of 17 elements in 7 chunks of 3 the last has none."""
    s = Sketch(
        "highest", "m=3 n=17 s=s ni=ceildiv(17,s)", [Input("x", ("m", "n"), "f32", "m n")], [Symbol("s", positive=True)], {"ni": ("n", "s")}
    )
    x = s.op("split", 0, attr=("n", "s", "ni"))
    p = s.op("exp", s.op("sub", x, s.shift(x, "s ni")))
    top = s.reduce("max", s.cast(p, "f16") if cast else p, "ni")
    s.output(s.op("div", s.reduce("max", s.cast(top, "f32"), "s"), s.reduce("sum", s.reduce("sum", p, "ni"), "s")), "m", "f32")
    graph = s.graph()
    for program in candidates([graph], {"s": count}, frozenset(), H200, ScheduleOptions(plans=12), count=4):
        agrees(graph, program, {"s": count})


@pytest.mark.parametrize(
    "sizes", [{"N": 1, "M": 1, "s": 1}, {"N": 700, "M": 3, "s": 5}, {"N": 1000, "M": 3, "s": 9}, {"N": 0, "M": 2, "s": 3}]
)
def test_a_number_of_chunks_known_at_run_time(sizes: Mapping[str, int]) -> None:
    graph = split_attention(m="M", n="N", symbols=(Symbol("N", (512,)), Symbol("M", (4,))))
    program = scheduled(graph, {"N": 512, "M": 4, "s": 4}, ("N", "M", "s"))
    agrees(graph, program, sizes)


def test_the_scheduler_chooses_the_number() -> None:
    graph = split_attention(m="1", n="4096", d="64", e="64")
    assert split_symbols(graph) == ("s",)
    program = scheduled(graph)
    assert any(", s = " in note for note in program.notes)


def _reduced(order: str, kind: str) -> Graph:
    axes = [Input("x", ("n", "d"), "f32", "n d")]
    s = Sketch("reduced", "n=N s=s ni=ceildiv(N,s) d=4", axes, [Symbol("N"), Symbol("s", positive=True)], {"ni": ("n", "s")})
    value = s.op("split", 0, attr=("n", "s", "ni"))
    for axis in order.split():
        value = s.reduce(kind, value, axis)
    s.output(value, "d", "f32")
    return s.graph()


@pytest.mark.parametrize("kind", ["sum", "max", "min"])
@pytest.mark.parametrize("order", ["ni s", "s ni"])
@pytest.mark.parametrize("sizes", [{"N": 9, "s": 2}, {"N": 3, "s": 5}, {"N": 8, "s": 3}, {"N": 0, "s": 2}])
def test_what_does_not_exist_is_skipped(order: str, kind: str, sizes: Mapping[str, int]) -> None:
    """Either axis may go first, static or not."""
    graph = _reduced(order, kind)
    for dynamic in ((), ("N", "s")):
        agrees(graph, scheduled(graph, sizes, dynamic), sizes)


def test_alignment_keeps_the_value() -> None:
    """The explicit graph has the same value, and every shift in it is of one chunk."""
    import numpy as np

    graph = split_attention(n="30", lse=True)
    made = aligned(graph, degrees(graph))
    rng = np.random.default_rng(0)
    sizes = graph.sizes({"s": 4})
    data = [rng.standard_normal([sizes[axis] for axis in entry.axes]) for entry in graph.inputs]
    for found, wanted in zip(evaluate(made.graph, data, {"s": 4}), evaluate(graph, data, {"s": 4}), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
    assert [op.attr for op in made.graph.ops if op.kind == "shift"] == [(("ni",),)]
    assert len(made.cuts) == 3 and len(made.raw) == 1


@pytest.mark.parametrize(("n", "count", "masked"), [("512", 4, False), ("512", 3, False), ("500", 4, True), ("4096", 8, False)])
def test_chunks_that_fill_their_tiles_have_no_masks(n: str, count: int, masked: bool) -> None:
    """Chunks are made of whole tiles; where these divide what is split, nothing reaches past the end, short as the last chunk may be."""
    graph = split_attention(m="16", n=n)
    program = scheduled(graph, {"s": count})
    (loop,) = loops(program.kernels[0])
    loads = [statement for statement in loop.body if isinstance(statement, Load)]
    assert loads and any(load.check for load in loads) == masked
    agrees(graph, program, {"s": count})


def test_kernels_with_chunks_of_their_own_read_nothing_of_other_chunks() -> None:
    """What one kernel finds for each chunk, of whole tiles of its own, is not of the chunks of another: at some lengths one is empty."""
    graph = split_attention(m="65", n="N", e="64", symbols=(Symbol("N", (300,)),))
    options = ScheduleOptions(plans=30, ranked=60, peel=True, compare=True)
    found = space([graph], {"N": 300, "s": 3}, frozenset("N"), TARGETS["b200"], options)
    for division in range(len(found.divisions)):
        program = found.program(found.trial(division, [0] * len(found.ways(division))))
        for kernel in program.kernels:
            own = [
                statement for statement in walk(kernel.body) if isinstance(statement, Load) and statement.buffer.name not in kernel.written
            ]
            if any(loop.dim == "ni" for loop in loops(kernel)):
                assert not any("s" in load.buffer.axes and "ni" not in load.buffer.axes for load in own)
        agrees(graph, program, {"N": 129, "s": 3})
