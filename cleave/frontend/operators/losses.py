"""Losses over classes."""

from __future__ import annotations

import torch

from ..values import Lowering, Value
from .activations import Formula
from .elementwise import apply, choose, compare
from .indexing import picked
from .reductions import averaged, log_softmax, reduced
from .table import Result, lowers

_NONE, _MEAN = 0, 1


@lowers("cross_entropy_loss")
def cross_entropy_loss(
    cx: Lowering,
    result: Result,
    self: Value,
    target: Value,
    reduction: int = _MEAN,
    ignore_index: int = -100,
) -> Value:
    """Minus the log-softmax at each target class, without those to ignore. Raises: CleaveError for class probabilities."""
    return _likelihood(cx, result, log_softmax(cx, Result((), result.dtype), self, _class_dim(self)), target, reduction, ignore_index)


@lowers("nll_loss_nd", "nll_loss")
def nll_loss(cx: Lowering, result: Result, self: Value, target: Value, reduction: int = _MEAN, ignore_index: int = -100) -> Value:
    """Minus the given log-likelihood at each target class, without those to ignore."""
    return _likelihood(cx, result, self, target, reduction, ignore_index)


def _class_dim(value: Value) -> int:
    return 1 if len(value.dims) > 1 else 0


def _likelihood(cx: Lowering, result: Result, logs: Value, target: Value, reduction: int, ignore_index: int) -> Value:
    if target.dtype.is_floating_point:
        cx.fail("targets that are probabilities are not supported", "use class numbers")
    at = _class_dim(logs)
    wanted = Value((*target.dims[:at], (), *target.dims[at:]), target.node, target.dtype)
    found = picked(cx, logs, at, wanted)
    found = Value((*found.dims[:at], *found.dims[at + 1 :]), found.node, found.dtype)
    counts = compare(cx, "ne", target, ignore_index)
    losses = choose(cx, result.dtype, counts, apply(cx, result, "neg", found), 0)
    every = list(range(len(losses.dims)))
    if reduction == _NONE:
        return losses
    whole = reduced(cx, "sum", losses, every, keepdim=False)
    if reduction != _MEAN:
        return whole
    ones = choose(cx, result.dtype, counts, 1, 0)
    return apply(cx, result, "div", whole, reduced(cx, "sum", ones, every, keepdim=False))


@lowers("mse_loss")
def mse_loss(cx: Lowering, result: Result, self: Value, target: Value, reduction: int = _MEAN) -> Value:
    """The square of the difference, averaged or summed."""
    rest = _difference(cx, self, target)
    return _gathered_loss(cx, apply(cx, Result((), rest.dtype), "mul", rest, rest), reduction)


@lowers("l1_loss")
def l1_loss(cx: Lowering, result: Result, self: Value, target: Value, reduction: int = _MEAN) -> Value:
    """The absolute difference, averaged or summed."""
    rest = _difference(cx, self, target)
    return _gathered_loss(cx, apply(cx, Result((), rest.dtype), "abs", rest), reduction)


@lowers("binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(cx: Lowering, result: Result, self: Value, target: Value, reduction: int = _MEAN) -> Value:
    """(1 - target) * x + log(1 + exp(-x)), averaged or summed."""
    f = Formula(cx, Result((), torch.promote_types(self.dtype, target.dtype)))
    return _gathered_loss(cx, f("add", f("mul", f("sub", 1.0, target), self), f.softplus(f("neg", self))), reduction)


def _difference(cx: Lowering, value: Value, target: Value) -> Value:
    return apply(cx, Result((), torch.promote_types(value.dtype, target.dtype)), "sub", value, target)


def _gathered_loss(cx: Lowering, losses: Value, reduction: int) -> Value:
    """The losses as they are, their mean or their sum."""
    every = list(range(len(losses.dims)))
    if reduction == _NONE:
        return losses
    return averaged(cx, losses, every, keepdim=False) if reduction == _MEAN else reduced(cx, "sum", losses, every, keepdim=False)
