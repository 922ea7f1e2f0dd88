"""
Sums over axes with random weights.

The law: a sum over an axis is sum_i w_i x_i with random w, and the size of the axis is sum_i w_i: the declared extent where that
is an integer, else the residue of its expression over random symbols. Linearity, exchange and pulling factors out hold, and no
size can be confused with a number of points. An axis in chunks is summed with the weights of a chunk, which vary with the outer
axis, and then with those of the outer axis: together they are those of the whole, and 0 past its end. Renamed copies of an axis
share its weights; an axis in pieces has those of its pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..extents import Extent
from .draws import Bools, Draws, Value
from .fields import Ints, power


class Measure(Draws):
    """Weights, sizes and sums."""

    def size(self, axis: str) -> Value:
        """
        The sum of the weights of an axis.

        That of a chunk varies with the outer axis, as the last chunk may be short.
        """
        residues = self.weights(axis).sum(axis=self.place[axis], keepdims=True) % self.primes
        return Value(residues, 0, self.top)

    def weights(self, axis: str) -> Ints:
        """The weights of an axis; those of a chunk vary with the outer axis, and their sum over both is that of the whole."""
        if axis not in self._weights:
            chunk = self.chunks.get(axis)
            self._weights[axis] = self._chunk_weights(axis, *chunk) if chunk else self._axis_weights(axis)
        return self._weights[axis]

    def _axis_weights(self, axis: str) -> Ints:
        place = self.place[axis]
        if axis not in self.pieces:
            return self._weights_of(self.copies.get(axis, axis), self.extents[axis], self.points[axis], place)
        counts = self._piece_points(axis)
        parts = [self._weights_of(p.label, p.extent, count, place) for p, count in zip(self.pieces[axis], counts, strict=True)]
        return np.concatenate(parts, place)

    def _piece_points(self, axis: str) -> list[int]:
        """The points of every piece of an axis: one of a single element, equally many of all others."""
        singles = [piece.single for piece in self.pieces[axis]]
        each = (self.points[axis] - sum(singles)) // max(len(singles) - sum(singles), 1)
        return [1 if single else each for single in singles]

    def _weights_of(self, name: str, extent: Extent, count: int, place: int) -> Ints:
        """Weights of so many points along a dimension, that add up to an extent."""
        total = self.extent(extent)
        line = tuple(count if at == place else 1 for at in range(2, self.rank))
        if self.counting:
            share = total * self.fraction(Fraction(1, count)) % self.primes
            return np.broadcast_to(share, (len(self.tower), self.samples, *line))
        weights = np.array(self._drawn(f"weights {name}", line))
        first = (slice(None),) * place
        others = weights[(*first, slice(1, None))].sum(axis=place, keepdims=True)
        weights[(*first, slice(0, 1))] = (total - others) % self.primes
        return weights

    def _chunk_weights(self, axis: str, whole: str, outer: str) -> Ints:
        """Weight of (o, i) is that of the whole at o |inner| + i over that of the outer at o, and 0 past the end."""
        split = self._regroup(self.weights(whole), whole, outer, axis, 0, False)
        return split * self._inverse_of(self.weights(outer)) % self.primes

    def _inverse_of(self, residues: Ints) -> Ints:
        return power(np.broadcast_to(residues, (len(self.tower), *residues.shape[1:])), [p - 2 for p in self.tower], self.primes)

    def _regroup(self, array: NDArray[Any], whole: str, outer: str, inner: str, back: int, repeat: bool) -> NDArray[Any]:
        source, rows, columns = (self.place[name] - back for name in (whole, outer, inner))
        count, width = self.points[whole], self.points[inner]
        beyond = np.take(array, [count - 1], source) if repeat else np.zeros_like(np.take(array, [0], source))
        pieces = [np.take(array, [i], source) if i < count else beyond for i in range(self.points[outer] * width)]
        lines = [np.concatenate(pieces[row * width : (row + 1) * width], columns) for row in range(self.points[outer])]
        return np.concatenate(lines, rows)

    def sum_over(self, a: Value, axes: Sequence[str]) -> Value:
        """The weighted sum over axes, those of chunks first; a sum over an axis the value lacks multiplies by its size."""
        for axis in sorted(axes, key=lambda name: (name not in self.chunks, name)):
            place = self.place[axis]
            residues = (a.residues * self.weights(axis) % self.primes).sum(axis=place, keepdims=True) % self.primes
            a = self._masked(residues, a.lowest, a.highest, *self._absorbed(a, axis))
        return a

    def _absorbed(self, a: Value, axis: str) -> tuple[Bools | None, Bools | None]:
        """Where a sum along an axis is -inf and where +inf: where any element that exists is. Both spoil the sample."""
        place = self.place[axis] - 1
        flags: list[Bools | None] = []
        for each in (a.infinite, a.above):
            there = each if each is None or axis not in self.chunks else each & (self.weights(axis)[0] != 0)
            flags.append(None if there is None else np.asarray(there.any(axis=place, keepdims=True), bool))
        infinite, above = flags
        if infinite is not None and above is not None:
            self.spoil(infinite & above)
            above = above & ~infinite
        return infinite, above
