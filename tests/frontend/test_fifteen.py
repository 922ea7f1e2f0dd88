"""Fifteen programs in which dimensions are split, shared, swapped and renamed; structure is checked, not only values."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from cleave.errors import CleaveError
from cleave.frontend import capture
from tests.frontend.agreement import agrees, kinds, layouts, pattern, renames

Tensor = torch.Tensor


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


def test_attention_needs_no_rename() -> None:
    def program(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.softmax(q @ k.transpose(-2, -1) / 4.0, dim=-1) @ v

    shapes = random(2, 4, 6, 16), random(2, 4, 10, 16), random(2, 4, 10, 16)
    for dynamic in (None, ({2: "m"}, {2: "n"}, {2: "n"})):
        captured = agrees(program, shapes, dynamic)
        assert not renames(captured)
        assert kinds(captured).count("contract") == 2


def test_repeated_heads_of_keys_are_absent_axes() -> None:
    """q is `b (h g) m d`, k is `b h n d`; g is absent from k."""

    def repeat_kv(x: Tensor, times: int) -> Tensor:
        b, h, n, d = x.shape
        return x[:, :, None, :, :].expand(b, h, times, n, d).reshape(b, h * times, n, d)

    def program(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        k, v = repeat_kv(k, 3), repeat_kv(v, 3)
        return F.softmax(q @ k.mT * 0.25, dim=-1) @ v

    for dynamic in (None, ({0: "b", 2: "m"}, {0: "b", 2: "n"}, {0: "b", 2: "n"})):
        captured = agrees(program, (random(2, 12, 6, 16), random(2, 4, 10, 16), random(2, 4, 10, 16)), dynamic)
        assert [pattern(entry.layout) for entry in captured.graph.inputs] == ["a (b c) d e", "a b c d", "a b c d"]
        assert not renames(captured)
        assert set(kinds(captured)) <= {"input", "contract", "constant", "mul", "reduce", "sub", "exp", "div"}


def test_a_masked_row_of_grouped_attention_gives_zero() -> None:
    def program(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)

    mask = torch.ones(6, 10, dtype=torch.bool)
    mask[2] = False
    for dynamic in (None, (None, {2: "n"}, {2: "n"}, {1: "n"})):
        captured = agrees(program, (random(2, 12, 6, 16), random(2, 4, 10, 16), random(2, 4, 10, 8), mask), dynamic)
        assert pattern(layouts(captured)["q"]) == "a (b c) d e"


def test_self_attention_renames_the_keys_and_the_values() -> None:
    """wq is `(h g d) c`, wk `(h d) c`, wv `(h e) c`, wo `o (h g e)`; x as keys and as values is renamed."""

    def program(x: Tensor, wq: Tensor, wk: Tensor, wv: Tensor, wo: Tensor) -> Tensor:
        b, s, _ = x.shape
        q = F.linear(x, wq).view(b, s, 6, 4).transpose(1, 2)
        k = F.linear(x, wk).view(b, s, 2, 4).transpose(1, 2).repeat_interleave(3, dim=1)
        v = F.linear(x, wv).view(b, s, 2, 4).transpose(1, 2).repeat_interleave(3, dim=1)
        out = F.softmax(q @ k.mT * 0.5, dim=-1) @ v
        return F.linear(out.transpose(1, 2).reshape(b, s, -1), wo)

    args = random(2, 5, 7), random(24, 7), random(8, 7), random(8, 7), random(9, 24)
    for dynamic in (None, ({0: "b", 1: "s"}, None, None, None, None)):
        captured = agrees(program, args, dynamic)
        found = layouts(captured)
        assert [pattern(found[name]) for name in ("wq", "wk", "wv", "wo")] == ["(a b c) d", "(a b) c", "(a b) c", "a (b c d)"]
        assert len(renames(captured)) == 2
        assert kinds(captured).count("contract") == 6


class Llama(torch.nn.Module):
    """A pre-norm layer: grouped attention with rotary positions, and a gated unit."""

    def __init__(self, width: int = 24, heads: int = 6, shared: int = 2, hidden: int = 20) -> None:
        super().__init__()
        self.heads, self.shared, self.size = heads, shared, width // heads
        self.norm = torch.nn.RMSNorm(width, eps=1e-6)
        self.q = torch.nn.Linear(width, heads * self.size, bias=False)
        self.k = torch.nn.Linear(width, shared * self.size, bias=False)
        self.v = torch.nn.Linear(width, shared * self.size, bias=False)
        self.o = torch.nn.Linear(heads * self.size, width, bias=False)
        self.post_norm = torch.nn.RMSNorm(width, eps=1e-6)
        self.gate = torch.nn.Linear(width, hidden, bias=False)
        self.up = torch.nn.Linear(width, hidden, bias=False)
        self.down = torch.nn.Linear(hidden, width, bias=False)

    def rotated(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        half = x.shape[-1] // 2
        turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
        return x * cos[:, None] + turned * sin[:, None]

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        b, s, _ = x.shape
        h = self.norm(x)
        q = self.q(h).view(b, s, self.heads, self.size).transpose(1, 2)
        k = self.k(h).view(b, s, self.shared, self.size).transpose(1, 2)
        v = self.v(h).view(b, s, self.shared, self.size).transpose(1, 2)
        q, k = self.rotated(q, cos, sin), self.rotated(k, cos, sin)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(out.transpose(1, 2).reshape(b, s, -1))
        h = self.post_norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


def test_a_llama_layer_needs_no_reshape() -> None:
    """wq is `(h g t r) c`, wk `(h t r) c`; nine contractions, two renames."""
    torch.manual_seed(0)
    layer = Llama().eval()
    for dynamic in (None, ({0: "b", 1: "s"}, {0: "b", 1: "s"}, {0: "b", 1: "s"})):
        captured = agrees(layer, (random(2, 5, 24), random(2, 5, 4), random(2, 5, 4)), dynamic)
        found = layouts(captured)
        assert [pattern(found[name]) for name in ("q_weight", "k_weight")] == ["(a b c d) e", "(a b c) d"]
        assert kinds(captured).count("contract") == 9
        assert len(renames(captured)) == 2
        assert not {"split", "merge", "concat", "slice"} & set(kinds(captured))
        assert {entry.name for entry in captured.graph.inputs if entry.weight} == {
            f"{name}_weight" for name in ("norm", "q", "k", "v", "o", "post_norm", "gate", "up", "down")
        }


def test_rotation_of_halves_is_two_indexes_and_a_stack() -> None:
    """x is `b h s (t r)`."""

    def program(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        half = x.shape[-1] // 2
        return x * cos + torch.cat((-x[..., half:], x[..., :half]), dim=-1) * sin

    for dynamic in (None, ({2: "s"}, {0: "s"}, {0: "s"})):
        captured = agrees(program, (random(2, 3, 5, 8), random(5, 8), random(5, 8)), dynamic)
        assert pattern(layouts(captured)["x"]) == "a b c (d e)"
        assert kinds(captured).count("index") == 2
        assert not {"concat", "slice", "split", "merge", "rename"} & set(kinds(captured))


def test_interleaved_rotation_splits_the_inner_axis() -> None:
    """x is `b s h (r t)`."""

    def program(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        even, odd = x[..., ::2], x[..., 1::2]
        c, s = cos[:, None, :], sin[:, None, :]
        return torch.stack((even * c - odd * s, even * s + odd * c), dim=-1).flatten(-2)

    for dynamic in (None, ({1: "s"}, {0: "s"}, {0: "s"})):
        captured = agrees(program, (random(2, 5, 3, 8), random(5, 4), random(5, 4)), dynamic)
        assert pattern(layouts(captured)["x"]) == "a b c (d e)"
        assert captured.graph.axis(captured.graph.inputs[0].axes[-1]).extent.constant == 2
        assert kinds(captured).count("index") == 2


@pytest.mark.parametrize("spelling", ["tril", "triu", "arange"])
def test_masks_of_equal_sizes_keep_their_axes_apart(spelling: str) -> None:
    """Rows and columns are both 6 long and stay two axes; no mask is stored."""

    def program(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        m, n = q.shape[-2], k.shape[-2]
        if spelling == "tril":
            mask = torch.tril(torch.ones(m, n, dtype=torch.bool))
        elif spelling == "triu":
            mask = torch.triu(torch.ones(m, n), diagonal=1) == 0
        else:
            mask = torch.arange(n)[None, :] <= torch.arange(m)[:, None]
        scores = torch.where(mask, q @ k.mT, float("-inf"))
        return F.softmax(scores, dim=-1) @ v

    args = random(2, 6, 8), random(2, 6, 8), random(2, 6, 8)
    for dynamic in (None, ({1: "m"}, {1: "n"}, {1: "n"})):
        captured = agrees(program, args, dynamic)
        assert not renames(captured)
        assert len(captured.graph.inputs) == 3
        assert {op.attr[0] for op in captured.graph.ops if op.kind == "iota"} == {
            captured.graph.inputs[0].axes[1],
            captured.graph.inputs[1].axes[1],
        }


def test_a_sum_with_its_transpose_swaps() -> None:
    def program(x: Tensor) -> Tensor:
        a = x @ x.mT
        return a + a.mT

    for dynamic in (None, ({0: "n"},)):
        captured = agrees(program, (random(5, 7),), dynamic)
        first, second = renames(captured)
        assert len(first) == 1
        assert dict(second) == {second[0][0]: second[1][0], second[1][0]: second[0][0]}


def test_a_product_with_the_transpose_is_one_swap() -> None:
    for dynamic in (None, ({0: "n", 1: "n"},)):
        captured = agrees(lambda x: x * x.T, (random(6, 6),), dynamic)
        (swap,) = renames(captured)
        assert {old for old, _ in swap} == {new for _, new in swap}
        assert len(swap) == 2


def test_a_packed_projection_is_unbound_by_an_axis() -> None:
    """The weight is `(t h d) c`."""

    def program(x: Tensor, w: Tensor) -> Tensor:
        b, s, _ = x.shape
        q, k, v = F.linear(x, w).view(b, s, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        return F.scaled_dot_product_attention(q, k, v)

    for dynamic in (None, ({1: "s"}, None)):
        captured = agrees(program, (random(2, 5, 7), random(24, 7)), dynamic)
        assert pattern(layouts(captured)["w"]) == "(a b c) d"
        assert not {"split", "merge", "slice"} & set(kinds(captured))


def test_pixel_shuffle_is_a_layout() -> None:
    for dynamic in (None, ({0: "n"},)):
        captured = agrees(lambda x: F.pixel_shuffle(x, 2), (random(3, 8, 5, 6),), dynamic)
        assert kinds(captured) == ["input"]
        assert pattern(captured.graph.inputs[0].layout) == "a (b c d) e f"
        assert pattern(captured.graph.outputs[0].layout) == "a b (c d) (e f)"
        a, b, c, d, e, f = captured.graph.inputs[0].axes
        assert captured.graph.outputs[0].layout == f"{a} {b} ({e} {c}) ({f} {d})"


def test_two_factorings_of_one_axis_are_reshapes() -> None:
    def program(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
        return (x.view(4, 6) * y).sum(0).sum() + (torch.exp(x).view(3, 8) * z).sum(1)

    captured = agrees(program, (random(24), random(4, 6), random(3, 8)))
    assert {"merge", "split"} & set(kinds(captured)) or len(captured.graph.inputs) == 4


def test_an_argument_under_two_factorings_is_two_views() -> None:
    captured = agrees(lambda x: (x.view(4, 6).sum(0), x.view(3, 8).sum(1)), (random(24),))
    assert [entry.name for entry in captured.graph.inputs] == ["x", "x_1"]
    assert not {"merge", "split", "rename"} & set(kinds(captured))


def test_a_permuted_reshape_against_itself() -> None:
    def program(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        r = x.reshape(4, 2, 2).permute(0, 2, 1).reshape(4, 4)
        a = 2 * y + 1
        return y @ r, a + r, r + r

    agrees(program, (random(4, 4), random(4, 4, seed=1)))


def test_writing_to_an_argument_ends_the_region() -> None:
    def program(c: Tensor, x: Tensor) -> Tensor:
        c.add_(x)
        a = c * 2
        c.zero_()
        return a + c

    line = program.__code__.co_firstlineno + 1
    with pytest.raises(CleaveError, match=rf"test_fifteen.py:{line}: error: add_: writes to 'c' in place, which ends the region"):
        capture(program, (random(3), random(3)))


def test_returning_a_view_of_an_argument_is_refused() -> None:
    with pytest.raises(CleaveError, match=r"error: transpose: returns a view of 'x'.*; return a clone"):
        capture(lambda x: x.transpose(0, 1), (random(3, 4),))
