"""
From a scheduled program to results: lowering it, and running it on CPU tensors (interpreter) or CUDA tensors (compiled).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from cleave.errors import CleaveError
from cleave.passes.tt_emulate_bf16 import TtEmulateBf16Pass
from cleave.reference.dtypes import rounded
from cleave.runtime.binary import Binary
from cleave.runtime.build import compiled, lowered
from cleave.runtime.cuda import CudaBound
from cleave.runtime.interpreter import INTERPRETER
from cleave.runtime.launch import TORCH_DTYPES, Bound, TritonKernels
from cleave.runtime.plan import Plan
from cleave.schedule.program import Program
from cleave.targets.triton_python import TritonFile, triton_file

Tensor: TypeAlias = torch.Tensor | NDArray[Any]


class Executable:
    """
    A lowered module with one program, ready to run.

    `file` is what a GPU compiles, `interpreted` the same with bf16 emulated in f32, for the CPU. Made from a program, it is lowered
    when that is needed; `file` and `binaries`, machine code by kernel for one architecture, may be given where they are known.
    """

    def __init__(self, source: Program | ModuleOp, file: TritonFile | None = None, binaries: Mapping[str, Binary] | None = None) -> None:
        self._source = source
        self._binaries: dict[str, Mapping[str, Binary]] = {}
        if file is not None:
            self.file = file
        for binary in (binaries or {}).values():
            self._binaries.setdefault(binary.architecture, binaries or {})

    @cached_property
    def module(self) -> ModuleOp:
        """The `tt` module."""
        return self._source if isinstance(self._source, ModuleOp) else lowered(self._source)

    @cached_property
    def file(self) -> TritonFile:
        """The Triton file of the module."""
        return triton_file(self.module)

    @cached_property
    def interpreted(self) -> TritonFile:
        """The Triton file that the CPU interpreter runs."""
        copy = self.module.clone()
        TtEmulateBf16Pass().apply(Context(), copy)
        return triton_file(copy)

    @property
    def plan(self) -> Plan:
        """The host plan. Raises: CleaveError where the module has not exactly one program."""
        if len(self.file.plans) != 1:
            raise CleaveError(self.module, f"the module has {len(self.file.plans)} programs", "run one at a time")
        return self.file.plans[0]

    def binaries(self, architecture: str) -> Mapping[str, Binary]:
        """The machine code of the kernels, compiled where it is not known. Raises: what Triton raises for code it cannot compile."""
        if architecture not in self._binaries:
            self._binaries[architecture] = compiled(self.module, self.file, architecture)
        return self._binaries[architecture]

    def bind(
        self,
        inputs: Sequence[torch.Tensor],
        symbols: Mapping[str, int] | None = None,
        shapes: Sequence[Sequence[int]] | None = None,
    ) -> Bound:
        """
        The program for tensors of these shapes and strides on a GPU; `shapes` are those of the results where they should differ from
        the layouts'. Raises: CleaveError for inputs that do not fit.
        """
        if torch.version.hip is not None:
            # AMD's kernels are compiled and launched by Triton.
            return Bound(self.plan, TritonKernels(self.file.text, self.file.kernels), inputs, symbols, shapes)
        return CudaBound(self.plan, self.binaries(architecture_of(inputs)), inputs, symbols, shapes)


def architecture_of(inputs: Sequence[torch.Tensor]) -> str:
    """The architecture of the GPU that tensors are on, `sm_90` for Hopper; of the current one where there are none."""
    major, minor = torch.cuda.get_device_capability(inputs[0].device if inputs else None)
    return f"sm_{major}{minor}"


def executable(program: Program | ModuleOp) -> Executable:
    """A program or a `tt` module, ready to run. Raises: CleaveError."""
    return Executable(program if isinstance(program, ModuleOp) else lowered(program))


def execute(
    program: Program | ModuleOp | Executable, tensors: Sequence[Tensor], symbols: Mapping[str, int] | None = None
) -> tuple[Tensor, ...]:
    """
    Runs a program on tensors in memory layout: on CUDA tensors compiled, on CPU tensors and numpy arrays interpreted.

    Results are numpy arrays for numpy arrays (bf16 as float32), else torch tensors on the inputs' device, without inputs the CPU.
    Raises: CleaveError for tensors that do not fit the program.
    """
    ready = program if isinstance(program, Executable) else executable(program)
    tensors = [tensor.resolve_neg() if isinstance(tensor, torch.Tensor) else tensor for tensor in tensors]
    if any(isinstance(tensor, torch.Tensor) and tensor.is_cuda for tensor in tensors):
        inputs = [tensor if isinstance(tensor, torch.Tensor) else torch.as_tensor(tensor) for tensor in tensors]
        return ready.bind(inputs, symbols)(*inputs)
    plan = ready.plan
    if len(tensors) != len(plan.inputs):
        raise CleaveError(None, f"{plan.name} takes {len(plan.inputs)} inputs; {len(tensors)} are given")
    arrays = [_array(tensor, buffer.name, buffer.dtype) for tensor, buffer in zip(tensors, plan.inputs, strict=True)]
    results = INTERPRETER.run(ready.interpreted.plans[0], ready.interpreted.text, ready.interpreted.kernels, arrays, symbols)
    if all(isinstance(tensor, torch.Tensor) for tensor in tensors):
        return tuple(torch.as_tensor(result).to(TORCH_DTYPES[buffer.dtype]) for result, buffer in zip(results, plan.outputs, strict=True))
    return tuple(results)


def _array(tensor: Tensor, name: str, dtype: str) -> NDArray[Any]:
    """The array that the interpreter takes: bf16 as float32, numpy floats of another type rounded to the program's."""
    if isinstance(tensor, torch.Tensor):
        if tensor.dtype != TORCH_DTYPES[dtype]:
            raise CleaveError(None, f"input '{name}' is {tensor.dtype}", f"the program takes {TORCH_DTYPES[dtype]}")
        return (tensor.float() if dtype == "bf16" else tensor).detach().contiguous().numpy()
    if dtype == "bf16":
        return rounded(tensor.astype(np.float64), "bf16").astype(np.float32)
    kinds = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "i1": np.bool_, "i32": np.int32, "index": np.int32}
    return tensor.astype(kinds.get(dtype, np.int64))
