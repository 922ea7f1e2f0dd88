"""
Axes in pieces, so that slices, positions and concatenations have exact values.

The law: where a program takes a slice of an axis, an element at a position of it, or makes it by concatenation, the axis falls
into pieces, and a piece is the same run of elements under all the names it goes by. Every piece has points and weights of its own,
so an axis made of two others has their points and weights together: elementwise operations commute with slicing and
concatenating, and a sum over the axis is a sum of sums over its pieces, exactly.

Steps other than 1, padding, axes in chunks, positions that cannot be ordered, and axes of more than `MOST` pieces are left out:
such an operation is an unknown function of whole lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias, cast

import sympy

from ..extents import Extent, extent, from_sympy
from ..graph import Attr, Axis, Graph, Op
from .attributes import axis_names

ZERO: Any = sympy.Integer(0)
MOST = 6
"""Most pieces of an axis."""


@dataclass(frozen=True, slots=True)
class Piece:
    """
    A run of an axis: where it starts and how many elements it has. Pieces with one label are one run under several names.

    `single` says it is one element that no axis consists of, which has one point.
    """

    start: Extent
    extent: Extent
    label: str
    single: bool = False


Pieces: TypeAlias = Mapping[str, tuple[Piece, ...]]


@dataclass(frozen=True, slots=True)
class _Run:
    """`length` elements of one axis from `start` are those of another from `at`; of none, where they are just told apart."""

    axis: str
    start: Any
    length: Any
    other: str
    at: Any


def whole_starts(axes: Sequence[Axis]) -> list[Extent]:
    """Where each operand of a concatenation along these axes starts."""
    out, total = [extent(0)], sympy.Integer(0)
    for axis in axes[:-1]:
        total = total + axis.extent.sympy()
        out.append(from_sympy(total))
    return out


def pieces(graphs: Sequence[Graph], shared: Mapping[str, str]) -> dict[str, tuple[Piece, ...]]:
    """The pieces of the axes of the first graph that fall into some, or are one; renamed copies (`shared`) fall alike."""
    axes = {axis.name: axis for axis in graphs[0].axes}
    chunked = {name for axis in axes.values() if axis.chunk_of for name in (axis.name, *axis.chunk_of)}
    barred = {shared.get(name, name) for name in chunked} | {name for name, axis in axes.items() if axis.extent.constant == 0}
    cutting = _Cutting({name: _expanded(axis.extent.sympy()) for name, axis in axes.items()})
    for run in dict.fromkeys(run for graph in graphs for op in graph.ops for run in _runs(op, axes)):
        first, second = shared.get(run.axis, run.axis), shared.get(run.other, run.other)
        if barred.isdisjoint((first, second)):
            cutting.add(_Run(first, run.start, run.length, second, run.at))
    found = cutting.pieces()
    return {name: found[shared.get(name, name)] for name in axes if shared.get(name, name) in found}


def _runs(op: Op, axes: Mapping[str, Axis]) -> Iterator[_Run]:
    match op.kind, op.attr:
        case ("slice", (str(axis), str(new), start, 1)):
            yield _Run(axis, _position(start), axes[new].extent.sympy(), new, ZERO)
        case ("index", (str(axis), position)):
            yield _Run(axis, _position(position), sympy.Integer(1), "", ZERO)
        case ("concat", (parts, str(new))):
            names = axis_names(parts)
            for name, start in zip(names, whole_starts([axes[name] for name in names]), strict=True):
                yield _Run(new, start.sympy(), axes[name].extent.sympy(), name, ZERO)
        case _:
            return


def _position(attr: Attr) -> Any:
    assert isinstance(attr, int | str | Extent), f"{attr!r} is not a position"
    return _expanded(extent(attr).sympy())


def _expanded(value: Any) -> Any:
    return cast(Any, sympy).expand(value)


class _Cutting:
    """Where axes are cut, kept consistent between axes that share runs."""

    def __init__(self, extents: Mapping[str, Any]) -> None:
        self.extents = extents
        self.cuts: dict[str, list[Any]] = {}
        self.runs: list[_Run] = []

    def add(self, run: _Run) -> None:
        """Takes a run into account, unless then positions could not be ordered or pieces would be too many."""
        before = {name: list(cuts) for name, cuts in self.cuts.items()}
        self.runs.append(run)
        if not self._settle(run):
            self.runs.pop()
            self.cuts = before

    def _settle(self, run: _Run) -> bool:
        for name in (run.axis, run.other):
            if name:
                self.cuts.setdefault(name, [sympy.Integer(0), self.extents[name]])
        if self._cut(run.axis, run.start) is None or self._cut(run.axis, run.start + run.length) is None:
            return False
        grown = True
        while grown:
            grown = False
            for each in [each for each in self.runs if each.other]:
                ways = ((each.axis, each.start, each.other, each.at), (each.other, each.at, each.axis, each.start))
                for source, low, target, start in ways:
                    for cut in list(self.cuts[source]):
                        if (cut - low).is_nonnegative and (low + each.length - cut).is_nonnegative:
                            more = self._cut(target, cut - low + start)
                            if more is None:
                                return False
                            grown = grown or more
        return True

    def _cut(self, axis: str, position: Any) -> bool | None:
        """Cuts an axis; whether that is new, None where it cannot be."""
        cuts = self.cuts[axis]
        position = _expanded(position)
        if position in cuts:
            return False
        place = 1
        for cut in cuts[1:-1]:
            if (position - cut).is_nonnegative:
                place += 1
            elif not (cut - position).is_nonnegative:
                return None
        if not position.is_nonnegative or (position - cuts[-1]).is_nonnegative or len(cuts) > MOST:
            return None
        cuts.insert(place, position)
        return True

    def pieces(self) -> dict[str, tuple[Piece, ...]]:
        """All axes cut, with labels for their pieces."""
        parent = {(name, i): (name, i) for name, cuts in self.cuts.items() for i in range(len(cuts) - 1)}

        def find(key: tuple[str, int]) -> tuple[str, int]:
            while parent[key] != key:
                key = parent[key]
            return key

        for run in [run for run in self.runs if run.other]:
            first, second = self.cuts[run.axis].index(run.start), self.cuts[run.other].index(run.at)
            count = self.cuts[run.axis].index(_expanded(run.start + run.length)) - first
            for i in range(count):
                low, high = sorted((find((run.axis, first + i)), find((run.other, second + i))))
                parent[high] = low
        whole = {find((name, 0)) for name, cuts in self.cuts.items() if len(cuts) == 2}
        out: dict[str, tuple[Piece, ...]] = {}
        for name, cuts in self.cuts.items():
            made: list[Piece] = []
            for i, (start, end) in enumerate(pairwise(cuts)):
                label, length = find((name, i)), from_sympy(end - start)
                single = length.constant == 1 and label not in whole
                made.append(Piece(from_sympy(start), length, f"{label[0]} {label[1]}", single))
            out[name] = tuple(made)
        return out
