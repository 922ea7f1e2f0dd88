"""
Values that are 0 by a choice: truth values, what a selection or a maximum with 0 gives, and products of such.

The law: samples in which a program divides by 0 say nothing and are left out. Where a divisor is 0 by a choice, those are all samples
in which the choice goes that way; in what is left it would look as if it never did, and x / relu(y) like x / y. So a
quotient, root or logarithm of such a value is an unknown function of it.
"""

from __future__ import annotations

from ..graph import Graph, Op

_THROUGH = ("cast", "rename", "neg", "abs", "sqrt", "split", "merge", "slice", "index", "gather")
_ZERO_ARGUMENT = {"div": 1, "rsqrt": 0, "log": 0}


def divides_by_a_choice(graph: Graph, op: Op) -> bool:
    """
    Whether an operation of a graph is a quotient, an inverse root or a logarithm of a value that is 0 by a choice, or a power of one.

    False for one without places for its operands, which is none of the graph's.
    """
    if not op.args:
        return False
    if op.kind == "pow":
        exponent = graph.ops[op.args[1]]
        grows = exponent.kind == "constant" and isinstance(exponent.attr[0], int | float) and exponent.attr[0] > 0
        return not grows and vanishes(graph, op.args[0])
    place = _ZERO_ARGUMENT.get(op.kind)
    return place is not None and vanishes(graph, op.args[place])


def vanishes(graph: Graph, position: int) -> bool:
    """Whether an operation's value is 0 by a choice."""
    op = graph.ops[position]
    match op.kind:
        case "relu" | "compare" | "and" | "or" | "not":
            return True
        case "input":
            return op.dtype == "i1"
        case "constant":
            return op.attr[0] == 0
        case "select":
            return any(vanishes(graph, arg) for arg in op.args[1:])
        case "mul" | "max" | "min" | "concat":
            return any(vanishes(graph, arg) for arg in op.args)
        case "pad":
            return True
        case "div" | "pow":
            return vanishes(graph, op.args[0])
        case kind if kind in _THROUGH:
            return vanishes(graph, op.args[0])
        case _:
            return False
