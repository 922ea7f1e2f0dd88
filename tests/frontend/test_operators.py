"""Each operator agrees with PyTorch in float64, with fixed sizes and with every dimension dynamic. Cases are text: `x, y: x + y`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest
import torch
import torch.nn.functional as F

import cleave
from tests.frontend.agreement import agrees

Tensor = torch.Tensor


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(7 * sum(shape) + len(shape)))


def positive(*shape: int) -> Tensor:
    return random(*shape).abs() + 0.1


def integers(bound: int, *shape: int) -> Tensor:
    return torch.randint(bound, shape, generator=torch.Generator().manual_seed(bound))


def booleans(*shape: int) -> Tensor:
    return random(*shape) > 0


X, Y = random(3, 4), random(3, 4) * 2 + 0.3
SPECIAL = torch.tensor([[0.0, 1.5, -2.0], [math.inf, -math.inf, math.nan]])

CASES: Mapping[str, tuple[str, tuple[Any, ...]]] = {
    "add": ("x, y: x + y", (X, Y)),
    "add_alpha": ("x, y: torch.add(x, y, alpha=3)", (X, Y)),
    "sub_alpha": ("x, y: torch.sub(x, y, alpha=0.5)", (X, Y)),
    "reversed_sub": ("x: 1 - x", (X,)),
    "mul_div": ("x, y: x * 2 / y", (X, Y)),
    "floor_divide": ("x: torch.arange(x.shape[0])[:, None] // 2 + x", (X,)),
    "remainder": ("x: torch.arange(x.shape[1]) % 3 * x", (X,)),
    "pow": ("x: (x**2, x**3, x**0.5, x**-0.5, x**-1, x**4, x**1.7, 2**x)", (positive(3, 4),)),
    "unary": ("x: (x.exp(), x.sin(), x.cos(), x.tanh(), x.sigmoid(), x.abs(), -x, x.erf(), x.square(), x.reciprocal())", (Y,)),
    "special_functions": ("x: (torch.special.erfc(x), torch.special.expm1(x), torch.special.log1p(x.abs()))", (X,)),
    "roots": ("x: (x.sqrt(), x.rsqrt(), x.log(), x.log2(), x.log1p(), x.exp2(), x.expm1(), x.log10())", (positive(3, 4),)),
    "activations": ("x: (F.relu(x), F.silu(x), F.gelu(x), F.gelu(x, approximate='tanh'), F.softplus(x), F.leaky_relu(x))", (Y,)),
    "more_activations": (
        "x: (F.elu(x), F.celu(x, 0.7), F.selu(x), F.mish(x), F.hardswish(x), F.hardsigmoid(x), F.relu6(x), F.logsigmoid(x), F.softsign(x))",
        (Y,),
    ),
    "gated_linear_unit": ("x: (F.glu(x), F.glu(x.exp(), 1))", (Y,)),
    "compositions": ("x, y: (torch.addcmul(x, y, y, value=2), torch.addcdiv(x, y, y.abs() + 1), torch.lerp(x, y, 0.3))", (X, Y)),
    "hyperbolic": ("x: (x.tan(), x.sinh(), x.cosh(), torch.erfc(x), torch.special.expit(x))", (X,)),
    "clamp": ("x: (x.clamp(-0.5, 0.5), x.clamp(min=0.1), x.clamp_max(0.2), x.clamp(max=x.mean()))", (X,)),
    "extremes": ("x, y: (torch.maximum(x, y), torch.minimum(x, y), torch.max(x, y))", (X, Y)),
    "comparisons": ("x, y: (x < y, x <= 0, x > y, x >= 1, x == x, x != y)", (X, Y)),
    "logic": ("x, y: ((x > 0) & (y > 0), (x > 0) | ~(y > 0), (x > 0) ^ (y > 0), torch.logical_not(x > 0))", (X, Y)),
    "where": ("x, y: torch.where(x > 0, x, y)", (X, Y)),
    "where_scalar": ("x: (torch.where(x > 0, x, 0.0), torch.where(x > 0, 1.0, -1.0), torch.where(x > 0, 1, 0))", (X,)),
    "masked_fill": ("x, m: x.masked_fill(m, -1e9)", (X, booleans(4))),
    "masked_fill_tensor": ("x, m: x.masked_fill(m, torch.tensor(2.5))", (X, booleans(3, 1))),
    "special": ("x: (x.isnan(), x.isinf(), x.isfinite(), torch.where(x.isnan(), 0.0, x))", (SPECIAL,)),
    "nan_to_num": ("x: torch.nan_to_num(x, 1.0, 2.0, 3.0)", (SPECIAL,)),
    "sign": ("x: x.sign()", (SPECIAL[:1],)),
    "casts": ("x: (x.to(torch.float64), x.long(), (x > 0).float(), x.bool(), x.int())", (Y,)),
    "type_as": ("x, y: x.double().type_as(y) + y", (X, Y)),
    "broadcasting": ("x, y: x[:, None] * y[None, :]", (random(3), random(4))),
    "broadcasting_batch": ("x, y: x + y", (random(2, 1, 4), random(3, 1))),
    "constants": ("x: (torch.full((2, 3), 1.5), torch.ones(x.shape[0]), torch.zeros_like(x), torch.full_like(x, 2))", (X,)),
    "new_constants": ("x: x.new_ones(x.shape) + x.new_zeros(4) + x.new_full((1,), 3.0)", (X,)),
    "arange": ("x: (torch.arange(x.shape[0]), torch.arange(2.0, 8.0, 1.5), torch.arange(3, x.shape[1] + 3))", (X,)),
    "triangles": ("x: (x.tril(), x.triu(), x.tril(1), x.triu(-1), x.tril(-1), x.triu(1), x.triu(2))", (random(2, 4, 5),)),
    "boolean_triangle": ("x: (x > 0).tril()", (random(4, 5),)),
    "sum": ("x: (x.sum(), x.sum(-1), x.sum((0, 2)), x.sum(1, keepdim=True))", (random(2, 3, 4),)),
    "mean": ("x: (x.mean(), x.mean(-1), x.mean((0, 2), keepdim=True))", (random(2, 3, 4),)),
    "amax": ("x: (x.amax(-1), x.amin((0, 1)), x.max(), x.min(), x.max(1).values, x.min(0, keepdim=True)[0])", (random(2, 3, 4),)),
    "any_all_over_none": ("x: (x.any(()), (x > 0).all(()), (x > 0).any((), True), (x > 0).all(()) * x)", (X,)),
    "reductions_over_none": ("x: (x.sum(()), x.mean((), True), x.amax(()), x.amin((), True), x.std(()), x.logsumexp((), True))", (X,)),
    "any_all": ("x: ((x > 0).any(-1), (x > 0).all(0), (x > 9).any())", (X,)),
    "count": ("x: (x > 0).sum(-1)", (X,)),
    "variance": ("x: (x.var(-1), x.std(0), x.var(-1, unbiased=False), x.var((0, 1), correction=2))", (random(5, 4),)),
    "var_mean": ("x: torch.var_mean(x, dim=-1, correction=0)", (random(5, 4),)),
    "std_mean": ("x: (torch.std_mean(x, -1), torch.aminmax(x, dim=0))", (random(5, 4),)),
    "norms": ("x: (torch.linalg.vector_norm(x, dim=-1), x.norm(dim=-1, keepdim=True), x.norm(p=1, dim=0))", (X,)),
    "normalize": ("x: F.normalize(x, dim=-1)", (X,)),
    "softmax": ("x: (x.softmax(-1), F.softmax(x, dim=0), x.log_softmax(-1), x.logsumexp(-1), x.logsumexp((0, 1)))", (X,)),
    "logsumexp_masked": ("x, m: x.masked_fill(m, -math.inf).logsumexp(-1)", (X, torch.tensor([[True], [False], [True]]))),
    "layer_norm": ("x, w, b: F.layer_norm(x, (x.shape[-1],), w, b)", (random(2, 3, 4), random(4), random(4))),
    "layer_norm_plain": ("x: F.layer_norm(x, x.shape[-2:])", (random(2, 3, 4),)),
    "rms_norm": ("x, w: F.rms_norm(x, (x.shape[-1],), w, eps=1e-6)", (random(2, 3, 4), random(4))),
    "matmul": ("x, y: x @ y", (random(3, 4), random(4, 5))),
    "matmul_batched": ("x, y: x @ y", (random(2, 3, 4), random(2, 4, 5))),
    "matmul_broadcast": ("x, y: x @ y", (random(2, 1, 3, 4), random(6, 4, 5))),
    "matmul_matrix": ("x, y: x @ y", (random(2, 3, 4), random(4, 5))),
    "matmul_vector": ("x, y: (x @ y, y @ x.mT, y @ y)", (random(3, 4), random(4))),
    "mm_bmm": ("x, y: (torch.mm(x[0], y[0]), torch.bmm(x, y))", (random(2, 3, 4), random(2, 4, 5))),
    "addmm": ("b, x, y: torch.addmm(b, x, y, beta=0.5, alpha=2)", (random(5), random(3, 4), random(4, 5))),
    "baddbmm": ("b, x, y: torch.baddbmm(b, x, y)", (random(2, 3, 5), random(2, 3, 4), random(2, 4, 5))),
    "linear": ("x, w, b: F.linear(x, w, b)", (random(2, 3, 4), random(5, 4), random(5))),
    "outer": ("x, y: torch.outer(x, y)", (random(3), random(4))),
    "tensordot": ("x, y: (torch.tensordot(x, y, dims=1), torch.tensordot(x, y, dims=([0], [1])))", (random(3, 4), random(4, 3))),
    "einsum": ("x, y: torch.einsum('bij,bjk->bik', x, y)", (random(2, 3, 4), random(2, 4, 5))),
    "einsum_implicit": ("x, y: torch.einsum('ij,jk', x, y)", (random(3, 4), random(4, 5))),
    "einsum_sum": ("x, y: torch.einsum('ij,kl->il', x, y)", (random(3, 4), random(2, 5))),
    "einsum_three": ("x, y, z: torch.einsum('ab,bc,cd->ad', x, y, z)", (random(3, 4), random(4, 5), random(5, 2))),
    "einsum_ellipsis": ("x, y: torch.einsum('...ij,...jk->...ik', x, y)", (random(2, 3, 4), random(2, 4, 5))),
    "einsum_permuted": ("x: torch.einsum('abc->cab', x) * 2", (random(2, 3, 4),)),
    "sum_of_expanded": ("x: x[:, None].expand(3, 5, 4).sum(1)", (random(3, 4),)),
    "product_over_expanded": ("x: x.sum(1, keepdim=True).expand(3, 4) @ torch.ones(4, 2)", (random(3, 4),)),
    "views": ("x: x.reshape(6, 4).t().reshape(2, 2, 6).permute(2, 0, 1).flatten(1) * 2", (random(2, 3, 4),)),
    "view_infer": ("x: x.view(x.shape[0], -1) + 1", (random(2, 3, 4),)),
    "unflatten": ("x: x.unflatten(-1, (2, 2)).transpose(-1, -2).exp()", (random(3, 4),)),
    "squeeze": ("x: (x * 2).squeeze(1) + x[:, 0].unsqueeze(0)", (random(3, 1, 4),)),
    "movedim": ("x: x.movedim(0, -1) + 1", (random(2, 3, 4),)),
    "repeat": ("x: (x.repeat(2, 3), x.repeat_interleave(2, 0), x.repeat(2, 1, 1), x.repeat_interleave(3))", (random(3, 4),)),
    "expand": ("x: x[:, None, :].expand(-1, 5, -1).exp()", (random(3, 4),)),
    "select": ("x: (x[0] + 1, x[:, -1] + 1, x[1, 2] * 2, x[..., 1].exp())", (random(3, 4),)),
    "slice_equal": ("x: (x[:, :4].exp(), x[:, 4:].exp(), x[:, 2:4].exp())", (random(3, 8),)),
    "slice_uneven": ("x: (x[:, 1:4].exp(), x[1:].exp(), x[:, :-1].exp(), x[:, 1::2].exp())", (random(3, 7),)),
    "slice_computed": ("x: (x.exp()[:, 1:4] * 2, x.exp()[1:] + 1, (x + x)[:, ::3] * 2)", (random(3, 7),)),
    "shift_difference": ("x: x[1:] - x[:-1]", (random(6, 3),)),
    "narrow": ("x: x.narrow(1, 2, 3) + 1", (random(3, 7),)),
    "split": ("x: sum(part.exp() for part in x.split(2, dim=1))", (random(3, 6),)),
    "split_uneven": ("x: [part.exp() for part in x.split((1, 2, 4), dim=1)]", (random(3, 7),)),
    "chunk": ("x: (lambda a, b: F.silu(a) * b)(*x.chunk(2, dim=-1))", (random(3, 8),)),
    "unbind": ("x: (lambda a, b, c: a * b + c)(*x.unbind(0))", (random(3, 8),)),
    "cat_equal": ("x, y: torch.cat((x, y), dim=1)", (random(3, 4), random(3, 4) + 1)),
    "cat_uneven": ("x, y: torch.cat((x, y.exp()), dim=0) * 2", (random(3, 4), random(5, 4))),
    "cat_single": ("x, y: torch.cat((x, y), dim=0) * 2", (random(1, 4), random(5, 4))),
    "cat_itself": ("x: torch.cat((x, x, x[:1]), dim=0) + 1", (random(3, 4),)),
    "hstack": ("x, y: (torch.hstack((x, y)), torch.vstack((x, y)), torch.hstack((x[0], y[0])), torch.vstack((x[0], y[0])))", (X, Y)),
    "stack": ("x, y: (torch.stack((x, y)), torch.stack((x, y, x), dim=-1))", (X, Y)),
    "pad": ("x: F.pad(x.exp(), (1, 2, 0, 3), value=0.5)", (random(3, 4),)),
    "sdpa": ("q, k, v: F.scaled_dot_product_attention(q, k, v)", (random(2, 3, 5, 4), random(2, 3, 6, 4), random(2, 3, 6, 4))),
    "sdpa_scale": ("q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.3)", (random(5, 4), random(6, 4), random(6, 7))),
    "sdpa_bias": (
        "q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m)",
        (random(2, 3, 5, 4), random(2, 3, 6, 4), random(2, 3, 6, 4), random(3, 5, 6)),
    ),
    "dropout_off": ("x: F.dropout(x, 0.5, training=False) + 1", (X,)),
    "embedding": ("i, w: F.embedding(i, w)", (integers(7, 2, 3), random(7, 4))),
    "index": ("x, i: (x[i], x[:, i])", (random(5, 6), integers(5, 3))),
    "index_from_end": ("x, i: (x[i - 5], x[:, i - 3], x.mT[i - 2])", (random(5, 6), integers(5, 3))),
    "index_select": ("x, i: x.index_select(1, i) * 2", (random(3, 6), integers(6, 4))),
    "gather": ("x, i: x.gather(1, i)", (random(3, 6), integers(6, 3, 4))),
    "take_along_dim": ("x, i: torch.take_along_dim(x, i, dim=0)", (random(5, 3), integers(5, 2, 3))),
    "cross_entropy": ("x, t: F.cross_entropy(x, t)", (random(5, 6), integers(6, 5))),
    "cross_entropy_sum": ("x, t: F.cross_entropy(x, t, reduction='sum', ignore_index=2)", (random(5, 6), integers(6, 5))),
    "cross_entropy_none": ("x, t: F.cross_entropy(x, t, reduction='none')", (random(2, 6, 5), integers(6, 2, 5))),
    "nll_loss": ("x, t: F.nll_loss(x.log_softmax(-1), t)", (random(5, 6), integers(6, 5))),
    "one_hot": ("i: F.one_hot(i, 7)", (integers(7, 2, 3),)),
    "l1_loss": ("x, y: (F.l1_loss(x, y), F.binary_cross_entropy_with_logits(x, (y > 0).float()))", (X, Y)),
    "mse_loss": ("x, y: (F.mse_loss(x, y), F.mse_loss(x, y, reduction='none'))", (X, Y)),
    "cosine_similarity": ("x, y: F.cosine_similarity(x, y, dim=-1)", (X, Y)),
    "in_place_on_a_copy": ("x: x.clone().mul_(2).add_(1)", (X,)),
    "filled": ("x: (torch.zeros_like(x).fill_(3), (x * 2).fill_(x.sum()) + x, x.clone().zero_() + x, (x > 0).fill_(True))", (X,)),
    "filled_integers": ("x: (torch.zeros(2, dtype=torch.long).fill_(3.7), (x * 2).long().fill_(2))", (X,)),
    "filled_parts": ("x: filled_parts(x)", (X,)),
    "in_place_row": ("x: doubled_row(x)", (X,)),
    "size_arithmetic": ("x: x * x.shape[0] + x.sum(0) / x.shape[1] + x.numel()", (X,)),
    "fixed_arguments": ("x, s, d: x.sum(d['dim']) * s", (X, 2.5, {"dim": 1})),
    "structures": ("p: {'a': p['x'] + p['y'][0], 'b': [p['x'] * 2, None, 3]}", ({"x": X, "y": (Y,)},)),
}  # fmt: skip


def function_of(text: str) -> Callable[..., Any]:
    """The function of a case: its parameters, a colon, and what it returns."""
    return eval(f"lambda {text}", {"torch": torch, "F": F, "math": math, "doubled_row": doubled_row, "filled_parts": filled_parts})


def filled_parts(x: Tensor) -> tuple[Tensor, Tensor]:
    out, truth = x * 2, x > 0
    out[0] = 3
    out[:, -1] = x.sum()
    out[1].zero_()
    truth[1] = True
    truth[2].fill_(False)
    return out, truth


def doubled_row(x: Tensor) -> Tensor:
    out = x * 1
    out[1] *= 2
    return out


@pytest.mark.parametrize("name", CASES)
def test_operators_agree_with_fixed_sizes(name: str) -> None:
    text, args = CASES[name]
    agrees(function_of(text), args)


GROUP_NORMS: Mapping[str, tuple[str, tuple[Any, ...]]] = {
    "group_norm": ("x, w, b: F.group_norm(x, 2, w, b)", (random(2, 6, 5), random(6), random(6))),
    "group_norm_image": ("x: F.group_norm(x, 3)", (random(2, 6, 2, 3),)),
    "pixel_unshuffle": ("x: F.pixel_unshuffle(x, 2) * 2", (random(2, 3, 4, 6),)),
    "batch_norm": (
        "x, m, v, w, b: F.batch_norm(x, m, v, w, b)",
        (random(2, 6, 5), random(6), positive(6), random(6), random(6)),
    ),
    "slice_large": ("x: x[:, :40] * 2", (random(3, 50),)),
    "singletons": ("x, y: (x @ y, x.sum(0), (x * y.mT).softmax(-1))", (random(1, 4), random(4, 1))),
    "numbers": ("x: (x.sum() * 2).exp()", (torch.tensor(0.5),)),
}


@pytest.mark.parametrize("name", GROUP_NORMS)
def test_more_operators_agree_with_fixed_sizes(name: str) -> None:
    text, args = GROUP_NORMS[name]
    agrees(function_of(text), args)


# Every dimension is dynamic where the program does not write a size of its own.
DYNAMIC = (
    "add", "pow", "clamp", "comparisons", "where", "masked_fill", "casts", "broadcasting", "constants", "arange",
    "triangles", "sum", "mean", "amax", "any_all", "count", "variance", "norms", "softmax", "layer_norm", "layer_norm_plain", "rms_norm",
    "matmul", "matmul_batched", "matmul_broadcast", "matmul_matrix", "matmul_vector", "mm_bmm", "addmm", "baddbmm", "linear", "outer",
    "einsum", "einsum_implicit", "einsum_sum", "einsum_three", "einsum_ellipsis", "einsum_permuted", "view_infer", "movedim", "repeat",
    "expand", "select", "shift_difference", "cat_equal", "cat_uneven", "stack", "pad", "embedding", "index", "index_select",
    "cross_entropy", "cosine_similarity", "size_arithmetic", "structures", "floor_divide", "slice_computed", "slice_uneven",
)  # fmt: skip


@pytest.mark.parametrize("name", DYNAMIC)
def test_operators_agree_with_dynamic_sizes(name: str) -> None:
    text, args = CASES[name]
    agrees(function_of(text), args, tuple(_all_dynamic(arg) for arg in args), calls=[tuple(_resized(arg) for arg in args)])


OTHER_SIZES = {1: 1, 2: 3, 3: 5, 4: 6, 5: 7, 6: 8, 7: 9}


def _resized(arg: Any) -> Any:
    """The same structure with every size changed, equal sizes alike."""
    return _mapped(arg, _other, ...)


def _other(x: Tensor) -> Tensor:
    shape = [OTHER_SIZES[size] for size in x.shape]
    if x.dtype == torch.bool:
        return booleans(*shape)
    return random(*shape) if x.dtype.is_floating_point else integers(int(x.max()) + 1, *shape)


def _all_dynamic(arg: Any) -> Any:
    return _mapped(arg, lambda x: {dim: torch.export.Dim.DYNAMIC for dim, size in enumerate(x.shape) if size != 1}, None)


def _mapped(arg: Any, function: Callable[[Tensor], Any], other: Any) -> Any:
    """A structure with its tensors mapped; what is no tensor becomes `other`, or stays where that is `...`."""
    if isinstance(arg, Tensor):
        return function(arg)
    if isinstance(arg, dict):
        return {key: _mapped(value, function, other) for key, value in cast("dict[str, Any]", arg).items()}
    if isinstance(arg, tuple):
        return tuple(_mapped(value, function, other) for value in cast("tuple[Any, ...]", arg))
    return arg if other is ... else other


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_the_floor_of_a_norm_that_names_none(dtype: torch.dtype) -> None:
    """Small rows, where it matters: PyTorch takes that of the dtype it computes in."""
    torch.manual_seed(0)
    x = (torch.randn(4, 64) * 1e-2).to(dtype)
    found = cleave.compile(lambda x: F.rms_norm(x, (64,)), x)(x)
    wanted = F.rms_norm(x, (64,))
    torch.testing.assert_close(found, wanted, rtol=4 * torch.finfo(dtype).eps, atol=0)


def test_remainders_are_exact() -> None:
    """Near multiples, and where the quotient has more digits than the dtype."""
    x, y = torch.tensor([1.0, 2.0, 0.3, 0.7, 1e8, -1.0]), torch.tensor([0.1, 0.2, 0.1, 0.1, 3.0, 0.1])
    for function in (lambda x, y: x % y, lambda x, y: x // y):
        torch.testing.assert_close(cleave.compile(function, x, y)(x, y), function(x, y), rtol=0, atol=0)
    for dtype in (torch.float16, torch.bfloat16):
        a, b = x[:4].to(dtype), y[:4].to(dtype)
        torch.testing.assert_close(cleave.compile(lambda x, y: x % y, a, b)(a, b), a % b, rtol=0, atol=0)


SMALL: Mapping[str, Callable[[Tensor], Tensor]] = {
    "log1p": torch.log1p,
    "expm1": torch.expm1,
    "softplus": F.softplus,
    "logsigmoid": F.logsigmoid,
    "elu": F.elu,
    "selu": F.selu,
    "celu": F.celu,
    "sinh": torch.sinh,
    "erfc": torch.erfc,
    "loss": lambda x: F.binary_cross_entropy_with_logits(x, (x > 0).to(x.dtype), reduction="none"),
}


@pytest.mark.parametrize("name", SMALL)
def test_digits_that_a_difference_would_lose(name: str) -> None:
    """Small arguments, those where a series ends, and those with small results: ten units in the last place of f32."""
    function = SMALL[name]
    sizes = torch.cat((10.0 ** torch.arange(-30, 0), torch.linspace(0.3, 0.8, 51), torch.tensor([3.0, 5.0, 9.0])))
    x = sizes if name in ("log1p", "loss") else torch.cat((sizes, -sizes))
    torch.testing.assert_close(cleave.compile(function, x)(x).double(), function(x.double()), rtol=10 * 2.0**-23, atol=1e-40)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_numbers_beyond_the_type_are_infinite(dtype: torch.dtype) -> None:
    x = torch.tensor([1.0, -2.0, 3.0e-30], dtype=dtype)
    for factor in (1e300, -1e300, 1e38):
        torch.testing.assert_close(cleave.compile(lambda x, factor=factor: x * factor, x)(x), x * factor)


def test_infinities_of_functions_made_of_series() -> None:
    x = torch.tensor([math.inf, -math.inf, math.nan, -1.0, -2.0, 90.0, -90.0])
    for function in (torch.log1p, torch.expm1, torch.erfc, F.softplus, F.elu):
        torch.testing.assert_close(cleave.compile(function, x)(x), function(x), rtol=1e-6, atol=0, equal_nan=True)
