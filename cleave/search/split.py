"""
Splitting an axis into chunks: partial reductions over a chunk, then the combination over chunks.

The law: element (s, i) of a split axis n stands for s * |i| + i of n and does not exist past the end, so a sum, maximum or minimum
over n is one over i and then over s, and everything elementwise over n is elementwise over (s, i). This commutes with every other
rule, so splitting what the search has found is as good as searching the split program. The number of chunks is a symbol of its
own that need not divide the extent.

An axis may be split where every output reduces over it: found by following dependences, nobody declares it. Two may be split at
once, each with a number of chunks of its own: splitting one leaves the other as it was, so it is one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ..extents import extent
from ..graph import Attr, Axis, Builder, Graph, Op, Symbol
from .attributes import reduced_axes, whole

MOVERS = ("split", "merge", "slice", "index", "concat", "pad", "gather", "rename")
CHUNK_HINTS = (8, 2, 32)


def splittable(graph: Graph) -> tuple[str, ...]:
    """The axes over which every output reduces, in declared order; chunks and what they are chunks of are left out."""
    reduced: list[frozenset[str]] = []
    for op in graph.ops:
        below = frozenset[str]().union(*(reduced[arg] for arg in op.args))
        reduced.append(below | frozenset(reduced_axes(op)))
    wanted = frozenset(axis.name for axis in graph.axes)
    for output in graph.outputs:
        wanted &= reduced[output.value] - frozenset(graph.ops[output.value].axes)
    chunked = {name for axis in graph.axes if axis.chunk_of is not None for name in (axis.name, *axis.chunk_of)}
    return graph.ordered(wanted - chunked)


def dependent_reductions(graph: Graph, axis: str) -> int:
    """The most reductions over an axis on one path: with one, a split needs a single pass over the chunks."""
    depth: list[int] = []
    for op in graph.ops:
        depth.append(max((depth[arg] for arg in op.args), default=0) + int(axis in reduced_axes(op)))
    return max((depth[output.value] for output in graph.outputs), default=0)


def split_axis(graph: Graph, axis: str) -> Graph:
    """The same program with an axis in chunks. The axis must be one of `splittable`."""
    return _Splitting(graph, axis).run()


def split_axes(graph: Graph, axes: Iterable[str]) -> Graph:
    """The same program with several axes in chunks, each of which must be one of `splittable`."""
    for axis in axes:
        graph = split_axis(graph, axis)
    return graph


def fresh(wanted: str, taken: Iterable[str]) -> str:
    """A name that is not taken."""
    used, name, count = set(taken), wanted, 1
    while name in used:
        count += 1
        name = f"{wanted}{count}"
    return name


class _Splitting:
    def __init__(self, graph: Graph, axis: str) -> None:
        self.graph = graph
        self.axis = axis
        taken = [entry.name for entry in graph.axes] + [symbol.name for symbol in graph.symbols]
        self.outer = fresh("s", taken)
        # Programs split differently are listed together, so a chunk is called after what it is a chunk of and by.
        self.inner = fresh(f"{axis}i{self.outer.removeprefix('s')}", [*taken, self.outer])
        axes: list[Axis] = []
        for entry in graph.axes:
            axes.append(entry)
            if entry.name == axis:
                axes.append(Axis(self.outer, extent(self.outer)))
                axes.append(Axis(self.inner, extent(f"ceildiv({entry.extent}, {self.outer})"), (axis, self.outer)))
        symbols = (*graph.symbols, Symbol(self.outer, CHUNK_HINTS, positive=True))
        self.builder = Builder(graph.name, symbols, axes, graph.inputs)
        self.whole: dict[int, int] = {}
        self.chunked: dict[int, int] = {}

    def run(self) -> Graph:
        outputs = [replace(output, value=self.make(output.value)) for output in self.graph.outputs]
        return self.builder.finish(outputs)

    def make(self, position: int) -> int:
        """The operation with the axis whole, as written, but for reductions over the axis."""
        if position not in self.whole:
            self.whole[position] = self._make(position, self.graph.ops[position])
        return self.whole[position]

    def _make(self, position: int, op: Op) -> int:
        if op.kind == "input":
            return whole(op.attr[0])
        if self.axis not in reduced_axes(op):
            return self.add(op, [self.make(arg) for arg in op.args])
        axes = tuple(self.inner if axis == self.axis else axis for axis in reduced_axes(op))
        partial = self.add(op, [self.chunks(arg) for arg in op.args], (*op.attr[:-1], axes))
        kind = op.attr[0] if op.kind == "reduce" else "max" if op.kind == "shift" else "sum"
        return self.builder.add("reduce", partial, attr=(kind, (self.outer,)), dtype=op.dtype)

    def chunks(self, position: int) -> int:
        """The operation with the axis in chunks."""
        op = self.graph.ops[position]
        if self.axis not in op.axes:
            return self.make(position)
        if position not in self.chunked:
            if op.kind in ("input", "iota") or (op.kind in MOVERS and not self.passes(op)):
                split = (self.axis, self.outer, self.inner)
                self.chunked[position] = self.builder.add("split", self.make(position), attr=split, dtype=op.dtype)
            else:
                self.chunked[position] = self.add(op, [self.chunks(arg) for arg in op.args])
        return self.chunked[position]

    def passes(self, op: Op) -> bool:
        """Whether a data movement leaves the axis alone, in its attribute and in every operand."""
        return self.axis not in _names(op.attr) and all(self.axis in self.graph.ops[arg].axes for arg in op.args)

    def add(self, op: Op, args: Sequence[int], attr: tuple[Attr, ...] | None = None) -> int:
        return self.builder.add(op.kind, *args, attr=op.attr if attr is None else attr, dtype=op.dtype)


def _names(attr: Attr) -> set[str]:
    if isinstance(attr, tuple):
        return set[str]().union(*(_names(part) for part in attr))
    return {attr} if isinstance(attr, str) else set()


def lone_chunk(graph: Graph) -> str | None:
    """
    A chunk axis that is reduced, or whose size is asked for, where the outer axis of its split is gone.

    How many elements a chunk has depends on which chunk it is, so such a value has no place among those of the search.
    """
    outers = {axis.name: axis.chunk_of[1] for axis in graph.axes if axis.chunk_of is not None}
    for op in graph.ops:
        present = {axis for arg in op.args for axis in graph.ops[arg].axes}
        removed = (str(op.attr[0]),) if op.kind == "size" else reduced_axes(op)
        for axis in removed:
            if axis in outers and outers[axis] not in present:
                return axis
    return None
