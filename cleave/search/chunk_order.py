"""
Chunks reduced in the other order: over the number of chunks first, then over the elements of a chunk.

The law: sum_i sum_s x[s, i] = sum_si x[s, i], and alike for maxima and minima, where each sum leaves out what does not exist. How many
elements a chunk has depends on which chunk it is, so the sum over i alone has no value of its own (`measure`), but both together have.
"""

from __future__ import annotations

from dataclasses import replace

from ..graph import FLOATS, Attr, Builder, Graph, Op
from .attributes import reduced_axes, whole
from .split import lone_chunk


def together(graph: Graph) -> Graph:
    """The same program with reductions over chunks joined to those over their outer axes just below; as it is where that is not enough."""
    if lone_chunk(graph) is None:
        return graph
    outers = {axis.name: axis.chunk_of[1] for axis in graph.axes if axis.chunk_of is not None}
    builder = Builder(graph.name, graph.symbols, graph.axes, graph.inputs)
    place: list[int] = []
    for at, op in enumerate(graph.ops):
        if op.kind == "input":
            place.append(whole(op.attr[0]))
            continue
        below = _below(graph, at, outers)
        if below is None:
            place.append(builder.add(op.kind, *(place[arg] for arg in op.args), attr=op.attr, dtype=op.dtype))
        else:
            axes = (*reduced_axes(below), *reduced_axes(op))
            attr: tuple[Attr, ...] = (*below.attr[:-1], axes)
            place.append(builder.add(below.kind, *(place[arg] for arg in below.args), attr=attr, dtype=op.dtype))
    made = builder.finish([replace(output, value=place[output.value]) for output in graph.outputs])
    return graph if lone_chunk(made) is not None else made if graph.places else replace(made, places=())


def _below(graph: Graph, at: int, outers: dict[str, str]) -> Op | None:
    """The reduction under one over a chunk that takes its outer axis away, casts between them left out; None if that is not it."""
    op = graph.ops[at]
    if op.kind != "reduce":
        return None
    inner = graph.ops[op.args[0]]
    while inner.kind == "cast" and inner.dtype in FLOATS and graph.ops[inner.args[0]].dtype in FLOATS:
        inner = graph.ops[inner.args[0]]
    wanted = {outers[axis] for axis in reduced_axes(op) if axis in outers} - set(inner.axes)
    alike = (inner.kind == "reduce" and inner.attr[0] == op.attr[0]) or (inner.kind == "contract" and op.attr[0] == "sum")
    return inner if alike and wanted and wanted <= set(reduced_axes(inner)) else None
