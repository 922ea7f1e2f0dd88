"""
The same evaluation in float64, to confirm what fields know only up to a sign.

The law: `Reals` gives every operation its real meaning on random real tensors, with random positive weights for sums, so that
an identity of roots such as rsqrt(x)^2 = 1/x holds where it holds for real numbers, and sqrt(x^2) = x does not. Unknown
functions are smooth, positive and told apart by name. A root or logarithm that does not exist spoils the sample; in one that
is in `overflowed` a number was too large for float64, or an exponential too small, which decides nothing.

Tensors are drawn with both signs, or positive for programs that take roots of them, and at a given scale: at 1e-3 a small
constant under a root shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..extents import Extent
from ..graph import Axis
from .fields import Ints, digest
from .pieces import Pieces
from .values import Bools, Space, Value

Floats = NDArray[np.float64]


class Reals(Space):
    """A `Space` of real numbers: values have one level, and their residues are float64."""

    def __init__(
        self,
        axes: Sequence[Axis],
        points: Mapping[str, int],
        samples: int,
        seed: int,
        copies: Mapping[str, str],
        symbols: Mapping[str, int],
        positive: bool,
        scale: float,
        pieces: Pieces | None = None,
    ) -> None:
        super().__init__(axes, points, samples, seed, (2**31 - 1,), copies, symbols, pieces=pieces)
        self.positive = positive
        self.scale_of_leaves = scale
        self.overflowed: Bools = np.zeros(samples, bool)

    def _unit(self, key: str, axes: Sequence[str]) -> Floats:
        """Uniform numbers in (0, 1)."""
        return (self.draw(key, axes) + 0.5) / self.tower[0]

    def _unbounded(self) -> Ints:
        """What stands where a value is +inf."""
        return self.fraction(Fraction(1 << 20))

    def _value(self, numbers: Floats, infinite: Bools | None = None, above: Bools | None = None) -> Value:
        finite = np.isfinite(numbers)
        if not bool(finite.all()):
            self.overflowed = self.overflowed | self._samples_with(~finite)
            numbers = np.where(finite, numbers, 1.0)
        return self._masked(cast(Ints, numbers), 0, 0, infinite, above)

    def _defined(self, numbers: Floats, where: Bools) -> Value:
        """A value that exists in some places only; elsewhere it spoils the sample."""
        if not bool(where.all()):
            self.spoiled = self.spoiled | self._samples_with(~where)
            numbers = np.where(where, numbers, 1.0)
        return self._value(numbers)

    def _samples_with(self, where: Bools) -> Bools:
        spread = np.broadcast_to(where, (1, self.samples, *where.shape[2:]))
        return np.asarray(spread.reshape(self.samples, -1).any(axis=1), bool)

    def integer(self, number: int) -> Ints:
        """The number."""
        return self.fraction(Fraction(number))

    def fraction(self, number: Fraction) -> Ints:
        """The number."""
        return cast(Ints, np.full((1, self.samples) + (1,) * (self.rank - 2), float(number)))

    def extent(self, extent: Extent) -> Ints:
        """The extent."""
        return self.integer(extent.evaluate(self.symbols or {}))

    def _weights_of(self, name: str, extent: Extent, count: int, place: int) -> Ints:
        line = tuple(count if at == place else 1 for at in range(2, self.rank))
        share = (self._drawn(f"weights {name}", line) + 0.5) / self.tower[0] + 0.25
        return cast(Ints, share / share.sum(axis=place, keepdims=True) * self.extent(extent))

    def _inverse_of(self, residues: Ints) -> Ints:
        return cast(Ints, 1.0 / np.asarray(residues))

    def size(self, axis: str) -> Value:
        """The sum of the weights of an axis."""
        return self._value(np.asarray(self.weights(axis).sum(axis=self.place[axis], keepdims=True), np.float64))

    def leaf(self, key: str, axes: Sequence[str], bits: bool) -> Value:
        """An unknown tensor; of zeros and ones if `bits`."""
        unit = self._unit(key, axes)
        if bits:
            return self._value(np.where(unit < 0.5, 1.0, 0.0))
        return self._value((unit + 0.5 if self.positive else 4.0 * unit - 2.0) * self.scale_of_leaves)

    def add(self, a: Value, b: Value) -> Value:
        """a + b."""
        return self._value(_of(a) + _of(b), *self._added(a, b))

    def scale(self, a: Value, number: Fraction) -> Value:
        """A rational multiple; 0 times an infinity spoils the sample."""
        return self._value(_of(a) * float(number), *self._scaled(a, number))

    def multiply(self, a: Value, b: Value) -> Value:
        """a * b. With -inf it spoils the sample, +inf is some number."""
        for operand in (a, b):
            if operand.infinite is not None:
                self.spoil(operand.infinite)
        with np.errstate(over="ignore"):
            return self._value(_of(a) * _of(b))

    def raise_to(self, a: Value, exponent: Fraction) -> Value:
        """`a ** exponent`."""
        if a.infinite is not None:
            self.spoil(a.infinite)
        base = _of(a)
        with np.errstate(all="ignore"):
            out = base ** float(exponent)
        found = self._defined(out, ~np.isnan(out) & ((base != 0) | (exponent >= 0)))
        return self._raised(found.residues, a, exponent)

    def exponential(self, a: Value) -> Value:
        """exp(a)."""
        with np.errstate(all="ignore"):
            out = np.exp(_of(a) if a.above is None else np.where(a.above[None], 0.0, _of(a)))
        self.overflowed = self.overflowed | self._samples_with(out == 0)
        return self._value(out if a.infinite is None else np.where(a.infinite[None], 0.0, out), None, a.above)

    def logarithm(self, a: Value) -> Value:
        """log(a)."""
        with np.errstate(all="ignore"):
            return self._defined(np.log(_of(a)), _of(a) > 0)

    def unknown(self, name: str, operands: Sequence[Value]) -> Value:
        """A smooth positive function of the operands."""
        return self._value(1.5 + np.sin(self._mixed(name, [_flagged(operand) for operand in operands])))

    def _mixed(self, name: str, parts: Sequence[Floats]) -> Floats:
        total = np.zeros((1, self.samples) + (1,) * (self.rank - 2)) + digest(name) % 997 / 100
        for at, part in enumerate(parts):
            total = total + part * (0.5 + digest(f"{name} {at}") % 1009 / 1009)
        return total

    def moved(self, name: str, operands: Sequence[Value], removed: Sequence[Sequence[str]], added: Sequence[str]) -> Value:
        """A smooth positive function of whole lines."""
        parts: list[Floats] = []
        for operand, axes in zip(operands, removed, strict=True):
            line = _flagged(operand)
            for axis in axes:
                place = self.place[axis]
                pieces = [np.take(line, [i], place) for i in range(line.shape[place])]
                line = self._mixed(f"{name} along", pieces)
            parts.append(line)
        for axis in added:
            shape = [1] * self.rank
            shape[self.place[axis]] = self.points[axis]
            parts.append(np.arange(self.points[axis], dtype=np.float64).reshape(shape))
        return self._value(1.5 + np.sin(self._mixed(name, parts)))

    def _rank(self, residues: Ints) -> NDArray[Any]:
        return residues

    def compare(self, predicate: str, a: Value, b: Value, integers: bool) -> Value:
        """The comparison."""
        left, right = (_with_infinities(v) for v in (a, b))
        compared: dict[str, Any] = {
            "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal
        }  # fmt: skip
        return self._value(compared[predicate](left, right) * 1.0)

    def sum_over(self, a: Value, axes: Sequence[str]) -> Value:
        """The weighted sum over axes, those of chunks first."""
        for axis in sorted(axes, key=lambda name: (name not in self.chunks, name)):
            place = self.place[axis]
            with np.errstate(over="ignore"):
                total = (_of(a) * np.asarray(self.weights(axis))).sum(axis=place, keepdims=True)
            a = self._value(total, *self._absorbed(a, axis))
        return a


def _of(a: Value) -> Floats:
    return np.asarray(a.residues, np.float64)


def _with_infinities(a: Value) -> Floats:
    out = _of(a) if a.infinite is None else np.where(a.infinite[None], -np.inf, _of(a))
    return out if a.above is None else np.where(a.above[None], np.inf, out)


def _flagged(a: Value) -> Floats:
    return _of(a) if a.infinite is None else np.where(a.infinite[None], -17.0, _of(a))


def close(a: Value, b: Value, good: Bools) -> bool:
    """Whether two values agree up to rounding in the good samples; 1e-9 leaves room for cancellation in a one-pass variance."""
    left, right = np.broadcast_arrays(_of(a)[0], _of(b)[0])
    left, right = left[good], right[good]
    room = 1e-9 * float(np.abs(left).max(initial=0.0)) + 1e-300
    none = np.zeros((1,) * (a.residues.ndim - 1), bool)
    below, above = (
        [np.broadcast_to(none if flags is None else flags, (good.size, *left.shape[1:]))[good] for flags in pair]
        for pair in ((a.infinite, b.infinite), (a.above, b.above))
    )
    return bool((np.abs(left - right) <= room).all() and (below[0] == below[1]).all() and (above[0] == above[1]).all())
