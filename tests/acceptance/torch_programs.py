"""PyTorch functions as people write them, with the shapes of arguments to try them on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

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


def halves(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], -1)


def rotated(q: Tensor, k: Tensor, v: Tensor, c1: Tensor, s1: Tensor, c2: Tensor, s2: Tensor) -> Tensor:
    return torch.softmax(scores(halves(q, c1, s1), halves(k, c2, s2)), -1) @ v


def root_mean_square(x: Tensor, g: Tensor) -> Tensor:
    return x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6).to(x.dtype) * g


def normed_queries(q: Tensor, k: Tensor, v: Tensor, g1: Tensor, g2: Tensor) -> Tensor:
    return torch.softmax(scores(root_mean_square(q, g1), root_mean_square(k, g2)), -1) @ v


def padded(q: Tensor, k: Tensor, v: Tensor, keep: Tensor) -> Tensor:
    return torch.softmax(scores(q, k).masked_fill(~keep[:, None, None, :], -INFINITY), -1) @ v


def padded_by_a_bias(q: Tensor, k: Tensor, v: Tensor, keep: Tensor) -> Tensor:
    bias = torch.zeros_like(keep, dtype=q.dtype).masked_fill(~keep, torch.finfo(q.dtype).min)
    return torch.softmax(scores(q, k) + bias[:, None, None, :], -1) @ v


def gated(x: Tensor, g: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    y = F.rms_norm(x, (x.shape[-1],), g, 1e-6)
    return F.silu(y @ w1) * (y @ w2)


def feed_forward(x: Tensor, g: Tensor, w1: Tensor, w2: Tensor, w3: Tensor) -> Tensor:
    return x + gated(x, g, w1, w2) @ w3


def low_rank(x: Tensor, w: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return x @ w + 2 * (x @ a) @ b


def linear_features(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k = F.elu(q) + 1, F.elu(k) + 1
    return (q @ (k.transpose(-1, -2) @ v)) / (q @ k.sum(-2, keepdim=True).transpose(-1, -2) + 1e-3)


def pooled(x: Tensor, w: Tensor) -> Tensor:
    return torch.einsum("bn,bnd->bd", torch.softmax(x @ w, -1), x)


def divergence(x: Tensor, y: Tensor) -> Tensor:
    p, q = torch.log_softmax(x, -1), torch.log_softmax(y, -1)
    return (p.exp() * (p - q)).sum(-1)


def twice_normalised(x: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(torch.softmax(x, -1), -2) @ v


@dataclass(frozen=True)
class Case:
    """A function, the shapes of its arguments, and whether the last of them is a condition."""

    function: Callable[..., Tensor]
    shapes: tuple[tuple[int, ...], ...]
    mask: bool = False

    def arguments(self) -> list[Tensor]:
        """Normal numbers in f16; conditions are mostly true."""
        torch.manual_seed(1)
        drawn = [torch.randn(shape).half() for shape in self.shapes]
        return [*drawn[:-1], drawn[-1] > -0.5] if self.mask else drawn


Q, K = (1, 2, 37, 64), (1, 2, 53, 64)
CASES = (
    Case(biased, (Q, K, K, (1, 2, 37, 53))),
    Case(with_a_sink, (Q, K, K, (2,))),
    Case(soft_capped, (Q, K, K)),
    Case(in_a_window, (Q, K, K)),
    Case(by_distance, (Q, K, K, (2,))),
    Case(one_more, (Q, K, K)),
    Case(difference, (Q, K, Q, K, K)),
    Case(masked_by_a_product, (Q, K, K, (37, 53)), mask=True),
    Case(log_of_sum, (Q, K)),
    Case(without_normalisation, (Q, K, K)),
    Case(entropy, ((19, 77),)),
    Case(noisy, ((19, 77), (19, 77), (77, 40))),
    Case(normed, ((19, 300), (300, 80), (300,), (300,))),
    Case(two_layers, ((19, 64), (64, 80), (80, 48))),
    Case(by_angle, (Q, K, K)),
    Case(over_two_axes, ((3, 19, 20),)),
    Case(squared, (Q, K, K)),
    Case(rotated, (Q, K, K, (37, 32), (37, 32), (53, 32), (53, 32))),
    Case(normed_queries, (Q, K, K, (64,), (64,))),
    Case(padded, (Q, K, K, (1, 53)), mask=True),
    Case(padded_by_a_bias, (Q, K, K, (1, 53)), mask=True),
    Case(gated, ((19, 300), (300,), (300, 80), (300, 80))),
    Case(feed_forward, ((19, 64), (64,), (64, 80), (64, 80), (80, 64))),
    Case(low_rank, ((19, 64), (64, 80), (64, 8), (8, 80))),
    Case(linear_features, (Q, K, K)),
    Case(pooled, ((3, 19, 48), (48,))),
    Case(divergence, ((19, 77), (19, 77))),
    Case(twice_normalised, ((19, 23), (23, 16))),
)
