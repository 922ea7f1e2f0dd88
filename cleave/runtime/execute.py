"""
From a scheduled program to results: lowering it, and running it on CPU tensors (interpreter) or CUDA tensors (compiled).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from cleave.bridge.sched import module_of
from cleave.errors import CleaveError
from cleave.passes.convert_sched_to_tt import ConvertSchedToTtPass
from cleave.passes.tt_emulate_bf16 import TtEmulateBf16Pass
from cleave.reference.dtypes import rounded
from cleave.runtime.interpreter import INTERPRETER
from cleave.runtime.launch import TORCH_DTYPES, Bound, bind
from cleave.runtime.plan import Plan
from cleave.schedule.program import Program
from cleave.targets.triton_python import TritonFile, triton_file

Tensor: TypeAlias = torch.Tensor | NDArray[Any]


def lowered(program: Program) -> ModuleOp:
    """The `tt` module of a program. Raises: CleaveError for what Triton cannot express."""
    module = module_of(program)
    module.verify()
    ConvertSchedToTtPass().apply(Context(), module)
    module.verify()
    return module


@dataclass(frozen=True)
class Executable:
    """
    A lowered module with one program, ready to run.

    `file` is what a GPU compiles, `interpreted` the same with bf16 emulated in f32, for the CPU.
    """

    module: ModuleOp

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

    def bind(self, inputs: Sequence[torch.Tensor], symbols: Mapping[str, int] | None = None) -> Bound:
        """The program for CUDA tensors of these shapes and strides. Raises: CleaveError for inputs that do not fit."""
        return bind(self.plan, self.file.text, self.file.kernels, inputs, symbols)


def executable(program: Program | ModuleOp) -> Executable:
    """A program or a `tt` module, ready to run. Raises: CleaveError."""
    return Executable(program if isinstance(program, ModuleOp) else lowered(program))


def execute(
    program: Program | ModuleOp | Executable, tensors: Sequence[Tensor], symbols: Mapping[str, int] | None = None
) -> tuple[Tensor, ...]:
    """
    Runs a program on tensors in memory layout: on CUDA tensors compiled, on CPU tensors and numpy arrays interpreted.

    Results are numpy arrays for numpy arrays (bf16 as float32), else torch tensors on the inputs' device.
    Raises: CleaveError for tensors that do not fit the program.
    """
    ready = program if isinstance(program, Executable) else executable(program)
    if any(isinstance(tensor, torch.Tensor) and tensor.is_cuda for tensor in tensors):
        inputs = [tensor if isinstance(tensor, torch.Tensor) else torch.from_numpy(tensor) for tensor in tensors]
        return ready.bind(inputs, symbols)(*inputs)
    plan = ready.plan
    if len(tensors) != len(plan.inputs):
        raise CleaveError(None, f"{plan.name} takes {len(plan.inputs)} inputs; {len(tensors)} are given")
    arrays = [_array(tensor, buffer.name, buffer.dtype) for tensor, buffer in zip(tensors, plan.inputs, strict=True)]
    results = INTERPRETER.run(ready.interpreted.plans[0], ready.interpreted.text, ready.interpreted.kernels, arrays, symbols)
    if all(isinstance(tensor, torch.Tensor) for tensor in tensors) and tensors:
        return tuple(torch.from_numpy(result).to(TORCH_DTYPES[buffer.dtype]) for result, buffer in zip(results, plan.outputs, strict=True))
    return tuple(results)


def _array(tensor: Tensor, name: str, dtype: str) -> NDArray[Any]:
    """The array that the interpreter takes: bf16 as float32, numpy floats of another type rounded to the program's."""
    if isinstance(tensor, torch.Tensor):
        if tensor.dtype != TORCH_DTYPES[dtype]:
            raise CleaveError(None, f"input '{name}' is {tensor.dtype}", f"the program takes {TORCH_DTYPES[dtype]}")
        return (tensor.float() if dtype == "bf16" else tensor).detach().contiguous().numpy()
    if dtype == "bf16":
        return rounded(tensor.astype(np.float64), "bf16").astype(np.float32)
    kinds = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "i1": np.bool_, "i32": np.int32}
    return tensor.astype(kinds.get(dtype, np.int64))
