"""
What a graph costs, as formulas over its symbols.

The law: FLOPs count every operation once per element of its iteration space (two for each element of a contraction, so that a
matrix product counts as usual), with one for exp and its like; bytes are the least traffic of a fused program, each input read
and each output written once; phases are the most sums and maxima on one path. Data movement and casts count nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sympy

from ..extents import Extent, from_sympy
from ..graph import DEFAULT_HINT, ELEMENT_BYTES, Graph, Op

SILENT = ("input", "constant", "size", "iota", "cast", "rename", "split", "merge", "slice", "index", "pad", "concat", "gather", "shift")
BYTES = {**ELEMENT_BYTES, "index": 8}
"""What an element of an input or a result takes; an index as much as an integer of 64 bits."""


@dataclass(frozen=True, slots=True)
class Cost:
    """FLOPs and bytes as texts of extents, and the number of phases."""

    flops: str
    bytes: str
    phases: int


def cost(graph: Graph) -> Cost:
    """The cost of a graph."""
    spaces: dict[tuple[str, ...], int] = {}
    depth: list[int] = []
    for op in graph.ops:
        reduces = op.kind in ("reduce", "contract")
        depth.append(max((depth[arg] for arg in op.args), default=0) + int(reduces))
        if op.kind not in SILENT:
            axes = iteration_space(graph, op)
            spaces[axes] = spaces.get(axes, 0) + (2 * (len(op.args) - 1) if op.kind == "contract" else 1)
    traffic: dict[tuple[str, ...], int] = {}
    for entry in graph.inputs:
        axes = graph.ordered(entry.axes)
        traffic[axes] = traffic.get(axes, 0) + BYTES[entry.dtype]
    for output in graph.outputs:
        axes = graph.ops[output.value].axes
        traffic[axes] = traffic.get(axes, 0) + BYTES[output.dtype]
    phases = max((depth[output.value] for output in graph.outputs), default=0)
    return Cost(_formula(graph, spaces), _formula(graph, traffic), phases)


def iteration_space(graph: Graph, op: Op) -> tuple[str, ...]:
    """The axes over which an operation runs: those of its operands and of its result."""
    return graph.ordered(axis for axes in (op.axes, *(graph.ops[arg].axes for arg in op.args)) for axis in axes)


def _formula(graph: Graph, amounts: Mapping[tuple[str, ...], int]) -> str:
    spaces: dict[tuple[Extent, ...], int] = {}
    for axes, amount in amounts.items():
        extents = tuple(graph.axis(axis).extent for axis in _joined(graph, axes))
        spaces[extents] = spaces.get(extents, 0) + amount
    return _text(tuple(spaces.items()))


@lru_cache(maxsize=1024)
def _text(amounts: tuple[tuple[tuple[Extent, ...], int], ...]) -> str:
    """A sum of amounts times extents; the alternatives of a program share many."""
    return from_sympy(sympy.Add(*(amount * _volume(extents) for extents, amount in amounts))).text


@lru_cache(maxsize=1024)
def _volume(extents: tuple[Extent, ...]) -> Any:
    return sympy.Mul(*(extent.sympy() for extent in extents))


def _joined(graph: Graph, axes: tuple[str, ...]) -> list[str]:
    """The axes with chunks and their outer axis taken as the whole: elements past the end are no work."""
    out = list(axes)
    for axis in axes:
        chunk = graph.axis(axis).chunk_of
        if chunk is not None and chunk[1] in out:
            out.remove(axis)
            out[out.index(chunk[1])] = chunk[0]
    return out


def hinted_sizes(graph: Graph) -> dict[str, int]:
    """The size of every axis at the first hint of every symbol, a symbol without hints taken as `DEFAULT_HINT`."""
    return axis_sizes(graph, {entry.name: entry.hints[0] if entry.hints else DEFAULT_HINT for entry in graph.symbols})


def longest_sizes(graph: Graph) -> dict[str, int]:
    """The size of every axis at the largest hint of every symbol."""
    return axis_sizes(graph, {entry.name: max(entry.hints, default=DEFAULT_HINT) for entry in graph.symbols})


def axis_sizes(graph: Graph, values: Mapping[str, int]) -> dict[str, int]:
    """The size of every axis where the symbols have these values, at least 1."""
    known = {name: values.get(name, DEFAULT_HINT) for axis in graph.axes for name in axis.extent.symbols}
    return {axis.name: max(axis.extent.evaluate(known), 1) for axis in graph.axes}


def volume(sizes: Mapping[str, int], axes: Iterable[str]) -> float:
    """The number of elements over axes."""
    out = 1.0
    for axis in axes:
        out *= sizes[axis]
    return out
