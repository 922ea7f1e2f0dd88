"""The emitted kernels on a GPU, from Python and from TTIR, against the numpy meaning of the tiles."""

from __future__ import annotations

import tempfile
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cleave
from cleave.layouts import axis_strides
from cleave.reference.sched import run_program
from cleave.runtime.execute import Executable, executable, execute
from cleave.runtime.launch import TORCH_DTYPES, load_module
from cleave.runtime.plan import Call, bind_sizes, scalar_value
from cleave.schedule.overlap import overlapped
from cleave.schedule.streaming import streamed
from cleave.targets.ttir import ttir_text
from tests.tile_programs import CASES, Case

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


def tensors(case: Case, ready: Executable) -> list[torch.Tensor]:
    dtypes = [TORCH_DTYPES[buffer.dtype] for buffer in ready.plan.inputs]
    return [torch.from_numpy(x).to("cuda", dtype) for x, dtype in zip(case.inputs(), dtypes, strict=True)]


def compared(case: Case, result: torch.Tensor) -> None:
    """f32 sums in another order and fast division, then one rounding to f16 at most."""
    (expected,) = run_program(case.program(), case.inputs(), case.symbols, rounding=True)
    narrow = result.dtype == torch.float16
    np.testing.assert_allclose(result.double().cpu().numpy(), expected, rtol=2.0**-9 if narrow else 1e-5, atol=1e-3 if narrow else 1e-5)


@pytest.mark.parametrize("name", CASES)
def test_results(name: str) -> None:
    case = CASES[name]
    ready = executable(case.program())
    inputs = tensors(case, ready)
    (result,) = execute(ready, inputs)
    assert isinstance(result, torch.Tensor) and result.is_cuda
    compared(case, result)
    torch.testing.assert_close(load_module(ready.file.text).launch(*inputs), result, rtol=0, atol=0)


@pytest.mark.parametrize("name", CASES)
def test_launches_that_stream_and_overlap_give_the_same(name: str) -> None:
    """Also where they are captured, with their attributes, and replayed on other values."""
    case = CASES[name]
    made = streamed(overlapped(case.program(), True), case.symbols, 0)
    inputs = tensors(case, executable(made))
    ready = executable(made).bind(inputs)
    (result,) = ready(*inputs)
    compared(case, result)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        (captured,) = ready(*inputs)
    for _ in range(3):
        captured.zero_()
        graph.replay()
        assert torch.equal(captured, result)


def test_other_strides_are_copied_or_passed() -> None:
    """A transposed operand does not have the stride 1 that the kernel was made for; one with a row gap has."""
    case = CASES["matmul"]
    ready = executable(case.program())
    a, b = tensors(case, ready)
    wide = torch.zeros(a.shape[0], a.shape[1] + 6, dtype=a.dtype, device="cuda")
    wide[:, : a.shape[1]] = a
    for given in (a.t().contiguous().t(), wide[:, : a.shape[1]]):
        (result,) = execute(ready, [given, b])
        assert isinstance(result, torch.Tensor)
        compared(case, result)


@pytest.mark.parametrize("name", ["matmul", "rows", "streamed"])
def test_ttir_gives_the_same_results(name: str) -> None:
    """Compiled through Triton's parser and launched with the arguments that the plan names."""
    import triton

    case = CASES[name]
    ready = executable(case.program())
    inputs = tensors(case, ready)
    (expected,) = execute(ready, inputs)
    plan = ready.plan
    (call,) = [step for step in plan.steps if isinstance(step, Call)]
    sizes = bind_sizes(plan, [tuple(tensor.shape) for tensor in inputs])
    out = torch.full_like(expected, torch.nan)  # pyright: ignore[reportArgumentType, reportCallIssue]
    everything: list[Any] = [*inputs, out]
    strides = [axis_strides(layout, sizes, tensor.stride()) for layout, tensor in zip(plan.layouts, everything, strict=True)]
    scalars = [scalar_value(scalar, call, sizes, strides) for scalar in call.scalars]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.ttir"
        path.write_text(ttir_text(ready.module, call.kernel))
        kernel: Any = triton.compile(str(path), options={"num_warps": call.num_warps, "num_stages": call.num_stages})
    kernel[(prod(count.evaluate(sizes) for count in call.grid), 1, 1)](*everything, *scalars)
    torch.testing.assert_close(out, expected, rtol=1e-3, atol=1e-3)
    compared(case, out)


@pytest.mark.parametrize("function", [torch.amax, torch.amin], ids=["max", "min"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_a_maximum_keeps_nan(function: Any, dtype: torch.dtype) -> None:
    """Along the contiguous dimension and across it, held whole and in a loop."""
    for shape in ((5, 70), (3, 5000)):
        x = torch.randn(shape, device="cuda").to(dtype)
        x[1, 7] = torch.nan
        for dim in (0, 1):
            found = cleave.compile(lambda x, dim=dim: function(x, dim), x, tune=False)(x)
            torch.testing.assert_close(found, function(x, dim), equal_nan=True, rtol=0, atol=0)
