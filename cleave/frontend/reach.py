"""
Between which bounds an integer is: index values have 32 bits and are divided as what is not negative, PyTorch's int64 has 64.

What is made of positions, sizes and constants alone is an index, which masks and bounds of loops are read from; where such a value may
not be one it is an i64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import sympy

Interval: TypeAlias = tuple[int, int]
"""The least and the largest value."""

INDEX: Interval = (-(2**31), 2**31 - 1)
LONGEST = 2**28
"""What a size that calls give is taken to be at most where it is computed with."""
_ROUNDING = ("floordiv", "mod")


def within(inner: Interval, outer: Interval = INDEX) -> bool:
    """Whether all values of an interval are in another."""
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def of_size(size: Any) -> Interval:
    """The bounds of a size, an int or a sympy expression over symbols; parts of a sum may be negative."""
    if isinstance(size, int) or size.is_Integer:
        return int(size), int(size)
    parts = [of_size(part) for part in size.args]
    match size:
        case sympy.Add():
            return sum(low for low, _ in parts), sum(high for _, high in parts)
        case sympy.Mul():
            return _multiplied(parts)
        case sympy.Pow():
            return _multiplied([parts[0]] * parts[1][1])
        case sympy.Min():
            return min(low for low, _ in parts), min(high for _, high in parts)
        case sympy.Max():
            return max(low for low, _ in parts), max(high for _, high in parts)
        case sympy.Mod():
            return 0, parts[1][1]
        case sympy.floor():
            return parts[0]
        case sympy.Rational():
            return 0, 1
        case _:
            return 0, LONGEST


def of_operation(kind: str, attr: Sequence[Any], operands: Sequence[Interval]) -> Interval:
    """The bounds of an operation on integers of the given ones; of what moves values they are the operand's."""
    match kind, attr:
        case "constant", (value,):
            return int(value), int(value)
        case "extent", (size,):
            return of_size(size)
        case "iota", (atom,):
            # No axis has more elements than an index can count.
            low, high = of_size(atom.extent)
            return 0, max(min(high if low == high else LONGEST, INDEX[1]) - 1, 0)
        case "add", _:
            return operands[0][0] + operands[1][0], operands[0][1] + operands[1][1]
        case "sub", _:
            return operands[0][0] - operands[1][1], operands[0][1] - operands[1][0]
        case "mul", _:
            return _multiplied(operands)
        case "neg", _:
            return -operands[0][1], -operands[0][0]
        case "abs", _:
            return 0, max(map(abs, operands[0]))
        case "mod", _ if operands[1][0] >= 0:
            return 0, max(operands[1][1] - 1, 0)
        case "select", _:
            return _joined(operands[1:])
        case _:
            return _joined(operands) if operands else INDEX


def is_index(kind: str, operands: Sequence[Interval]) -> bool:
    """Whether an operation may be one of indices: what it takes and gives are, and nothing negative is divided, or by it."""
    if kind in _ROUNDING and min(operands[0][0], operands[1][0]) < 0:
        return False
    return all(map(within, operands)) and (not kind or within(of_operation(kind, (), operands)))


def _multiplied(parts: Sequence[Interval]) -> Interval:
    out = (1, 1)
    for part in parts:
        corners = [one * other for one in out for other in part]
        out = min(corners), max(corners)
    return out


def _joined(parts: Sequence[Interval]) -> Interval:
    return min(low for low, _ in parts), max(high for _, high in parts)
