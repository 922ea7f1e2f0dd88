"""
Arrays with named axes, and which of their elements exist.

A split of an axis that its chunks do not fill leaves elements that do not exist (`cleave.graph.Axis.chunk_of`). `existing`
tells them apart, so that reductions can skip them; everything else may compute whatever it likes there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..graph import Axis
from .dtypes import Array


@dataclass(frozen=True, slots=True)
class Named:
    """An array and the names of its axes, in order. Raises: ValueError where their numbers differ."""

    axes: tuple[str, ...]
    data: Array

    def __post_init__(self) -> None:
        if self.data.ndim != len(self.axes):
            raise ValueError(f"an array of {self.data.ndim} dimensions cannot have the axes [{', '.join(self.axes)}]")

    def over(self, axes: Sequence[str]) -> Array:
        """The data laid out over `axes`, which hold all of its own: transposed, with extent 1 where it lacks one."""
        order = sorted(range(len(self.axes)), key=lambda i: axes.index(self.axes[i]))
        present = {self.axes[i]: self.data.shape[i] for i in order}
        return self.data.transpose(order).reshape([present.get(axis, 1) for axis in axes])

    def full(self, axes: Sequence[str], sizes: Mapping[str, int]) -> Array:
        """As `over`, repeated along the axes it lacks."""
        return np.broadcast_to(self.over(axes), [sizes[axis] for axis in axes])


def existing(axes: Sequence[str], removed: Iterable[str], declared: Mapping[str, Axis], sizes: Mapping[str, int]) -> Array | None:
    """
    Which elements over `axes` exist, as far as the `removed` axes decide it; None where all do.

    The answer broadcasts over `axes` (extent 1 where it does not matter). An inner axis of a split whose outer axis is not
    among `axes` has all its elements: nothing says which chunk it belongs to.
    """
    dropped = frozenset(removed)
    out: Array | None = None
    for inner in declared.values():
        if inner.chunk_of is None:
            continue
        whole, outer = inner.chunk_of
        place = _place(inner.name, axes, declared, sizes)
        chunk = _place(outer, axes, declared, sizes)
        if place is None or chunk is None or not dropped & (place[1] | chunk[1]):
            continue
        here = chunk[0] * sizes[inner.name] + place[0] < sizes[whole]
        if not here.all():
            out = here if out is None else out & here
    return out


def _place(axis: str, axes: Sequence[str], declared: Mapping[str, Axis], sizes: Mapping[str, int]) -> tuple[Array, frozenset[str]] | None:
    """The index along `axis` over `axes`, and the names it depends on: its own, or those of the axes it was itself split into."""
    if axis in axes:
        shape = [sizes[axis] if name == axis else 1 for name in axes]
        return np.arange(sizes[axis]).reshape(shape), frozenset((axis,))
    for inner in declared.values():
        if inner.chunk_of is None or inner.chunk_of[0] != axis or inner.name == axis:
            continue
        chunk = _place(inner.chunk_of[1], axes, declared, sizes)
        place = _place(inner.name, axes, declared, sizes)
        if chunk is not None and place is not None:
            return chunk[0] * sizes[inner.name] + place[0], chunk[1] | place[1]
    return None
