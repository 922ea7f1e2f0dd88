"""
Maxima that a program's results do not depend on.

The law: a maximum that can be replaced by an unrelated random tensor without any output changing may have any value, and gets
the value 0. A program that subtracts its row maximum before an exponential, only to divide it out again, is then the program
without it; safety comes back when the exponentials are given shifts.

Independence is decided like equivalence, by values at random points: the outputs are rational functions of the replaced tensor,
so one that depends on it changes with overwhelming probability.
"""

from __future__ import annotations

from dataclasses import replace

from ..graph import Graph, without_dead_code
from .attributes import is_maximum
from .bounded import bounds, opaque
from .meaning import evaluate, operation
from .values import Space, Value
from .verify import same


def without_free_maxima(graph: Graph, space: Space) -> Graph:
    """The graph with 0 for every maximum over axes that no output depends on, the last ones first."""
    expected = evaluate(graph, space)
    space.spoiled[:] = False
    for position in range(len(graph.ops) - 1, -1, -1):
        op = graph.ops[position]
        if is_maximum(op.kind, op.attr):
            unrelated = space.leaf(f"free {position}", op.axes, False)
            if _agree(graph, space, _with(graph, space, position, unrelated), expected):
                zero = replace(op, kind="constant", args=(), axes=(), attr=(0.0,))
                other = replace(graph, ops=(*graph.ops[:position], zero, *graph.ops[position + 1 :]))
                if _agree(graph, space, evaluate(other, space), expected):
                    graph = other
    return without_dead_code(graph)


def _with(graph: Graph, space: Space, position: int, value: Value) -> list[Value]:
    """The values of all operations where one is given another value."""
    found = bounds(graph)
    values: list[Value] = []
    for at, op in enumerate(graph.ops):
        values.append(value if at == position else operation(graph, space, op, [values[arg] for arg in op.args], opaque(graph, op, found)))
    return values


def _agree(graph: Graph, space: Space, values: list[Value], expected: list[Value]) -> bool:
    spoiled = bool(space.spoiled.any())
    space.spoiled[:] = False
    return not spoiled and all(same(values[output.value], expected[output.value]) for output in graph.outputs)
