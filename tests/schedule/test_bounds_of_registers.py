"""Threads with fewer registers than they seem to need, so that more programs run at once."""

from __future__ import annotations

from cleave.graph import Graph
from cleave.runtime.compile import compile_module
from cleave.runtime.execute import executable
from cleave.schedule import TARGETS, ScheduleOptions, space
from cleave.schedule.cost import Resources, register_bound
from cleave.schedule.program import Program

from .programs import H200, agrees, attention

BOUNDS = ScheduleOptions(plans=80, ranked=200, bounds=True)


def bounded(graph: Graph, machine: str = "h200", count: int = 2) -> list[Program]:
    """Programs of a graph whose threads have a bound on their registers."""
    found = space([graph], {}, frozenset(), TARGETS[machine], BOUNDS)
    programs = (found.program(trial) for trial in found.trials(2000) if "of at most" in found.text(trial))
    return [program for program, _ in zip(programs, range(count), strict=False)]


def test_values_stay() -> None:
    graph = attention(m="100", n="300")
    programs = bounded(graph)
    assert programs
    for program in programs:
        agrees(graph, program)
        assert "maxnreg=" in executable(program).file.text


def test_ahead_of_time() -> None:
    """The compiler keeps to the bound."""
    programs = bounded(attention(b="4", g="8", m="1024", n="1024"))
    assert programs
    for program in programs:
        (kernel,) = program.kernels
        (compiled,) = compile_module(executable(program).module, "sm_90")
        assert compiled.registers <= kernel.max_registers


def test_only_where_one_more_program_has_room() -> None:
    """256 threads of 161 registers are one block of 65536; 128 make two, if there is shared memory for these, and no more is cut off."""
    assert register_bound(Resources(161, 116736, False), 0, 8, H200) == 128
    assert register_bound(Resources(161, 131072, False), 0, 8, H200) == 0
    assert register_bound(Resources(200, 65536, False), 0, 8, H200) == 0
    assert register_bound(Resources(128, 65536, False), 0, 8, H200) == 0
    assert register_bound(Resources(200, 65536, False), 0, 4, H200) == 168


def test_not_where_what_a_loop_carries_leaves_no_registers() -> None:
    """Sums of 128 x 256 in 8 warps are 128 registers a thread, those of 128 x 128 are 64; an instruction holds all that it adds to."""
    assert register_bound(Resources(161, 98304, False), 128 * 256 * 4, 8, H200) == 0
    assert register_bound(Resources(161, 98304, False), 128 * 128 * 4, 8, H200) == 128


def test_not_on_other_machines() -> None:
    graph = attention(m="1024", n="1024")
    assert bounded(graph) and not bounded(graph, "mi300x")
