"""Ahead-of-time compilation of the emitted kernels for each architecture, from Python and from TTIR."""

from __future__ import annotations

import pytest

from cleave.dialects import tt
from cleave.runtime.compile import SHARED_LIMITS, CompiledKernel, compile_kernel, compile_module, compile_ttir
from cleave.runtime.execute import executable
from cleave.runtime.plan import calls
from tests import tile_programs


@pytest.mark.parametrize("architecture", SHARED_LIMITS)
def test_the_loop_compiles_for_each_architecture(architecture: str) -> None:
    (kernel,) = compile_module(executable(tile_programs.streamed()).module, architecture)
    assert kernel.spills == 0
    assert 0 < kernel.shared <= SHARED_LIMITS[architecture]
    assert 0 < kernel.registers <= 512
    assert ("amdgcn" if architecture.startswith("gfx") else "cubin") in kernel.asm


def test_a_large_half_precision_dot_is_wgmma_on_hopper() -> None:
    """64 rows and 4 warps, the least that one warp group's instruction takes."""
    for dtype in ("f16", "bf16"):
        (kernel,) = compile_module(executable(tile_programs.matmul(dtype, 64)).module, "sm_90")
        assert kernel.wgmma > 0
    (small,) = compile_module(executable(tile_programs.matmul("f16", 16)).module, "sm_90")
    assert small.wgmma == 0


def _both(program: object) -> tuple[CompiledKernel, CompiledKernel]:
    ready = executable(program)  # pyright: ignore[reportArgumentType]
    (call,) = calls(ready.plan)
    (func,) = [op for op in ready.module.ops if isinstance(op, tt.FuncOp)]
    return compile_kernel(ready.file, func, call, "sm_90"), compile_ttir(ready.module, func, call, "sm_90")


@pytest.mark.parametrize("build", [tile_programs.streamed, tile_programs.rows])
def test_ttir_compiles_to_like_code(build: object) -> None:
    """Triton's own parser reads the TTIR; the code uses the same resources and instructions."""
    assert callable(build)
    python, ttir = _both(build())
    assert (ttir.shared, ttir.spills, ttir.wgmma) == (python.shared, python.spills, python.wgmma)

    def stores(kernel: CompiledKernel) -> int:
        return str(kernel.asm["ptx"]).count("st.global")

    assert stores(ttir) == stores(python) > 0


def test_the_interpreter_cannot_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    with pytest.raises(RuntimeError, match="unset it"):
        compile_module(executable(tile_programs.rows()).module, "sm_90")
