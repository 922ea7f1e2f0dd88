"""
Memory layouts: how the dimensions of an array map to named axes, written as einops do, `"b (g r) m d"`.

Each dimension is one axis or several in parentheses, of which the last varies fastest; `1` is a dimension of size one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from math import prod

_TOKEN = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*|[()1])")


def parse_layout(text: str) -> tuple[tuple[str, ...], ...]:
    """
    The axes of each dimension, in memory order.

    Raises: ValueError, saying what is wrong, for text that is not a layout or names an axis twice.
    """
    groups: list[tuple[str, ...]] = []
    inside: list[str] | None = None
    position = 0
    while text[position:].strip():
        found = _TOKEN.match(text, position)
        if found is None:
            raise ValueError(f"unexpected '{text[position:].strip()[0]}' in layout '{text}'")
        token, position = found.group(1), found.end()
        if token == "(":
            if inside is not None:
                raise ValueError(f"nested '(' in layout '{text}'")
            inside = []
        elif token == ")":
            if inside is None:
                raise ValueError(f"unmatched ')' in layout '{text}'")
            groups.append(tuple(inside))
            inside = None
        elif token == "1":
            if inside is None:
                groups.append(())
        elif inside is not None:
            inside.append(token)
        else:
            groups.append((token,))
    if inside is not None:
        raise ValueError(f"unmatched '(' in layout '{text}'")
    names = [axis for group in groups for axis in group]
    for axis in names:
        if names.count(axis) > 1:
            raise ValueError(f"axis '{axis}' is listed twice in layout '{text}'")
    return tuple(groups)


def layout_axes(text: str) -> tuple[str, ...]:
    """Every axis of a layout in memory order. Raises: ValueError as `parse_layout`."""
    return tuple(axis for group in parse_layout(text) for axis in group)


def without_axes(text: str, names: Collection[str]) -> str:
    """The layout with some axes left out, whose size is 1: a dimension of these alone is `1`. Raises: ValueError as `parse_layout`."""
    out: list[str] = []
    for group in parse_layout(text):
        kept = [axis for axis in group if axis not in names]
        out.append(f"({' '.join(kept)})" if len(kept) > 1 else kept[0] if kept else "1")
    return " ".join(out)


def memory_shape(text: str, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The shape of an array of that layout. Raises: KeyError for an axis without a size, ValueError."""
    return tuple(prod(sizes[axis] for axis in group) for group in parse_layout(text))


def axis_strides(text: str, sizes: Mapping[str, int], strides: Sequence[int]) -> dict[str, int]:
    """
    The stride of each axis for an array whose dimensions have the given strides, in their unit.

    Raises: ValueError where the number of strides is not the number of dimensions.
    """
    groups = parse_layout(text)
    if len(groups) != len(strides):
        raise ValueError(f"layout '{text}' has {len(groups)} dimensions but the array has {len(strides)}")
    out: dict[str, int] = {}
    for group, stride in zip(groups, strides, strict=True):
        step = stride
        for axis in reversed(group):
            out[axis] = step
            step *= sizes[axis]
    return out


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a row-major array, in elements."""
    out: list[int] = []
    step = 1
    for size in reversed(shape):
        out.append(step)
        step *= size
    return tuple(reversed(out))
