"""
Moving elements along and between axes.

The law: renames and splits move residues as they move elements, and so do slices, positions, concatenations, paddings and merges of
runs of pieces (`pieces`). Whatever else moves elements along an axis is a pseudo-random function of the whole line.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..extents import Extent, from_sympy
from .draws import Value
from .fields import digest, mix
from .order import Order


class Moves(Order):
    """Movement of data."""

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

    def iota(self, axis: str) -> Value:
        """The positions along an axis: unknown integers, but for single elements at a known place."""
        found = self.leaf(f"iota {self.copies.get(axis, axis)}", (axis,), False)
        counts = self._piece_points(axis) if axis in self.pieces else []
        for at, piece in enumerate(self.pieces.get(axis, ())):
            place = piece.start.constant
            if piece.single and place is not None and piece.modulus == 1 and not piece.within:
                here = [slice(None)] * self.rank
                here[self.place[axis]] = slice(sum(counts[:at]), sum(counts[:at]) + 1)
                found.residues[tuple(here)] = self.integer(place)
        return found

    def rename(self, a: Value, pairs: Sequence[tuple[str, str]]) -> Value:
        """Moves axes to other names, all at once."""
        target = {self.place[old]: self.place[new] for old, new in pairs}
        rest = [place for place in range(2, self.rank) if place not in target or a.residues.shape[place] == 1]
        order = {target[place]: place for place in target if place not in rest}
        order |= {place: place for place in rest if a.residues.shape[place] > 1}
        spare = [place for place in rest if place not in order.values()]
        places = [0, 1, *(order[place] if place in order else spare.pop() for place in range(2, self.rank))]
        flags = [None if flag is None else flag.transpose([0, *[place - 1 for place in places[2:]]]) for flag in (a.infinite, a.above)]
        return Value(a.residues.transpose(places), a.lowest, a.highest, *flags)

    def split(self, a: Value, whole: str, outer: str, inner: str) -> Value:
        """Element (o, i) is that at o |inner| + i of the whole; past the end, where nothing exists, it is the last one."""
        if a.residues.shape[self.place[whole]] == 1:
            return a
        flags = [None if flag is None else self._regroup(flag, whole, outer, inner, 1, True) for flag in (a.infinite, a.above)]
        return Value(self._regroup(a.residues, whole, outer, inner, 0, True), a.lowest, a.highest, *flags)

    def sliced(self, a: Value, axis: str, new: str, start: Extent) -> Value | None:
        """A run of an axis from `start` under another name; None where it is not a run of pieces that both have."""
        run = self._run(axis, new, start)
        return None if run is None else self._taken(a, axis, new, run)

    def stepped(self, a: Value, axis: str, new: str, first: int, step: int) -> Value | None:
        """Every so many-th element of an axis; None where its elements are not in that order."""
        own, wanted = self.pieces.get(axis, ()), self._labels(new)
        start = from_sympy(first * self.extents[new].sympy())
        for at, piece in enumerate(own):
            if piece.start == start and piece.modulus == step and wanted and self._labels(axis)[at : at + len(wanted)] == wanted:
                counts = self._piece_points(axis)
                return self._taken(a, axis, new, range(sum(counts[:at]), sum(counts[: at + len(wanted)])))
        return None

    def at(self, a: Value, axis: str, position: Extent) -> Value | None:
        """The element at a position of an axis; None where it is not a piece of its own."""
        counts = self._piece_points(axis) if axis in self.pieces else []
        for at, piece in enumerate(self.pieces.get(axis, ())):
            if piece.start == position and piece.single and not self._within(axis, at) and not self._within(axis, at + 1):
                return self._taken(a, axis, axis, range(sum(counts[:at]), sum(counts[:at]) + 1))
        return None

    def padded(self, a: Value, axis: str, new: str, low: Extent, filling: Value) -> Value | None:
        """An axis from `low` in a longer one, with a number elsewhere; None where it is not a run of pieces that both have."""
        run = self._run(new, axis, low)
        if run is None:
            return None
        there = np.zeros(self._shape((new,)), np.int64)
        there[tuple(slice(run.start, run.stop) if at == self.place[new] - 2 else slice(None) for at in range(self.rank - 2))] = 1
        points = [min(max(point - run.start, 0), len(run) - 1) for point in range(self.points[new])]
        condition = Value(np.broadcast_to(there, (len(self.tower), 1, *there.shape)), 0, self.top)
        return self.select(condition, self._taken(a, axis, new, points), filling)

    def merged(self, a: Value, outer: str, inner: str, whole: str) -> Value | None:
        """One axis from two, of which one has few elements, each a piece; None where the pieces are others."""
        pair = self._pair(outer, inner, whole)
        if pair is None:
            return None
        short, long = pair
        parts = [
            self._taken(self._taken(a, short, short, [point]), long, whole, range(self.points[long])) for point in range(self.points[short])
        ]
        return self._joined(parts, [self.points[long]] * len(parts), whole)

    def parted(self, a: Value, whole: str, outer: str, inner: str) -> Value | None:
        """Two axes from one, the inverse of `merged`."""
        pair = self._pair(outer, inner, whole)
        if pair is None:
            return None
        short, long = pair
        count = self.points[long]
        parts = [self._taken(a, whole, long, range(at * count, (at + 1) * count)) for at in range(self.points[short])]
        return self._joined(parts, [1] * len(parts), short)

    def _pair(self, outer: str, inner: str, whole: str) -> tuple[str, str] | None:
        """The short and the long one of two axes that make up another, which has the long one's pieces for each of the short one's."""
        own = self.pieces.get(whole, ())
        if not own or any(axis not in self.pieces for axis in (outer, inner)):
            return None
        short, long = (outer, inner) if own[0].modulus == 1 else (inner, outer)
        count, labels = self.points[short], self._labels(long)
        if not all(piece.single for piece in self.pieces[short]) or [piece.label for piece in own] != labels * count:
            return None
        ends = range(0, len(own), len(labels))
        if (own[0].modulus != 1 and own[0].modulus != count) or (own[0].modulus == 1 and any(self._within(whole, end) for end in ends)):
            return None
        return short, long

    def _labels(self, axis: str) -> list[str]:
        return [piece.label for piece in self.pieces.get(axis, ())]

    def _within(self, axis: str, at: int) -> bool:
        """Whether a piece starts where the axis in its own order has no such place."""
        own = self.pieces[axis]
        return at < len(own) and own[at].within

    def _run(self, axis: str, part: str, start: Extent) -> range | None:
        """The points of an axis from `start` that are those of another; None where they are not pieces that both have."""
        own, wanted = self._labels(axis), self._labels(part)
        for at, piece in enumerate(self.pieces.get(axis, ())):
            end = at + len(wanted)
            if piece.start == start and wanted and own[at:end] == wanted and not self._within(axis, at) and not self._within(axis, end):
                counts = self._piece_points(axis)
                return range(sum(counts[:at]), sum(counts[:end]))
        return None

    def _taken(self, a: Value, axis: str, new: str, points: Sequence[int]) -> Value:
        def moved(array: NDArray[Any], back: int) -> NDArray[Any]:
            place, target = self.place[axis] - back, self.place[new] - back
            return (np.take(array, list(points), place) if array.shape[place] > 1 else array).swapaxes(place, target)

        flags = [None if flag is None else moved(flag, 1) for flag in (a.infinite, a.above)]
        return Value(moved(a.residues, 0), a.lowest, a.highest, *flags)

    def concatenated(self, operands: Sequence[Value], axes: Sequence[str], new: str) -> Value | None:
        """Operands one after the other, each along its axis; None where the pieces of the new axis are not those of the others."""
        if new not in self.pieces or any(axis not in self.pieces for axis in axes):
            return None
        if [label for axis in axes for label in self._labels(axis)] != self._labels(new):
            return None
        if any(self._within(new, end) for end in accumulate(len(self.pieces[axis]) for axis in axes)):
            return None
        moved = [self._taken(a, axis, new, range(self.points[axis])) for a, axis in zip(operands, axes, strict=True)]
        return self._joined(moved, [self.points[axis] for axis in axes], new)

    def _joined(self, moved: Sequence[Value], counts: Sequence[int], new: str) -> Value | None:
        """Values with so many points along an axis, or none, one after the other."""
        place = self.place[new]
        arrays = [np.broadcast_to(a.residues, (*a.residues.shape[:1], self.samples, *a.residues.shape[2:])) for a in moved]
        none = [np.zeros(array.shape[1:], bool) for array in arrays]
        below = [no if a.infinite is None else a.infinite for a, no in zip(moved, none, strict=True)]
        above = [no if a.above is None else a.above for a, no in zip(moved, none, strict=True)]

        def joined(parts: Sequence[NDArray[Any]], at: int) -> NDArray[Any]:
            shapes = [(*part.shape[:at], 1, *part.shape[at + 1 :]) for part in parts]
            common = np.broadcast_shapes(*shapes)
            sizes = [(*common[:at], count, *common[at + 1 :]) for count in counts]
            return np.concatenate([np.broadcast_to(part, size) for part, size in zip(parts, sizes, strict=True)], at)

        lowest, highest = max(a.lowest for a in moved), min(a.highest for a in moved)
        if lowest > highest:
            return None
        return self._masked(joined(arrays, place), lowest, highest, joined(below, place - 1), joined(above, place - 1))
