"""
Large programs in pieces.

The law: where all later work depends on earlier work through a single value alone, the program is that value's program followed
by one that reads it, and alternatives of the two can be put together freely. A stack of layers is cut between its layers, so
the search grows with their number and not with their product; what only a look across the cut would show is not found.

Arguments, constants, masks of indices and renamed arguments may be used on both sides of a cut. Pieces that are alike but for
the names of their arguments are searched once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..graph import FLOATS, Attr, Builder, Graph, Input, Op, Output
from .attributes import whole

SILENT = ("input", "constant", "size", "iota", "cast")
LEAST = 8
"""A piece has at least an eighth of the operations it may have."""
MOVES = ("cast", "rename", "split", "merge", "slice", "index")


@dataclass(frozen=True, slots=True)
class Segment:
    """
    A piece of a program. `sources[i]` says what its argument i is: the position of an argument of the program, or None for the
    value of the piece before.
    """

    graph: Graph
    sources: tuple[int | None, ...]


def segments(graph: Graph, most: int) -> list[Segment]:
    """The pieces of a program of more than `most` operations, in order; one piece if it is smaller or cannot be cut."""
    working = [op.kind not in SILENT for op in graph.ops]
    if sum(working) <= most:
        return [Segment(graph, tuple(range(len(graph.inputs))))]
    outputs = list(graph.outputs)
    out: list[Segment] = []
    before: int | None = None
    for cut in _chosen(graph, working, most):
        op = graph.ops[cut]
        out.append(_piece(graph, [Output(cut, " ".join(op.axes), op.dtype)], before))
        before = cut
    return [*out, _piece(graph, outputs, before)]


def _chosen(graph: Graph, working: Sequence[bool], most: int) -> list[int]:
    """The cuts: always the last one within reach, or the next one where none is."""
    ancestors = _ancestors(graph)
    counts = {cut: sum(working[i] for i in range(cut + 1) if ancestors[cut] >> i & 1) for cut in _cuts(graph, ancestors)}
    total, done = sum(working), 0
    chosen: list[int] = []
    while total - done > most:
        after = [cut for cut, count in counts.items() if count - done >= most // LEAST and total - count >= most // LEAST]
        reached = [cut for cut in after if counts[cut] - done <= most]
        if not after:
            break
        cut = reached[-1] if reached else after[0]
        chosen.append(cut)
        done = counts[cut]
    return chosen


def _ancestors(graph: Graph) -> list[int]:
    """For every operation a mask of what it depends on, itself included."""
    out: list[int] = []
    for position, op in enumerate(graph.ops):
        mask = 1 << position
        for arg in op.args:
            mask |= out[arg]
        out.append(mask)
    return out


def _cuts(graph: Graph, ancestors: Sequence[int]) -> list[int]:
    """The operations through which alone everything later depends on what they depend on."""
    users = [0] * len(graph.ops)
    needed = 0
    for output in graph.outputs:
        needed |= ancestors[output.value]
    for position, op in enumerate(graph.ops):
        for arg in op.args:
            users[arg] |= (needed >> position & 1) << position
    shared = _shareable(graph)
    results = {output.value for output in graph.outputs}
    out: list[int] = []
    for position, op in enumerate(graph.ops):
        inside = ancestors[position]
        if shared[position] or op.dtype not in FLOATS or not needed >> position & 1 or position in results:
            continue
        others = [i for i in range(position) if inside >> i & 1 and not shared[i]]
        if not any(users[i] & ~inside for i in others) and results.isdisjoint(others):
            out.append(position)
    return out


def _shareable(graph: Graph) -> list[bool]:
    """What may be made again on the other side of a cut."""
    out: list[bool] = []
    for op in graph.ops:
        cheap = op.kind in ("input", "constant", "size", "iota") or op.dtype not in FLOATS or op.kind in MOVES
        out.append(cheap and all(out[arg] for arg in op.args))
    return out


def _piece(graph: Graph, outputs: Sequence[Output], before: int | None) -> Segment:
    needed: set[int] = set()
    stack = [output.value for output in outputs]
    while stack:
        position = stack.pop()
        if position not in needed:
            needed.add(position)
            if position != before:
                stack.extend(graph.ops[position].args)
    arguments = [position for position in sorted(needed) if graph.ops[position].kind == "input"]
    read = [whole(graph.ops[position].attr[0]) for position in arguments]
    inputs = [graph.inputs[position] for position in read]
    sources: list[int | None] = list(read)
    if before is not None:
        op = graph.ops[before]
        taken = {entry.name for entry in inputs}
        name = next(name for name in (f"before{'_' * i}" for i in range(len(taken) + 1)) if name not in taken)
        inputs.append(Input(name, op.axes, op.dtype, " ".join(op.axes)))
        sources.append(None)
    builder = Builder(graph.name, graph.symbols, graph.axes, inputs)
    place = {
        position: index for index, position in enumerate(position for position in sorted(needed) if graph.ops[position].kind == "input")
    }
    if before is not None:
        place[before] = len(inputs) - 1
    for position in sorted(needed - place.keys()):
        place[position] = _copied(builder, graph, position, place)
    piece = builder.finish([replace(output, value=place[output.value]) for output in outputs])
    return Segment(_without_unused_axes(piece), tuple(sources))


def _without_unused_axes(graph: Graph) -> Graph:
    used = {axis for op in graph.ops for axis in op.axes} | {name for op in graph.ops for part in op.attr for name in _names(part)}
    used |= {name for axis in graph.axes if axis.chunk_of is not None and axis.name in used for name in axis.chunk_of}
    return replace(graph, axes=tuple(axis for axis in graph.axes if axis.name in used))


def _names(attr: Attr) -> tuple[str, ...]:
    if isinstance(attr, tuple):
        return tuple(name for part in attr for name in _names(part))
    return (attr,) if isinstance(attr, str) else ()


def _copied(builder: Builder, graph: Graph, position: int, place: dict[int, int]) -> int:
    op: Op = graph.ops[position]
    spot = graph.places[position] if graph.places else ""
    return builder.add(op.kind, *(place[arg] for arg in op.args), attr=op.attr, dtype=op.dtype, place=spot)


def joined(graph: Graph, pieces: Sequence[Segment], chosen: Sequence[Graph]) -> Graph:
    """The program made of one graph for every piece."""
    builder = Builder(graph.name, graph.symbols, graph.axes, graph.inputs)
    value, results = -1, [0]
    for piece, part in zip(pieces, chosen, strict=True):
        place: dict[int, int] = {}
        for position, op in enumerate(part.ops):
            if op.kind == "input":
                source = piece.sources[whole(op.attr[0])]
                place[position] = value if source is None else source
            else:
                place[position] = _copied(builder, part, position, place)
        results = [place[output.value] for output in part.outputs]
        value = results[0]
    return builder.finish([replace(output, value=result) for output, result in zip(graph.outputs, results, strict=True)])


def unnamed(piece: Segment) -> Graph:
    """The graph of a piece with arguments named by position and no source locations: equal for pieces that are alike."""
    inputs = tuple(replace(entry, name=f"argument{i}") for i, entry in enumerate(piece.graph.inputs))
    return replace(piece.graph, inputs=inputs, places=())
