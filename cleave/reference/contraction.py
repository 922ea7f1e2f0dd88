"""Sums of products: a matrix product where two operands allow one, else einsum."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .dtypes import Array
from .tensors import Named

_WIDEST = 30
"""Axes that numpy's einsum is sure to take at once."""


def contraction(args: Sequence[Named], kept: Sequence[str], removed: Sequence[str], extents: Sequence[int], mask: Array | None) -> Array:
    """
    The sum over `removed` of the product of `args`, over `kept`.

    Shapes: `extents` are those of (*kept, *removed); `mask` broadcasts over them and is false where no element exists.
    What does not exist may be infinite or NaN in the operands.
    """
    order = (*kept, *removed)
    if mask is not None:
        args, mask = _without_absent(args, order, mask)
    if mask is not None or len(order) > _WIDEST:
        return _by_product(args, kept, order, extents, mask)
    if len(args) == 2:
        return _by_matmul(args[0], args[1], kept, removed)
    number = {axis: position for position, axis in enumerate(order)}
    operands: list[Any] = []
    for arg in args:
        operands += [arg.data, [number[axis] for axis in arg.axes]]
    return np.einsum(*operands, [number[axis] for axis in kept], optimize=len(args) > 1)


def _without_absent(args: Sequence[Named], order: Sequence[str], mask: Array) -> tuple[list[Named], Array | None]:
    """
    Puts zeros where `mask` is false into the operands that have all its axes.

    Gives no mask back where that is enough: an operand is zero there, and no other is infinite.
    """
    needed = {axis for axis, extent in zip(order, mask.shape, strict=True) if extent != 1}
    zeroed: list[Named] = []
    for arg in args:
        if needed <= set(arg.axes):
            over = tuple(axis for axis in order if axis in arg.axes)
            here = mask.reshape([extent for axis, extent in zip(order, mask.shape, strict=True) if axis in over])
            zeroed.append(Named(over, np.where(here, arg.over(over), arg.data.dtype.type(0))))
    others = [arg for arg in args if not needed <= set(arg.axes)]
    if not all(np.isfinite(arg.data).all() for arg in (*zeroed, *others)):
        return list(args), mask
    if not zeroed:
        axes = tuple(axis for axis in order if axis in needed)
        flat = mask.reshape([extent for extent in mask.shape if extent != 1])
        return [*args, Named(axes, flat.astype(args[0].data.dtype))], None
    return [*zeroed, *others], None


def _by_product(args: Sequence[Named], kept: Sequence[str], order: Sequence[str], extents: Sequence[int], mask: Array | None) -> Array:
    product: Array = np.ones([1] * len(order), dtype=args[0].data.dtype)
    for arg in args:
        product = product * arg.over(order)
    if mask is not None:
        product = np.where(mask, product, product.dtype.type(0))
    return np.broadcast_to(product, list(extents)).sum(axis=tuple(range(len(kept), len(order))))


def _by_matmul(left: Named, right: Named, kept: Sequence[str], removed: Sequence[str]) -> Array:
    left, right = _summed_alone(left, right, removed), _summed_alone(right, left, removed)
    extent = dict(zip(left.axes, left.data.shape, strict=True)) | dict(zip(right.axes, right.data.shape, strict=True))
    inner = [axis for axis in removed if axis in left.axes and axis in right.axes]
    batch = [axis for axis in kept if axis in left.axes and axis in right.axes]
    rows = [axis for axis in kept if axis in left.axes and axis not in right.axes]
    columns = [axis for axis in kept if axis not in left.axes]

    def matrices(arg: Named, first: list[str], second: list[str]) -> Array:
        shape = [*(extent[axis] for axis in batch), math.prod(extent[axis] for axis in first), math.prod(extent[axis] for axis in second)]
        return arg.over([*batch, *first, *second]).reshape(shape)

    product = np.matmul(matrices(left, rows, inner), matrices(right, inner, columns))
    order = (*batch, *rows, *columns)
    return Named(order, product.reshape([extent[axis] for axis in order])).over(kept)


def _summed_alone(arg: Named, other: Named, removed: Sequence[str]) -> Named:
    """The operand summed over the removed axes that the other one lacks."""
    alone = [axis for axis in removed if axis in arg.axes and axis not in other.axes]
    if not alone:
        return arg
    rest = tuple(axis for axis in arg.axes if axis not in alone)
    return Named(rest, arg.data.sum(axis=tuple(arg.axes.index(axis) for axis in alone), dtype=arg.data.dtype))
