"""
Maxima, comparisons and choices.

The law: a maximum picks the larger operand in a random order of the residues: it is associative, commutative and idempotent. A
comparison is a pseudo-random bit of the difference of its operands, with a <= b, b >= a and not (b < a) in agreement and
x != x false; a difference of integers that is a number up to `SMALL` decides. -inf is below everything, +inf above.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arithmetic import Arithmetic, either
from .draws import Bools, Value
from .fields import Ints, digest, mix

SMALL = 256
"""Differences of integers up to this are numbers; another one is taken for such with probability 2^-12 at most (`LOG_TOWER`)."""


class Order(Arithmetic):
    """Order and truth."""

    def maximum(self, a: Value, b: Value) -> Value:
        """The operand that is larger in a random order of the residues; -inf is below everything, +inf above."""
        highest, lowest = min(a.highest, b.highest), max(a.lowest, b.lowest)
        take = self._rank(a.residues[highest]) >= self._rank(b.residues[highest])
        if a.infinite is not None:
            take = take & ~a.infinite
        if b.infinite is not None:
            take = take | b.infinite
        if b.above is not None:
            take = take & ~b.above
        if a.above is not None:
            take = take | a.above
        infinite = None if a.infinite is None or b.infinite is None else a.infinite & b.infinite
        return self._masked(np.where(take[None], a.residues, b.residues), lowest, highest, infinite, either(a.above, b.above))

    def _rank(self, residues: Ints) -> NDArray[Any]:
        """A keyed random order of the residues; by themselves they would put 0 below everything."""
        return mix(mix(self.sample_keys ^ np.uint64(digest("order"))) + residues.astype(np.uint64))

    def maximum_over(self, a: Value, axes: Sequence[str]) -> Value:
        """The maximum over axes, axes the value lacks do not matter."""
        for axis in axes:
            place = self.place[axis]
            if a.residues.shape[place] == 1:
                continue
            pieces = [
                Value(
                    np.take(a.residues, [i], place),
                    a.lowest,
                    a.highest,
                    _flags_at(a.infinite, i, place - 1),
                    _flags_at(a.above, i, place - 1),
                )
                for i in range(a.residues.shape[place])
            ]
            chunk = self.chunks.get(axis)
            if chunk is not None:
                exists = self.weights(axis)[0] != 0
                pieces = [self.hide(piece, np.take(exists, [i], place - 1)) for i, piece in enumerate(pieces)]
            out = pieces[0]
            for piece in pieces[1:]:
                out = self.maximum(out, piece)
            a = out
        return a

    def hide(self, a: Value, exists: Bools) -> Value:
        """-inf where an element does not exist."""
        return self._masked(a.residues, a.lowest, a.highest, either(a.infinite, ~exists), None if a.above is None else a.above & exists)

    def existing(self, where: Bools, axes: Sequence[str]) -> Bools:
        """Where something holds of elements that exist, for a tensor with these axes: those past the end of an axis do not."""
        for axis in axes:
            if axis in self.chunks and self.chunks[axis][1] in axes:
                where = where & (self.weights(axis)[0] != 0)
        return where

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """a where the bit is 1, else b."""
        take = condition.residues[condition.highest] != 0
        infinite, above = self._chosen(take, a.infinite, b.infinite), self._chosen(take, a.above, b.above)
        residues = np.where(take[None], a.residues, b.residues)
        return self._masked(residues, max(a.lowest, b.lowest), min(a.highest, b.highest), infinite, above)

    def _chosen(self, take: Bools, a: Bools | None, b: Bools | None) -> Bools | None:
        """The flags of what is taken."""
        if a is None and b is None:
            return None
        no = np.zeros((1,) * (self.rank - 1), bool)
        return np.where(take, no if a is None else a, no if b is None else b)

    def compare(self, predicate: str, a: Value, b: Value, integers: bool) -> Value:
        """
        A bit for every element. On integers a < b is a + 1 <= b.

        For the strict order d < 0 is not (-d <= 0), and on integers that is d + 1 <= 0; the pseudo-random bit respects both.
        """
        highest = min(a.highest, b.highest)
        prime = self.tower[highest]
        difference = (a.residues[highest] - b.residues[highest]) % prime
        if predicate in ("gt", "ge"):
            a, b, difference = b, a, -difference % prime
            predicate = {"gt": "lt", "ge": "le"}[predicate]
        if predicate in ("eq", "ne"):
            distance = np.minimum(difference, -difference % prime)
            bit = self._bit("eq", distance) & ~(integers & (distance <= SMALL)) | (difference == 0)
            a_only, b_only, equal = False, False, True
        else:
            bit = ~self._at_most(-difference % prime, prime, integers) if predicate == "lt" else self._at_most(difference, prime, integers)
            a_only, b_only, equal = True, False, predicate == "le"
        if a.infinite is not None or b.infinite is not None:
            no = np.zeros_like(bit)
            low, high = (no if x.infinite is None else no | x.infinite for x in (a, b))
            bit = np.where(low & ~high, a_only, np.where(high & ~low, b_only, np.where(low & high, equal, bit)))
        if a.above is not None or b.above is not None:
            no = np.zeros_like(bit)
            first, second = (no if x.above is None else no | x.above for x in (a, b))
            bit = np.where(second & ~first, a_only, np.where(first & ~second, b_only, np.where(first & second, equal, bit)))
        if predicate == "ne":
            bit = ~bit
        return self.bits(bit)

    def _at_most(self, difference: Ints, prime: int, integers: bool) -> Bools:
        """difference <= 0 as a pseudo-random bit; on integers d <= 0 and 1 - d <= 0 exclude each other."""
        if not integers:
            return self._bit("le", difference) | (difference == 0)
        other = (1 - difference) % prime
        bit = self._bit("le", np.minimum(difference, other)) ^ (other < difference)
        return np.where((difference == 0) | (prime - difference <= SMALL), True, np.where(difference <= SMALL, False, bit))

    def _bit(self, name: str, residues: Ints) -> Bools:
        h = mix(mix(self.sample_keys ^ np.uint64(digest(f"bit {name}"))) + residues.astype(np.uint64))
        return (h >> np.uint64(17) & np.uint64(1)) == 1

    def bits(self, bit: Bools) -> Value:
        """Zeros and ones of every field."""
        residues = np.broadcast_to(bit.astype(np.int64)[None], (len(self.tower), *bit.shape))
        return Value(residues, 0, self.top)


def _flags_at(flags: Bools | None, at: int, place: int) -> Bools | None:
    """The flags of the elements at a position of an axis."""
    return None if flags is None else np.take(flags, [min(at, flags.shape[place] - 1)], place)
