"""
PyTorch functions as people write them, compiled and run in Triton's interpreter, against float64.

The bound is twice the error of eager PyTorch in the same dtype plus one unit in the last place of the largest result. Those
that normalise weights must become one kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.export import Dim

import cleave

from .torch_programs import CASES, INFINITY, Case, scores


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.function.__name__)
def test_torch_programs(case: Case) -> None:
    arguments = case.arguments()
    compiled = cleave.compile(case.function, *arguments)
    assert len(compiled.kernels) == 1
    check(compiled, case.function, *arguments)


def check(compiled: Callable[..., Tensor], function: Callable[..., Tensor], *arguments: Tensor) -> None:
    """The bound above. All results must be finite."""
    wanted = function(*(argument.double() if argument.is_floating_point() else argument for argument in arguments))
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
    check(cleave.compile(unscaled, q, k, v), unscaled, q * 2000, k, v)


def test_unscaled_logits_of_all_sizes() -> None:
    """
    f32 logits of about 30 on either side, compiled once for any sizes; the errors of 24 draws of every size against eager's.

    A single draw decides nothing here: the error is that of the largest logits, and eager misses its own bound in one draw of twelve
    when the elements of the queries and keys are merely put in another order. So errors are added up, for one row and for more.
    """
    m, n = Dim("m", min=1, max=4096), Dim("n", min=1, max=8192)
    compiled = cleave.compile(unscaled, *drawn(0, 33, 300), dynamic_shapes=({0: m}, {0: n}, {0: n}))
    for group in (((1, 1), (1, 3), (1, 17), (1, 300), (1, 1023)), ((3, 17), (5, 300), (33, 64))):
        ours, theirs, steps = 0.0, 0.0, 0.0
        for sizes, seed in product(group, range(24)):
            arguments = drawn(seed, *sizes)
            wanted = unscaled(*(argument.double() for argument in arguments))
            ours += (compiled(*arguments).double() - wanted).abs().max().item()
            theirs += (unscaled(*arguments).double() - wanted).abs().max().item()
            steps += torch.finfo(torch.float32).eps * wanted.abs().max().item()
        assert ours <= 2 * theirs + steps, (group, ours, theirs)


def drawn(seed: int, m: int, n: int) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(size, 64, generator=generator) * 2 for size in (m, n, n))


def unscaled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(q @ k.transpose(-1, -2), -1) @ v


def plain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(scores(q, k), -1) @ v


def causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    live = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
    return torch.softmax(scores(q, k).masked_fill(~live, -INFINITY), -1) @ v


def shared_heads(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("function", [plain, causal, shared_heads])
def test_one_kernel_for_all_sizes(function: Callable[..., Tensor], dtype: torch.dtype) -> None:
    """Compiled once for any numbers of queries and keys."""
    torch.manual_seed(4)

    def drawn(m: int, n: int) -> tuple[Tensor, ...]:
        heads = 4 if function is shared_heads else 2
        return tuple(torch.randn(1, h, size, 64).to(dtype) for h, size in ((heads, m), (2, n), (2, n)))

    m, n = Dim("m", min=1, max=4096), Dim("n", min=1, max=8192)
    compiled = cleave.compile(function, *drawn(37, 53), dynamic_shapes=({2: m}, {2: n}, {2: n}))
    assert len(compiled.kernels) == 1
    for sizes in ((1, 1), (1, 17), (5, 300), (70, 64), (1, 1023)):
        check(compiled, function, *drawn(*sizes))


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
