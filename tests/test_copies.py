"""Copies of a compiled function, also of other processes: they compute the same, and share nothing that calls change."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

import cleave

Tensor = torch.Tensor
pytestmark = pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # torch warns about its own copying of tree specifications


def chain(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return x @ a @ b


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gain, self.out = torch.nn.Parameter(torch.full((8,), 2.0)), torch.nn.Parameter(torch.ones(8, 4))

    def forward(self, x: Tensor) -> Tensor:
        return (x * self.gain) @ self.out


def copied(compiled: cleave.api.Compiled) -> cleave.api.Compiled:
    return copy.deepcopy(compiled)


def sent(compiled: cleave.api.Compiled) -> cleave.api.Compiled:
    return pickle.loads(pickle.dumps(compiled))


@pytest.mark.parametrize("how", [copy.copy, copied, sent])
@pytest.mark.parametrize(
    "function, inputs, options",
    [
        (chain, [(4, 8), (8, 8), (8, 8)], {}),
        (chain, [(4, 8), (8, 8), (8, 8)], {"weights": ("a", "b")}),
        (chain, [(4, 8), (8, 8), (8, 8)], {"weights": ("a", "b"), "dynamic_shapes": {"x": {0: "m"}, "a": None, "b": None}}),
        (Layer(), [(4, 8)], {}),
        (Layer(), [(4, 8)], {"weights": ("gain", "out")}),
    ],
)
def test_a_copy_computes_the_same(
    how: Callable[[cleave.api.Compiled], cleave.api.Compiled], function: Any, inputs: Sequence[tuple[int, ...]], options: dict[str, Any]
) -> None:
    given = [torch.randn(shape) for shape in inputs]
    with torch.no_grad():
        first = cleave.compile(function, *given, **options)
        wanted = first(*given)
        second = how(first)
        assert torch.equal(second(*given), wanted)
        assert second.text("triton") == first.text("triton")
        assert [entry for entry in second.report().remarks if "prepared" in entry] == [
            entry for entry in first.report().remarks if "prepared" in entry
        ]
    assert second._lock is not first._lock
    assert second._bounds is not first._bounds
    assert second._prepared is None or second._prepared is not first._prepared or how is copy.copy
