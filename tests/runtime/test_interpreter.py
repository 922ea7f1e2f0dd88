"""The CPU interpreter's worker: bfloat16 is honoured, failures are reported and survived."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cleave.runtime.interpreter import Call, Interpreter, InterpreterError
from cleave.runtime.interpreter_worker import bf16_decoded, bf16_encoded

SOURCE = """
import triton
import triton.language as tl


@triton.jit
def product(a, b, c, scale, T: tl.constexpr):
    i = tl.arange(0, T)
    x = tl.load(a + i[:, None] * T + i[None, :])
    y = tl.load(b + i[:, None] * T + i[None, :])
    tl.store(c + i[:, None] * T + i[None, :], (tl.dot(x, y) * scale).to(tl.bfloat16))


@triton.jit
def broken(a):
    tl.store(a + tl.arange(0, 3), 0.0)
"""


def bits(tensor: torch.Tensor) -> np.ndarray[tuple[int, ...], np.dtype[np.int16]]:
    return tensor.view(torch.int16).numpy()


def test_a_bf16_dot_multiplies_values_and_rounds_to_nearest() -> None:
    """Products of 8-bit significands are exact in float32 and 32 terms stay far from its precision: results are equal."""
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(32, 32, generator=generator).bfloat16() for _ in range(2))
    worker = Interpreter()
    try:
        buffers = {"a": bits(a), "b": bits(b), "c": np.zeros((32, 32), np.int16)}
        dtypes = dict.fromkeys(buffers, "bf16")
        out = worker.run(SOURCE, [Call("product", (1,), ("a", "b", "c", 2), {"T": 32})], buffers, ["c"], dtypes)
        found = torch.from_numpy(out["c"]).view(torch.bfloat16)
        exact = (a.double() @ b.double() * 2).float()
        nearest = exact.bfloat16()
        assert ((found.float() - exact).abs() <= (nearest.float() - exact).abs() * (1 + 1e-3) + exact.abs() * 1e-6).all()
        with pytest.raises(InterpreterError, match="power of 2|power of two"):
            worker.run(SOURCE, [Call("broken", (1,), ("a",))], buffers, [], dtypes)
        again = worker.run(SOURCE, [Call("product", (1,), ("a", "b", "c", 2), {"T": 32})], buffers, ["c"], dtypes)
        np.testing.assert_array_equal(again["c"], out["c"])
    finally:
        worker.close()


def test_bf16_bits_are_those_of_torch() -> None:
    values = torch.randn(4096, generator=torch.Generator().manual_seed(1)) * 10.0 ** torch.arange(-20, 20).repeat(103)[:4096]
    halfway = torch.tensor([1.00390625, 1.01171875, -1.00390625, float("inf"), float("-inf"), 0.0, -0.0, 3.4e38, 1e-40])
    for case in (values, halfway):
        encoded = bf16_encoded(case.numpy())
        np.testing.assert_array_equal(encoded.view(np.int16), bits(case.bfloat16()))
        np.testing.assert_array_equal(bf16_decoded(encoded), case.bfloat16().float().numpy())
    assert np.isnan(bf16_decoded(bf16_encoded(np.array([np.nan], np.float32)))).all()
