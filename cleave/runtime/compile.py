"""
Ahead-of-time compilation of generated kernels, for a GPU that need not be here: sm_80, sm_90, sm_100, gfx942 and the like.

Triton cannot compile in a process that imported it under TRITON_INTERPRET; here that is an error.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from xdsl.dialects.builtin import AnyFloat, BFloat16Type, IntegerType, ModuleOp
from xdsl.ir import Attribute

from cleave.bridge.plan import plans_of
from cleave.dialects import tt
from cleave.runtime.binary import Binary, entry_of
from cleave.runtime.generated import load_module
from cleave.runtime.plan import Call, calls
from cleave.runtime.versions import gpu_target, quiet, scratch_bytes
from cleave.targets.triton_python import TritonFile, triton_file
from cleave.targets.ttir import ttir_text

SHARED_LIMITS: Mapping[str, int] = {"sm_80": 166912, "sm_90": 232448, "sm_100": 232448, "gfx942": 65536}
"""Bytes of shared memory that one program may use, by architecture."""


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """
    A compiled kernel: its code in each form by name (ttir, ttgir, llir, ptx or amdgcn, cubin or hsaco), and what it uses.

    Units: shared memory in bytes; registers and spills per thread, spills in 4-byte registers; `scratch` bytes of global memory for
    each program. `arguments` counts those of the kernel itself.
    """

    name: str
    architecture: str
    asm: Mapping[str, str | bytes]
    shared: int
    registers: int
    spills: int
    arguments: int
    scratch: int = 0

    @property
    def wgmma(self) -> int:
        """How many warp-group matrix instructions (Hopper) the code has."""
        return str(self.asm.get("ptx", "")).count("wgmma.mma_async")

    @property
    def binary(self) -> Binary:
        """What a launch through the CUDA driver needs. Raises: KeyError for code of other makers."""
        entry, parameters, threads = entry_of(str(self.asm["ptx"]))
        image = self.asm["cubin"]
        assert isinstance(image, bytes), "a cubin is bytes"
        return Binary(
            self.name,
            self.architecture,
            entry,
            image,
            threads,
            self.shared,
            self.registers,
            self.spills,
            self.arguments,
            parameters - self.arguments,
            self.scratch,
            self.wgmma,
        )


def _triton_type(type_: Attribute) -> str:
    """The type of an argument as a Triton signature spells it."""
    match type_:
        case tt.PtrType(pointee=pointee):
            return f"*{_triton_type(pointee)}"
        case BFloat16Type():
            return "bf16"
        case IntegerType():
            return f"i{type_.bitwidth}"
        case _:
            assert isinstance(type_, AnyFloat), f"{type_} is not the type of an argument"
            return f"fp{type_.bitwidth}"


def compile_kernel(file: TritonFile, func: tt.FuncOp, call: Call, architecture: str) -> CompiledKernel:
    """
    Compiles one kernel of a generated file as it will be launched by `call`.

    Raises: RuntimeError under TRITON_INTERPRET, and what Triton raises for code that it cannot compile.
    """
    _refuse_interpreter()
    import triton
    from triton.compiler import ASTSource

    kernel = getattr(load_module(file.text), file.kernels[func.sym_name.data])
    signature = {name: _triton_type(type_) for name, type_ in zip(kernel.arg_names, func.function_type.inputs, strict=True)}
    attrs: dict[tuple[int, ...], list[list[Any]]] = {}
    for position, entry in enumerate(func.arg_attrs or ()):
        if "tt.divisibility" in entry.data:
            attrs[(position,)] = [["tt.divisibility", 16]]
    source = ASTSource(fn=kernel, signature=signature, constexprs={}, attrs=attrs)
    return _compiled(cast(Any, triton).compile(source, target=gpu_target(architecture), options=options_of(call)), func, architecture)


def compile_ttir(module: ModuleOp, func: tt.FuncOp, call: Call, architecture: str) -> CompiledKernel:
    """Compiles one kernel from its TTIR, through Triton's own parser. Raises: as `compile_kernel`."""
    _refuse_interpreter()
    import triton

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{func.sym_name.data}.ttir"
        path.write_text(ttir_text(module, func.sym_name.data))
        made = cast(Any, triton).compile(str(path), target=gpu_target(architecture), options=options_of(call))
        return _compiled(made, func, architecture)


def compile_module(module: ModuleOp, architecture: str) -> tuple[CompiledKernel, ...]:
    """Compiles every kernel that the programs of a `tt` module launch, once each. Raises: as `compile_kernel`."""
    file = triton_file(module)
    functions = {op.sym_name.data: op for op in module.ops if isinstance(op, tt.FuncOp)}
    launches: dict[str, Call] = {}
    for plan in plans_of(module):
        for call in calls(plan):
            launches.setdefault(call.kernel, call)
    return tuple(compile_kernel(file, functions[name], call, architecture) for name, call in launches.items())


def _refuse_interpreter() -> None:
    if os.environ.get("TRITON_INTERPRET") == "1":
        raise RuntimeError("Triton cannot compile under TRITON_INTERPRET=1; unset it")
    quiet()


def options_of(call: Call) -> dict[str, int]:
    """What Triton is told of a launch when it compiles the kernel."""
    bounded = {"maxnreg": call.max_registers} if call.max_registers else {}
    return {"num_warps": call.num_warps, "num_stages": call.num_stages, **bounded}


def _compiled(result: Any, func: tt.FuncOp, architecture: str) -> CompiledKernel:
    asm: dict[str, str | bytes] = dict(result.asm)
    registers, spills = _amd_usage(str(asm["amdgcn"])) if "amdgcn" in asm else _nvidia_usage(asm["cubin"])
    metadata = result.metadata
    arguments = len(func.function_type.inputs)
    return CompiledKernel(func.sym_name.data, architecture, asm, metadata.shared, registers, spills, arguments, scratch_bytes(metadata))


def _amd_usage(text: str) -> tuple[int, int]:
    """Vector registers and spilled ones, from the notes in the assembly."""

    def number(key: str) -> int:
        found = re.search(rf"\.{key}:\s*(\d+)", text)
        return int(found.group(1)) if found else 0

    return number("vgpr_count"), number("vgpr_spill_count")


def _nvidia_usage(cubin: str | bytes) -> tuple[int, int]:
    """Registers and spilled ones, as the cuobjdump beside Triton's own assembler reads them from the binary."""
    import triton

    assert isinstance(cubin, bytes), "a cubin is bytes"
    tool = Path(str(triton.__file__)).parent / "backends/nvidia/bin/cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        text = subprocess.run([str(tool), "--dump-resource-usage", file.name], capture_output=True, text=True, check=True).stdout
    registers, stack = re.search(r"REG:(\d+)", text), re.search(r"STACK:(\d+)", text)
    assert registers is not None and stack is not None, "cuobjdump reports registers and stack"
    return int(registers.group(1)), int(stack.group(1)) // 4
