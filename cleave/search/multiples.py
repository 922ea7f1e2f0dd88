"""
Values up to a coefficient.

The law: a coefficient is a product of powers of the constants and sizes of a program. Two values are alike here if one is a
coefficient times the other: c (a b), (c a) b and a (c b) are three ways to place one coefficient, and a program of k linear
operations has 2^k of them, none of which moves a single element differently. What tells them apart is only where the
coefficient costs least, and that is decided for a finished program (`scales`); so who asks what the rules can reach asks up to
a coefficient.

In every sample, values are divided by their residue at the first point where it is not 0. Alike are those that are then equal
and whose ratio is a coefficient, with exponents that are halves up to `MOST`, of at most `AT_ONCE` different constants and sizes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import combinations, product
from typing import TypeAlias

import numpy as np

from .values import Space, Value

MOST = 3
AT_ONCE = 3
Key: TypeAlias = tuple[int, bytes, bytes, tuple[int, ...]]
Scalar: TypeAlias = tuple[int, ...]
"""A residue for every sample, on one level."""


class Multiples:
    """Some values, to be asked whether another is a multiple of one of them by a coefficient."""

    def __init__(self, space: Space, coefficients: Sequence[Value], values: Iterable[Value]) -> None:
        self.space = space
        self.coefficients = list(coefficients)
        self._groups: dict[int, frozenset[Scalar]] = {}
        self._known: dict[Key, list[Scalar]] = {}
        for value in (space.constant(Fraction(1)), *values):
            found = self._normal(value)
            if found is not None:
                self._known.setdefault(found[0], []).append(found[1])

    def has(self, value: Value) -> bool:
        """Whether a value is one of the known ones times a coefficient."""
        found = self._normal(value)
        if found is None:
            return False
        key, scalar = found
        prime, group = self.space.tower[value.highest], self._group(value.highest)
        for other in self._known.get(key, []):
            ratio = tuple(a * inverse(b, prime) % prime for a, b in zip(scalar, other, strict=True))
            if ratio in group if all(ratio) else any(_agree(ratio, one) for one in group):
                return True
        return False

    def _normal(self, value: Value) -> tuple[Key, Scalar] | None:
        """The value over its residue at a point, and that residue, in every sample; None if it is 0 throughout or +inf anywhere."""
        top = value.residues[value.highest]
        top = np.ascontiguousarray(np.broadcast_to(top, (self.space.samples, *top.shape[1:])))
        flat = top.reshape(self.space.samples, -1)
        if not bool((flat != 0).any()):
            return None
        prime = self.space.tower[value.highest]
        scalar = tuple(int(residue) for residue in flat[np.arange(len(flat)), (flat != 0).argmax(axis=1)])
        inverses = np.array([inverse(residue, prime) for residue in scalar], np.int64)[:, None]
        if value.above is not None:
            return None
        flags = np.zeros(top.shape, bool) if value.infinite is None else np.broadcast_to(value.infinite, top.shape)
        return (value.highest, (flat * inverses % prime).tobytes(), np.ascontiguousarray(flags).tobytes(), top.shape), scalar

    def _group(self, level: int) -> frozenset[Scalar]:
        """The coefficients on a level, of either sign."""
        if level not in self._groups:
            prime = self.space.tower[level]
            exponents = [Fraction(k, 2) for k in range(-2 * MOST, 2 * MOST + 1)]
            made = [dict.fromkeys(self._power(value, exponent, level) for exponent in exponents) for value in self.coefficients]
            powers = [found for found in made if () not in found]
            found: dict[Scalar, None] = {}
            for chosen in combinations(powers, min(AT_ONCE, len(powers))):
                for factors in product(*chosen):
                    scalar = [1] * self.space.samples
                    for factor in factors:
                        scalar = [a * b % prime for a, b in zip(scalar, factor, strict=True)]
                    found[tuple(scalar)] = None
                    found[tuple(-a % prime for a in scalar)] = None
            self._groups[level] = frozenset(found)
        return self._groups[level]

    def _power(self, value: Value, exponent: Fraction, level: int) -> Scalar:
        """A power of a constant or size in every sample; nothing where it is 0 or not known on the level."""
        if not value.lowest <= level <= value.highest or value.residues[level].size not in (1, self.space.samples):
            return ()
        residues = self.space.raise_to(value, exponent).residues[level].reshape(-1)
        self.space.spoiled[:] = False
        out = tuple(int(residue) for residue in np.broadcast_to(residues, self.space.samples))
        return out if all(out) else ()


def inverse(residue: int, prime: int) -> int:
    """The inverse of a residue, 0 for 0."""
    return pow(residue, -1, prime) if residue else 0


def _agree(ratio: Scalar, coefficient: Scalar) -> bool:
    """Whether a ratio is a coefficient in all samples that have a ratio; in the others both values are 0 throughout."""
    return all(a in (0, b) for a, b in zip(ratio, coefficient, strict=True))
