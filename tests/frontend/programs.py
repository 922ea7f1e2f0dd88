"""
Programs as people write them in plain PyTorch: softmax attention in several spellings, normalisation into a linear layer, a
gated unit and latent attention, with the arguments that trace them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F

Tensor = torch.Tensor


@dataclass(frozen=True)
class Program:
    """A function, the shapes of its arguments, and which dimensions may be dynamic (argument: dimension: name)."""

    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    dynamic: Mapping[int, Mapping[int, str]] = field(default_factory=dict[int, Mapping[int, str]])

    def arguments(self, dtype: torch.dtype = torch.float32, seed: int = 0) -> tuple[Tensor, ...]:
        """Random arguments."""
        generator = torch.Generator().manual_seed(seed)
        return tuple(torch.randn(shape, generator=generator).to(dtype) for shape in self.shapes)

    def dynamic_shapes(self) -> tuple[dict[int, str] | None, ...]:
        """The dynamic dimensions in the form that `capture` takes."""
        return tuple(dict(self.dynamic[at]) if at in self.dynamic else None for at in range(len(self.shapes)))


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5, dim=-1) @ v


def attention_max_subtracted(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    weights = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
    return (weights / weights.sum(dim=-1, keepdim=True)) @ v


def attention_causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = torch.einsum("bhmd,bhnd->bhmn", q, k) * q.shape[-1] ** -0.5
    mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril()
    scores = scores.masked_fill(~mask, float("-inf"))
    return torch.einsum("bhmn,bhne->bhme", scores.softmax(-1), v)


def attention_nan_guarded(q: Tensor, k: Tensor, v: Tensor, keep: Tensor) -> Tensor:
    scores = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(keep[:, None, None, :] < 0, float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    weights = torch.where(torch.isnan(weights), 0.0, weights)
    return weights @ v


def repeated_heads(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    times = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(times, dim=1), v.repeat_interleave(times, dim=1)
    return attention(q, k, v)


def expanded_heads(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    b, heads, n, d = k.shape
    times = q.shape[1] // heads
    k = k[:, :, None].expand(b, heads, times, n, d).reshape(b, heads * times, n, d)
    v = v[:, :, None].expand(b, heads, times, n, d).reshape(b, heads * times, n, d)
    return attention_causal(q, k, v)


def shared_heads(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def shared_heads_causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def rms_norm_linear(x: Tensor, g: Tensor, w: Tensor) -> Tensor:
    h = x.float()
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
    return F.linear(h.type_as(x) * g, w)


def rms_norm_linear_composite(x: Tensor, g: Tensor, w: Tensor) -> Tensor:
    return F.rms_norm(x, (x.shape[-1],), g, 1e-6) @ w.t()


def rms_norm_swiglu(x: Tensor, g: Tensor, w_gate: Tensor, w_up: Tensor) -> Tensor:
    h = x.float()
    h = (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)).type_as(x) * g
    return F.silu(h @ w_gate.T) * (h @ w_up.T)


def linear_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.transpose(-1, -2)) @ v


def latent_attention(q: Tensor, cache: Tensor, w_k: Tensor, w_v: Tensor) -> Tensor:
    """Keys and values are decompressed from a shared latent cache: q `b h d`, cache `b n c`, weights `h d c` and `h e c`."""
    keys = torch.einsum("bnc,hdc->bhnd", cache, w_k)
    values = torch.einsum("bnc,hec->bhne", cache, w_v)
    scores = torch.einsum("bhd,bhnd->bhn", q, keys) * q.shape[-1] ** -0.5
    return torch.einsum("bhn,bhne->bhe", scores.softmax(-1), values)


def low_rank_update(x: Tensor, w: Tensor, down: Tensor, up: Tensor) -> Tensor:
    return x @ w.T + (x @ down.T) @ up.T


_ROWS_KEYS = {0: {2: "m"}, 1: {2: "n"}, 2: {2: "n"}}
_HEADS = ((2, 4, 6, 8), (2, 4, 10, 8), (2, 4, 10, 8))
_GROUPED = ((1, 32, 5, 4), (1, 8, 7, 4), (1, 8, 7, 4))

PROGRAMS: Mapping[str, Program] = {
    "attention": Program(attention, _HEADS, _ROWS_KEYS),
    "attention_max_subtracted": Program(attention_max_subtracted, _HEADS, _ROWS_KEYS),
    "attention_causal": Program(attention_causal, _HEADS, _ROWS_KEYS),
    "repeated_heads": Program(repeated_heads, _GROUPED, _ROWS_KEYS),
    "expanded_heads": Program(expanded_heads, _GROUPED, _ROWS_KEYS),
    "shared_heads": Program(shared_heads, _GROUPED, _ROWS_KEYS),
    "shared_heads_causal": Program(shared_heads_causal, _GROUPED, _ROWS_KEYS),
    "rms_norm_linear": Program(rms_norm_linear, ((3, 5, 16), (16,), (12, 16)), {0: {1: "m"}}),
    "rms_norm_linear_composite": Program(rms_norm_linear_composite, ((5, 16), (16,), (12, 16)), {0: {0: "m"}}),
    "rms_norm_swiglu": Program(rms_norm_swiglu, ((3, 5, 16), (16,), (12, 16), (12, 16)), {0: {0: "b", 1: "m"}}),
    "linear_attention": Program(linear_attention, _HEADS, _ROWS_KEYS),
    "latent_attention": Program(latent_attention, ((2, 3, 4), (2, 7, 6), (3, 4, 6), (3, 5, 6)), {1: {1: "n"}}),
    "low_rank_update": Program(low_rank_update, ((5, 16), (12, 16), (2, 16), (12, 2)), {0: {0: "m"}}),
}
