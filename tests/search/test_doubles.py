"""Programs that compute in f64 what they are given in f32 stay as they are written."""

from __future__ import annotations

import torch

import cleave


def test_casts_to_f64_keep_their_place() -> None:
    torch.manual_seed(0)
    x = torch.randn(17, 33)
    compiled = cleave.compile(lambda x: x.double().softmax(-1), x)
    assert (compiled(x) - x.double().softmax(-1)).abs().max() < 1e-15
    assert len(cleave.compile(lambda x: x.double().softmax(-1).double(), x.double()).text("alternatives").split("alternative ")) > 2
