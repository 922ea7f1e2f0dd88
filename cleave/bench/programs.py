"""
The programs that are measured, in plain PyTorch operations, with their sizes and the best existing implementations.

A case gives its inputs for a device and dtype, the program Cleave compiles, and the contenders it is compared with beside
eager and `torch.compile`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

Program = Callable[..., Tensor]


@dataclass(frozen=True)
class Case:
    """One program at one size. `shapes` are the input shapes, `scales` the standard deviation of each input (1 if absent)."""

    name: str
    program: Program
    shapes: tuple[tuple[int, ...], ...]
    scales: tuple[float, ...] = ()
    contenders: Mapping[str, Program] = field(default_factory=dict[str, Program])

    def inputs(self, device: str, dtype: torch.dtype, seed: int = 0) -> tuple[Tensor, ...]:
        """Fresh normal inputs."""
        generator = torch.Generator(device=device).manual_seed(seed)
        scales = self.scales or (1.0,) * len(self.shapes)
        return tuple(
            (torch.randn(shape, generator=generator, device=device) * scale).to(dtype)
            for shape, scale in zip(self.shapes, scales, strict=True)
        )


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


def norm_linear(x: Tensor, g: Tensor, w: Tensor) -> Tensor:
    """RMSNorm with gain g, then a linear layer with weight (out, in)."""
    normed = x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6).to(x.dtype) * g
    return normed @ w.t()


def norm_swiglu(x: Tensor, g: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    """RMSNorm with gain g, then the gated half of a SwiGLU layer; weights are (out, in)."""
    normed = x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6).to(x.dtype) * g
    return F.silu(normed @ w1.t()) * (normed @ w2.t())


def _sdpa(backend: SDPBackend, causal: bool) -> Program:
    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])

    return run


def _sdpas(causal: bool) -> dict[str, Program]:
    return {"sdpa flash": _sdpa(SDPBackend.FLASH_ATTENTION, causal), "sdpa cudnn": _sdpa(SDPBackend.CUDNN_ATTENTION, causal)}


def _attention_case(name: str, program: Program, batch: int, heads: int, kv: int, rows: int, keys: int, d: int, causal: bool) -> Case:
    shapes = ((batch, heads, rows, d), (batch, kv, keys, d), (batch, kv, keys, d))
    return Case(f"{name} b{batch} h{heads}/{kv} {rows}x{keys} d{d}", program, shapes, contenders=_sdpas(causal))


def cases() -> tuple[Case, ...]:
    """Three programs at three sizes each."""
    out: list[Case] = []
    for rows in (512, 1024, 4096):
        out.append(_attention_case("attention causal", causal_grouped_attention, 1, 32, 8, rows, rows, 128, True))
    for rows, keys in ((1, 4096), (512, 4096), (4096, 4096)):
        out.append(_attention_case("attention", grouped_attention, 1, 32, 8, rows, keys, 128, False))
    for rows in (16, 512, 4096):
        shapes = ((rows, 4096), (4096,), (6144, 4096))
        out.append(Case(f"norm + linear {rows}x4096x6144", norm_linear, shapes, (1.0, 1.0, 4096**-0.5)))
    for rows in (16, 512, 2048):
        gated = ((rows, 4096), (4096,), (14336, 4096), (14336, 4096))
        out.append(Case(f"norm + swiglu {rows}x4096x14336", norm_swiglu, gated, (1.0, 1.0, 4096**-0.5, 4096**-0.5)))
    return tuple(out)
