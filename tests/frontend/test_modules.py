"""Modules and functions as they occur in models: blocks, caches, windows, position biases, experts."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import nn

from tests.frontend.agreement import agrees, kinds, layouts, pattern, renames

Tensor = torch.Tensor


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


class Block(nn.Module):
    """A block of GPT-2 with its packed projection, stored mask and hand-written GELU."""

    def __init__(self, width: int = 16, heads: int = 4, longest: int = 32) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.norm_after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.packed, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.rise, self.fall = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.mask = nn.Buffer(torch.ones(longest, longest, dtype=torch.bool).tril().view(1, 1, longest, longest))
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.shape
        q, k, v = self.packed(self.norm(x)).split(c, dim=2)
        q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in (q, k, v))
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        scores = scores.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf"))
        out = self.dropout(F.softmax(scores, dim=-1)) @ v
        x = x + self.dropout(self.project(out.transpose(1, 2).contiguous().view(b, t, c)))
        h = self.rise(self.norm_after(x))
        h = 0.5 * h * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (h + 0.044715 * torch.pow(h, 3.0))))
        return x + self.fall(h)


def test_a_block_of_gpt2() -> None:
    torch.manual_seed(0)
    for dynamic, calls in ((None, []), (({0: "b", 1: "t"},), [(random(3, 9, 16),)])):
        captured = agrees(Block().eval(), (random(2, 5, 16),), dynamic, calls=calls)
        assert pattern(layouts(captured)["packed_weight"]) == "(a b c) d"
        assert len(renames(captured)) == 2
        assert not {"split", "merge", "concat", "slice"} & set(kinds(captured))


def test_an_encoder_layer_of_torch() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True).eval()
    for dynamic in (None, ({0: "b", 1: "s"},)):
        captured = agrees(layer, (random(2, 5, 16),), dynamic)
        assert kinds(captured).count("contract") == 6
        assert not {"split", "merge", "concat", "slice"} & set(kinds(captured))


def test_multihead_attention_of_torch() -> None:
    torch.manual_seed(0)

    class Cross(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(16, 4, batch_first=True)

        def forward(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor | None]:
            return self.attention(q, k, k)

    agrees(Cross().eval(), (random(2, 5, 16), random(2, 7, 16)))


def test_batch_norm_in_evaluation() -> None:
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3)).eval()
    agrees(layers, (random(5, 4),), ({0: "b"},), calls=[(random(1, 4),)])


def test_a_growing_cache() -> None:
    def program(q: Tensor, k_new: Tensor, v_new: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        k, v = torch.cat((k, k_new), 2), torch.cat((v, v_new), 2)
        return F.scaled_dot_product_attention(q, k, v), k, v

    args = *(random(2, 4, 1, 8, seed=at) for at in range(3)), random(2, 4, 6, 8), random(2, 4, 6, 8, seed=1)
    longer = *args[:3], random(2, 4, 9, 8), random(2, 4, 9, 8, seed=1)
    captured = agrees(program, args, (None, None, None, {2: "n"}, {2: "n"}), calls=[longer])
    assert kinds(captured).count("concat") == 2


def test_a_sliding_window() -> None:
    def program(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        m, n = q.shape[-2], k.shape[-2]
        i, j = torch.arange(m)[:, None] + (n - m), torch.arange(n)[None]
        scores = torch.einsum("bhmd,bhnd->bhmn", q, k).masked_fill(~((j <= i) & (j > i - 3)), torch.finfo(torch.float32).min)
        return scores.softmax(-1) @ v

    args = random(2, 4, 6, 8), random(2, 4, 9, 8), random(2, 4, 9, 8, seed=1)
    other = random(2, 4, 2, 8), random(2, 4, 5, 8), random(2, 4, 5, 8, seed=1)
    captured = agrees(program, args, ({2: "m"}, {2: "n"}, {2: "n"}), calls=[other])
    assert len(captured.graph.inputs) == 3
    assert not renames(captured)


def test_linear_position_biases() -> None:
    def program(q: Tensor, k: Tensor, v: Tensor, slopes: Tensor) -> Tensor:
        n = k.shape[-2]
        bias = slopes[:, None, None] * (torch.arange(n)[None, :] - torch.arange(n)[:, None]).abs().neg()
        return torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]) + bias, -1) @ v

    agrees(program, (*(random(2, 4, 6, 8, seed=at) for at in range(3)), random(4).abs()), ({2: "n"}, {2: "n"}, {2: "n"}, None))


def test_masks_of_documents() -> None:
    def program(q: Tensor, k: Tensor, v: Tensor, document: Tensor) -> Tensor:
        same = document[:, None, :, None] == document[:, None, None, :]
        return F.scaled_dot_product_attention(q, k, v, attn_mask=same)

    document = torch.tensor([[0, 0, 1, 1, 1, 2], [0, 1, 1, 1, 2, 2]])
    args = *(random(2, 4, 6, 8, seed=at) for at in range(3)), document
    captured = agrees(program, args, ({2: "n"}, {2: "n"}, {2: "n"}, {1: "n"}))
    assert len(renames(captured)) == 1


def test_rotation_by_computed_angles() -> None:
    def program(x: Tensor, position: Tensor, frequency: Tensor) -> Tensor:
        angle = position[:, None].float() * frequency[None]
        a, b = x.chunk(2, -1)
        return torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), -1)

    captured = agrees(program, (random(2, 3, 5, 8), torch.arange(5), random(4)), ({2: "s"}, {0: "s"}, None))
    assert not {"concat", "slice", "split", "merge"} & set(kinds(captured))


def test_latent_attention_with_a_rotary_part() -> None:
    """Queries are cut in their weight: 6 plain and 2 rotary columns of each head."""

    def program(x: Tensor, w_q: Tensor, w_latent: Tensor, w_k: Tensor, w_v: Tensor, cache: Tensor, rotary: Tensor) -> Tensor:
        latent = torch.cat((cache, (x @ w_latent)[:, None]), 1)
        plain, turned = (x @ w_q).view(x.shape[0], 4, -1).split((6, 2), -1)
        keys = torch.einsum("bnc,chd->bnhd", latent, w_k)
        scores = (torch.einsum("bhd,bnhd->bhn", plain, keys) + torch.einsum("bhr,bnr->bhn", turned, rotary)) / math.sqrt(8)
        return torch.einsum("bhn,bnhe->bhe", scores.softmax(-1), torch.einsum("bnc,che->bnhe", latent, w_v)).flatten(1)

    args = random(2, 16), random(16, 32), random(16, 5), random(5, 4, 6), random(5, 4, 3), random(2, 7, 5), random(2, 8, 2)
    captured = agrees(program, args)
    assert not {"slice", "split", "merge"} & set(kinds(captured))


def test_dense_experts() -> None:
    def program(x: Tensor, gate: Tensor, w_in: Tensor, w_out: Tensor) -> Tensor:
        share = F.softmax(x @ gate, -1)
        return torch.einsum("etf,efd,te->td", F.silu(torch.einsum("td,edf->etf", x, w_in)), w_out, share)

    captured = agrees(program, (random(5, 8), random(8, 3), random(3, 8, 6), random(3, 6, 8)), ({0: "t"}, None, None, None))
    assert kinds(captured).count("contract") == 3


def test_a_packed_gated_unit() -> None:
    """The weight is `d (t n)`."""

    def program(x: Tensor, w: Tensor, w_out: Tensor) -> Tensor:
        gate, up = (x @ w).chunk(2, -1)
        return (F.silu(gate) * up) @ w_out

    captured = agrees(program, (random(5, 8), random(8, 12), random(6, 8)), ({0: "m"}, None, None))
    assert pattern(layouts(captured)["w"]) == "a (b c)"
    assert kinds(captured).count("index") == 2


def test_a_language_model_loss() -> None:
    def program(x: Tensor, w: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy((x @ w.T).flatten(0, 1), target.flatten())

    target = torch.tensor([[1, 2, 3, 4, 0], [10, 9, -100, 7, 6]])
    agrees(program, (random(2, 5, 8), random(11, 8), target), ({0: "b"}, None, {0: "b"}))


def test_learnt_relative_positions() -> None:
    def program(q: Tensor, k: Tensor, table: Tensor, bucket: Tensor) -> Tensor:
        return (q @ k.mT + table[bucket].permute(2, 0, 1)).softmax(-1)

    bucket = torch.arange(25).view(5, 5) % 6
    captured = agrees(program, (random(2, 4, 5, 8), random(2, 4, 5, 8, seed=1), random(6, 4), bucket))
    assert kinds(captured).count("gather") == 1


def test_casts_follow_the_program() -> None:
    captured = agrees(lambda x, w: (x @ w).float().softmax(-1).half(), (random(3, 4).half(), random(4, 5).half()))
    dtypes = [(op.kind, op.dtype) for op in captured.graph.ops]
    assert dtypes[:3] == [("input", "f16"), ("input", "f16"), ("contract", "f32")]
    assert dtypes[-1] == ("cast", "f16")
