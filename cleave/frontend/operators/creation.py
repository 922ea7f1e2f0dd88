"""Tensors made from nothing: constants, ranges and triangles. Masks are comparisons of positions, never stored."""

from __future__ import annotations

from typing import Any

import torch

from ..values import Lowering, Node, Value
from .elementwise import Operand, apply, as_value, choose, is_float
from .table import Result, lowers


def filled(cx: Lowering, result: Result, value: Operand) -> Value:
    """One scalar along new axes, which the data lacks."""
    dims = tuple(cx.atoms.dim(size) for size in result.shape)
    cx.atoms.separate(atom for dim in dims for atom in dim)
    return Value(dims, cx.cast(as_value(cx, value).node, cx.working(result.dtype)), result.dtype)


@lowers("full", "full_like", "new_full")
def full(cx: Lowering, result: Result, fill_value: Operand, self: Any = None) -> Value:
    """torch.full and its kin."""
    return filled(cx, result, fill_value)


@lowers("fill")
def fill(cx: Lowering, result: Result, self: Value, value: Operand) -> Value:
    """A tensor of the program's own after all of it was set to one scalar."""
    return filled(cx, result, value)


@lowers("ones", "ones_like", "new_ones")
def ones(cx: Lowering, result: Result, self: Any = None) -> Value:
    """Ones."""
    return filled(cx, result, 1)


@lowers("zeros", "zeros_like", "new_zeros", "empty", "empty_like", "new_empty", "zero")
def zeros(cx: Lowering, result: Result, self: Any = None) -> Value:
    """Zeros; memory without a value may hold them too."""
    return filled(cx, result, 0)


@lowers("scalar_tensor")
def scalar_tensor(cx: Lowering, result: Result, s: Operand) -> Value:
    """A number as a tensor."""
    return filled(cx, result, s)


@lowers("arange")
def arange(cx: Lowering, result: Result, start: Operand = 0, end: Operand = None, step: Operand = 1) -> Value:
    """start + step * position."""
    dim = cx.atoms.dim(result.shape[0])
    scalar = Result((), result.dtype)
    node: Node = cx.iota(dim[0]) if dim else cx.constant(0, "index")
    out = Value((dim,), node, torch.int64)
    if step != 1:
        out = apply(cx, scalar, "mul", out, step)
    if start != 0:
        out = apply(cx, scalar, "add", out, start)
    if is_float(result.dtype):
        return Value(out.dims, cx.cast(out.node, cx.working(result.dtype)), result.dtype)
    return Value(out.dims, out.node, result.dtype)


def triangle(cx: Lowering, value: Value, diagonal: Operand, *, lower: bool) -> Value:
    """Whether column <= row + diagonal (lower), or column >= row + diagonal, over the last two dimensions of a value."""
    rows, columns = value.dims[-2:]
    row, column = cx.position(cx.atoms.leaves(rows)), cx.position(cx.atoms.leaves(columns))
    predicate = "le" if lower else "ge"
    if diagonal == (-1 if lower else 1):
        predicate = "lt" if lower else "gt"
    elif diagonal != 0:
        offset = cx.constant(diagonal, "index") if isinstance(diagonal, int) else cx.number(diagonal, "index")
        row = cx.node("add", (row, offset), "index")
    return Value((rows, columns), cx.node("compare", (column, row), "i1", (predicate,)), torch.bool)


def _triangular(cx: Lowering, result: Result, value: Value, diagonal: Any, *, lower: bool) -> Value:
    inside = triangle(cx, value, diagonal, lower=lower)
    if value.dtype != torch.bool:
        return choose(cx, result.dtype, inside, value, 0)
    if value.node.kind == "constant":
        return Value(value.dims, inside.node if value.node.attr[0] else value.node, torch.bool)
    return apply(cx, result, "and", value, inside)


@lowers("tril")
def tril(cx: Lowering, result: Result, self: Value, diagonal: Operand = 0) -> Value:
    """The lower triangle, 0 elsewhere."""
    return _triangular(cx, result, self, diagonal, lower=True)


@lowers("triu")
def triu(cx: Lowering, result: Result, self: Value, diagonal: Operand = 0) -> Value:
    """The upper triangle, 0 elsewhere."""
    return _triangular(cx, result, self, diagonal, lower=False)
