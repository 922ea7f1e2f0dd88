"""
What a program takes to run at given sizes, in one unit: what the search minimises.

The law: an operation costs its rate times the elements it runs over; data movement, constants and casts cost nothing. Elementwise
units are scarcer than those that multiply matrices, so their work counts for more.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..graph import Graph
from .attributes import whole
from .cost import SILENT, iteration_space, volume

MULTIPLY_ADD, SIMPLE, TRANSCENDENTAL = 2.0, 4.0, 16.0
"""Work of an element of a contraction, of other arithmetic, and of exp and its like."""
TRANSCENDENTALS = ("exp", "expm1", "log", "log1p", "tanh", "sigmoid", "silu", "gelu", "gelu_tanh", "sin", "cos", "erf", "erfc", "pow")


def work(graph: Graph, sizes: Mapping[str, int], hoist: bool = False) -> float:
    """The work of a graph at these sizes of its axes; with `hoist`, work on weights alone is done already."""
    total = 0.0
    ready: list[bool] = []
    for op in graph.ops:
        ready.append(graph.inputs[whole(op.attr[0])].weight if op.kind == "input" else all(ready[arg] for arg in op.args))
        if op.kind in SILENT or (hoist and ready[-1]):
            continue
        elements = volume(sizes, iteration_space(graph, op))
        if op.kind == "contract":
            total += MULTIPLY_ADD * elements * (len(op.args) - 1)
        else:
            total += (TRANSCENDENTAL if op.kind in TRANSCENDENTALS else SIMPLE) * elements
    return total
