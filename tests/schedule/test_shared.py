"""Kernels that graphs have in common are ranked once, and have the buffers of the graph they are run for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cleave.algebra import degrees
from cleave.graph import Graph, Op
from cleave.schedule import ScheduleOptions
from cleave.schedule.chunks import Aligned
from cleave.schedule.fusion import Candidate, Fusion
from cleave.schedule.kernels import Choice
from cleave.schedule.partition import cut_candidates, source_of
from cleave.schedule.program import Kernel, Load, Store, walk
from cleave.schedule.scheduler import assemble
from cleave.schedule.sizes import Sizes

from .programs import H200, agrees, attention, norm_linear


def moved(graph: Graph) -> Graph:
    """The same graph with every operation one place later: one more that nothing reads comes first."""
    at = len(graph.inputs)
    ops = [replace(op, args=tuple(arg + (arg >= at) for arg in op.args)) for op in graph.ops]
    unread = Op("constant", (), (), "f32", (17.0,))
    outputs = tuple(replace(entry, value=entry.value + 1) for entry in graph.outputs)
    return replace(graph, ops=(*ops[:at], unread, *ops[at:]), outputs=outputs, places=())


def divided(graph: Graph, shared: dict[object, tuple[tuple[str, ...], tuple[Choice, ...]]]) -> Candidate:
    """The graph with all values stored that may be."""
    source = source_of(Aligned(graph, degrees(graph), (), frozenset()), Sizes(graph, {}, frozenset()))
    fusion = Fusion(source, H200, ScheduleOptions(plans=24), shared=shared)
    found = fusion.partition(cut_candidates(source.graph))
    assert found is not None
    return found


def buffers(kernel: Kernel) -> set[str]:
    used = {statement.buffer.name for statement in walk(kernel.body) if isinstance(statement, Load | Store)}
    assert used == {buffer.name for buffer in kernel.buffers}
    assert set(kernel.written) <= used
    return used


@pytest.mark.parametrize("graph", [norm_linear(gated=True), attention(m="20", n="70", d="16", e="16")], ids=["norm", "attention"])
def test_a_kernel_of_another_graph_has_the_names_of_its_own(graph: Graph) -> None:
    shared: dict[object, tuple[tuple[str, ...], tuple[Choice, ...]]] = {}
    first = divided(graph, shared)
    count = len(shared)
    later = moved(graph)
    second = divided(later, shared)
    assert len(first.choices) > 1
    assert [item.buffer.name for item in first.workspaces] != [item.buffer.name for item in second.workspaces]
    programs = [assemble(found, found.choices, []) for found in (first, second)]
    for found, program in zip((first, second), programs, strict=True):
        own = {item.buffer.name for item in found.workspaces}
        known = {buffer.name for buffer in (*program.inputs, *program.outputs)} | own
        assert {name for kernel in program.kernels for name in buffers(kernel)} <= known
    agrees(graph, programs[0])
    agrees(later, programs[1])
    assert len(shared) == count
