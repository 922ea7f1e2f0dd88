"""
Values: what a tensor program computes, as residues at a few random points of a tower of prime fields.

The law: two programs that are equal as formal expressions have equal residues, and two that are not differ with
probability at least 1 - d/p for each sample, with d the degree of their difference and p > 2^25 (Schwartz-Zippel; above 2^21
where discrete logarithms are taken). Three samples, each of several points, make an accidental equality of two given values
less likely than 10^-12, and no graph is handed out without `verify`. What counts as a formal identity:

- **Fields.** Primes p_0 < p_1 < ... with p_{i+1} = k p_i + 1. Sums, products and quotients act on every level. `exp` maps
  level i to i + 1 as g^x, with g an element of order p_i, so exp(x + y) = exp(x) exp(y) and exps may nest; `log` goes
  a level down by discrete logarithm. A value knows its lowest and highest valid level. An exp that leaves the tower is an
  unknown function.
- **Random measure.** A sum over an axis is sum_i w_i x_i with random weights, and the size of the axis is sum_i w_i: the
  declared extent where that is an integer, else the residue of its expression over random symbols. Linearity, exchange and
  pulling factors out hold, and no size can be confused with a number of points.
- **Unknown functions** are a keyed pseudo-random function of the residues, elementwise; operations that move elements along
  an axis (gather, merge, ...) one of the whole line, but for slices, positions and concatenations, which are exact (`pieces`).
- **Roots** are the power map with exponent 1/2 modulo the odd part of p - 1: multiplicative, with 1/sqrt(x) its inverse, but its
  square is +-x. Callers add exponents before they evaluate.
- **Maximum** picks the larger operand in a random order of the residues: associative, commutative, idempotent.
- **Comparisons** are pseudo-random bits of the difference of the operands, with a <= b, b >= a and not (b < a) in
  agreement and x != x false: every value is taken to be a number, so guards against NaN fold away.
- **-inf** is formal: a flag beside the residue. exp gives 0, a maximum ignores it, a sum absorbs it.

A division by 0 (or -inf - -inf) spoils the sample; the caller draws others.
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
from .fields import SHORT_TOWER, Ints, digest, discrete_logarithm, generator_table, mix, power
from .pieces import Pieces

Bools: TypeAlias = NDArray[np.bool_]


@dataclass(slots=True)
class Value:
    """
    Residues of one tensor.

    Shapes: `residues` is (levels, samples, points of every axis of the space, 1 where the tensor lacks the axis);
    `infinite`, where given, is (samples, ...) alike and marks elements that are -inf (their residues are 0).
    """

    residues: Ints
    lowest: int
    highest: int
    infinite: Bools | None = None


class Space:
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
        self.inexact = np.zeros(samples, bool)
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

    def spoil(self, where: Bools) -> None:
        """Marks the samples in which `where` (samples, ...) holds anywhere."""
        self.spoiled |= where.reshape(where.shape[0], -1).any(axis=1)

    # Arithmetic.

    def constant(self, number: Fraction) -> Value:
        """A rational number."""
        return Value(self.fraction(number), 0, self.top)

    def negative_infinity(self) -> Value:
        """-inf."""
        shape = (self.samples,) + (1,) * (self.rank - 2)
        return Value(np.zeros((len(self.tower), *shape), np.int64), 0, self.top, np.ones(shape, bool))

    def leaf(self, key: str, axes: Sequence[str], bits: bool) -> Value:
        """An unknown tensor; of zeros and ones if `bits`."""
        residues = self.draw(key, axes)
        if bits:
            residues = np.broadcast_to(residues[self.top] & 1, residues.shape)
        return Value(residues, 0, self.top)

    def add(self, a: Value, b: Value) -> Value:
        """a + b."""
        residues = (a.residues + b.residues) % self.primes
        return self._masked(residues, max(a.lowest, b.lowest), min(a.highest, b.highest), _either(a.infinite, b.infinite))

    def scale(self, a: Value, number: Fraction) -> Value:
        """A rational multiple. A negative one of -inf spoils the sample."""
        if a.infinite is not None and number <= 0:
            self.spoil(a.infinite)
        return Value(a.residues * self.fraction(number) % self.primes, a.lowest, a.highest, a.infinite)

    def multiply(self, a: Value, b: Value) -> Value:
        """a * b. -inf times what is not known to be positive is unknown: it spoils the sample."""
        for operand in (a, b):
            if operand.infinite is not None:
                self.spoil(operand.infinite)
        return Value(a.residues * b.residues % self.primes, max(a.lowest, b.lowest), min(a.highest, b.highest))

    def raise_to(self, a: Value, exponent: Fraction) -> Value:
        """`a ** exponent`. A negative exponent of zero spoils the sample."""
        if exponent == 1:
            return a
        if a.infinite is not None:
            self.spoil(a.infinite)
        if exponent < 0:
            self.spoil((a.residues[a.lowest : a.highest + 1] == 0).any(axis=0))
        exponents: list[int] = []
        for level, prime in enumerate(self.tower):
            odd = prime - 1
            while odd % 2 == 0:
                odd //= 2
            if exponent.denominator != 1 and level in self.square_levels and a.lowest <= level <= a.highest:
                one = power(a.residues[level : level + 1], [odd], self.primes[level : level + 1])
                wrong = (one != 1).any(axis=0)
                self.inexact |= wrong.reshape(self.samples, -1).any(axis=1)
            root = 1 if exponent.denominator == 1 else pow(exponent.denominator, -1, odd)
            reduced = exponent.numerator * root % (prime - 1)
            exponents.append(int(exponent) if exponent.denominator == 1 and exponent >= 0 else reduced)
        return Value(power(a.residues, exponents, self.primes), a.lowest, a.highest)

    def exponential(self, a: Value) -> Value | None:
        """exp(a), or None where the tower is too short."""
        lowest, highest = a.lowest + 1, min(a.highest + 1, self.top)
        if lowest > highest:
            return None
        residues = np.zeros_like(a.residues)
        for level in range(lowest, highest + 1):
            table, x = generator_table(self.tower[level], self.tower[level - 1]), a.residues[level - 1]
            prime = self.tower[level]
            low = table[0][x & 255] * table[1][x >> 8 & 255] % prime
            high = table[2][x >> 16 & 255] * table[3][x >> 24] % prime
            residues[level] = low * high % prime
        if a.infinite is not None:
            residues = np.where(a.infinite[None], 0, residues)
        return Value(residues, lowest, highest)

    def logarithm(self, a: Value) -> Value | None:
        """log(a), or None where the tower is too short. The logarithm of 0 spoils the sample."""
        lowest, highest = max(a.lowest - 1, 0), a.highest - 1
        if lowest > highest or a.infinite is not None:
            return None
        self.spoil((a.residues[lowest + 1 : highest + 2] == 0).any(axis=0))
        residues = np.zeros_like(a.residues)
        for level in range(lowest, highest + 1):
            prime, order = self.tower[level + 1], self.tower[level]
            cofactor = (prime - 1) // order
            base = np.maximum(a.residues[level + 1 : level + 2], 1)
            power_ = power(base, [cofactor], self.primes[level + 1 : level + 2])[0]
            residues[level] = discrete_logarithm(power_, prime, order) * pow(cofactor, order - 2, order) % order
        return Value(residues, lowest, highest)

    def unknown(self, name: str, operands: Sequence[Value]) -> Value:
        """A pseudo-random function of the operands, elementwise, with residues on every level."""
        h = self.sample_keys ^ np.uint64(digest(f"function {name}"))
        for operand in operands:
            h = mix(h + self._flat(operand))
        return Value(self._levels(h), 0, self.top)

    def _flat(self, a: Value) -> NDArray[np.uint64]:
        """The highest residues with the flags of -inf folded in."""
        flat = a.residues[a.highest].astype(np.uint64)
        return flat if a.infinite is None else flat + (a.infinite.astype(np.uint64) << np.uint64(40))

    def moved(self, name: str, operands: Sequence[Value], removed: Sequence[Sequence[str]], added: Sequence[str]) -> Value:
        """
        A pseudo-random function of whole lines: operand i loses the axes `removed[i]`, the result gains the axes `added`.
        """
        h = self.sample_keys ^ np.uint64(digest(f"moved {name}"))
        for operand, axes in zip(operands, removed, strict=True):
            line = self._flat(operand)
            for axis in axes:
                place = self.place[axis] - 1
                parts = np.split(line, line.shape[place], axis=place)
                line = np.zeros_like(parts[0])
                for position, part in enumerate(parts):
                    line = mix(line + part + np.uint64(position * 2 + 1))
            h = mix(h + line)
        for axis in added:
            index = np.arange(1, self.points[axis] + 1, dtype=np.uint64).reshape((1, *self._shape((axis,))))
            h = mix(h + index * np.uint64(0x9E3779B97F4A7C15))
        return Value(self._levels(h), 0, self.top)

    # Order and truth.

    def maximum(self, a: Value, b: Value) -> Value:
        """The operand that is larger in a random order of the residues; -inf is below everything."""
        highest, lowest = min(a.highest, b.highest), max(a.lowest, b.lowest)
        take = self._rank(a.residues[highest]) >= self._rank(b.residues[highest])
        if a.infinite is not None:
            take = take & ~a.infinite
        if b.infinite is not None:
            take = take | b.infinite
        infinite = None if a.infinite is None or b.infinite is None else a.infinite & b.infinite
        return self._masked(np.where(take[None], a.residues, b.residues), lowest, highest, infinite)

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
                    None if a.infinite is None else np.take(a.infinite, [min(i, a.infinite.shape[place - 1] - 1)], place - 1),
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
        return self._masked(a.residues, a.lowest, a.highest, _either(a.infinite, ~exists))

    def existing(self, where: Bools, axes: Sequence[str]) -> Bools:
        """Where something holds of elements that exist, for a tensor with these axes: those past the end of an axis do not."""
        for axis in axes:
            if axis in self.chunks and self.chunks[axis][1] in axes:
                where = where & (self.weights(axis)[0] != 0)
        return where

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """a where the bit is 1, else b."""
        take = condition.residues[condition.highest] != 0
        infinite = None
        if a.infinite is not None or b.infinite is not None:
            no = np.zeros((1,) * (self.rank - 1), bool)
            infinite = np.where(take, no if a.infinite is None else a.infinite, no if b.infinite is None else b.infinite)
        residues = np.where(take[None], a.residues, b.residues)
        return self._masked(residues, max(a.lowest, b.lowest), min(a.highest, b.highest), infinite)

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
            bit = self._bit("eq", np.minimum(difference, -difference % prime)) | (difference == 0)
            a_only, b_only, equal = False, False, True
        else:
            bit = ~self._at_most(-difference % prime, prime, integers) if predicate == "lt" else self._at_most(difference, prime, integers)
            a_only, b_only, equal = True, False, predicate == "le"
        if a.infinite is not None or b.infinite is not None:
            no = np.zeros_like(bit)
            low, high = (no if x.infinite is None else no | x.infinite for x in (a, b))
            bit = np.where(low & ~high, a_only, np.where(high & ~low, b_only, np.where(low & high, equal, bit)))
        if predicate == "ne":
            bit = ~bit
        return self.bits(bit)

    def _at_most(self, difference: Ints, prime: int, integers: bool) -> Bools:
        """difference <= 0 as a pseudo-random bit; on integers d <= 0 and 1 - d <= 0 exclude each other."""
        if not integers:
            return self._bit("le", difference) | (difference == 0)
        other = (1 - difference) % prime
        bit = self._bit("le", np.minimum(difference, other)) ^ (other < difference)
        return np.where(difference == 0, True, np.where(other == 0, False, bit))

    def _bit(self, name: str, residues: Ints) -> Bools:
        h = mix(mix(self.sample_keys ^ np.uint64(digest(f"bit {name}"))) + residues.astype(np.uint64))
        return (h >> np.uint64(17) & np.uint64(1)) == 1

    def bits(self, bit: Bools) -> Value:
        """Zeros and ones of every field."""
        residues = np.broadcast_to(bit.astype(np.int64)[None], (len(self.tower), *bit.shape))
        return Value(residues, 0, self.top)

    # Axes.

    def sum_over(self, a: Value, axes: Sequence[str]) -> Value:
        """The weighted sum over axes, those of chunks first; a sum over an axis the value lacks multiplies by its size."""
        for axis in sorted(axes, key=lambda name: (name not in self.chunks, name)):
            place = self.place[axis]
            residues = (a.residues * self.weights(axis) % self.primes).sum(axis=place, keepdims=True) % self.primes
            a = self._masked(residues, a.lowest, a.highest, absorbed(a.infinite, place - 1))
        return a

    def rename(self, a: Value, pairs: Sequence[tuple[str, str]]) -> Value:
        """Moves axes to other names, all at once."""
        target = {self.place[old]: self.place[new] for old, new in pairs}
        rest = [place for place in range(2, self.rank) if place not in target or a.residues.shape[place] == 1]
        order = {target[place]: place for place in target if place not in rest}
        order |= {place: place for place in rest if a.residues.shape[place] > 1}
        spare = [place for place in rest if place not in order.values()]
        places = [0, 1, *(order[place] if place in order else spare.pop() for place in range(2, self.rank))]
        infinite = None if a.infinite is None else a.infinite.transpose([0, *[place - 1 for place in places[2:]]])
        return Value(a.residues.transpose(places), a.lowest, a.highest, infinite)

    def split(self, a: Value, whole: str, outer: str, inner: str) -> Value:
        """Element (o, i) is that at o |inner| + i of the whole; past the end, where nothing exists, it is the last one."""
        if a.residues.shape[self.place[whole]] == 1:
            return a
        infinite = None if a.infinite is None else self._regroup(a.infinite, whole, outer, inner, 1, True)
        return Value(self._regroup(a.residues, whole, outer, inner, 0, True), a.lowest, a.highest, infinite)

    def sliced(self, a: Value, axis: str, new: str, start: Extent) -> Value | None:
        """A run of an axis from `start` under another name; None where it is not a run of pieces that both have."""
        own, wanted = self.pieces.get(axis, ()), [piece.label for piece in self.pieces.get(new, ())]
        for at, piece in enumerate(own):
            if piece.start == start and wanted and [each.label for each in own[at : at + len(wanted)]] == wanted:
                counts = self._piece_points(axis)
                return self._taken(a, axis, new, range(sum(counts[:at]), sum(counts[: at + len(wanted)])))
        return None

    def at(self, a: Value, axis: str, position: Extent) -> Value | None:
        """The element at a position of an axis; None where it is not a piece of its own."""
        counts = self._piece_points(axis) if axis in self.pieces else []
        for at, piece in enumerate(self.pieces.get(axis, ())):
            if piece.start == position and piece.single:
                return self._taken(a, axis, axis, range(sum(counts[:at]), sum(counts[:at]) + 1))
        return None

    def _taken(self, a: Value, axis: str, new: str, points: range) -> Value:
        def moved(array: NDArray[Any], back: int) -> NDArray[Any]:
            place, target = self.place[axis] - back, self.place[new] - back
            return (np.take(array, list(points), place) if array.shape[place] > 1 else array).swapaxes(place, target)

        return Value(moved(a.residues, 0), a.lowest, a.highest, None if a.infinite is None else moved(a.infinite, 1))

    def concatenated(self, operands: Sequence[Value], axes: Sequence[str], new: str) -> Value | None:
        """Operands one after the other, each along its axis; None where the pieces of the new axis are not those of the others."""
        if new not in self.pieces or any(axis not in self.pieces for axis in axes):
            return None
        if [p.label for axis in axes for p in self.pieces[axis]] != [p.label for p in self.pieces[new]]:
            return None
        place = self.place[new]
        moved = [self._taken(a, axis, new, range(self.points[axis])) for a, axis in zip(operands, axes, strict=True)]
        arrays = [np.broadcast_to(a.residues, (*a.residues.shape[:1], self.samples, *a.residues.shape[2:])) for a in moved]
        flags = [np.zeros(array.shape[1:], bool) if a.infinite is None else a.infinite for a, array in zip(moved, arrays, strict=True)]

        def joined(parts: Sequence[NDArray[Any]], at: int) -> NDArray[Any]:
            shapes = [(*part.shape[:at], 1, *part.shape[at + 1 :]) for part in parts]
            common = np.broadcast_shapes(*shapes)
            sizes = [(*common[:at], self.points[axis], *common[at + 1 :]) for axis in axes]
            return np.concatenate([np.broadcast_to(part, size) for part, size in zip(parts, sizes, strict=True)], at)

        lowest, highest = max(a.lowest for a in moved), min(a.highest for a in moved)
        if lowest > highest:
            return None
        return self._masked(joined(arrays, place), lowest, highest, joined(flags, place - 1))

    def _regroup(self, array: NDArray[Any], whole: str, outer: str, inner: str, back: int, repeat: bool) -> NDArray[Any]:
        source, rows, columns = (self.place[name] - back for name in (whole, outer, inner))
        count, width = self.points[whole], self.points[inner]
        beyond = np.take(array, [count - 1], source) if repeat else np.zeros_like(np.take(array, [0], source))
        pieces = [np.take(array, [i], source) if i < count else beyond for i in range(self.points[outer] * width)]
        lines = [np.concatenate(pieces[row * width : (row + 1) * width], columns) for row in range(self.points[outer])]
        return np.concatenate(lines, rows)

    def _masked(self, residues: Ints, lowest: int, highest: int, infinite: Bools | None) -> Value:
        if infinite is None or not infinite.any():
            return Value(residues, lowest, highest)
        return Value(np.where(infinite[None], 0, residues), lowest, highest, infinite)


def _either(a: Bools | None, b: Bools | None) -> Bools | None:
    if a is None or b is None:
        return a if b is None else b
    return a | b


def absorbed(infinite: Bools | None, place: int) -> Bools | None:
    """Where a sum along an axis is -inf: where any element is."""
    return None if infinite is None else np.asarray(infinite.any(axis=place, keepdims=True), bool)
