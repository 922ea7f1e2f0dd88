"""
From a scheduled program to machine code: lowering and ahead-of-time compilation, in any process, without a GPU.

Compiled kernels are kept in the cache by what they are compiled from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from cleave.bridge.sched import module_of
from cleave.dialects import tt
from cleave.passes.convert_sched_to_tt import ConvertSchedToTtPass
from cleave.runtime.binary import Binary
from cleave.runtime.cache import Store, key_of, mark_of, versions
from cleave.runtime.compile import compile_kernel, options_of
from cleave.runtime.plan import calls
from cleave.schedule.program import Program
from cleave.targets.triton_python import TritonFile, triton_file

_MAKERS = ("cleave.runtime.binary", "cleave.runtime.compile", "cleave.runtime.versions")
"""What makes a kernel of its text, and says what is kept of it: entries of other versions of these are others."""


@dataclass(frozen=True, slots=True)
class Built:
    """
    A program as a Triton file, and the machine code of the kernels that were asked for, by name. `damaged` counts the entries of the cache
    that were found so on the way.
    """

    file: TritonFile
    binaries: Mapping[str, Binary]
    damaged: int = 0


def lowered(program: Program) -> ModuleOp:
    """The `tt` module of a program. Raises: CleaveError for what Triton cannot express."""
    module = module_of(program)
    module.verify()
    ConvertSchedToTtPass().apply(Context(), module)
    module.verify()
    return module


def build(program: Program, architecture: str, wanted: Sequence[int] | None = None, store: Store | None = None) -> Built:
    """
    Lowers a program and compiles the kernels that the `wanted` launches run, by position, all where none are given.

    Raises: CleaveError for what Triton cannot express, and what Triton raises for code that it cannot compile.
    """
    store = store or Store()
    before = store.damaged
    module = lowered(program)
    file = triton_file(module)
    return Built(file, compiled(module, file, architecture, wanted, store), store.damaged - before)


def compiled(
    module: ModuleOp, file: TritonFile, architecture: str, wanted: Sequence[int] | None = None, store: Store | None = None
) -> dict[str, Binary]:
    """The machine code of kernels of a lowered module; arguments and errors as for `build`."""
    store = store or Store()
    out: dict[str, Binary] = {}
    for plan in file.plans:
        for position, call in enumerate(calls(plan)):
            if call.kernel in out or (wanted is not None and position not in wanted):
                continue
            alone = _alone(module, call.kernel)
            text = triton_file(alone)
            func = next(op for op in alone.ops if isinstance(op, tt.FuncOp))
            signature = [str(type_) for type_ in func.function_type.inputs]
            attributes = [str(entry) for entry in func.arg_attrs or ()]
            made_by = versions()[1], mark_of(*_MAKERS)
            key = key_of("kernel", *made_by, text.text, signature, attributes, architecture, *options_of(call).items())
            binary = store.get("kernels", key)
            if not isinstance(binary, Binary):
                binary = compile_kernel(text, func, call, architecture).binary
                store.put("kernels", key, binary)
            out[call.kernel] = binary
    return out


def _alone(module: ModuleOp, kernel: str) -> ModuleOp:
    """A module with one function and no host program, so that its text does not depend on the rest and needs no torch."""
    function = next(op for op in module.ops if isinstance(op, tt.FuncOp) and op.sym_name.data == kernel)
    return ModuleOp([function.clone()])
