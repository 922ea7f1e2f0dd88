"""The whole way of a program on plain values: search, gate, stabilize, schedule, and running the tiles in numpy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from cleave.algebra import gate, stabilize
from cleave.algebra.probes import Probe, results
from cleave.extents import sizes_of
from cleave.graph import Graph
from cleave.layouts import layout_axes, memory_shape
from cleave.reference.dtypes import Array
from cleave.reference.sched import run_program
from cleave.schedule import ScheduleOptions, schedule, target
from cleave.schedule.program import Program
from cleave.search import SearchOptions, superoptimize


def alternatives(graph: Graph, options: SearchOptions | None = None) -> tuple[Graph, ...]:
    """The program as written and what the search found for it and the float gate let pass, with safe exponentials."""
    found = [entry.graph for entry in superoptimize(graph, options).alternatives]
    passed = gate(graph, found[1:]).kept
    return tuple(stabilize(entry) for entry in (found[0], *(found[1 + index] for index in passed)))


def scheduled(
    graphs: Sequence[Graph],
    sizes: Mapping[str, int],
    dynamic: Iterable[str] = (),
    options: ScheduleOptions | None = None,
    machine: str = "h200",
) -> Program:
    """The tile program for sizes; numbers of chunks are chosen by the schedule where not given."""
    return schedule(graphs, sizes, frozenset(dynamic), target(machine), options)


def run_tiles(program: Program, graph: Graph, inputs: Sequence[Array], sizes: Mapping[str, int], *, rounding: bool = False) -> list[Array]:
    """
    The results of a tile program, each over all axes of its layout in declared order.

    Inputs are laid out over the axes that `graph.inputs` list.
    """
    extents = sizes_of(program.sizes, sizes)
    laid_out: list[Array] = []
    for entry, value in zip(graph.inputs, inputs, strict=True):
        order = layout_axes(entry.layout)
        laid_out.append(np.transpose(value, [entry.axes.index(axis) for axis in order]).reshape(memory_shape(entry.layout, extents)))
    out: list[Array] = []
    for output, value in zip(graph.outputs, run_program(program, laid_out, sizes, rounding=rounding), strict=True):
        order = layout_axes(output.layout)
        declared = graph.ordered(order)
        out.append(np.transpose(value.reshape([extents[axis] for axis in order]), [order.index(axis) for axis in declared]))
    return out


def exact(graph: Graph, inputs: Sequence[Array], sizes: Mapping[str, int]) -> list[Array]:
    """The results in float64, with safe exponentials."""
    return results(Probe(stabilize(graph), sizes), inputs, np.float64)
