"""Loops that masks shorten, and bodies without masks."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from cleave.graph import Graph, Symbol
from cleave.schedule import ScheduleOptions
from cleave.schedule.program import For, Kernel, Let, Program, walk

from .programs import H200, agrees, attention, candidates, loops, scheduled

PEELED = ScheduleOptions(peel=True)


def walked(graph: Graph, way: str, sizes: Mapping[str, int] | None = None) -> Program:
    """The best program whose loops are walked in a way, at dynamic sizes where these are given."""
    found = candidates([graph], sizes or {}, frozenset(sizes or ()), H200, PEELED, count=1000)
    return next(program for program in found if way in program.notes[-1])


def bound_names(kernel: Kernel) -> list[tuple[str, str]]:
    """Start and stop of every outermost loop, by the kind of statement that makes them."""
    made = {id(statement.out): statement.kind for statement in walk(kernel.body) if isinstance(statement, Let)}
    return [(made.get(id(loop.start), "argument"), made.get(id(loop.stop), "argument")) for loop in loops(kernel)]


def test_a_causal_loop_stops_at_the_diagonal() -> None:
    (kernel,) = scheduled(attention(m="100", n="100", mask="causal")).kernels
    assert bound_names(kernel) == [("constant", "min")]


def test_a_window_also_starts_late() -> None:
    """The first tile holds the first live key of the first row; starts are multiples of the tile."""
    graph = attention(m="200", n="300", mask="window")
    program = scheduled(graph)
    agrees(graph, program)
    (kernel,) = program.kernels
    assert bound_names(kernel) == [("max", "min")]


def test_an_unmasked_loop_runs_over_all_keys() -> None:
    (kernel,) = scheduled(attention(m="100", n="100")).kernels
    assert bound_names(kernel) == [("constant", "constant")]


def test_a_fill_that_is_not_neutral_shortens_nothing() -> None:
    """Masked logits of -1 still count: every key is visited."""
    from cleave.graph import Input

    from .programs import Sketch

    s = Sketch("filled", "m=40 n=90", [Input("x", ("m", "n"), "f32", "m n")])
    ok = s.op("compare", s.op("iota", attr=("n",)), s.op("iota", attr=("m",)), attr=("le",))
    x = s.op("select", ok, 0, -1.0)
    top = s.shift(x, "n")
    s.output(s.reduce("sum", s.op("exp", s.op("sub", x, top)), "n"), "m", "f32")
    with pytest.raises(Exception, match="depends on a shift"):
        scheduled(s.graph())
    s.outputs.clear()
    p = s.op("exp", s.op("sub", x, top))
    s.output(s.op("log", s.reduce("sum", p, "n")), "m", "f32")
    s.outputs.clear()
    s.output(s.op("add", s.op("log", s.reduce("sum", p, "n")), top), "m", "f32")
    graph = s.graph()
    program = scheduled(graph)
    agrees(graph, program)
    assert all(stop == "constant" for _, stop in bound_names(program.kernels[0]))


@pytest.mark.parametrize("mask", ["", "causal", "window", "dead"])
@pytest.mark.parametrize("sizes", [{"M": 1, "N": 1}, {"M": 70, "N": 300}, {"M": 300, "N": 70}, {"M": 130, "N": 256}])
def test_peeled_loops_keep_values(mask: str, sizes: dict[str, int]) -> None:
    graph = attention(m="M", n="N", d="16", e="16", mask=mask, symbols=(Symbol("M", (4096,)), Symbol("N", (4096,))))
    program = walked(graph, "peeled", {"M": 4096, "N": 4096})
    agrees(graph, program, sizes)


def selects(loop: For) -> int:
    """The selections in a loop."""
    return sum(isinstance(statement, Let) and statement.kind == "select" for statement in walk(loop.body))


def big(mask: str) -> Graph:
    return attention(b="4", g="8", m="4000", n="4000", d="128", e="128", mask=mask)


def test_a_peeled_body_has_no_masks() -> None:
    """Causal: tiles below the diagonal first, then the diagonal. The guard of dead rows stays, the masks go."""
    (kernel,) = walked(big("causal"), "peeled").kernels
    whole, masked = loops(kernel)
    assert selects(whole) < selects(masked)
    assert [entry.out for entry in whole.carried] == [entry.init for entry in masked.carried]


def test_one_loop_unless_asked() -> None:
    (kernel,) = scheduled(big("causal")).kernels
    assert len(loops(kernel)) == 1


@pytest.mark.parametrize(("mask", "first"), [("causal", True), ("", False)])
def test_long_programs_may_come_first(mask: str, first: bool) -> None:
    """Later rows have more keys: then programs are numbered from the last rows, slowest of all. Without a mask all are alike."""
    found = candidates([big(mask)], {}, frozenset(), H200, count=12)
    chosen = [kernel.grid[-1].dim for program in found for kernel in program.kernels if "from the last m" in program.notes[-1]]
    assert bool(chosen) == first and set(chosen) <= {"m"}


def test_programs_from_the_last_keep_values() -> None:
    graph = attention(b="2", g="2", r="2", m="300", n="300", d="16", e="16", mask="causal")
    found = [program for program in candidates([graph], {}, frozenset(), H200, count=200) if "from the last m" in program.notes[-1]]
    assert found
    for program in (found[0], found[-1]):
        agrees(graph, program)


def test_the_model_prefers_long_programs_first() -> None:
    """Ahead of a program of the same tiles in any order, which may end with a long one."""
    notes = [program.notes[-1] for program in candidates([big("causal")], {}, frozenset(), H200, count=2)]
    assert any("from the last m" in note for note in notes)
