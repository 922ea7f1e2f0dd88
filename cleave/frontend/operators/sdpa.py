"""torch.nn.functional.scaled_dot_product_attention, written out."""

from __future__ import annotations

import math

import torch

from ..sizes import quotient
from ..values import Lowering, Value
from ..views import permuted, repeat_interleaved
from .contractions import multiplied
from .creation import triangle
from .elementwise import apply, as_value, choose, compare
from .reductions import exponentials
from .table import Result, lowers


@lowers("scaled_dot_product_attention")
def scaled_dot_product_attention(
    cx: Lowering,
    result: Result,
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Value:
    """
    softmax(q k^T scale + mask) v, heads of keys and values repeated for grouped queries.

    A row whose keys are all masked gives 0, as in PyTorch, by the guard that a person writes: weights that are NaN become 0.
    """
    if dropout_p:
        cx.fail("an active dropout draws random numbers, which is not supported", "set dropout_p=0")
    if enable_gqa:
        key, value = (_repeated(cx, query, operand) for operand in (key, value))
    wide = Result((), torch.float64 if result.dtype == torch.float64 else torch.float32)
    scores = multiplied(cx, wide, query, permuted(key, [*range(len(key.dims) - 2), -1, -2]))
    scores = apply(cx, wide, "mul", scores, _scale(cx, query, scale))
    if is_causal:
        scores = choose(cx, wide.dtype, triangle(cx, scores, 0, lower=True), scores, -math.inf)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = choose(cx, wide.dtype, attn_mask, scores, -math.inf)
    elif attn_mask is not None:
        scores = apply(cx, wide, "add", scores, attn_mask)
    powers, whole, _ = exponentials(cx, scores, len(scores.dims) - 1)
    weights = apply(cx, wide, "div", powers, whole)
    if attn_mask is not None:
        weights = choose(cx, wide.dtype, compare(cx, "ne", weights, weights), 0.0, weights)
    weights = Value(weights.dims, weights.node, result.dtype)
    return multiplied(cx, result, weights, value)


def _repeated(cx: Lowering, query: Value, operand: Value) -> Value:
    """Keys or values with each head repeated for the query heads that share it."""
    heads, own = cx.size(query.dims[-3]), cx.size(operand.dims[-3])
    times = quotient(heads, own)
    if times is None:
        cx.fail(f"{heads} query heads do not divide evenly over {own} heads")
    return operand if times == 1 else repeat_interleaved(cx, operand, times, len(operand.dims) - 3)


def _scale(cx: Lowering, query: Value, scale: float | None) -> Value:
    if scale is not None:
        return as_value(cx, scale)
    size = cx.size(query.dims[-1])
    if isinstance(size, int):
        return as_value(cx, 1 / math.sqrt(size))
    return Value((), cx.node("rsqrt", (cx.number(size, "f32"),), "f32"), torch.float32)
