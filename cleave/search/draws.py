"""
Random points: the fields, samples and axes at which programs are evaluated, and the residues drawn there.

The law: what is drawn is a function of its key, the seed and the sample alone, so two programs that read the same argument read
the same residues. A number or extent is its residue in every field of the tower.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..extents import Extent
from ..graph import Axis
from .fields import SHORT_TOWER, Ints, digest, mix, power
from .pieces import Pieces

Bools: TypeAlias = NDArray[np.bool_]


@dataclass(slots=True)
class Value:
    """
    Residues of one tensor.

    Shapes: `residues` is (levels, samples, points of every axis of the space, 1 where the tensor lacks the axis);
    `infinite`, where given, is (samples, ...) alike and marks elements that are -inf (their residues are 0), and so does `above` for
    those that are +inf, whose residues are the ones of an unknown number that no other value has.
    """

    residues: Ints
    lowest: int
    highest: int
    infinite: Bools | None = None
    above: Bools | None = None

    @property
    def bounded(self) -> bool:
        """Whether all elements are finite."""
        return self.infinite is None and self.above is None


class Draws:
    """
    The points at which programs are evaluated: axes with their weights, samples, and the fields.

    `points` gives every axis its number of points, at least one. With `counting`, sums over symbolic axes count (all weights equal) and
    `symbols` gives the symbols their integers; else both are random. `copies` maps an axis to the one it shares its index
    with (renamed copies). `spoiled` collects the samples in which a division by zero occurred; with `exact_roots`, `inexact`
    those with a root whose square is not its argument on one of the `square_levels`, the levels on which it matters.
    """

    def __init__(
        self,
        axes: Sequence[Axis],
        points: Mapping[str, int],
        samples: int,
        seed: int,
        tower: tuple[int, ...] = SHORT_TOWER,
        copies: Mapping[str, str] | None = None,
        symbols: Mapping[str, int] | None = None,
        counting: bool = False,
        pieces: Pieces | None = None,
    ) -> None:
        self.axes = tuple(axes)
        self.place = {axis.name: i + 2 for i, axis in enumerate(self.axes)}
        self.extents = {axis.name: axis.extent for axis in self.axes}
        self.chunks = {axis.name: axis.chunk_of for axis in self.axes if axis.chunk_of is not None}
        self.points = dict(points)
        self.samples = samples
        self.seed = seed
        self.tower = tower
        self.copies = dict(copies or {})
        self.pieces = dict(pieces or {})
        self.symbols = None if symbols is None else dict(symbols)
        self.counting = counting
        self.rank = len(self.axes) + 2
        self.primes = np.array(tower, np.int64).reshape((-1,) + (1,) * (self.rank - 1))
        self.top = len(tower) - 1
        self.spoiled: Bools = np.zeros(samples, bool)
        self.exact_roots = False
        self.inexact: Bools = np.zeros(samples, bool)
        self.square_levels: frozenset[int] = frozenset()
        self.sample_keys = self._keys("samples", samples).reshape((samples,) + (1,) * (self.rank - 2))
        self._weights: dict[str, Ints] = {}
        self.level_keys = self._keys("levels", len(tower)).reshape((-1,) + (1,) * (self.rank - 1))

    def _keys(self, label: str, count: int) -> NDArray[np.uint64]:
        return np.array([digest(f"{label} {self.seed} {i}") for i in range(count)], np.uint64)

    def draw_samples(self, count: int) -> None:
        """Starts over with that many samples; values made before are no longer of this space."""
        self.sample_keys = self._keys("samples", count).reshape((count,) + (1,) * (self.rank - 2))
        self._restart(count)

    def keep(self, wanted: Sequence[int]) -> None:
        """Drops all samples but those; values made before are no longer of this space."""
        self.sample_keys = self.sample_keys[list(wanted)]
        self._restart(len(wanted))

    def _restart(self, samples: int) -> None:
        self.samples = samples
        self.spoiled = np.zeros(samples, bool)
        self.inexact = np.zeros(samples, bool)
        self._weights = {}

    def _shape(self, axes: Iterable[str]) -> tuple[int, ...]:
        shape = [1] * (self.rank - 2)
        for axis in axes:
            shape[self.place[axis] - 2] = self.points[axis]
        return tuple(shape)

    def draw(self, key: str, axes: Sequence[str]) -> Ints:
        """Random residues for a tensor with these axes, in the order given; a function of key, seed and sample alone."""
        sizes = [self.points[axis] for axis in axes]
        count = int(np.prod(sizes, dtype=np.int64))
        index = np.arange(1, count + 1, dtype=np.uint64).reshape(sizes)
        order = sorted(range(len(axes)), key=lambda i: self.place[axes[i]])
        return self._hashed(key, index.transpose(order).reshape(self._shape(axes)))

    def _drawn(self, key: str, shape: tuple[int, ...]) -> Ints:
        """Random residues of a shape without levels and samples."""
        return self._hashed(key, np.arange(1, int(np.prod(shape)) + 1, dtype=np.uint64).reshape(shape))

    def _hashed(self, key: str, index: NDArray[np.uint64]) -> Ints:
        h = mix(self.sample_keys ^ np.uint64(digest(f"draw {key}")))
        h = mix(h + index * np.uint64(0x9E3779B97F4A7C15))
        return self._levels(h)

    def _levels(self, h: NDArray[np.uint64]) -> Ints:
        return (mix(h[None] ^ self.level_keys) % self.primes.astype(np.uint64)).astype(np.int64)

    def integer(self, number: int) -> Ints:
        """The residues of an integer."""
        residues = np.array([number % p for p in self.tower], np.int64)
        return np.broadcast_to(residues.reshape(self.primes.shape), (len(self.tower), self.samples) + (1,) * (self.rank - 2))

    def fraction(self, number: Fraction) -> Ints:
        """The residues of a rational number whose denominator no prime of the tower divides."""
        residues = [number.numerator % p * pow(number.denominator, p - 2, p) % p for p in self.tower]
        out = np.array(residues, np.int64).reshape(self.primes.shape)
        return np.broadcast_to(out, (len(self.tower), self.samples) + (1,) * (self.rank - 2))

    def extent(self, extent: Extent) -> Ints:
        """The residues of an extent; of one that is not a polynomial, random ones for its text."""
        if extent.constant is not None:
            return self.integer(extent.constant)
        if self.symbols is not None:
            return self.integer(extent.evaluate(self.symbols))
        return self._polynomial(extent.sympy())

    def _polynomial(self, expression: Any) -> Ints:
        if expression.is_Integer:
            return self.integer(int(expression))
        if expression.is_Add:
            total = self.integer(0)
            for term in expression.args:
                total = (total + self._polynomial(term)) % self.primes
            return total
        if expression.is_Mul:
            product = self.integer(1)
            for factor in expression.args:
                product = product * self._polynomial(factor) % self.primes
            return product
        if expression.is_Pow and expression.exp.is_Integer and expression.exp > 0:
            return power(self._polynomial(expression.base), [int(expression.exp)] * len(self.tower), self.primes)
        return self.draw(f"extent {expression}", ())

    def spoil(self, where: Bools) -> None:
        """Marks the samples in which `where` (samples, ...) holds anywhere."""
        self.spoiled |= where.reshape(where.shape[0], -1).any(axis=1)

    def _masked(self, residues: Ints, lowest: int, highest: int, infinite: Bools | None, above: Bools | None = None) -> Value:
        infinite = None if infinite is None or not infinite.any() else infinite
        above = None if above is None or not above.any() else above
        if infinite is not None:
            residues = np.where(infinite[None], 0, residues)
        if above is not None:
            residues = np.where(above[None], self._unbounded(), residues)
        return Value(residues, lowest, highest, infinite, above)

    def _unbounded(self) -> Ints:
        """What stands where a value is +inf."""
        return self.draw("unbounded", ())

    def _flat(self, a: Value) -> NDArray[np.uint64]:
        """The highest residues with the flags of -inf folded in."""
        flat = a.residues[a.highest].astype(np.uint64)
        return flat if a.infinite is None else flat + (a.infinite.astype(np.uint64) << np.uint64(40))
