"""
Closure: applies the rules until nothing new appears, then finds the binary operations among the classes.

The law: after `close`, no rule has anything new to say about any class, unless a cap was hit, and then it is reported. A work
list holds the classes that gained a form, and their users; it is a queue, so what is near the target comes first.

`join` then looks at all pairs of classes at one sample point: where the residue of a sum or product of two is that of a third,
the values are compared in full. This finds every binary operation between known values, also those no rule proposed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .egraph import EGraph
from .fields import Ints
from .forms import Product
from .rules import Rules
from .values import Value
from .watch import Watch, unwatched


@dataclass(frozen=True, slots=True)
class Budget:
    """Most classes, most applications of the rules to a class, and most seconds."""

    classes: int
    applications: int
    seconds: float


class Triple(NamedTuple):
    """`result` is the sum or product of two classes."""

    kind: str
    left: int
    right: int
    result: int


class Renaming(NamedTuple):
    """`target` is `source` with axes renamed."""

    source: int
    pairs: tuple[tuple[str, str], ...]
    target: int


def close(egraph: EGraph, rules: Rules, budget: Budget, watch: Watch = unwatched) -> list[str]:
    """Applies the rules until nothing is pending; returns the caps that were hit."""
    started, applications = time.monotonic(), 0
    while egraph.pending:
        if len(egraph.classes) >= budget.classes:
            return [f"closure stopped at {len(egraph.classes)} classes with {len(egraph.pending)} pending"]
        if applications >= budget.applications:
            return [f"closure stopped after {applications} rule applications with {len(egraph.pending)} pending"]
        if time.monotonic() - started > budget.seconds:
            return [f"closure stopped after {budget.seconds:g} s with {len(egraph.pending)} pending"]
        if applications % 32 == 0:
            watch(f"closure, {len(egraph.classes)} classes")
        c = next(iter(egraph.pending))
        del egraph.pending[c]
        rules.apply(c)
        applications += 1
    return []


def join(egraph: EGraph, operands: Sequence[int], targets: Sequence[int]) -> list[Triple]:
    """Every sum and product of two operands that is a target; trivial ones (with 0 or 1) left out."""
    levels = sorted({egraph.value(c).highest for c in targets}, reverse=True)
    return [triple for level in levels for triple in _join_at(egraph, level, operands, targets)]


def _join_at(egraph: EGraph, level: int, operands: Sequence[int], targets: Sequence[int]) -> list[Triple]:
    def known(c: int) -> bool:
        value = egraph.value(c)
        return value.lowest <= level <= value.highest and egraph.number(c) not in (0, 1)

    left = [c for c in operands if known(c)]
    goals = [c for c in targets if known(c) and egraph.value(c).highest == level]
    if not left or not goals:
        return []
    prime = egraph.space.tower[level]
    samples = egraph.space.samples
    points = np.array([_points(egraph.value(c), level, samples) for c in left], np.int64).T
    wanted = _together(np.array([_points(egraph.value(c), level, samples) for c in goals], np.int64).T)
    order = np.argsort(wanted, kind="stable")
    ordered = wanted[order]
    out: list[Triple] = []
    for kind in ("mul", "add"):
        pairs = points[:, :, None] * points[:, None, :] if kind == "mul" else points[:, :, None] + points[:, None, :]
        table = _together(pairs % prime)
        first = np.searchsorted(ordered, table)
        rows, columns = np.nonzero((first < len(goals)) & (ordered[np.minimum(first, len(goals) - 1)] == table))
        for i, j in zip(rows.tolist(), columns.tolist(), strict=True):
            a, b = left[i], left[j]
            at = int(first[i, j])
            while i <= j and at < len(goals) and ordered[at] == table[i, j]:
                c = goals[int(order[at])]
                if c not in (a, b) and _holds(egraph, kind, a, b, c, level):
                    out.append(Triple(kind, a, b, c))
                at += 1
    return sorted(out)


def _points(value: Value, level: int, samples: int) -> list[int]:
    """Residues at the first and the last point of every sample: a value that a mask hides at one of them is seldom hidden at all."""
    residues = value.residues[level]
    ends = [residues[min(sample, len(residues) - 1)] for sample in range(samples)]
    return [int(end[(at,) * end.ndim]) for end in ends for at in (0, -1)]


def _together(residues: Ints) -> NDArray[np.uint64]:
    """One number for the residues along the first axis, different ones for different residues but by accident."""
    out = np.zeros(residues.shape[1:], np.uint64)
    for row in residues.astype(np.uint64):
        out = out * np.uint64(0x9E3779B97F4A7C15) + row
    return out


def _holds(egraph: EGraph, kind: str, a: int, b: int, c: int, level: int) -> bool:
    if egraph.mask(c) & ~(egraph.mask(a) | egraph.mask(b)):
        return False
    x, y, z = egraph.value(a), egraph.value(b), egraph.value(c)
    if (kind == "mul" and not (x.bounded and y.bounded)) or x.above is not None or y.above is not None:
        return False
    made = egraph.space.multiply(x, y) if kind == "mul" else egraph.space.add(x, y)
    return _equal(made.residues[level], z.residues[level]) and _same_flags(made, z)


def _equal(a: Ints, b: Ints) -> bool:
    return bool((a == b).all())


def _same_flags(a: Value, b: Value) -> bool:
    if a.infinite is None or b.infinite is None:
        return a.infinite is None and b.infinite is None
    return bool((a.infinite == b.infinite).all())


def renamings(egraph: EGraph, candidates: Sequence[int], renames: Sequence[tuple[tuple[str, str], ...]]) -> list[Renaming]:
    """
    Every candidate that is another one under one of the renames, or under one of them backwards.

    Conversion pushes renames to the leaves; this finds where what was made under one name can serve under another.
    """
    wanted = set(candidates)
    both = dict.fromkeys([*renames, *(tuple((new, old) for old, new in pairs) for pairs in renames)])
    out: list[Renaming] = []
    for source in candidates:
        names = set(egraph.names(egraph.mask(source)))
        for pairs in both:
            own = tuple((old, new) for old, new in pairs if old in names)
            if own and names.isdisjoint({new for _, new in own} - {old for old, _ in own}):
                target = egraph.find(egraph.space.rename(egraph.value(source), own))
                if target is not None and target != source and target in wanted:
                    out.append(Renaming(source, own, target))
    return out


def inverse_known(egraph: EGraph, c: int) -> bool:
    """Whether 1/c has been built, so that dividing by c is safe where the program itself divides."""
    return egraph.has(Product(Fraction(1), ((c, Fraction(-1)),)))
