"""Reductions. Along an axis that the data lacks, a sum is a product with its size and a maximum is nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..sizes import Size, simplified
from ..values import Lowering, Node, Value
from ..views import wrapped
from .elementwise import apply, in_working_dtype
from .table import Lowered, Result, lowers


def chosen_dims(value: Value, dim: int | Sequence[int] | None) -> tuple[int, ...]:
    """Dimension numbers from the front; None, or none at all, stands for every dimension."""
    rank = len(value.dims)
    if dim is None or (isinstance(dim, Sequence) and not dim):
        return tuple(range(rank))
    return tuple(wrapped(d, rank) for d in ([dim] if isinstance(dim, int) else dim) if rank)


def reduced(cx: Lowering, kind: str, value: Value, dims: Sequence[int], *, keepdim: bool, dtype: torch.dtype | None = None) -> Value:
    """
    A reduction (sum, max or min) over dimensions, in the working dtype of the result.

    Of booleans it is one of the integers 0 and 1: whether any holds, or all.
    """
    out_dtype = dtype or value.dtype
    if out_dtype == torch.bool:
        bits = Value(value.dims, cx.cast(cx.cast(value.node, "i1"), "i32"), torch.int32)
        out = reduced(cx, "min" if kind == "min" else "max", bits, dims, keepdim=keepdim)
        # Of no elements the least and the largest integer come out, for false and true.
        return Value(out.dims, cx.node("compare", (out.node, cx.number(0, out.node.dtype)), "i1", ("gt",)), torch.bool)
    node: Node = cx.cast(value.node, cx.working(out_dtype)) if value.node.dtype != "index" or kind == "sum" else value.node
    held = set(cx.data(node))
    leaves = [leaf for at in dims for leaf in cx.atoms.leaves(value.dims[at])]
    present = tuple(leaf for leaf in leaves if leaf in held)
    absent = cx.size(leaf for leaf in leaves if leaf not in held)
    if present:
        rest = [leaf for leaf in cx.data(node) if leaf not in present]
        node = cx.node("reduce", (node,), node.dtype, (kind, present), rest)
    if kind == "sum" and absent != 1:
        node = cx.node("mul", (node, cx.number(absent, node.dtype)), node.dtype)
    kept = [() if at in dims else dim for at, dim in enumerate(value.dims) if keepdim or at not in dims]
    return Value(tuple(kept), node, out_dtype)


def count(cx: Lowering, value: Value, dims: Sequence[int]) -> Size:
    """How many elements a reduction over dimensions takes."""
    return cx.size(leaf for at in dims for leaf in value.dims[at])


def averaged(cx: Lowering, value: Value, dims: Sequence[int], *, keepdim: bool, dtype: torch.dtype | None = None) -> Value:
    """The mean over dimensions: the sum divided by the size."""
    total = reduced(cx, "sum", value, dims, keepdim=keepdim, dtype=dtype)
    node = cx.node("div", (total.node, cx.number(count(cx, value, dims), total.node.dtype)), total.node.dtype)
    return Value(total.dims, node, total.dtype)


@lowers("sum")
def total(cx: Lowering, result: Result, self: Value, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
    """torch.sum."""
    return reduced(cx, "sum", self, chosen_dims(self, dim), keepdim=keepdim, dtype=result.dtype)


@lowers("mean")
def mean(cx: Lowering, result: Result, self: Value, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
    """torch.mean."""
    return averaged(cx, self, chosen_dims(self, dim), keepdim=keepdim, dtype=result.dtype)


@lowers("amax")
def amax(cx: Lowering, result: Result, self: Value, dim: Any = None, keepdim: bool = False) -> Value:
    """torch.amax."""
    return reduced(cx, "max", self, chosen_dims(self, dim), keepdim=keepdim)


@lowers("amin")
def amin(cx: Lowering, result: Result, self: Value, dim: Any = None, keepdim: bool = False) -> Value:
    """torch.amin."""
    return reduced(cx, "min", self, chosen_dims(self, dim), keepdim=keepdim)


@lowers("max")
def greatest(cx: Lowering, result: Result, self: Value, dim: Any = None, keepdim: bool = False, other: Any = None) -> Lowered:
    """torch.max: of all elements, along a dimension (the indices are not available), or of two tensors."""
    return _extreme(cx, result, "max", self, dim, keepdim, other)


@lowers("min")
def least(cx: Lowering, result: Result, self: Value, dim: Any = None, keepdim: bool = False, other: Any = None) -> Lowered:
    """torch.min: of all elements, along a dimension (the indices are not available), or of two tensors."""
    return _extreme(cx, result, "min", self, dim, keepdim, other)


def _extreme(cx: Lowering, result: Result, kind: str, value: Value, dim: Any, keepdim: bool, other: Any) -> Lowered:
    if other is not None:
        return apply(cx, result, kind, value, other)
    out = reduced(cx, kind, value, chosen_dims(value, dim), keepdim=keepdim)
    return out if dim is None else (out, None)


@lowers("any")
def any_of(cx: Lowering, result: Result, self: Value, dim: Any = None, keepdim: bool = False) -> Value:
    """Whether any element is not zero."""
    truth = Value(self.dims, cx.cast(self.node, "i1"), torch.bool)
    return reduced(cx, "max", truth, _dims_of_truth(self, dim), keepdim=keepdim)


@lowers("all")
def all_of(cx: Lowering, result: Result, self: Value, dim: Any = None, keepdim: bool = False) -> Value:
    """Whether no element is zero."""
    truth = Value(self.dims, cx.cast(self.node, "i1"), torch.bool)
    return reduced(cx, "min", truth, _dims_of_truth(self, dim), keepdim=keepdim)


def _dims_of_truth(value: Value, dim: int | Sequence[int] | None) -> tuple[int, ...]:
    """As `chosen_dims`, but that no dimensions are none to `any` and `all`."""
    return () if isinstance(dim, Sequence) and not dim else chosen_dims(value, dim)


def centred(cx: Lowering, value: Value, dims: Sequence[int]) -> Value:
    """The value less its mean over dimensions, in the working dtype."""
    return apply(cx, Result((), value.dtype), "sub", value, averaged(cx, value, dims, keepdim=True))


def variance(cx: Lowering, value: Value, dims: Sequence[int], correction: float, *, keepdim: bool) -> Value:
    """The mean square of what is left after taking off the mean, over size - correction."""
    rest = centred(cx, value, dims)
    squares = apply(cx, Result((), value.dtype), "mul", rest, rest)
    whole = reduced(cx, "sum", squares, dims, keepdim=keepdim)
    size = count(cx, value, dims)
    less = simplified(size - int(correction))
    return Value(whole.dims, cx.node("div", (whole.node, cx.number(less, whole.node.dtype)), whole.node.dtype), whole.dtype)


def _correction(unbiased: bool | None, correction: Any) -> Any:
    return (1 if correction is None else correction) if unbiased is None else int(unbiased)


@lowers("var")
def var(
    cx: Lowering, result: Result, self: Value, dim: Any = None, unbiased: Any = None, correction: Any = None, keepdim: bool = False
) -> Value:
    """torch.var."""
    return variance(cx, self, chosen_dims(self, dim), _correction(unbiased, correction), keepdim=keepdim)


@lowers("std")
def std(
    cx: Lowering, result: Result, self: Value, dim: Any = None, unbiased: Any = None, correction: Any = None, keepdim: bool = False
) -> Value:
    """torch.std."""
    out = variance(cx, self, chosen_dims(self, dim), _correction(unbiased, correction), keepdim=keepdim)
    return apply(cx, result, "sqrt", out)


@lowers("var_mean")
def var_mean(
    cx: Lowering, result: Result, self: Value, dim: Any = None, unbiased: Any = None, correction: Any = None, keepdim: bool = False
) -> tuple[Value, Value]:
    """torch.var_mean."""
    dims = chosen_dims(self, dim)
    out = variance(cx, self, dims, _correction(unbiased, correction), keepdim=keepdim)
    return out, averaged(cx, self, dims, keepdim=keepdim)


@lowers("std_mean")
def std_mean(
    cx: Lowering, result: Result, self: Value, dim: Any = None, unbiased: Any = None, correction: Any = None, keepdim: bool = False
) -> Lowered:
    """torch.std_mean."""
    spread, middle = var_mean(cx, result, self, dim, unbiased, correction, keepdim)
    return apply(cx, result.many[0], "sqrt", spread), middle


@lowers("aminmax")
def aminmax(cx: Lowering, result: Result, self: Value, dim: Any = None, keepdim: bool = False) -> Lowered:
    """torch.aminmax."""
    dims = chosen_dims(self, dim)
    return tuple(reduced(cx, kind, self, dims, keepdim=keepdim) for kind in ("min", "max"))


@lowers("linalg_vector_norm", "norm")
def vector_norm(
    cx: Lowering, result: Result, self: Value, ord: Any = 2, p: Any = None, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Value:
    """The Euclidean norm, the sum or the maximum of absolute values. Raises: CleaveError for other norms."""
    order = ord if p is None else p
    dims = chosen_dims(self, dim)
    square = Result((), result.dtype)
    match float(order):
        case 2.0:
            return apply(cx, result, "sqrt", reduced(cx, "sum", apply(cx, square, "mul", self, self), dims, keepdim=keepdim))
        case 1.0:
            return reduced(cx, "sum", apply(cx, square, "abs", self), dims, keepdim=keepdim)
        case _:
            cx.fail(f"norm of order {order} is not supported", "use order 1 or 2")


def exponentials(cx: Lowering, value: Value, dim: int) -> tuple[Value, Value, Value]:
    """exp(x - max x) along a dimension, its sum, and the maximum, both keeping the dimension."""
    scalar = Result((), value.dtype)
    greatest = reduced(cx, "max", value, [dim], keepdim=True)
    powers = apply(cx, scalar, "exp", apply(cx, scalar, "sub", value, greatest))
    return powers, reduced(cx, "sum", powers, [dim], keepdim=True), greatest


@lowers("softmax", "_softmax", "_safe_softmax")
def softmax(cx: Lowering, result: Result, self: Value, dim: int, dtype: Any = None, half_to_float: bool = False) -> Value:
    """exp(x - max x) over its sum, as a person writes it."""
    at = wrapped(dim, len(self.dims))
    wide = in_working_dtype(cx, self, result.dtype)
    if not wide.dims:
        return apply(cx, result, "div", wide, wide)
    powers, whole, _ = exponentials(cx, wide, at)
    return apply(cx, result, "div", powers, whole)


@lowers("log_softmax", "_log_softmax")
def log_softmax(cx: Lowering, result: Result, self: Value, dim: int, dtype: Any = None, half_to_float: bool = False) -> Value:
    """(x - max x) - log of the sum of its exponentials."""
    at = wrapped(dim, len(self.dims))
    wide = in_working_dtype(cx, self, result.dtype)
    _, whole, greatest = exponentials(cx, wide, at)
    return apply(cx, result, "sub", apply(cx, result, "sub", wide, greatest), apply(cx, result, "log", whole))


@lowers("logsumexp")
def logsumexp(cx: Lowering, result: Result, self: Value, dim: int | Sequence[int], keepdim: bool = False) -> Value:
    """
    max x + log(sum(exp(x - max x))).

    The maximum is held at or above the least finite float32, so that a row of -inf gives -inf, as PyTorch does, and not NaN.
    """
    if self.dims and isinstance(dim, Sequence) and not dim and not keepdim:
        cx.fail("no dimension is given, and PyTorch makes no result then", "name the dimensions")
    dims = chosen_dims(self, dim)
    wide = in_working_dtype(cx, self, result.dtype)
    scalar = Result((), result.dtype)
    top = reduced(cx, "max", wide, dims, keepdim=True)
    least_finite = cx.constant(torch.finfo(torch.float32).min, top.node.dtype)
    greatest = Value(top.dims, cx.node("max", (top.node, least_finite), top.node.dtype), top.dtype)
    powers = apply(cx, scalar, "exp", apply(cx, scalar, "sub", wide, greatest))
    out = apply(cx, result, "add", apply(cx, result, "log", reduced(cx, "sum", powers, dims, keepdim=True)), greatest)
    return out if keepdim else Value(tuple(dim for at, dim in enumerate(out.dims) if at not in dims), out.node, out.dtype)
