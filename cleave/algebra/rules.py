"""
How each operation of the algebra treats a positive factor that its operands share.

Multiply a value by e^(k*m): `Rule` says which power of the factor the result carries, which operands must carry the same
one, and which axes the factor may not have. Degrees (`degrees`) are read off it, and `stabilize` makes programs obey it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import cast

from ..graph import Attr, Graph, Op

_ONE = Fraction(1)
_SAME = ("neg", "abs", "relu", "cast")
_EQUAL = ("add", "sub", "max", "min")
_LEAVES = ("input", "constant", "size", "iota", "shift")


@dataclass(frozen=True, slots=True)
class Rule:
    """
    What an operation does with factors.

    `powers`: (operand, exponent), whose factors multiply into the result. `equal`: operands that must carry one factor, which
    the result carries too unless `forgets`. `plain`: operands that must carry none. `touched`: axes no factor may have.
    """

    powers: tuple[tuple[int, Fraction], ...] = ()
    equal: tuple[int, ...] = ()
    plain: tuple[int, ...] = ()
    touched: tuple[str, ...] = ()
    forgets: bool = field(default=False)


def rule_of(graph: Graph, position: int) -> Rule:
    """The rule of one operation. A function that has none (`log` and `exp` too) wants plain operands."""
    op = graph.ops[position]
    args = op.args
    match op.kind:
        case kind if kind in _LEAVES:
            return Rule()
        case kind if kind in _EQUAL:
            return Rule(equal=args)
        case "compare":
            return Rule(equal=args, forgets=True)
        case kind if kind in _SAME:
            return Rule(powers=((args[0], _ONE),)) if op.dtype not in ("i1", "i32", "i64", "index") else Rule(plain=args)
        case "mul":
            return Rule(powers=tuple((arg, _ONE) for arg in args))
        case "contract":
            return Rule(powers=tuple((arg, _ONE) for arg in args), touched=names(op.attr[0]))
        case "div":
            return Rule(powers=((args[0], _ONE), (args[1], -_ONE)))
        case "sqrt":
            return Rule(powers=((args[0], Fraction(1, 2)),))
        case "rsqrt":
            return Rule(powers=((args[0], Fraction(-1, 2)),))
        case "pow":
            exponent = constant_of(graph, args[1])
            if exponent is None or not math.isfinite(exponent):
                return Rule(plain=args)
            return Rule(powers=((args[0], Fraction(exponent)),), plain=args[1:])
        case "select":
            return Rule(equal=args[1:], plain=args[:1])
        case "reduce":
            return Rule(powers=((args[0], _ONE),), touched=names(op.attr[1]))
        case "rename" | "split" | "merge" | "slice" | "index":
            return Rule(powers=((args[0], _ONE),), touched=moved_axes(op))
        case "pad":
            zero = op.attr[3] == 0
            return Rule(powers=((args[0], _ONE),), touched=moved_axes(op)) if zero else Rule(plain=args)
        case "gather":
            return Rule(powers=((args[0], _ONE),), plain=args[1:], touched=moved_axes(op))
        case "concat":
            return Rule(equal=args, touched=moved_axes(op))
        case _:
            return Rule(plain=args)


def moved_axes(op: Op) -> tuple[str, ...]:
    """The operands' axes that an operation on axes takes away or gives another meaning."""
    match op.kind, op.attr:
        case ("rename", (tuple(pairs),)):
            return tuple(names(pair)[0] for pair in pairs)
        case ("merge" | "concat", (tuple(axes), _)):
            return names(axes)
        case (_, (axis, *_)):
            return (str(axis),)
        case _:
            return ()


def names(value: Attr) -> tuple[str, ...]:
    """The axis names an attribute lists."""
    return tuple(str(name) for name in cast("tuple[Attr, ...]", value))


def constant_of(graph: Graph, position: int) -> float | None:
    """The value of an operation that is a number, looking through casts; else None."""
    op = graph.ops[position]
    while op.kind == "cast":
        op = graph.ops[op.args[0]]
    if op.kind != "constant" or isinstance(op.attr[0], bool) or not isinstance(op.attr[0], int | float):
        return None
    return float(op.attr[0])


def factor_free(graph: Graph) -> list[bool]:
    """
    For every operation, whether its value is unchanged by any positive factor: zero or an infinity.

    Products with a zero count (the other operand is taken to be finite), and what such values are built into.
    """
    out: list[bool] = []
    for position, op in enumerate(graph.ops):
        constant = constant_of(graph, position) if op.kind == "constant" else None
        args = [out[arg] for arg in op.args]
        match op.kind:
            case "constant":
                free = constant is not None and (constant == 0 or math.isinf(constant))
            case "mul" | "contract":
                free = any(flag and _zero(graph, arg) for flag, arg in zip(args, op.args, strict=True)) or all(args)
            case "select":
                free = args[1] and args[2]
            case "div":
                free = args[0]
            case "add" | "max" | "min" | "concat":
                free = all(args)
            case "neg" | "abs" | "relu" | "cast" | "rename" | "split" | "merge" | "slice" | "index" | "reduce":
                free = args[0] and (op.kind != "cast" or op.dtype != "i1")
            case _:
                free = False
        out.append(free)
    return out


def _zero(graph: Graph, position: int) -> bool:
    return constant_of(graph, position) == 0
