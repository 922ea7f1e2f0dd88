"""Arrays as they lie in memory, by a layout such as `"b (g r) m d"`, and the same over named axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ..layouts import layout_axes, memory_shape
from .dtypes import Array
from .tensors import Named


def from_memory(array: Array, layout: str, axes: Sequence[str], sizes: Mapping[str, int]) -> Array:
    """
    The array over `axes`, in that order.

    Raises: ValueError where its shape is not that of the layout.
    """
    wanted = memory_shape(layout, sizes)
    if array.shape != wanted:
        raise ValueError(f"an array of shape {list(array.shape)} does not have layout '{layout}', which is {list(wanted)}")
    stored = layout_axes(layout)
    return Named(stored, array.reshape([sizes[axis] for axis in stored])).over(axes)


def to_memory(array: Array, axes: Sequence[str], layout: str, sizes: Mapping[str, int]) -> Array:
    """The array over `axes` as it lies in memory; repeated along the axes of the layout that it lacks."""
    full = Named(tuple(axes), array).full(layout_axes(layout), sizes)
    return np.ascontiguousarray(full).reshape(memory_shape(layout, sizes))
