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
from dataclasses import dataclass, replace
from fractions import Fraction

from ..graph import FLOATS, Graph, Op

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
    """
    What is known of a value where the inputs are finite.

    It is `finite`, or -inf at most (`low`); above 0, not below 0, above 0 but for exponentials of -inf (`live`); a `number` but in rows
    that have nothing but -inf, and perhaps none in those (`dead`); finite as it will be computed (`tame`): exponentials are given shifts,
    and what is divided by a sum of exponentials of -inf alone is 0.
    """

    finite: bool = False
    low: bool = False
    above: bool = False
    nonnegative: bool = False
    live: bool = False
    number: bool = False
    dead: bool = False
    tame: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """Which values of a program are tame, above 0 and not below 0; those are told by keys."""

    tame: frozenset[Hashable]
    above: frozenset[Hashable]
    nonnegative: frozenset[Hashable]


def facts(found: Sequence[Bound], keys: Sequence[Hashable]) -> Facts:
    """What the operations of a program show, without values that another of its operations has and does not show it."""

    def always(shown: Sequence[bool]) -> frozenset[Hashable]:
        hidden = {key for key, one in zip(keys, shown, strict=True) if not one}
        return frozenset(key for key, one in zip(keys, shown, strict=True) if one and key not in hidden)

    return Facts(always([one.tame for one in found]), always([one.above for one in found]), always([one.nonnegative for one in found]))


def with_facts(bound: Bound, key: Hashable, facts: Facts | None) -> Bound:
    """What is known of an operation by its form or by its value."""
    if facts is None or (bound.tame and bound.above):
        return bound
    tame, above = bound.tame or key in facts.tame, bound.above or key in facts.above
    nonnegative = bound.nonnegative or above or key in facts.nonnegative
    return replace(bound, tame=tame, above=above, nonnegative=nonnegative, live=bound.live or above)


def bounds(graph: Graph) -> list[Bound]:
    """What all operations of a graph show by their form."""
    found: list[Bound] = []
    for op in graph.ops:
        found.append(bound(graph, op, found))
    return found


def opaque(graph: Graph, op: Op, found: Sequence[Bound]) -> bool:
    """
    Whether an operation is to be an unknown function of its operands.

    - a selection of a value that may not be finite is more than a product with a bit
    - a root or logarithm of what may be negative is not one of its factors
    - a test for infinity, or of a value against itself, has the answer that only floats know, unless infinities of the program's own are
      asked for; exponentials over their sum are taken to be numbers, also where a row has nothing but -inf
    """
    args = [found[arg] for arg in op.args]
    match op.kind:
        case "select":
            return not all(arg.tame or graph.ops[place].kind == "constant" for arg, place in zip(args[1:], op.args[1:], strict=True))
        case "log":
            return not (args[0].nonnegative or args[0].live or _given(graph, op.args[0]))
        case "sqrt" | "rsqrt" | "pow":
            signed = not (args[0].nonnegative or args[0].live or _given(graph, op.args[0]))
            return signed and root_exponent(graph, op) is not None
        case "compare" if op.args[0] == op.args[1]:
            certain = op.attr[0] in ("lt", "gt") or (args[0].number and args[0].dead)
            return not certain and graph.ops[op.args[0]].dtype in FLOATS
        case "compare":
            others = [args[1 - place] for place, arg in enumerate(op.args) if _infinite(graph.ops[arg])]
            return not all(other.low and not other.finite for other in others)
        case _:
            return False


def root_exponent(graph: Graph, op: Op) -> Fraction | None:
    """The exponent of an operation that raises to a multiple of 1/2 which is not whole, else None."""
    match op.kind:
        case "sqrt":
            return Fraction(1, 2)
        case "rsqrt":
            return Fraction(-1, 2)
        case "pow" if op.args:
            exponent = known_exponent(graph, op)
            return exponent if exponent is not None and exponent.denominator != 1 else None
        case _:
            return None


def _given(graph: Graph, position: int) -> bool:
    """Whether an operation is an input as it is: it has no factors."""
    op = graph.ops[position]
    return op.kind == "input" or (op.kind in ("cast", "rename") and _given(graph, op.args[0]))


def _infinite(op: Op) -> bool:
    return op.kind == "constant" and isinstance(op.attr[0], float) and math.isinf(op.attr[0])


