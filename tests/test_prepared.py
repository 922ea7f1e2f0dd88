"""What depends on weights alone is computed once: by `prepare`, or by the first call that meets the weights."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

import cleave
from cleave.api import Compiled
from cleave.errors import CleaveError

QUICK: Any = {"tune": False, "alternatives": 3, "split": False}


def chain(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return x @ a @ b


def normed(x: Tensor, g: Tensor, w: Tensor) -> Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * g @ w.t()


def absorbed(c: Tensor, x: Tensor, up: Tensor, wq: Tensor) -> Tensor:
    """Scores of latent attention: queries and keys are made from x and a small c by weights of their own."""
    return torch.einsum("mhd,nhd->hmn", torch.einsum("mk,khd->mhd", x, wq), torch.einsum("nl,lhd->nhd", c, up))


def random(*shapes: Sequence[int]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(len(shapes))
    return [torch.randn(*shape, generator=generator) * 0.3 for shape in shapes]


def inputs_of(compiled: Compiled) -> list[str]:
    return [buffer.name for buffer in compiled.program.inputs]


def right(compiled: Compiled, function: Callable[..., Tensor], *inputs: Tensor) -> None:
    """Sums of f32 in another order."""
    exact = function(*(tensor.double() for tensor in inputs))
    assert float((compiled(*inputs).double() - exact).norm() / exact.norm()) < 1e-5


@pytest.fixture(scope="module")
def chained() -> Compiled:
    return cleave.compile(chain, *random((8, 64), (64, 128), (128, 32)), weights=("a", "b"), **QUICK)


def counted(compiled: Compiled) -> int:
    assert compiled._prepared is not None
    return compiled._prepared.count


def test_a_product_of_weights_is_an_input(chained: Compiled) -> None:
    """x (a b) is computed as one product, of which a b was computed by the first call; b alone in place of a is other weights."""
    assert inputs_of(chained) == ["x", "prepared_0"]
    x, a, b = random((8, 64), (64, 128), (128, 32))
    before = counted(chained)
    for scale in (1, 2, 3):
        right(chained, chain, x * scale, a, b)
    assert counted(chained) == before + 1
    right(chained, chain, x, a + 1, b)
    assert counted(chained) == before + 2
    assert f"prepared {counted(chained)} times: f32 [" in str(chained.report()) and "from a, b" in str(chained.report())


def test_a_call_after_prepare_computes_nothing_again(chained: Compiled) -> None:
    x, a, b = random((8, 64), (64, 128), (128, 32))
    chained.prepare(a, b)
    before = counted(chained)
    right(chained, chain, x, a, b)
    assert counted(chained) == before


@pytest.mark.parametrize("inference", [False, True])
def test_changed_weights_are_seen(chained: Compiled, inference: bool) -> None:
    """In place, as torch counts; for what it does not count, after `prepare`, in the memory that graphs know."""
    with torch.inference_mode(inference):
        x, a, b = random((8, 64), (64, 128), (128, 32))
        right(chained, chain, x, a, b)
        assert chained._prepared is not None
        (kept,) = chained._prepared.ready([x, a, b])
        a.mul_(2)
        before = counted(chained)
        if inference:
            chained.prepare(a, b)
        right(chained, chain, x, a, b)
        a.data = a + 1
        right(chained, chain, x, a, b)
        assert counted(chained) == before + 2
        assert chained._prepared.ready([x, a, b])[0] is kept


def test_turned_weights_are_seen() -> None:
    """A transpose by `.data` moves nothing and counts as no change, and the weight has other values all the same."""
    x, a, b = random((8, 64), (64, 64), (64, 32))
    compiled = cleave.compile(chain, x, a, b, weights=("a", "b"), **QUICK)
    for _ in range(3):
        right(compiled, chain, x, a, b)
        a.data = a.data.t()


def test_results_go_with_their_weights(chained: Compiled) -> None:
    """Sets of weights are kept beside each other, and forgotten when one of them is gone."""
    assert chained._prepared is not None
    x, a, b = random((8, 64), (64, 128), (128, 32))
    other = b + 1
    before = counted(chained)
    for _ in range(3):
        right(chained, chain, x, a, b)
        right(chained, chain, x, a, other)
    assert counted(chained) == before + 2
    kept = len(chained._prepared._kept)
    del other
    gc.collect()
    assert len(chained._prepared._kept) == kept - 1
    right(chained, chain, x, a, b)
    assert counted(chained) == before + 2


def test_a_gain_goes_into_the_weight_behind_it() -> None:
    inputs = random((8, 64), (64,), (32, 64))
    compiled = cleave.compile(normed, *inputs, weights=(1, 2), **QUICK)
    assert inputs_of(compiled) == ["x", "prepared_0"]
    right(compiled, normed, *inputs)


def test_latent_attention_absorbs_its_projections() -> None:
    """Few rows, many keys: c up wq x, of which up wq is known, takes less than making every key."""
    inputs = random((256, 16), (4, 32), (16, 4, 32), (32, 4, 32))
    compiled = cleave.compile(absorbed, *inputs, weights=("up", "wq"), **QUICK)
    assert any(name.startswith("prepared") for name in inputs_of(compiled))
    right(compiled, absorbed, *inputs)


class Layer(torch.nn.Module):
    """Two projections in a row."""

    def __init__(self) -> None:
        super().__init__()
        a, b = random((64, 128), (128, 32))
        self.a, self.b = torch.nn.Parameter(a), torch.nn.Parameter(b)

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.a @ self.b


def test_parameters_are_weights_where_they_are_named() -> None:
    layer, (x,) = Layer(), random((8, 64))
    plain = cleave.compile(layer, x, **QUICK)
    assert plain._prepared is None
    compiled = cleave.compile(layer, x, weights=dict(layer.named_parameters()), **QUICK)
    assert inputs_of(compiled) == ["x", "prepared_0"]
    compiled.prepare()
    for change in (lambda: None, lambda: layer.a.mul_(2), lambda: setattr(layer.b, "data", layer.b + 1)):
        with torch.no_grad():
            change()
            torch.testing.assert_close(compiled(x), layer(x), rtol=1e-5, atol=1e-5)
    assert counted(compiled) == 3


def test_nothing_is_prepared_unless_asked() -> None:
    inputs = random((8, 64), (64, 128), (128, 32))
    choices: list[dict[str, Any]] = [{}, {"weights": (1, 2), "prepare": False}, {"weights": ("x",)}]
    for options in choices:
        compiled = cleave.compile(chain, *inputs, **options, **QUICK)
        assert compiled._prepared is None and "prepared" not in str(compiled.report())
        compiled.prepare(*(inputs[place] for place in ([0] if options.get("weights") == ("x",) else options.get("weights", ()))))


def test_symbolic_weights_stay() -> None:
    """What has no size when compiling is computed in the call; the weights are those of the last call."""
    x, a, b = random((8, 64), (64, 128), (128, 32))
    dynamic: Any = (None, {1: "l"}, {0: "l"})
    compiled = cleave.compile(chain, x, a, b, dynamic_shapes=dynamic, weights=(1, 2), **QUICK)
    assert compiled._prepared is None
    right(compiled, chain, x, a[:, :100], b[:100])
    compiled.prepare(a, b)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a, b: (a,), "1 weight is given; compiled for 2: a, b"),
        (lambda a, b: (a, b, b), "3 weights are given; compiled for 2: a, b"),
        (lambda a, b: (a, None), "argument 'b' is None, compiled for a tensor"),
        (lambda a, b: (a.half(), b), "argument 'a' is torch.float16, compiled for torch.float32"),
        (lambda a, b: (b, a), "dimension 0 of argument 'a' has size 128, compiled for 64"),
        (lambda a, b: (a[0], b), "argument 'a' has 1 dimension, compiled for 2"),
    ],
)
def test_other_weights_are_refused(chained: Compiled, change: Callable[..., tuple[Any, ...]], message: str) -> None:
    _, a, b = random((8, 64), (64, 128), (128, 32))
    with pytest.raises(CleaveError, match=message):
        chained.prepare(*change(a, b))


def test_an_unknown_weight_is_named() -> None:
    layer, (x,) = Layer(), random((8, 64))
    with pytest.raises(CleaveError, match="'c', which is not an argument; the arguments are x, the parameters and buffers a, b"):
        cleave.compile(layer, x, weights=("c",), **QUICK)
