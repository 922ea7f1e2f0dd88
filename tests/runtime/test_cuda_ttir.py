"""On a GPU: kernels compiled from TTIR give the results of those compiled from the Python file, for programs that were searched."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import cleave
from cleave.dialects import tt
from cleave.runtime.compile import compile_ttir
from cleave.runtime.execute import Executable, architecture_of, execute
from cleave.runtime.plan import calls
from tests.acceptance.torch_programs import gated, in_a_window, linear_features, normed

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (in_a_window, ((1, 2, 300, 64), (1, 2, 300, 64), (1, 2, 300, 64))),
        (linear_features, ((1, 2, 300, 64), (1, 2, 300, 64), (1, 2, 300, 64))),
        (normed, ((200, 512), (512, 160), (512,), (512,))),
        (gated, ((200, 512), (512,), (512, 160), (512, 160))),
    ],
    ids=["window", "linear", "normed", "gated"],
)
def test_ttir_gives_the_same_results(function: Callable[..., Tensor], shapes: tuple[tuple[int, ...], ...], dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    # The functions build their positions on the CPU, so they are compiled there, and run on the GPU.
    inputs = [torch.randn(shape).to(dtype) for shape in shapes]
    compiled = cleave.compile(function, *inputs, target="h200", tune=False)
    ready = Executable(compiled.program)
    flat = compiled.bindings.flatten([value.cuda() for value in inputs])
    symbols = compiled.bindings.sizes(flat)
    inputs = compiled.bindings.views(flat, symbols)
    architecture = architecture_of(inputs)
    functions = {op.sym_name.data: op for op in ready.module.ops if isinstance(op, tt.FuncOp)}
    binaries = {call.kernel: compile_ttir(ready.module, functions[call.kernel], call, architecture).binary for call in calls(ready.plan)}
    expected, found = execute(ready, inputs, symbols), execute(Executable(ready.module, ready.file, binaries), inputs, symbols)
    for one, other in zip(expected, found, strict=True):
        assert isinstance(one, Tensor) and isinstance(other, Tensor)
        assert torch.isfinite(one).all()
        torch.testing.assert_close(other, one, rtol=0, atol=0)
