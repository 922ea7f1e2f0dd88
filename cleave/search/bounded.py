"""
Values that are finite wherever the inputs are: those in which nothing is divided by what may be 0.

The law: a selection between a value and 0 is the product of the value with a bit only where the value is finite. Elsewhere the selection
guards it, as in `where(c > 0, x / c, 0)`, and 0 times infinity is no number.
"""

from __future__ import annotations

import math
from fractions import Fraction

from ..graph import Graph, Op

EXPONENTS = tuple(Fraction(k, 2) for k in range(-8, 9) if k)


def number(op: Op) -> Fraction | None:
    """The value of a constant operation that is a finite number."""
    if op.kind != "constant" or not isinstance(op.attr[0], bool | int | float) or not math.isfinite(op.attr[0]):
        return None
    return Fraction(op.attr[0])


def positive(graph: Graph, position: int) -> bool:
    """Whether an operation is positive by its form: a positive constant, a size, an exp, a root, or products of such."""
    op = graph.ops[position]
    match op.kind:
        case "constant":
            return isinstance(op.attr[0], int | float) and op.attr[0] > 0
        case "size" | "exp" | "sqrt" | "rsqrt" | "sigmoid":
            return True
        case "cast" | "rename" | "mul" | "div" | "contract" | "add":
            return all(positive(graph, arg) for arg in op.args)
        case "reduce":
            return positive(graph, op.args[0])
        case _:
            return False


def known_exponent(graph: Graph, op: Op) -> Fraction | None:
    """The exponent of a power that is a small multiple of 1/2, else None."""
    exponent = number(graph.ops[op.args[1]])
    return exponent if exponent in EXPONENTS else None


def nonnegative(graph: Graph, position: int) -> bool:
    """Whether an operation is not negative by its form: squares, sums and products of such, and what is positive."""
    op = graph.ops[position]
    match op.kind:
        case "mul" | "contract" if len(op.args) == 2 and op.args[0] == op.args[1]:
            return True
        case "abs" | "relu":
            return True
        case "cast" | "rename" | "mul" | "contract" | "add" | "div":
            return all(nonnegative(graph, arg) for arg in op.args)
        case "reduce":
            return nonnegative(graph, op.args[0])
        case _:
            return positive(graph, position)


def above_zero(graph: Graph, position: int) -> bool:
    """Whether an operation is positive by its form, such as a sum of squares and an epsilon."""
    op = graph.ops[position]
    if op.kind == "add" and any(above_zero(graph, arg) for arg in op.args):
        return all(nonnegative(graph, arg) or above_zero(graph, arg) for arg in op.args)
    if op.kind in ("cast", "rename", "sqrt", "rsqrt"):
        return above_zero(graph, op.args[0])
    return positive(graph, position)


def finite(graph: Graph, position: int, seen: dict[int, bool] | None = None) -> bool:
    """Whether an operation is finite by its form; of exponentials this is taken for granted, as they are given shifts."""
    seen = {} if seen is None else seen
    if position not in seen:
        op = graph.ops[position]
        match op.kind:
            case "div":
                safe = above_zero(graph, op.args[1])
            case "log" | "rsqrt" | "sqrt":
                safe = above_zero(graph, op.args[0])
            case "pow":
                exponent = known_exponent(graph, op)
                whole = exponent is not None and exponent > 0 and exponent.denominator == 1
                safe = whole or above_zero(graph, op.args[0])
            case _:
                safe = True
        seen[position] = safe and all(finite(graph, arg, seen) for arg in op.args)
    return seen[position]
