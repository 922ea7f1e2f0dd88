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
