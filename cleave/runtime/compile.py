"""
Ahead-of-time compilation: a kernel's machine code and what it needs, without a GPU.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import triton

from ..errors import CleaveError
from .versions import ast_source, gpu_target, ptxas

SHARED_LIMITS = {"sm_80": 166912, "sm_90": 232448, "sm_100": 232448, "gfx942": 65536}


@dataclass(frozen=True, slots=True)
class Compiled:
    """
    A compiled kernel.

    `shared` is in bytes a program, `spilled` in bytes a thread, `registers` a thread's; the last two are 0 where the target's
    assembler does not say. `stages` are Triton's texts by name (ttir, ttgir, ptx or amdgcn).
    """

    name: str
    architecture: str
    shared: int
    registers: int
    spilled: int
    binary: bytes
    stages: Mapping[str, str] = field(default_factory=dict[str, str], compare=False, repr=False)

    @property
    def uses_wgmma(self) -> bool:
        """Whether dots became Hopper's warpgroup instructions."""
        return "wgmma.mma_async" in self.stages.get("ptx", "")

    @property
    def fits(self) -> bool:
        """Whether shared memory suffices on the architecture."""
        return self.shared <= SHARED_LIMITS.get(self.architecture, 0)


def compile_kernel(
    kernel: Any,
    signature: Mapping[str, str],
    architecture: str,
    num_warps: int,
    num_stages: int,
    constants: Mapping[str, int] | None = None,
    divisible: Mapping[str, int] | None = None,
) -> Compiled:
    """
    Compiles a `triton.jit` function for an architecture.

    `signature`, `constants` and `divisible` are by parameter name (see `versions.ast_source`).
    Raises: CleaveError with the compiler's reason.
    """
    source = ast_source(kernel, signature, constants or {}, divisible or {})
    return _compile(source, kernel.__name__, architecture, num_warps, num_stages)


def compile_ttir(text: str, name: str, architecture: str, num_warps: int, num_stages: int) -> Compiled:
    """
    Compiles a module of Triton IR with one public function.

    Raises: CleaveError with the compiler's reason.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.ttir"
        path.write_text(text)
        return _compile(str(path), name, architecture, num_warps, num_stages)


def _compile(source: Any, name: str, architecture: str, num_warps: int, num_stages: int) -> Compiled:
    options = {"num_warps": num_warps, "num_stages": num_stages, "enable_fp_fusion": True}
    try:
        out: Any = cast("Any", triton).compile(source, target=gpu_target(architecture), options=options)
    except Exception as problem:
        lines = [line for line in str(problem).splitlines() if line.strip()]
        reason = lines[-1] if lines else type(problem).__name__
        raise CleaveError("", f"Triton refused it for {architecture}: {reason}", op=name) from problem
    stages = {str(key): value for key, value in out.asm.items() if isinstance(value, str)}
    binary: bytes = out.asm.get("cubin") or out.asm.get("hsaco") or b""
    registers, spilled = _resources(stages, architecture)
    return Compiled(name, architecture, int(out.metadata.shared), registers, spilled, binary, stages)


def _resources(stages: Mapping[str, str], architecture: str) -> tuple[int, int]:
    """Registers and spilled bytes a thread, as the assembler reports them."""
    if "amdgcn" in stages:
        registers = re.search(r"\.vgpr_count:\s*(\d+)", stages["amdgcn"])
        spilled = re.search(r"\.vgpr_spill_count:\s*(\d+)", stages["amdgcn"])
        return int(registers.group(1)) if registers else 0, 4 * int(spilled.group(1)) if spilled else 0
    exact = re.search(r"\.target\s+(sm_\w+)", stages["ptx"])
    assert exact is not None, "PTX without a target"
    assembler = ptxas(int(architecture.removeprefix("sm_")))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.ptx"
        path.write_text(stages["ptx"])
        command = [str(assembler), "-v", f"--gpu-name={exact.group(1)}", str(path), "-o", str(Path(folder) / "kernel.cubin")]
        report = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    registers = re.search(r"Used (\d+) registers", report)
    spilled = re.search(r"(\d+) bytes spill stores", report)
    return int(registers.group(1)) if registers else 0, int(spilled.group(1)) if spilled else 0
