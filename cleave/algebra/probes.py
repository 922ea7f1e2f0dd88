"""
Graphs at sizes small enough to evaluate at once, and inputs for them.

Axes that no operation takes apart get a few elements whatever their extent, unless their number matters: where a constant
goes with a fixed extent (a mean written as a sum times 1/4096), the axis keeps it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import DTypeLike

from ..extents import extent
from ..graph import Axis, Graph
from ..layouts import layout_axes
from ..reference import Named, evaluate
from ..reference.dtypes import Array
from ..reference.meaning import Shift
from .rules import constant_of, names

SMALL = (3, 2, 5, 4)
CHUNKS = 3
_FEW = 16
_COUNTING = ("reduce", "contract")
_MOVING = ("split", "merge", "slice", "concat", "pad", "index", "rename")


@dataclass(frozen=True, slots=True)
class Probe:
    """A graph with small extents and the values of its symbols."""

    graph: Graph
    symbols: Mapping[str, int]

    def elements(self) -> int:
        """The size of the largest iteration space of an operation; one that moves elements has that of an operand or of its result."""
        sizes = self.graph.sizes(self.symbols)
        ops = self.graph.ops
        spaces: list[set[str]] = []
        for op in ops:
            if op.kind in _MOVING:
                spaces += [set(op.axes), *(set(ops[arg].axes) for arg in op.args)]
            else:
                spaces.append({axis for arg in op.args for axis in ops[arg].axes} | set(op.axes))
        return max((prod(sizes[axis] for axis in space) for space in spaces), default=1)


def structured_axes(graph: Graph) -> tuple[str, ...]:
    """
    The axes that are merged, sliced, padded, joined, split into parts that fill them, or indexed beyond the first few elements:
    their extents belong together. Those of a split into chunks, of which the last may be short, do not.
    """
    chunk_of = {axis.name: axis.chunk_of for axis in graph.axes}
    out: list[str] = []
    for op in graph.ops:
        match op.kind, op.attr:
            case (("merge" | "concat"), (tuple(parts), new)):
                out += (*names(parts), str(new))
            case (("slice" | "pad"), (axis, new, *_)):
                out += (str(axis), str(new))
            case "split", (axis, outer, inner) if chunk_of.get(str(inner)) != (axis, outer):
                out += (str(axis), str(outer), str(inner))
            case "index", (axis, position) if position != extent(0):
                out.append(str(axis))
            case _:
                pass
    return tuple(dict.fromkeys(out))


def probe_graph(graph: Graph, sizes: Sequence[int] = SMALL, keep: Collection[str] = ()) -> Probe:
    """
    The graph with extents taken in turn from `sizes`.

    Axes of `keep` and `structured_axes` keep their extents, at symbols that are about the largest of `sizes`. A split makes
    three chunks, the last of them short or empty.
    """
    same: dict[str, str] = {axis.name: axis.name for axis in graph.axes}
    for op in graph.ops:
        match op.kind, op.attr:
            case "rename", (tuple(pairs),):
                for pair in pairs:
                    old, new = (_root(same, name) for name in names(pair))
                    same[new] = old
            case _:
                pass
    declared = set(same)
    fixed = {_root(same, name) for name in (*structured_axes(graph), *keep) if name in declared}
    chosen: dict[str, int] = {}
    axes: list[Axis] = []
    for axis in graph.axes:
        root = _root(same, axis.name)
        if root in fixed:
            axes.append(axis)
        elif axis.chunk_of is None:
            size = chosen.setdefault(root, sizes[len(chosen) % len(sizes)])
            axes.append(replace(axis, extent=extent(size)))
        else:
            axes.append(axis)
    symbols = {symbol.name: symbol.multiple_of * -(-max(sizes) // symbol.multiple_of) for symbol in graph.symbols}
    return Probe(replace(graph, axes=chunked(axes, fixed)), symbols)


def chunked(axes: Sequence[Axis], fixed: Collection[str] = ()) -> tuple[Axis, ...]:
    """The axes, with three chunks for every split whose outer and inner axis are not `fixed`."""
    outer = {axis.chunk_of[1] for axis in axes if axis.chunk_of and not {axis.name, axis.chunk_of[1]} & set(fixed)}
    known = {axis.name: replace(axis, extent=extent(CHUNKS)) if axis.name in outer else axis for axis in axes}
    for axis in axes:
        if axis.chunk_of and axis.chunk_of[1] in outer:
            known[axis.name] = replace(axis, extent=extent(f"ceildiv({known[axis.chunk_of[0]].extent}, {CHUNKS})"))
    return tuple(known[axis.name] for axis in axes)


def counted_axes(graphs: Iterable[Graph]) -> tuple[str, ...]:
    """
    The axes of fixed extent whose number of elements may matter.

    Of those that are reduced over: the ones that a constant of the graphs speaks of (a multiple or a divisor of the extent, or 1
    over one), and short ones.
    """
    graphs = tuple(graphs)
    reduced = {axis for graph in graphs for op in graph.ops if op.kind in _COUNTING for axis in names(op.attr[-1])}
    constants = {abs(value) for graph in graphs for position in range(len(graph.ops)) if (value := constant_of(graph, position))}
    counts = {round(value) for constant in constants if np.isfinite(constant) for value in (constant, 1 / constant) if _is_count(value)}
    out: dict[str, None] = {}
    for graph in graphs:
        for axis in graph.axes:
            size = axis.extent.constant
            if (
                size is not None
                and axis.name in reduced
                and (size < _FEW or any(size % count == 0 or count % size == 0 for count in counts))
            ):
                out[axis.name] = None
    return tuple(out)


def _is_count(value: float) -> bool:
    return _FEW <= value < 1e12 and abs(value - round(value)) < 1e-6 * value


def random_inputs(probe: Probe, rng: np.random.Generator, scale: float = 2.0) -> list[Array]:
    """Normal floats, booleans that are mostly true, and integers that every gather may use."""
    graph = probe.graph
    sizes = graph.sizes(probe.symbols)
    tables = [sizes[str(op.attr[0])] for op in graph.ops if op.kind == "gather" and sizes[str(op.attr[0])]]
    out: list[Array] = []
    for entry in graph.inputs:
        shape = tuple(sizes[axis] for axis in entry.axes)
        if entry.dtype == "i1":
            out.append(rng.random(shape) < 0.7)
        elif entry.dtype in ("i32", "i64", "index"):
            out.append(rng.integers(0, max(1, min(tables, default=4)), shape))
        else:
            out.append(rng.normal(size=shape) * scale)
    return out


def results(
    probe: Probe, inputs: Sequence[Array], dtype: DTypeLike, *, respect_dtypes: bool = False, shift: Shift | None = None
) -> list[Array]:
    """The results of a probe, each over all axes of its layout in declared order, in float64. Raises: ValueError as `evaluate`."""
    graph = probe.graph
    values = evaluate(graph, inputs, probe.symbols, dtype, respect_dtypes=respect_dtypes, shift=shift)
    sizes = graph.sizes(probe.symbols)
    out: list[Array] = []
    for value, output in zip(values, graph.outputs, strict=True):
        axes = graph.ordered(layout_axes(output.layout))
        out.append(Named(graph.ops[output.value].axes, value).full(axes, sizes).astype(np.float64))
    return out


def _root(same: dict[str, str], name: str) -> str:
    while same[name] != name:
        name = same[name]
    return name
