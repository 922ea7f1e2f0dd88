"""
Axes in pieces, so that slices, positions, concatenations, paddings and merged axes have exact values.

The law: where a program takes a slice of an axis, an element at a position of it, or makes it by concatenation or padding, the
axis falls into pieces, and a piece is the same run of elements under all the names it goes by. Every piece has points and weights
of its own, so an axis made of two others has their points and weights together: elementwise operations commute with slicing and
concatenating, and a sum over the axis is a sum of sums over its pieces, exactly.

An axis of which every s-th element is taken, or that merges another with a short one of s elements, has its elements in another
order: those at 0, s, 2s, ... first, then those at 1, s + 1, ... (`modulus`). No sum or elementwise operation minds. Such an axis
may be a run of a longer one, but nothing may cut it, or that run, in its own order.

Axes in chunks, positions that cannot be ordered, runs that overlap themselves, and axes of more than `MOST` pieces are left out:
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

    `single` says it is one element that no axis consists of, which has one point. `modulus` is that of the axis; a piece that is
    `within` starts at a place that is none in the axis' own order, as a run there is in the order of some modulus.
    """

    start: Extent
    extent: Extent
    label: str
    single: bool = False
    modulus: int = 1
    within: bool = False


Pieces: TypeAlias = Mapping[str, tuple[Piece, ...]]


@dataclass(frozen=True, slots=True)
class _Run:
    """
    `length` elements of one axis from `start` are those of another from `at`; of none, where they are just told apart.

    `strided` says that positions of `axis` are in the order of its modulus.
    """

    axis: str
    start: Any
    length: Any
    other: str
    at: Any
    strided: bool = False


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
    modulus = moduli(graphs, axes, shared)
    runs = dict.fromkeys(run for graph in graphs for op in graph.ops for run in _runs(op, axes, modulus))
    for run in sorted(runs, key=lambda run: not run.strided):
        first, second = shared.get(run.axis, run.axis), shared.get(run.other, run.other)
        if barred.isdisjoint((first, second)):
            cutting.add(_Run(first, run.start, run.length, second, run.at, run.strided))
    made = cutting.pieces(modulus)
    return {name: made[shared.get(name, name)] for name in axes if shared.get(name, name) in made}


def moduli(graphs: Sequence[Graph], axes: Mapping[str, Axis], shared: Mapping[str, str]) -> dict[str, int]:
    """
    For axes whose elements are taken in steps, or that are merged with a short inner axis, how many kinds of elements they have.

    An axis for which operations do not agree on that has none.
    """
    wanted: dict[str, set[int]] = {}
    for op in [op for graph in graphs for op in graph.ops]:
        match op.kind, op.attr:
            case ("slice", (str(axis), str(new), _, int(step))) if step > 1 and _times(axes[new], step, axes[axis]):
                wanted.setdefault(shared.get(axis, axis), set()).add(step)
            case ("merge", ((str(outer), str(inner)), str(whole))) | ("split", (str(whole), str(outer), str(inner))):
                short = axes[inner].extent.constant
                if axes[outer].extent.constant not in range(2, MOST + 1) and short in range(2, MOST + 1):
                    wanted.setdefault(shared.get(whole, whole), set()).add(short or 1)
            case _:
                pass
    agreed = {axis: steps.pop() for axis, steps in wanted.items() if len(steps) == 1}
    return {axis: agreed[first] for axis in axes if (first := shared.get(axis, axis)) in agreed}


def _times(part: Axis, count: int, whole: Axis) -> bool:
    return bool(_expanded(part.extent.sympy() * count - whole.extent.sympy()) == 0)


