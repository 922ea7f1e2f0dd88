"""Layers in plain PyTorch operations at several sizes: attention with grouped heads, a norm before a linear layer and before SwiGLU."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from .baselines import Attention, compiled
from .cases import Case, Contender, Given, Program

ROOT: float = 4096**-0.5
"""Deviation of weights of 4096 inputs, so that results have that of the inputs."""


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Softmax attention; q, k and v are (batch, heads, rows, d)."""
    return torch.softmax(q @ k.transpose(-1, -2) * (1.0 / math.sqrt(q.shape[-1])), dim=-1) @ v


def grouped_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention whose query heads share key and value heads in groups."""
    group = q.shape[1] // k.shape[1]
    return attention(q, k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1))


def causal_grouped_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Grouped attention in which row i sees keys up to i."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    scores = q @ k.transpose(-1, -2) * (1.0 / math.sqrt(q.shape[-1]))
    seen = torch.tril(torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device))
    return torch.softmax(scores.masked_fill(~seen, float("-inf")), dim=-1) @ v


def wide(x: Tensor) -> Tensor:
    """Floats of 32 bits at least."""
    return x if x.dtype == torch.float64 else x.float()


def normed(x: Tensor, g: Tensor) -> Tensor:
    """RMSNorm with gain g."""
    return x * torch.rsqrt(wide(x).pow(2).mean(-1, keepdim=True) + 1e-6).to(x.dtype) * g


def norm_linear(x: Tensor, g: Tensor, w: Tensor) -> Tensor:
    """RMSNorm with gain g, then a linear layer with weight (out, in)."""
    return normed(x, g) @ w.t()


def norm_swiglu(x: Tensor, g: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    """RMSNorm with gain g, then the gated half of a SwiGLU layer; weights are (out, in)."""
    y = normed(x, g)
    return F.silu(y @ w1.t()) * (y @ w2.t())


def _same(out: Tensor) -> Tensor:
    return out


def _three(inputs: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = inputs
    return q, k, v


def cases(dtype: torch.dtype = torch.bfloat16, tuned: bool = False) -> list[Case]:
    """Three programs at three sizes each; `tuned` adds torch.compile's max-autotune."""
    out: list[Case] = []

    def add(name: str, program: Program, given: tuple[Given, ...], weights: tuple[int, ...] = (), more: tuple[Contender, ...] = ()) -> None:
        contenders = (compiled(program), *((compiled(program, True),) if tuned else ()), *more)
        # Rows of a layer do not depend on each other; of causal attention only heads do not, and those are in groups.
        pieces = (None,) * len(given) if program is causal_grouped_attention else (len(given[0].shape) - 2, *(None for _ in given[1:]))
        out.append(Case(name, program, given, dtype, pieces, pieces[0] or 0, weights, contenders, {"name": name}))

    def add_attention(name: str, program: Program, rows: int, keys: int, causal: bool) -> None:
        cache = Given((1, 8, keys, 128))
        kernels = Attention(_three, _same, shared=True, causal=causal)
        given = (Given((1, 32, rows, 128)), cache, cache)
        add(f"{name} b1 h32/8 {rows}x{keys} d128", program, given, more=(*kernels.sdpa(), kernels.flashinfer()))

    for rows in (512, 1024, 4096):
        add_attention("attention causal", causal_grouped_attention, rows, rows, True)
    for rows, keys in ((1, 4096), (512, 4096), (4096, 4096)):
        add_attention("attention", grouped_attention, rows, keys, False)
    gain = Given((4096,))
    for rows in (16, 512, 4096):
        add(f"norm + linear {rows}x4096x6144", norm_linear, (Given((rows, 4096)), gain, Given((6144, 4096), ROOT)), (1, 2))
    for rows in (16, 512, 2048):
        weight = Given((14336, 4096), ROOT)
        add(f"norm + swiglu {rows}x4096x14336", norm_swiglu, (Given((rows, 4096)), gain, weight, weight), (1, 2, 3))
    return out
