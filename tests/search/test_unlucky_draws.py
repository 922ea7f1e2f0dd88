"""Functions that are 0 for half of all arguments: at few points a draw may hide what depends on them, and another is taken."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from cleave.frontend import capture
from cleave.search import SearchOptions, superoptimize


def features(x: Tensor) -> Tensor:
    return torch.relu(x)


def shifted(x: Tensor) -> Tensor:
    return torch.relu(x) + 1


def leaky(x: Tensor) -> Tensor:
    return torch.maximum(x, 0.1 * x)


def masked(x: Tensor) -> Tensor:
    return torch.where(x > 0, x, 0.0)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("function", [features, shifted, leaky, masked])
def test_products_are_reassociated_at_any_seed(function: Callable[[Tensor], Tensor], seed: int) -> None:
    """Keys meet values first, so that nothing has an element for every pair of rows."""

    def program(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (function(q) @ function(k).T) @ v

    graph = capture(program, [torch.empty(1024, 64) for _ in range(3)]).graph
    found = superoptimize(graph, SearchOptions(seed=seed, split=False)).alternatives
    assert any(not any({"m", "n"} <= set(op.axes) for op in entry.graph.ops) for entry in found)
