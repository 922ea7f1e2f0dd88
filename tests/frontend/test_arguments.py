"""Arguments and results at the edge: nothing to compute, nothing given, tensors that no kernel can read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import cleave

X = torch.arange(6.0).view(2, 3)
NOTHING: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "argument": (lambda x: x, (X,)),
    "number": (lambda a: a + 1, (3,)),
    "none": (lambda x: None, (X,)),
    "structure": (lambda x: {"a": (3, x), "b": [None, "text"]}, (X,)),
}


@pytest.mark.parametrize("name", NOTHING)
def test_nothing_to_compute(name: str) -> None:
    function, args = NOTHING[name]
    compiled = cleave.compile(function, *args)
    assert compiled.kernels == ()
    assert str(compiled(*args)) == str(function(*args))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_nothing_given(dtype: torch.dtype) -> None:
    result = cleave.compile(lambda: torch.ones(3, dtype=dtype))()
    assert isinstance(result, torch.Tensor)
    torch.testing.assert_close(result, torch.ones(3, dtype=dtype))


@pytest.mark.parametrize("x", [X.to_sparse(), X.to("meta")], ids=["sparse", "meta"])
def test_tensors_without_memory_to_read_are_refused(x: torch.Tensor) -> None:
    with pytest.raises(
        cleave.CleaveError, match=r"test_arguments\.py:\d+: error: argument 'x' is \w+ on \w+; pass a dense tensor on cpu or cuda"
    ):
        cleave.compile(lambda x: x * 2, x)


def negated(x: torch.Tensor) -> torch.Tensor:
    """A view of which the negative is read."""
    return torch.complex(torch.zeros_like(x), x).conj().imag


class Shifted(torch.nn.Module):
    """Adds a buffer that is negated when read."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = torch.nn.Buffer(negated(X))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 3 * self.shift


Y = negated(X + 1)
Z = torch.complex(X, X + 1).conj().imag
NEGATED: dict[str, tuple[Callable[..., Any], torch.Tensor, torch.Tensor]] = {
    "at call time": (lambda x: x * 2, X, Y),
    "in the example": (lambda x: x * 2, Y, X),
    "of a conjugate": (lambda x: x.T * 2, Z, Z),
    "repeated": (lambda x: x * 2, Y[:1].expand(2, 3), Y[:1].expand(2, 3)),
    "buffer": (Shifted(), X, Y),
    "constant": (lambda x: x + Y, X, X),
}


@pytest.mark.parametrize("name", NEGATED)
def test_tensors_that_are_negated_when_read(name: str) -> None:
    function, example, x = NEGATED[name]
    compiled = cleave.compile(function, example)
    torch.testing.assert_close(compiled(x), function(x))


def test_kernels_are_named_as_in_their_source() -> None:
    """A program's only kernel, which would have the program's name, and several."""
    matrix = torch.ones(256, 256)
    for function in (lambda x: x.sum(-1), lambda x: (x @ x).softmax(-1) @ x):
        compiled = cleave.compile(function, matrix)
        names = [kernel.name for kernel in compiled.kernels]
        assert names
        assert len(set(names)) == len(names)
        for kernel in compiled.kernels:
            assert f"def {kernel.name}(" in kernel.source
