"""
Moving elements along and between axes.

The law: renames and splits move residues as they move elements, and so do slices, positions and concatenations of runs of pieces
(`pieces`). Whatever else moves elements along an axis is a pseudo-random function of the whole line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..extents import Extent
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
