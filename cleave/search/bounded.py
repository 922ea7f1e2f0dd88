"""
Values that are finite wherever the inputs are: those in which nothing is divided by what may be 0.

The law: a selection between a value and 0 is the product of the value with a bit only where the value is finite. Elsewhere the selection
guards it, as in `where(c > 0, x / c, 0)`, and 0 times infinity is no number. An operation shows by its form that it is finite or above 0,
or it is equal to one of the program as written that does: a rewriting may hide it, as where an epsilon moves from one sum to another.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Bound:
    """What is known of a value: that it is finite where its inputs are, above 0, not below 0."""

    finite: bool
    above: bool
    nonnegative: bool


@dataclass(frozen=True, slots=True)
class Facts:
    """Which values of a program are finite, and which above 0; those are told by keys."""

    finite: frozenset[Hashable]
    above: frozenset[Hashable]


def facts(found: Sequence[Bound], keys: Sequence[Hashable]) -> Facts:
    """What the operations of a program show, without values that another of its operations has and does not show it."""

    def always(shown: Sequence[bool]) -> frozenset[Hashable]:
        hidden = {key for key, one in zip(keys, shown, strict=True) if not one}
        return frozenset(key for key, one in zip(keys, shown, strict=True) if one and key not in hidden)

    return Facts(always([one.finite for one in found]), always([one.above for one in found]))


def with_facts(bound: Bound, key: Hashable, facts: Facts | None) -> Bound:
    """What is known of an operation by its form or by its value."""
    if facts is None or (bound.finite and bound.above):
        return bound
    above = bound.above or key in facts.above
    return Bound(bound.finite or key in facts.finite, above, bound.nonnegative or above)


def bounds(graph: Graph) -> list[Bound]:
    """What all operations of a graph show by their form."""
    found: list[Bound] = []
    for op in graph.ops:
        found.append(bound(graph, op, found))
    return found


def guards(op: Op, found: Sequence[Bound]) -> bool:
    """Whether an operation selects a value that may not be finite."""
    return op.kind == "select" and not all(found[arg].finite for arg in op.args[1:])


def bound(graph: Graph, op: Op, found: Sequence[Bound]) -> Bound:
    """What an operation shows by its form; of exponentials it is taken for granted that they are finite, as they are given shifts."""
    args = [found[arg] for arg in op.args]
    above, nonnegative = _signs(graph, op, args)
    return Bound(all(arg.finite for arg in args) and _defined(graph, op, args), above, nonnegative or above)


def _signs(graph: Graph, op: Op, args: Sequence[Bound]) -> tuple[bool, bool]:
    match op.kind:
        case "constant":
            value = number(op)
            return value is not None and value > 0, value is not None and value >= 0
        case "size" | "exp" | "sigmoid":
            return True, True
        case "mul" | "contract":
            odd = [position for position, count in Counter(op.args).items() if count % 2]
            signs = dict(zip(op.args, args, strict=True))
            return all(arg.above for arg in args), all(signs[position].nonnegative for position in odd)
        case "add":
            below = all(arg.nonnegative for arg in args)
            return below and any(arg.above for arg in args), below
        case "cast" | "rename" | "div" | "reduce" | "sqrt" | "rsqrt":
            return all(arg.above for arg in args), op.kind in ("sqrt", "rsqrt") or all(arg.nonnegative for arg in args)
        case "pow":
            exponent = known_exponent(graph, op)
            even = exponent is not None and exponent.denominator == 1 and exponent.numerator % 2 == 0
            return args[0].above, args[0].nonnegative or even
        case "max":
            return any(arg.above for arg in args), any(arg.nonnegative for arg in args)
        case "min" | "select":
            values = args[-2:]
            return all(arg.above for arg in values), all(arg.nonnegative for arg in values)
        case _:
            return False, op.kind in ("abs", "relu") or op.dtype == "i1"


def _defined(graph: Graph, op: Op, args: Sequence[Bound]) -> bool:
    """Whether an operation is finite where its operands are."""
    match op.kind:
        case "div":
            return args[1].above
        case "log" | "rsqrt":
            return args[0].above
        case "sqrt":
            return args[0].nonnegative
        case "pow":
            exponent = known_exponent(graph, op)
            whole = exponent is not None and exponent > 0 and exponent.denominator == 1
            return whole or args[0].above
        case _:
            return True