def _runs(op: Op, axes: Mapping[str, Axis], modulus: Mapping[str, int]) -> Iterator[_Run]:
    match op.kind, op.attr:
        case ("slice", (str(axis), str(new), start, 1)):
            yield _Run(axis, _position(start), axes[new].extent.sympy(), new, ZERO)
        case ("slice", (str(axis), str(new), start, int(step))) if modulus.get(axis) == step:
            if _position(start) in range(step):
                yield _Run(axis, _position(start) * axes[new].extent.sympy(), axes[new].extent.sympy(), new, ZERO, True)
        case ("pad", (str(axis), str(new), low, _)):
            yield _Run(new, _position(low), axes[axis].extent.sympy(), axis, ZERO)
        case ("merge", ((str(outer), str(inner)), str(whole))) | ("split", (str(whole), str(outer), str(inner))):
            long, short = (outer, inner) if whole in modulus else (inner, outer)
            count = axes[short].extent.constant or 0
            if count in range(2, MOST + 1) and modulus.get(whole, count) == count and _times(axes[long], count, axes[whole]):
                for at in range(count):
                    yield _Run(short, sympy.Integer(at), sympy.Integer(1), "", ZERO)
                for at in range(count):
                    yield _Run(whole, at * axes[long].extent.sympy(), axes[long].extent.sympy(), long, ZERO, whole in modulus)
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


def _between(low: Any, position: Any, high: Any) -> bool:
    """Whether a position is surely in an interval, its ends included."""
    return bool((position - low).is_nonnegative and (high - position).is_nonnegative)


def _strictly(low: Any, position: Any, high: Any) -> bool | None:
    """Whether a position is inside an interval, None where that is not known."""
    above, below = (position - low).is_positive, (high - position).is_positive
    return False if above is False or below is False else True if above and below else None


class _Cutting:
    """Where axes are cut, kept consistent between axes that share runs."""

    def __init__(self, extents: Mapping[str, Any]) -> None:
        self.extents = extents
        self.cuts: dict[str, list[Any]] = {}
        self.runs: list[_Run] = []
        self.guarded: set[tuple[str, Any, Any]] = set()
        """Runs of an axis that are in another order than their own: from where to where."""

    def add(self, run: _Run) -> None:
        """Takes a run into account, unless then positions could not be ordered or pieces would be too many."""
        before = {name: list(cuts) for name, cuts in self.cuts.items()}
        self.runs.append(run)
        if not self._settle(run) or not self._kept_apart():
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

    def _kept_apart(self) -> bool:
        """Whether nothing cuts a run in which elements are in another order than their own."""
        guarded = {(run.axis, ZERO, self.extents[run.axis]) for run in self.runs if run.strided}
        if not guarded:
            return True
        plain = [run for run in self.runs if not run.strided]
        cuts = {(run.axis, _expanded(end)) for run in plain for end in (run.start, run.start + run.length)}
        cuts |= {(run.other, _expanded(end)) for run in plain if run.other for end in (run.at, run.at + run.length)}
        before = -1
        while before < len(guarded) + len(cuts):
            before = len(guarded) + len(cuts)
            for each in [run for run in plain if run.other]:
                for source, low, target, start in (
                    (each.axis, each.start, each.other, each.at),
                    (each.other, each.at, each.axis, each.start),
                ):
                    inside = [low, low + each.length]
                    cuts |= {
                        (target, _expanded(cut - low + start))
                        for axis, cut in cuts
                        if axis == source and _between(inside[0], cut, inside[1])
                    }
                    guarded |= {
                        (target, _expanded(first - low + start), _expanded(last - low + start))
                        for axis, first, last in guarded
                        if axis == source and _between(inside[0], first, inside[1]) and _between(inside[0], last, inside[1])
                    }
        if any(axis == other and _strictly(first, cut, last) is not False for axis, first, last in guarded for other, cut in cuts):
            return False
        self.guarded = guarded
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

    def pieces(self, modulus: Mapping[str, int]) -> dict[str, tuple[Piece, ...]]:
        """All axes cut, with labels for their pieces."""
        strided = {run.axis for run in self.runs if run.strided}
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
                within = any(axis == name and _strictly(first, start, last) is not False for axis, first, last in self.guarded)
                kinds = modulus[name] if name in strided else 1
                made.append(Piece(from_sympy(start), length, f"{label[0]} {label[1]}", single, kinds, within))
            out[name] = tuple(made)
        return out
