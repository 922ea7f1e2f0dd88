"""
Graphs without their axes of size 1.

Nothing is summed along such an axis and nothing is laid out: reductions over it are what they reduce, a contraction over nothing else is
a product, an index along it is 0.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import cast

from ..graph import FLOATS, Attr, Builder, Graph, Op
from ..layouts import without_axes
from .dtypes import MOVES

_REARRANGING = frozenset(MOVES) - {"shift"}
"""Operations that name axes to make others of them."""


def without_unit_axes(graphs: Sequence[Graph]) -> tuple[Graph, ...]:
    """
    Graphs for one thing, of the same axes, without those whose size is 1 for every value of the symbols; the same objects where there are
    none.

    Inputs and results lie in memory as before, a dimension of nothing else being `1` in their layouts. Axes that operations of any of the
    graphs rearrange stay: renamed, split, merged, sliced, padded, concatenated, gathered or indexed ones.
    """
    unit = {axis.name for graph in graphs for axis in graph.axes if axis.extent.constant == 1}
    for graph in graphs:
        for axis in graph.axes:
            if axis.chunk_of is not None:
                unit -= {axis.name, *axis.chunk_of}
        for op in graph.ops:
            if op.kind in _REARRANGING:
                unit -= _named(op.attr)
    return tuple(_without(graph, unit) for graph in graphs) if unit else tuple(graphs)


def _named(attr: Attr) -> set[str]:
    if isinstance(attr, tuple):
        return set[str]().union(*(_named(part) for part in attr))
    return {attr} if isinstance(attr, str) else set()


def _without(graph: Graph, unit: Collection[str]) -> Graph:
    inputs = [
        replace(entry, axes=tuple(axis for axis in entry.axes if axis not in unit), layout=without_axes(entry.layout, unit))
        for entry in graph.inputs
    ]
    builder = Builder(graph.name, graph.symbols, [axis for axis in graph.axes if axis.name not in unit], inputs)
    made: list[int] = []
    for position, op in enumerate(graph.ops):
        builder.place = graph.places[position] if graph.places else ""
        made.append(_added(builder, op, [made[arg] for arg in op.args], unit))
    outputs = [replace(output, value=made[output.value], layout=without_axes(output.layout, unit)) for output in graph.outputs]
    return builder.finish(outputs)


def _added(builder: Builder, op: Op, args: list[int], unit: Collection[str]) -> int:
    """The position of an operation without the unit axes, added to the graph that is built."""
    match op.kind:
        case "input":
            return cast(int, op.attr[0])
        case "iota" | "size" if op.attr[0] in unit:
            value = 0 if op.kind == "iota" else 1
            return builder.add("constant", attr=(float(value) if op.dtype in FLOATS else value,), dtype=op.dtype)
        case "reduce":
            axes = _rest(op.attr[1], unit)
            return builder.add("reduce", *args, attr=(op.attr[0], axes), dtype=op.dtype) if axes else _cast(builder, args[0], op.dtype)
        case "contract":
            axes = _rest(op.attr[0], unit)
            return builder.add("contract", *args, attr=(axes,), dtype=op.dtype) if axes else _product(builder, args, op.dtype)
        case "shift":
            return builder.add("shift", *args, attr=(_rest(op.attr[0], unit),), dtype=op.dtype)
        case _:
            return builder.add(op.kind, *args, attr=op.attr, dtype=op.dtype)


def _rest(axes: Attr, unit: Collection[str]) -> tuple[str, ...]:
    return tuple(axis for axis in cast("tuple[str, ...]", axes) if axis not in unit)


def _cast(builder: Builder, value: int, dtype: str) -> int:
    return value if builder.ops[value].dtype == dtype else builder.add("cast", value, dtype=dtype)


def _product(builder: Builder, factors: list[int], dtype: str) -> int:
    """A product in the element type of the contraction, which is what a contraction computes in."""
    out, *others = (_cast(builder, factor, dtype) for factor in factors)
    for other in others:
        out = builder.add("mul", out, other, dtype=dtype)
    return out
