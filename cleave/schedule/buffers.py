"""
Buffers of a program: arguments with the strides their layouts imply, and contiguous workspaces.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from ..graph import Graph
from ..layouts import parse_layout
from .program import Buffer
from .sizes import Sizes


def argument_buffers(graph: Graph, sizes: Sizes) -> tuple[Buffer, ...]:
    """The buffers of a graph's inputs."""
    return tuple(_laid_out(entry.name, entry.layout, entry.dtype, sizes) for entry in graph.inputs)


def result_buffers(graph: Graph, sizes: Sizes) -> tuple[Buffer, ...]:
    """The buffers of a graph's outputs; their names differ from those of the inputs."""
    taken = {entry.name for entry in graph.inputs}
    out: list[Buffer] = []
    for place, entry in enumerate(graph.outputs):
        name = fresh("out" if len(graph.outputs) == 1 else f"out{place}", taken)
        out.append(_laid_out(name, entry.layout, entry.dtype, sizes))
    return tuple(out)


def workspace(name: str, axes: Sequence[str], dtype: str, sizes: Sizes) -> Buffer:
    """A contiguous buffer over axes in the order given."""
    return _with_strides(name, [(axis,) for axis in axes], dtype, sizes)


def fresh(name: str, taken: set[str]) -> str:
    """A name not in `taken`, which then holds it."""
    out, number = name, 0
    while out in taken:
        number += 1
        out = f"{name}_{number}"
    taken.add(out)
    return out


def _laid_out(name: str, layout: str, dtype: str, sizes: Sizes) -> Buffer:
    return _with_strides(name, parse_layout(layout), dtype, sizes)


def _with_strides(name: str, groups: Sequence[Sequence[str]], dtype: str, sizes: Sizes) -> Buffer:
    axes = [axis for group in groups for axis in group]
    strides: list[int | None] = []
    divisor = 0
    known, multiple = 1, 1
    is_known = True
    for axis in reversed(axes):
        strides.append(known if is_known else None)
        if not is_known:
            divisor = gcd(divisor, multiple)
        size = sizes.fixed(axis)
        multiple *= sizes.multiple((axis,))
        if size is None:
            is_known = False
        else:
            known *= size
    return Buffer(name, tuple(axes), dtype, tuple(reversed(strides)), max(1, divisor))