def bound(graph: Graph, op: Op, found: Sequence[Bound]) -> Bound:
    """What an operation shows by its form; exponentials of finite numbers are taken to be finite, as they are given shifts."""
    args = [found[arg] for arg in op.args]
    above, nonnegative, live = _signs(graph, op, args)
    finite, low = _size(graph, op, args)
    number = all(arg.number for arg in args) and _defined(graph, op, args, lenient=True)
    tame = _tame(graph, op, args)
    emptied = op.kind == "sub" and any(arg.low and not arg.finite for arg in args)
    emptied |= op.kind in ("div", "rsqrt", "log") and args[-1].live and not args[-1].above
    dead = emptied or any(arg.dead for arg in args)
    return Bound(finite, low or finite, above, nonnegative or above, live or above, number, dead, tame or finite)


def _size(graph: Graph, op: Op, args: Sequence[Bound]) -> tuple[bool, bool]:
    """Whether an operation is finite, and whether it is so or -inf."""
    finite = all(arg.finite for arg in args)
    low = all(arg.low for arg in args)
    match op.kind:
        case "constant":
            known = number(op) is not None or isinstance(op.attr[0], bool)
            return known, known or op.attr[0] == -math.inf
        case "exp" | "sigmoid" | "relu":
            return low, low
        case "max":
            return low and any(arg.finite for arg in args), low
        case "cast" | "rename" | "add" | "min" | "select" | "reduce" | "shift" | "index" | "slice" | "concat" | "split" | "merge":
            return finite, low
        case "sub":
            return finite, args[0].low and args[1].finite
        case "pad":
            filled = op.attr[3] if isinstance(op.attr[3], int | float) else 0.0
            return finite and math.isfinite(filled), low and filled < math.inf
        case "compare" | "and" | "or" | "not":
            return True, True
        case _:
            return finite and _defined(graph, op, args), False


def _tame(graph: Graph, op: Op, args: Sequence[Bound]) -> bool:
    match op.kind:
        case "constant":
            return number(op) is not None or isinstance(op.attr[0], bool)
        case "exp":
            return args[0].number
        case "div":
            return args[0].tame and args[1].tame and args[1].live
        case _:
            return all(arg.tame for arg in args) and _defined(graph, op, args)


def _signs(graph: Graph, op: Op, args: Sequence[Bound]) -> tuple[bool, bool, bool]:
    """Whether an operation is above 0, not below 0, and above 0 but for exponentials of -inf."""
    above, nonnegative, live = (bool(args) and all(signs) for signs in _columns(args))
    match op.kind:
        case "constant":
            value = number(op)
            return (False, False, False) if value is None else (value > 0, value >= 0, value > 0)
        case "size":
            return True, True, True
        case "exp":
            return args[0].finite, True, True
        case "sigmoid":
            return args[0].finite, True, True
        case "mul" | "contract":
            odd = [position for position, count in Counter(op.args).items() if count % 2]
            signs = dict(zip(op.args, args, strict=True))
            return above, all(signs[position].nonnegative for position in odd), live
        case "add":
            return nonnegative and any(arg.above for arg in args), nonnegative, nonnegative and any(arg.live for arg in args)
        case "cast" if op.dtype not in FLOATS:
            # 0.3 becomes 0.
            return False, nonnegative, False
        case "cast" | "rename" | "div" | "reduce":
            return above, nonnegative, live
        case "sqrt" | "rsqrt":
            return above, True, live
        case "pow":
            exponent = known_exponent(graph, op)
            even = exponent is not None and exponent.denominator == 1 and exponent.numerator % 2 == 0
            return args[0].above, args[0].nonnegative or even, args[0].live
        case "max":
            return any(arg.above for arg in args), any(arg.nonnegative for arg in args), any(arg.live for arg in args)
        case "min":
            return above, nonnegative, live
        case "select":
            return all(arg.above for arg in args[1:]), all(arg.nonnegative for arg in args[1:]), all(arg.live for arg in args[1:])
        case _:
            return False, op.kind in ("abs", "relu") or op.dtype == "i1", False


def _columns(args: Sequence[Bound]) -> tuple[list[bool], list[bool], list[bool]]:
    return [arg.above for arg in args], [arg.nonnegative for arg in args], [arg.live for arg in args]


def _defined(graph: Graph, op: Op, args: Sequence[Bound], lenient: bool = False) -> bool:
    """Whether an operation is finite where its operands are; `lenient`, where exponentials of -inf count as above 0."""
    match op.kind:
        case "div":
            return args[1].live if lenient else args[1].above
        case "log" | "rsqrt":
            return args[0].live if lenient else args[0].above
        case "sqrt":
            return args[0].nonnegative
        case "pow":
            exponent = known_exponent(graph, op)
            whole = exponent is not None and exponent > 0 and exponent.denominator == 1
            return whole or args[0].above
        case _:
            return True
