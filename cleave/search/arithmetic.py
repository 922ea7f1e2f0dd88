"""
Arithmetic on residues.

The law: sums, products and quotients act on every level of the tower. `exp` maps level i to i + 1 as g^x, with g an element of
order p_i, so exp(x + y) = exp(x) exp(y) and exps may nest; `log` goes a level down by discrete logarithm. Roots are the power
map with exponent 1/2 modulo the odd part of p - 1: multiplicative, with 1/sqrt(x) its inverse, but its square is +-x. Any other
function is a keyed pseudo-random one of the residues. -inf and +inf are flags: exp of the one is 0, 1 over the other, sums absorb
either, and together they spoil the sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from .draws import Bools, Value
from .fields import Ints, digest, discrete_logarithm, generator_table, mix, power
from .measure import Measure


class Arithmetic(Measure):
    """Operations on the elements of tensors."""

    def constant(self, number: Fraction) -> Value:
        """A rational number."""
        return Value(self.fraction(number), 0, self.top)

    def negative_infinity(self) -> Value:
        """-inf."""
        shape = (self.samples,) + (1,) * (self.rank - 2)
        return Value(np.zeros((len(self.tower), *shape), np.int64), 0, self.top, np.ones(shape, bool))

    def positive_infinity(self) -> Value:
        """+inf."""
        return self.scale(self.negative_infinity(), Fraction(-1))

    def leaf(self, key: str, axes: Sequence[str], bits: bool) -> Value:
        """An unknown tensor; of zeros and ones if `bits`."""
        residues = self.draw(key, axes)
        if bits:
            residues = np.broadcast_to(residues[self.top] & 1, residues.shape)
        return Value(residues, 0, self.top)

    def add(self, a: Value, b: Value) -> Value:
        """a + b."""
        residues = (a.residues + b.residues) % self.primes
        infinite, above = self._added(a, b)
        return self._masked(residues, max(a.lowest, b.lowest), min(a.highest, b.highest), infinite, above)

    def _added(self, a: Value, b: Value) -> tuple[Bools | None, Bools | None]:
        """Where a sum is -inf and where +inf; where it would be both, the sample is spoiled."""
        infinite, above = either(a.infinite, b.infinite), either(a.above, b.above)
        if infinite is not None and above is not None:
            self.spoil(np.broadcast_to(infinite & above, np.broadcast_shapes(infinite.shape, above.shape)))
            above = above & ~infinite
        return infinite, above

    def _scaled(self, a: Value, number: Fraction) -> tuple[Bools | None, Bools | None]:
        """Where a multiple is -inf and where +inf."""
        for flags in (a.infinite, a.above) if number == 0 else ():
            if flags is not None:
                self.spoil(flags)
        return (a.infinite, a.above) if number > 0 else (a.above, a.infinite)

    def scale(self, a: Value, number: Fraction) -> Value:
        """A rational multiple; 0 times an infinity spoils the sample."""
        residues = a.residues * self.fraction(number) % self.primes
        return Value(residues, a.lowest, a.highest) if a.bounded else self._masked(residues, a.lowest, a.highest, *self._scaled(a, number))

    def multiply(self, a: Value, b: Value) -> Value:
        """a * b. -inf times what is not known to be positive spoils the sample; +inf is an unknown number there."""
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
        return self._raised(power(a.residues, exponents, self.primes), a, exponent)

    def _raised(self, residues: Ints, a: Value, exponent: Fraction) -> Value:
        """The power of a value, where it is +inf too: 0 or +inf."""
        if a.above is not None and exponent < 0:
            return Value(np.where(a.above[None], 0, residues), a.lowest, a.highest)
        return self._masked(residues, a.lowest, a.highest, None, a.above)

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
        return self._masked(residues, lowest, highest, None, a.above)

    def logarithm(self, a: Value) -> Value | None:
        """log(a), or None where the tower is too short. The logarithm of 0 spoils the sample."""
        lowest, highest = max(a.lowest - 1, 0), a.highest - 1
        if lowest > highest or not a.bounded:
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


def either(a: Bools | None, b: Bools | None) -> Bools | None:
    """Where either of two values is -inf."""
    if a is None or b is None:
        return a if b is None else b
    return a | b
