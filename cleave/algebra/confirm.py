"""
Numerical confirmation that results do not depend on free shifts: at small sizes, in float64, under unrelated random shifts.

`probe_graph` shrinks a graph for such tests: axes that no operation takes apart get a few elements whatever their extent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from ..extents import extent
from ..graph import Axis, Graph
from ..reference import Call, evaluate
from ..reference.dtypes import Array
from .rules import names

_MOST_ELEMENTS = 1 << 22
_SMALL = (3, 2, 5, 4)
_TOLERANCE = 1e-7
"""Relative. The sums are short and the shifts below 16 in size: float64 keeps ten digits."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A graph at sizes small enough to evaluate at once, and the values of its symbols."""

    graph: Graph
    symbols: Mapping[str, int]


def probe_graph(graph: Graph) -> Probe:
    """The graph with small extents for every axis that is nowhere split, merged, sliced, padded, indexed or joined."""
    fixed = {name for axis in graph.axes if axis.chunk_of for name in (axis.name, *axis.chunk_of)}
    same: dict[str, str] = {axis.name: axis.name for axis in graph.axes}
    for op in graph.ops:
        match op.kind, op.attr:
            case "rename", (tuple(pairs),):
                for pair in pairs:
                    old, new = (_root(same, name) for name in names(pair))
                    same[new] = old
            case "split", (axis, outer, inner):
                fixed.update((str(axis), str(outer), str(inner)))
            case (("merge" | "concat"), (tuple(parts), new)):
                fixed.update((*names(parts), str(new)))
            case (("slice" | "pad"), (axis, new, *_)):
                fixed.update((str(axis), str(new)))
            case (("index" | "gather"), (axis, *_)):
                fixed.add(str(axis))
            case _:
                pass
    fixed_roots = {_root(same, name) for name in fixed}
    sizes: dict[str, int] = {}
    axes: list[Axis] = []
    for axis in graph.axes:
        root = _root(same, axis.name)
        if root in fixed_roots:
            axes.append(axis)
            continue
        size = sizes.setdefault(root, _SMALL[len(sizes) % len(_SMALL)])
        axes.append(replace(axis, extent=extent(size)))
    symbols = {symbol.name: symbol.multiple_of * -(-5 // symbol.multiple_of) for symbol in graph.symbols}
    return Probe(replace(graph, axes=tuple(axes)), symbols)


def random_inputs(probe: Probe, rng: np.random.Generator, scale: float = 2.0) -> list[Array]:
    """Normal floats, booleans that are mostly true, and integers that every gather may use."""
    graph = probe.graph
    sizes = graph.sizes(probe.symbols)
    tables = [sizes[str(op.attr[0])] for op in graph.ops if op.kind == "gather"]
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


def most_elements(probe: Probe) -> int:
    """The size of the largest iteration space of an operation of the graph."""
    sizes = probe.graph.sizes(probe.symbols)
    spaces = [{axis for arg in op.args for axis in probe.graph.ops[arg].axes} | set(op.axes) for op in probe.graph.ops]
    return max((prod(sizes[axis] for axis in space) for space in spaces), default=1)


def independence_error(original: Graph, shifted: Graph) -> str:
    """
    What is wrong with a shifted graph, or nothing.

    The graphs have the same inputs, results and axes. Where the original gives NaN or infinity anything is right. Results
    too large to evaluate, or sizes that do not fit each other, leave it to the degrees.
    """
    probe = probe_graph(original)
    if most_elements(probe) > _MOST_ELEMENTS:
        return ""
    rng = np.random.default_rng(20261)
    inputs = random_inputs(probe, rng)
    try:
        expected = _evaluated(probe.graph, inputs, probe.symbols, None)
    except (ValueError, KeyError, ZeroDivisionError):
        return ""
    candidate = replace(shifted, axes=probe.graph.axes)
    for _ in range(2):
        found = _evaluated(candidate, inputs, probe.symbols, rng)
        for index, (value, wanted) in enumerate(zip(found, expected, strict=True)):
            if value.shape != wanted.shape:
                return f"result {index} has shape {value.shape} with shifts and {wanted.shape} without"
            sound = np.isfinite(wanted)
            room = _TOLERANCE * (np.abs(wanted) + 1e-2 * np.max(np.abs(wanted), where=sound, initial=0))
            if not np.all(np.abs(value - wanted)[sound] <= room[sound]):
                return f"result {index} depends on a shift"
    return ""


def _evaluated(graph: Graph, inputs: list[Array], symbols: Mapping[str, int], rng: np.random.Generator | None) -> list[Any]:
    def moved(call: Call, maxima: Array) -> Array:
        assert rng is not None
        return rng.uniform(-8, 8, maxima.shape)

    hook = None if rng is None else moved
    return [np.asarray(value, dtype=np.float64) for value in evaluate(graph, inputs, symbols, shift=hook)]


def _root(same: dict[str, str], name: str) -> str:
    while same[name] != name:
        name = same[name]
    return name
