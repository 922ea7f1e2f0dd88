"""Products of 16-bit types are stored as these where PyTorch rounds them so, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from xdsl.dialects.builtin import ModuleOp

from cleave.bridge.alg import graph_op
from cleave.choosing import searched, space_of
from cleave.frontend import capture
from cleave.schedule import TARGETS


def plain(x: Tensor, w: Tensor) -> Tensor:
    return torch.softmax((x @ w) * 1e-3, -1)


def biased(x: Tensor, w: Tensor) -> Tensor:
    return torch.softmax(torch.addmm(torch.ones((), dtype=x.dtype), x, w), -1)


def scaled_inside(x: Tensor, w: Tensor) -> Tensor:
    return torch.softmax(torch.addmm(torch.ones((), dtype=x.dtype), x, w, alpha=1e-3), -1)


def wide(x: Tensor, w: Tensor) -> Tensor:
    return torch.softmax(torch.mm(x, w, out_dtype=torch.float32) * 1e-3, -1)


def wide_batches(x: Tensor, w: Tensor) -> Tensor:
    return torch.softmax(torch.bmm(x[None], w[None], out_dtype=torch.float32) * 1e-3, -1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("function", "rounds"), [(plain, True), (biased, True), (scaled_inside, False), (wide, False), (wide_batches, False)]
)
def test_only_what_pytorch_rounds_is_stored_in_16_bits(function: Callable[..., Tensor], rounds: bool, dtype: torch.dtype) -> None:
    x, w = torch.zeros(512, 1024, dtype=dtype), torch.zeros(1024, 2048, dtype=dtype)
    captured = capture(function, [x, w])
    settings = {"split": False, "alternatives": 4, "seed": 0, "weights": False}
    bodies, _, _ = searched(ModuleOp([graph_op(captured.graph)]), "", settings, lambda stage: None)
    found = space_of(bodies, {}, TARGETS["h200"], rounded=not captured.unrounded)[1]
    kernels = [kernel for trial in found.trials(300) for kernel in found.program(trial).kernels]
    stored = {buffer.dtype for kernel in kernels for buffer in kernel.buffers if buffer.name.startswith("tmp")}
    assert "f32" in stored and (stored != {"f32"}) == rounds
