"""
Target `triton`: a `tt` module as a Python file of Triton kernels that a person would be willing to edit.

The file stands alone: imports, one `@triton.jit` function a kernel, and for each `sched.program` beside them a `launch`
function over torch tensors. It prints what the IR says and chooses nothing. Only constructs are used that Triton 3.6 to 3.9
compiles and that its CPU interpreter runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.target import Target

from cleave.bridge.plan import plans_of
from cleave.dialects import sched, tt
from cleave.errors import CleaveError
from cleave.modules import check_single
from cleave.runtime.plan import Plan, calls
from cleave.targets.host_text import HostText
from cleave.targets.kernel_text import DESCRIPTOR_HEADER, OVERLAP_HEADER, KernelText
from cleave.targets.names import Names


@dataclass(frozen=True, slots=True)
class TritonFile:
    """The text of a file, and under which name it has each kernel of the module."""

    text: str
    kernels: Mapping[str, str]
    plans: tuple[Plan, ...]


def triton_file(module: ModuleOp) -> TritonFile:
    """The file of a lowered module. Raises: CleaveError for what is not lowered or has no form in Triton."""
    check_single(module)
    for op in module.ops:
        if isinstance(op, sched.KernelOp):
            raise CleaveError(op, "is not lowered to Triton's IR", "run convert-sched-to-tt first")
    functions = [op for op in module.ops if isinstance(op, tt.FuncOp)]
    plans = plans_of(module)
    if not functions and not plans:
        raise CleaveError(module, "there is no tt.func in the module", "run convert-alg-to-sched,convert-sched-to-tt first")
    known = {op.sym_name.data for op in functions}
    for plan in plans:
        for call in calls(plan):
            if call.kernel not in known:
                raise CleaveError(module, f"program @{plan.name} launches @{call.kernel}, which is no tt.func of the module")
    names = Names()
    kernels = {op.sym_name.data: names.fresh(op.sym_name.data) for op in functions}
    hosts = ["launch"] if len(plans) == 1 else [names.fresh(f"launch_{plan.name}") for plan in plans]
    taken = frozenset((*kernels.values(), *hosts))
    title = plans[0].name if len(plans) == 1 else ", ".join(plan.name for plan in plans) or "kernels"
    used = {type(inner) for op in functions for inner in op.walk()}
    # Kernels by themselves are compiled ahead of time, and run by what gives them memory.
    asked = bool(plans) and tt.MakeTensorDescOp in used
    lines = [f'"""Triton kernels of {Names().fresh(title)}."""', "", *(["import torch"] if plans else []), "import triton"]
    lines.append("import triton.language as tl")
    lines += OVERLAP_HEADER if tt.InlineAsmOp in used else ()
    lines += DESCRIPTOR_HEADER if asked else ()
    for op in functions:
        body = KernelText(op, taken)
        lines += ["", "", "@triton.jit", *_signature(kernels[op.sym_name.data], body.arguments), *(body.lines or ["    pass"])]
    for plan, name in zip(plans, hosts, strict=True):
        lines += ["", "", *HostText(plan, name, kernels, taken).lines]
    return TritonFile("\n".join(lines) + "\n", kernels, plans)


def _signature(name: str, arguments: list[str]) -> list[str]:
    text = f"def {name}({', '.join(arguments)}):"
    if len(text) <= 120:
        return [text]
    return [f"def {name}(", *(f"    {argument}," for argument in arguments), "):"]


@dataclass(frozen=True)
class TritonPythonTarget(Target):
    """A readable Python file of Triton kernels with a launch function."""

    name = "triton"

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        output.write(triton_file(module).text)
