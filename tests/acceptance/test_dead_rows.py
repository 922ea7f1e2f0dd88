"""Rows with every key masked, from PyTorch source: 0, their logarithm -inf, and guards against NaN fold away."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import cleave


def masked(q: Tensor, k: Tensor, live: Tensor) -> Tensor:
    return (q @ k.transpose(-1, -2)).masked_fill(~live, -math.inf)


def plain(q: Tensor, k: Tensor, v: Tensor, live: Tensor) -> Tensor:
    return torch.softmax(masked(q, k, live), -1) @ v


def guarded(q: Tensor, k: Tensor, v: Tensor, live: Tensor) -> Tensor:
    p = torch.softmax(masked(q, k, live), -1)
    return torch.where(torch.isnan(p), 0.0, p) @ v


def filled(q: Tensor, k: Tensor, v: Tensor, live: Tensor) -> Tensor:
    p = torch.softmax(masked(q, k, live), -1)
    return p.masked_fill(p.isnan(), 0.0) @ v


def replaced(q: Tensor, k: Tensor, v: Tensor, live: Tensor) -> Tensor:
    return torch.nan_to_num(torch.softmax(masked(q, k, live), -1)) @ v


def guarded_late(q: Tensor, k: Tensor, v: Tensor, live: Tensor) -> Tensor:
    o = torch.softmax(masked(q, k, live), -1) @ v
    return torch.where(o.isnan(), 0.0, o)


def by_unequal(q: Tensor, k: Tensor, v: Tensor, live: Tensor) -> Tensor:
    p = torch.softmax(masked(q, k, live), -1)
    return torch.where(p != p, 0.0, p) @ v


def library(q: Tensor, k: Tensor, v: Tensor, live: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=live, scale=1.0)


def arguments(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    torch.manual_seed(5)
    q, k, v = (torch.randn(1, 2, size, 32).to(dtype) for size in (6, 19, 19))
    live = torch.rand(6, 19) < 0.5
    live[[0, 3]] = False
    live[1, 1:] = False
    live[1, 0] = True
    return q, k, v, live


FUNCTIONS = (plain, guarded, filled, replaced, guarded_late, by_unequal, library)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_dead_rows_are_zero(function: Callable[..., Tensor]) -> None:
    q, k, v, live = arguments(torch.float32)
    compiled = cleave.compile(function, q, k, v, live)
    found = compiled(q, k, v, live).double()
    assert (found[:, :, [0, 3]] == 0).all()
    wanted = torch.nan_to_num(plain(q.double(), k.double(), v.double(), live))
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    assert len(compiled.kernels) == 1
    assert "alg.compare ne" not in compiled.text("stabilized").split("alternative")[-1]


def test_the_logarithm_of_nothing() -> None:
    q, k, v, live = arguments(torch.float32)

    def both(q: Tensor, k: Tensor, v: Tensor, live: Tensor) -> tuple[Tensor, Tensor]:
        x = masked(q, k, live)
        return torch.softmax(x, -1) @ v, torch.logsumexp(x, -1)

    found, logarithm = cleave.compile(both, q, k, v, live)(q, k, v, live)
    assert (found[:, :, [0, 3]] == 0).all()
    assert (logarithm[:, :, [0, 3]] == -math.inf).all()
    wanted = torch.logsumexp(masked(q.double(), k.double(), live), -1)
    torch.testing.assert_close(logarithm.double(), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_dead_rows_in_short_floats(dtype: torch.dtype) -> None:
    q, k, v, live = arguments(dtype)
    found = cleave.compile(guarded, q, k, v, live)(q, k, v, live)
    assert found.isfinite().all() and (found[:, :, [0, 3]] == 0).all()
