"""Compiling, and calling what is compiled, inside of what is traced: an error at the user's line, and the next turn is free."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import cleave
from cleave.errors import CleaveError

Tensor = torch.Tensor
A, B = torch.ones(4, 8), torch.ones(8, 8)


@cache
def compiled() -> cleave.api.Compiled:
    return cleave.compile(torch.matmul, A, B)


def compiles(a: Tensor, b: Tensor) -> Tensor:
    return cleave.compile(torch.matmul, a, b)(a, b)


def compiles_for_others(a: Tensor, b: Tensor) -> Tensor:
    return a @ cleave.compile(torch.matmul, B, B)(B, B) @ b


def calls(a: Tensor, b: Tensor) -> Tensor:
    return compiled()(a, b) + 1


def calls_with_others(a: Tensor, b: Tensor) -> Tensor:
    return a @ b + compiled()(A, B)


TRACES: Mapping[str, Callable[[Callable[..., Any]], object]] = {
    "cleave": lambda function: cleave.compile(function, A, B),
    "fake": lambda function: make_fx(function, tracing_mode="fake")(A, B),
    "vmap": lambda function: torch.vmap(lambda a: function(a, B))(A.expand(2, 4, 8)),
    "grad": lambda function: torch.func.grad(lambda a: function(a, B).sum())(A),
}


@pytest.mark.parametrize("function", [compiles, compiles_for_others])
def test_compiling_in_what_is_compiled(function: Callable[..., Any]) -> None:
    with pytest.raises(CleaveError, match="called in a function that is being compiled") as caught:
        cleave.compile(function, A, B)
    assert str(caught.value).startswith(f"{__file__}:{function.__code__.co_firstlineno + 1}: error: cleave.compile: ")
    # What failed has left its turn.
    assert torch.equal(cleave.compile(torch.matmul, A, B)(A, B), A @ B)


@pytest.mark.parametrize("function, trace", [*((calls, trace) for trace in TRACES), (calls_with_others, "cleave")])
def test_calling_what_is_compiled_in_what_is_traced(function: Callable[..., Any], trace: str) -> None:
    compiled()
    with pytest.raises(CleaveError, match="is called in a function that is traced") as caught:
        TRACES[trace](function)
    assert re.match(rf"{re.escape(__file__)}:{function.__code__.co_firstlineno + 1}: error: matmul: ", str(caught.value))
    assert torch.equal(compiled()(A, B), A @ B)


@pytest.mark.filterwarnings("ignore:Dynamo does not know how to trace:UserWarning", "ignore:Dynamo detected a call:UserWarning")
def test_torch_compile_around_a_call() -> None:
    compiled()
    assert torch.equal(torch.compile(calls, backend="eager")(A, B), A @ B + 1)
