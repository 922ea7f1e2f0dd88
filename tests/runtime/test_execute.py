"""Hand-written tile programs through the emitted Triton, under the CPU interpreter, against the numpy meaning of the level above."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from cleave.reference.dtypes import rounded
from cleave.reference.sched import run_program
from cleave.runtime.execute import executable, execute
from cleave.runtime.interpreter import INTERPRETER
from cleave.schedule.program import Program
from tests import tile_programs
from tests.tile_programs import CASES


@pytest.mark.parametrize("name", CASES)
def test_interpreted_kernels_agree_with_the_tiles(name: str) -> None:
    """The same roundings in both; sums of at most 64 f32 products in another order, then one rounding to f16 at most."""
    case = CASES[name]
    inputs = case.inputs()
    program = case.program()
    expected = run_program(program, inputs, case.symbols, rounding=True)
    results = execute(program, inputs)
    narrow = program.outputs[0].dtype == "f16"
    for one, other in zip(results, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2.0**-10 if narrow else 1e-5, atol=1e-3 if narrow else 1e-5)


@pytest.mark.parametrize("name", CASES)
def test_the_emitted_file_stands_alone(name: str) -> None:
    """Its own `launch` gives what the runtime gives, to the last bit."""
    case = CASES[name]
    ready = executable(case.program())
    arrays = [x.astype({"f16": np.float16, "f32": np.float32}[b.dtype]) for x, b in zip(case.inputs(), ready.plan.inputs, strict=True)]
    for one, other in zip(INTERPRETER.launch(ready.file.text, arrays), execute(ready, arrays), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("build", [tile_programs.matmul, tile_programs.rows, tile_programs.streamed])
def test_bf16_is_rounded_to_nearest(build: Callable[[str], Program]) -> None:
    """bf16 has 8 bits: one unit in the last place of difference only where f32 sums in another order straddle a tie."""
    program = build("bf16")
    case = CASES[program.name]
    inputs = [rounded(x, "bf16") for x in case.inputs()]
    (expected,) = run_program(program, inputs, case.symbols, rounding=True)
    result = np.asarray(execute(program, inputs)[0], np.float64)
    np.testing.assert_allclose(result, expected, rtol=2.0**-7, atol=1e-6)
    assert np.equal(result, expected).mean() > 0.98
    np.testing.assert_array_equal(result, rounded(result, "bf16"))
    tensors = [torch.from_numpy(x).to(torch.bfloat16) for x in inputs]
    (tensor,) = execute(program, tensors)
    assert isinstance(tensor, torch.Tensor) and tensor.dtype == torch.bfloat16
    np.testing.assert_array_equal(tensor.float().numpy(), result)
