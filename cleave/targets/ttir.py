"""
Target `ttir`: the kernels of a `tt` module in the textual form that Triton's own parser reads.

    cleave-opt kernels.mlir -p convert-sched-to-tt -t 'ttir{kernel=name}' > name.ttir
    triton.compile("name.ttir", target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})
"""

from __future__ import annotations

from dataclasses import dataclass
from io import StringIO
from typing import IO, cast

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, DenseIntOrFPElementsAttr, FloatAttr, ModuleOp, TensorType
from xdsl.printer import Printer
from xdsl.rewriter import Rewriter
from xdsl.utils.target import Target

from cleave.dialects import sched, tt
from cleave.errors import CleaveError
from cleave.modules import check_single
from cleave.runtime.versions import ttir_cache_policy, ttir_descriptor_types

_FOR_READERS = ("dims", "note")


def ttir_text(module: ModuleOp, kernel: str = "") -> str:
    """
    TTIR of one kernel, or of all where no name is given.

    Raises: CleaveError where there is no such kernel or one is not lowered yet.
    """
    check_single(module)
    for op in module.ops:
        if isinstance(op, sched.KernelOp):
            raise CleaveError(op, "is not lowered to Triton's IR", "run convert-sched-to-tt first")
    functions = [op for op in module.ops if isinstance(op, tt.FuncOp) and kernel in ("", op.sym_name.data)]
    if not functions:
        found = f"there is no kernel '{kernel}'" if kernel else "there is no tt.func in the module"
        raise CleaveError(module, found, "" if kernel else "run convert-alg-to-sched,convert-sched-to-tt first")
    out = ModuleOp([op.clone() for op in functions])
    for op in out.walk():
        for name in _FOR_READERS:
            op.attributes.pop(name, None)
    for op in [op for op in out.walk() if isinstance(op, arith.NegfOp)]:
        _subtract_instead(op)
    for op in [op for op in out.walk() if isinstance(op, tt.LoadOp)]:
        op.properties = {"cache": op.cache, "evict": op.evict, **op.properties}
    stream = StringIO()
    Printer(stream, print_generic_format=True).print_op(out)
    text = stream.getvalue()
    for ours, theirs in tt.SPELLED.items():
        text = text.replace(f'"{ours}"(', f'"{theirs}"(')
    for modifier, cache in tt.CACHES.items():
        for hint, evict in tt.EVICTIONS.items():
            ours = f"cache = {cache} : i32, evict = {evict} : i32"
            text = text.replace(ours, ttir_cache_policy(modifier, cache, hint, evict)) if modifier or hint else text
    return ttir_descriptor_types(text) + "\n"


def _subtract_instead(op: arith.NegfOp) -> None:
    """Triton before 3.7 does not lower `arith.negf`; -0 - x is -x for every x, zeros included."""
    kind = op.result.type
    if isinstance(kind, TensorType):
        zero = arith.ConstantOp(DenseIntOrFPElementsAttr.from_list(kind, [-0.0]))
    else:
        zero = arith.ConstantOp(FloatAttr(-0.0, cast("AnyFloat", kind)))
    Rewriter.replace_op(op, [zero, arith.SubfOp(zero.result, op.operand)])


@dataclass(frozen=True)
class TtirTarget(Target):
    """Text for Triton's own parser."""

    name = "ttir"
    kernel: str = ""
    """The kernel to print; all of them by default."""

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        output.write(ttir_text(module, self.kernel))
