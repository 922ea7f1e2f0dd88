"""
Library calls of a plan on torch tensors: a product of contiguous matrices by one routine, any other as an einsum.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from cleave.layouts import contiguous_strides, layout_axes
from cleave.schedule.program import LibraryCall


class Located(Protocol):
    """A buffer at run time, as `cleave.runtime.launch.Place`."""

    @property
    def layout(self) -> str:
        """How its dimensions map to axes."""
        ...

    @property
    def strides(self) -> Mapping[str, int]:
        """Elements between neighbours along each axis."""
        ...

    @property
    def dtype(self) -> torch.dtype:
        """The type of its elements."""
        ...


@dataclass(frozen=True, slots=True)
class Matrix:
    """A buffer read as a matrix: its place among the tensors of a run, shape and strides."""

    slot: int
    shape: tuple[int, int]
    strides: tuple[int, int]

    def of(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        """The matrix in the memory of its tensor, which may have any shape."""
        return torch.as_strided(tensors[self.slot], self.shape, self.strides)


@dataclass(frozen=True, slots=True)
class Product:
    """A library call that is a product of matrices."""

    left: Matrix
    right: Matrix
    out: Matrix

    def __call__(self, tensors: Sequence[torch.Tensor]) -> None:
        """Runs on tensors that begin where their buffers do."""
        if torch.is_grad_enabled():
            with torch.no_grad():
                return self(tensors)
        torch.mm(self.left.of(tensors), self.right.of(tensors), out=self.out.of(tensors))


@dataclass(frozen=True, slots=True)
class Einsum:
    """A library call in general: the places of its arguments and result, their shapes by axes, and the equation."""

    slots: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]
    equation: str

    def __call__(self, tensors: Sequence[torch.Tensor]) -> None:
        """Runs on tensors in memory layout."""
        *operands, out = (tensors[slot].view(shape) for slot, shape in zip(self.slots, self.shapes, strict=True))
        out.copy_(torch.einsum(self.equation, *(operand.to(out.dtype) for operand in operands)))


def library(step: LibraryCall, slots: Mapping[str, int], places: Sequence[Located], sizes: Mapping[str, int]) -> Product | Einsum:
    """What runs a library call. `slots` are the positions of buffers among `places` and the tensors of a run."""
    names = (*step.args, step.out)
    axes = {name: layout_axes(places[slots[name]].layout) for name in names}
    found = _product(step, slots, places, axes, sizes)
    if found is not None:
        return found
    letters: dict[str, str] = {}
    for name in names:
        for axis in axes[name]:
            letters.setdefault(axis, chr(ord("a") + len(letters)))
    terms = ["".join(letters[axis] for axis in axes[name]) for name in names]
    shapes = tuple(tuple(sizes[axis] for axis in axes[name]) for name in names)
    return Einsum(tuple(slots[name] for name in names), shapes, f"{','.join(terms[:-1])}->{terms[-1]}")


def _product(
    step: LibraryCall, slots: Mapping[str, int], places: Sequence[Located], axes: Mapping[str, Sequence[str]], sizes: Mapping[str, int]
) -> Product | None:
    """The call as a product of contiguous matrices, where it is one."""
    at = {name: places[slots[name]] for name in axes}
    if len({place.dtype for place in at.values()}) > 1 or len(step.args) != 2:
        return None
    for name, place in at.items():
        if [place.strides[axis] for axis in axes[name]] != list(contiguous_strides([sizes[axis] for axis in axes[name]])):
            return None
    for left, right in (step.args, tuple(reversed(step.args))):
        rows = [axis for axis in axes[left] if axis not in step.over]
        columns = [axis for axis in axes[right] if axis not in step.over]
        over = [axis for axis in axes[left] if axis in step.over]
        if list(axes[step.out]) != rows + columns or list(axes[left]) not in (rows + over, over + rows):
            continue
        if list(axes[right]) in (over + columns, columns + over):
            m, n, k = (math.prod(sizes[axis] for axis in part) for part in (rows, columns, over))
            return Product(
                Matrix(slots[left], (m, k), (k, 1) if list(axes[left]) == rows + over else (1, m)),
                Matrix(slots[right], (k, n), (n, 1) if list(axes[right]) == over + columns else (1, k)),
                Matrix(slots[step.out], (m, n), (n, 1)),
            )
    return None
