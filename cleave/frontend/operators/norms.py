"""Normalisations, written out: the mean, the mean square, the reciprocal root."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..sizes import Size, quotient
from ..values import Lowering, Value
from ..views import reshaped, with_dims
from .elementwise import apply
from .reductions import averaged, centred
from .table import Lowered, Result, lowers


def _trailing(value: Value, shape: Sequence[Size]) -> list[int]:
    return list(range(len(value.dims) - len(shape), len(value.dims)))


def _scaled(cx: Lowering, result: Result, value: Value, weight: Value | None, bias: Value | None) -> Value:
    out = value if weight is None else apply(cx, result, "mul", value, weight)
    return out if bias is None else apply(cx, result, "add", out, bias)


def standardised(cx: Lowering, result: Result, value: Value, dims: Sequence[int], eps: float) -> Value:
    """(x - mean) * rsqrt(mean square of that + eps)."""
    rest = centred(cx, value, dims)
    scalar = Result((), result.dtype)
    spread = averaged(cx, apply(cx, scalar, "mul", rest, rest), dims, keepdim=True)
    return apply(cx, result, "mul", rest, apply(cx, scalar, "rsqrt", apply(cx, scalar, "add", spread, eps)))


@lowers("layer_norm")
def layer_norm(
    cx: Lowering,
    result: Result,
    input: Value,
    normalized_shape: Sequence[Size],
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
) -> Value:
    """torch.nn.functional.layer_norm."""
    out = standardised(cx, result, input, _trailing(input, normalized_shape), eps)
    return _scaled(cx, result, out, weight, bias)


@lowers("native_layer_norm")
def native_layer_norm(
    cx: Lowering, result: Result, input: Value, normalized_shape: Sequence[Size], weight: Value | None, bias: Value | None, eps: float
) -> Lowered:
    """layer_norm with its statistics, which are not available."""
    return layer_norm(cx, result.many[0], input, normalized_shape, weight, bias, eps), None, None


@lowers("rms_norm", "_fused_rms_norm")
def rms_norm(
    cx: Lowering, result: Result, input: Value, normalized_shape: Sequence[Size], weight: Value | None = None, eps: float | None = None
) -> Value:
    """torch.nn.functional.rms_norm. Without eps, that of the dtype it computes in, which is f32 for the narrow floats."""
    scalar = Result((), result.dtype)
    squares = apply(cx, scalar, "mul", input, input)
    spread = averaged(cx, squares, _trailing(input, normalized_shape), keepdim=True)
    floor = torch.finfo(torch.promote_types(input.dtype, torch.float32)).eps if eps is None else eps
    out = apply(cx, result, "mul", input, apply(cx, scalar, "rsqrt", apply(cx, scalar, "add", spread, floor)))
    return _scaled(cx, result, out, weight, None)


@lowers("group_norm")
def group_norm(
    cx: Lowering, result: Result, input: Value, num_groups: int, weight: Value | None = None, bias: Value | None = None, eps: float = 1e-5
) -> Value:
    """torch.nn.functional.group_norm: statistics over the channels of a group and all that follows."""
    first, channels, *rest = cx.shape(input)
    opened = reshaped(cx, input, [first, num_groups, quotient(channels, num_groups), *rest])
    out = standardised(cx, result, opened, range(2, len(opened.dims)), eps)
    out = with_dims(out, (out.dims[0], (*out.dims[1], *out.dims[2]), *out.dims[3:]))
    return _scaled(cx, result, out, _channelwise(weight, len(rest)), _channelwise(bias, len(rest)))


@lowers("batch_norm")
def batch_norm(
    cx: Lowering,
    result: Result,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    training: bool,
    momentum: Any,
    eps: float,
) -> Value:
    """torch.nn.functional.batch_norm by its running statistics. Raises: CleaveError in training."""
    if training or running_mean is None or running_var is None:
        cx.fail("batch_norm in training updates its statistics, which is not supported", "call .eval()")
    rest = len(input.dims) - 2
    scalar = Result((), result.dtype)
    moved = apply(cx, scalar, "sub", input, _channelwise(running_mean, rest))
    scale = apply(cx, scalar, "rsqrt", apply(cx, scalar, "add", running_var, eps))
    out = apply(cx, result, "mul", moved, _channelwise(scale, rest))
    return _scaled(cx, result, out, _channelwise(weight, rest), _channelwise(bias, rest))


def _channelwise(value: Value | None, rest: int) -> Value | None:
    return None if value is None else with_dims(value, (*value.dims, *[()] * rest))
