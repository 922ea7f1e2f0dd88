"""
Extents after binding: which sizes are numbers, which stay run-time values, and what is known of those.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from math import gcd, prod
from typing import Any

from ..extents import Extent, extent
from ..graph import Axis, Graph


class Sizes:
    """
    The extents of a graph's axes with static symbols replaced by their values.

    `dynamic` symbols stay; for estimates they take the values in `values`, their hints. Those in `most` are from 1 up to that. `exact`
    are the inner axes of splits whose chunks have as many elements as the axis says, where others may be made whole tiles.
    """

    def __init__(
        self,
        graph: Graph,
        values: Mapping[str, int],
        dynamic: frozenset[str],
        most: Mapping[str, int] | None = None,
        exact: frozenset[str] = frozenset(),
    ) -> None:
        self.values = dict(values)
        self.most = dict(most or {})
        self.exact = exact
        self.multiples = {entry.name: max(1, entry.multiple_of) for entry in graph.symbols}
        self.dynamic = frozenset(entry.name for entry in graph.symbols if entry.name in dynamic)
        self._static = {name: value for name, value in values.items() if name not in self.dynamic}
        self.axes: dict[str, Axis] = {axis.name: axis for axis in graph.axes}
        self.extents: dict[str, Extent] = {axis.name: self.bind(axis.extent) for axis in graph.axes}
        self._hints = {name: bound.evaluate(self.values) for name, bound in self.extents.items()}

    def extended(self, axes: Iterable[Axis]) -> Sizes:
        """The same with more axes, which the program as written knows nothing of."""
        out = copy(self)
        more = list(axes)
        out.axes = {**self.axes, **{axis.name: axis for axis in more}}
        out.extents = {**self.extents, **{axis.name: self.bind(axis.extent) for axis in more}}
        out._hints = {**self._hints, **{axis.name: out.extents[axis.name].evaluate(self.values) for axis in more}}
        return out

    def bind(self, source: Extent) -> Extent:
        """The extent with static symbols replaced. Raises: KeyError for a symbol that has neither a value nor is dynamic."""
        if source.constant is not None:
            return source
        names = source.symbols
        for name in names:
            if name not in self.values:
                raise KeyError(name)
        if not any(name in self.dynamic for name in names):
            return extent(source.evaluate(self.values))
        return source.substituted(self._static)

    def hint(self, axis: str) -> int:
        """The size of an axis, at the hints where it is dynamic."""
        return self._hints[axis]

    def fixed(self, axis: str) -> int | None:
        """The size of an axis where it is known at compile time."""
        return self.extents[axis].constant

    def largest(self, axis: str) -> int | None:
        """The most that the size of an axis may be, where that is known at compile time."""
        size = self.extents[axis]
        return self.most.get(size.text, size.constant)

    def multiple(self, axes: Iterable[str]) -> int:
        """A number that divides the product of the axes' extents; 0 where that is 0."""
        return prod(_multiple(self.extents[axis].sympy(), self.multiples) for axis in axes)

    def product(self, axes: Iterable[str]) -> Extent:
        """The product of the axes' extents."""
        names = list(axes)
        numbers = [self.extents[axis].constant for axis in names]
        if all(number is not None for number in numbers):
            return extent(prod(number for number in numbers if number is not None))
        return extent("*".join(f"({self.extents[axis].text})" for axis in names))

    def hint_product(self, axes: Iterable[str]) -> int:
        """The product of the axes' sizes at the hints."""
        return prod(self._hints[axis] for axis in axes)


def ceildiv(total: Extent, divisor: int) -> Extent:
    """`total` divided by a positive number, rounded up."""
    if total.constant is not None:
        return extent(-(-total.constant // divisor))
    return extent(f"ceildiv({total.text}, {divisor})") if divisor != 1 else total


def _multiple(value: Any, known: Mapping[str, int]) -> int:
    if value.is_Integer:
        return int(value)
    if value.is_Symbol:
        return known.get(str(value), 1)
    if value.is_Mul:
        return prod(_multiple(factor, known) for factor in value.args)
    if value.is_Add:
        return gcd(*(_multiple(term, known) for term in value.args))
    if value.is_Pow and value.exp.is_Integer and value.exp > 0:
        return _multiple(value.base, known) ** int(value.exp)
    return 1
