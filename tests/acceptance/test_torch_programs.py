"""
PyTorch functions as people write them, compiled and run in Triton's interpreter, against float64.

The bound is twice the error of eager PyTorch in the same dtype plus one unit in the last place of the largest result. Those
that normalise weights must become one kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import cleave

INFINITY = float("inf")


def scores(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.transpose(-1, -2) * 0.125


def positions(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    return torch.arange(q.shape[-2])[:, None], torch.arange(k.shape[-2])[None]


def biased(q: Tensor, k: Tensor, v: Tensor, b: Tensor) -> Tensor:
    return torch.softmax(scores(q, k) + b, -1) @ v


def with_a_sink(q: Tensor, k: Tensor, v: Tensor, s: Tensor) -> Tensor:
    x = scores(q, k)
    x = torch.cat([x, s.view(1, -1, 1, 1).expand(x.shape[0], -1, x.shape[2], 1)], -1)
    return torch.softmax(x, -1)[..., :-1] @ v


def soft_capped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(30 * torch.tanh(scores(q, k) / 30), -1) @ v


def in_a_window(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    i, j = positions(q, k)
    return torch.softmax(scores(q, k).masked_fill((j > i) | (j < i - 8), -INFINITY), -1) @ v


def by_distance(q: Tensor, k: Tensor, v: Tensor, slope: Tensor) -> Tensor:
    i, j = positions(q, k)
    return torch.softmax(scores(q, k) - slope.view(1, -1, 1, 1) * (i - j).abs(), -1) @ v


def one_more(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    x = scores(q, k)
    top = x.amax(-1, keepdim=True).clamp(min=0)
    e = torch.exp(x - top)
    return (e / (torch.exp(-top) + e.sum(-1, keepdim=True))) @ v


def difference(q: Tensor, k: Tensor, q2: Tensor, k2: Tensor, v: Tensor) -> Tensor:
    return (torch.softmax(scores(q, k), -1) - 0.3 * torch.softmax(scores(q2, k2), -1)) @ v


def masked_by_a_product(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    e = torch.exp(scores(q, k)) * mask
    return (e @ v) / (e.sum(-1, keepdim=True) + 1e-6)


def log_of_sum(q: Tensor, k: Tensor) -> Tensor:
    return torch.logsumexp(q @ k.transpose(-1, -2), -1)


def without_normalisation(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.sigmoid(scores(q, k)) @ v


def entropy(x: Tensor) -> Tensor:
    return -(torch.softmax(x, -1) * torch.log_softmax(x, -1)).sum(-1)


def noisy(x: Tensor, g: Tensor, v: Tensor) -> Tensor:
    return torch.softmax((x + g) / 0.7, -1) @ v


def normed(x: Tensor, w: Tensor, g: Tensor, b: Tensor) -> Tensor:
    return F.layer_norm(x, (x.shape[-1],), g, b) @ w


def two_layers(x: Tensor, w: Tensor, w2: Tensor) -> Tensor:
    return F.gelu(x @ w) @ w2


def by_angle(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(10 * F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-1, -2), -1) @ v


def over_two_axes(x: Tensor) -> Tensor:
    return torch.exp(x) / torch.exp(x).sum((-1, -2), keepdim=True)


def squared(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    s = (q @ k.transpose(-1, -2)) ** 2
    return (s @ v) / (s.sum(-1, keepdim=True) + 1)


@dataclass(frozen=True)
class Case:
    """A function and the shapes of its arguments."""

    function: Callable[..., Tensor]
    shapes: tuple[tuple[int, ...], ...]
    kernels: int = 1


Q, K = (1, 2, 37, 64), (1, 2, 53, 64)
CASES = (
    Case(biased, (Q, K, K, (1, 2, 37, 53))),
    Case(with_a_sink, (Q, K, K, (2,))),
    Case(soft_capped, (Q, K, K)),
    Case(in_a_window, (Q, K, K)),
    Case(by_distance, (Q, K, K, (2,))),
    Case(one_more, (Q, K, K)),
    Case(difference, (Q, K, Q, K, K)),
    Case(masked_by_a_product, (Q, K, K, (37, 53))),
    Case(log_of_sum, (Q, K)),
    Case(without_normalisation, (Q, K, K)),
    Case(entropy, ((19, 77),)),
    Case(noisy, ((19, 77), (19, 77), (77, 40))),
    Case(normed, ((19, 300), (300, 80), (300,), (300,))),
    Case(two_layers, ((19, 64), (64, 80), (80, 48))),
    Case(by_angle, (Q, K, K)),
    Case(over_two_axes, ((3, 19, 20),)),
    Case(squared, (Q, K, K)),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.function.__name__)
def test_torch_programs(case: Case) -> None:
    torch.manual_seed(1)
    arguments = [torch.randn(shape).half() for shape in case.shapes]
    if case.function is masked_by_a_product:
        arguments[-1] = (arguments[-1] > 0).half()
    check(case.function, *arguments, kernels=case.kernels)


def check(function: Callable[..., Any], *arguments: Tensor, kernels: int) -> None:
    compiled = cleave.compile(function, *arguments)
    assert len(compiled.kernels) == kernels
    wanted = function(*(argument.double() for argument in arguments))
    found, eager = compiled(*arguments).double(), function(*arguments).double()
    assert torch.isfinite(found).all()
    sound = torch.isfinite(eager)
    ours, theirs = ((value - wanted)[sound].abs().max().item() for value in (found, eager))
    unit = torch.finfo(arguments[0].dtype).eps * wanted.abs().max().item()
    assert ours <= 2 * theirs + unit, (ours, theirs)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_large_logits(dtype: torch.dtype) -> None:
    """About 1e4 on either side, in the two dtypes that hold such queries exactly."""
    torch.manual_seed(2)
    q, k, v = (torch.randn(1, 1, size, 32).to(dtype) for size in (1, 17, 17))
    check(lambda q, k, v: torch.softmax(q @ k.transpose(-1, -2), -1) @ v, q * 2000, k, v, kernels=1)


def test_a_row_without_a_live_key_is_zero() -> None:
    """Where plain softmax gives NaN."""
    torch.manual_seed(3)
    q, k, v = (torch.randn(1, 1, size, 32) for size in (5, 17, 17))
    live = torch.rand(5, 17) < 0.5
    live[2] = False

    def masked(q: Tensor, k: Tensor, v: Tensor, live: Tensor) -> Tensor:
        return torch.softmax((q @ k.transpose(-1, -2)).masked_fill(~live, -INFINITY), -1) @ v

    found = cleave.compile(masked, q, k, v, live)(q, k, v, live)
    wanted = masked(q.double(), k.double(), v.double(), live)
    assert wanted[0, 0, 2].isnan().all()
    torch.testing.assert_close(found.double(), torch.nan_to_num(wanted), rtol=1e-5, atol=1e-5)
