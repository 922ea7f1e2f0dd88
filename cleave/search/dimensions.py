"""
Dimensions of values, as of physical quantities.

The law: scaling the arguments and constants of a program by powers of free factors, such that all terms of a sum scale alike and
arguments of functions not at all, scales every value by the powers that are its dimension. An exponential has a factor of its own,
as its argument may be shifted. A program that is written sensibly has such freedom: in logits c q k the factors of c, q and k
cancel, those of any two are free; and probabilities do not depend on the factor of their exponentials.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TypeAlias

from ..graph import FLOATS, Graph, Op
from .bounded import known_exponent

Dimension: TypeAlias = tuple[Fraction, ...]
"""The powers of the free factors."""

_ALIKE = ("add", "sub", "max", "min", "select", "compare", "concat")
_SAME = ("cast", "neg", "abs", "relu", "reduce", "rename", "split", "merge", "slice", "index", "pad", "shift", "gather")


def dimensions(graph: Graph) -> tuple[list[Dimension], int]:
    """The dimension of every operation, and the number of free factors. 0 and -inf fit everywhere and count as 1."""
    names = [position for position, op in enumerate(graph.ops) if op.kind in ("input", "exp") or _free_constant(op)]
    place = {position: i for i, position in enumerate(names)}
    solver = _Solver(len(names))
    found: list[Dimension] = []
    for position, op in enumerate(graph.ops):
        args = [found[arg] for arg in op.args]
        if op.kind == "exp":
            solver.equal(args[0], solver.none)
        if position in place:
            found.append(tuple(Fraction(int(i == place[position])) for i in range(len(names))))
        else:
            found.append(_dimension(graph, op, args, solver))
    free = solver.free()
    return [tuple(solver.reduced(dimension)[i] for i in free) for dimension in found], len(free)


def _free_constant(op: Op) -> bool:
    value = op.attr[0] if op.kind == "constant" else None
    return isinstance(value, float) and math.isfinite(value) and value != 0.0


def _any(graph: Graph, position: int) -> bool:
    """Whether a value is 0 or -inf."""
    op = graph.ops[position]
    return op.kind == "constant" and op.dtype in FLOATS and not _free_constant(op)


def _dimension(graph: Graph, op: Op, args: Sequence[Dimension], solver: _Solver) -> Dimension:
    none = solver.none
    if op.kind in _ALIKE:
        first = 1 if op.kind == "select" else 0
        terms = [args[i] for i in range(first, len(args)) if not _any(graph, op.args[i])]
        for term in terms[1:]:
            solver.equal(terms[0], term)
        return none if op.kind == "compare" or not terms else terms[0]
    if op.kind in _SAME:
        return args[0]
    match op.kind:
        case "mul" | "contract":
            return combined(args, [Fraction(1)] * len(args), none)
        case "div":
            return combined(args, [Fraction(1), Fraction(-1)], none)
        case "sqrt" | "rsqrt":
            return combined(args, [Fraction(1, 2) if op.kind == "sqrt" else Fraction(-1, 2)], none)
        case "pow" if (exponent := known_exponent(graph, op)) is not None:
            solver.equal(args[1], none)
            return combined(args[:1], [exponent], none)
        case _:
            for arg in args:
                solver.equal(arg, none)
            return none


def combined(dimensions: Sequence[Dimension], powers: Sequence[Fraction], none: Dimension) -> Dimension:
    """The dimension of a product of powers."""
    out = list(none)
    for dimension, power in zip(dimensions, powers, strict=True):
        for i, exponent in enumerate(dimension):
            out[i] += exponent * power
    return tuple(out)


class _Solver:
    """Linear equations between dimensions, kept solved for some of the factors."""

    def __init__(self, count: int) -> None:
        self.none: Dimension = (Fraction(0),) * count
        self.rows: dict[int, Dimension] = {}

    def reduced(self, dimension: Dimension) -> Dimension:
        """The dimension with the factors solved for replaced by free ones."""
        for pivot, row in self.rows.items():
            if dimension[pivot]:
                dimension = combined([dimension, row], [Fraction(1), -dimension[pivot]], self.none)
        return dimension

    def equal(self, first: Dimension, second: Dimension) -> None:
        """Demands that two dimensions are equal."""
        gap = self.reduced(combined([first, second], [Fraction(1), Fraction(-1)], self.none))
        pivot = next((i for i, exponent in enumerate(gap) if exponent), None)
        if pivot is None:
            return
        row = combined([gap], [1 / gap[pivot]], self.none)
        for other, known in self.rows.items():
            if known[pivot]:
                self.rows[other] = combined([known, row], [Fraction(1), -known[pivot]], self.none)
        self.rows[pivot] = row

    def free(self) -> list[int]:
        """The factors that are not solved for."""
        return [i for i in range(len(self.none)) if i not in self.rows]
