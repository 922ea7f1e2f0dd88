"""
Keys of values: equal values in the same space have equal keys.

The law: a value is its residues on its highest level and where it is infinite, whatever the axes along which it was spread.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from .draws import Value

Key: TypeAlias = "tuple[int, bytes, bytes, tuple[int, ...]]"


def key_of(value: Value) -> Key:
    """What a value without constant axes is known by; floating numbers are rounded to float32."""
    top = value.residues[value.highest]
    if np.issubdtype(top.dtype, np.floating):
        with np.errstate(over="ignore"):
            top = top.astype(np.float32)
    flags = [np.zeros(top.shape, bool) if each is None else np.broadcast_to(each, top.shape) for each in (value.infinite, value.above)]
    text = b"" if value.bounded else b"".join(np.ascontiguousarray(each).tobytes() for each in flags)
    return value.highest, np.ascontiguousarray(top).tobytes(), text, top.shape


def without_constant_axes(value: Value) -> Value:
    """Drops axes along which nothing changes, so that a value has one shape."""
    residues, flags = value.residues, [value.infinite, value.above]
    top = residues[value.highest]
    for place in range(1, top.ndim):
        if top.shape[place] == 1:
            continue
        first = (slice(None),) * place + (slice(0, 1),)
        corner = (0,) * top.ndim
        if top[corner] != top[(*corner[:place], 1, *corner[place + 1 :])] or not bool((top == top[first]).all()):
            continue
        if any(each is not None and not bool((each == each[first]).all()) for each in flags):
            continue
        flags = [None if each is None else each[first] for each in flags]
        residues = residues[(slice(None), *first)]
        top = residues[value.highest]
    return value if residues is value.residues else Value(residues, value.lowest, value.highest, *flags)
