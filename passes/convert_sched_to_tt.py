"""
Lower tile kernels to Triton's IR: `sched.kernel` becomes `tt.func`, `sched.launch` becomes `sched.launch_func`.

    %x = sched.load %a [m = %m, k = %k] check [m < %m_size] other 0.0 : !sched.tile<[m = 16, k = 32], f16>

becomes a tensor of addresses (the buffer's, plus indices times strides), a mask, and `tt.load`. The host program stays, with
what each function takes as arguments spelled out. Equal up to how Triton rounds: elementwise functions and sums may differ
in the last place. A maximum over a dimension skips NaN, as Triton's does. See `cleave.lowering` for the rules.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from cleave.assembly import names_of
from cleave.dialects import sched
from cleave.lowering.kernels import LoweredKernel, lower_kernel
from cleave.modules import check_single


@dataclass(frozen=True)
class ConvertSchedToTtPass(ModulePass):
    """Lower tile kernels to Triton's IR."""

    name = "convert-sched-to-tt"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        check_single(op)
        lowered: dict[str, tuple[sched.KernelOp, LoweredKernel]] = {}
        for kernel in [kernel for kernel in op.ops if isinstance(kernel, sched.KernelOp)]:
            lowered[kernel.sym_name.data] = kernel, lower_kernel(kernel)
        for launch in [launch for launch in op.walk() if isinstance(launch, sched.LaunchOp)]:
            kernel, function = lowered[launch.kernel]
            counts = names_of(kernel.grid_counts)
            warps, stages = kernel.num_warps.value.data, kernel.num_stages.value.data
            most, registers = (None if entry is None else entry.value.data for entry in (kernel.persistent, kernel.max_registers))
            early, streaming = launch.early is not None, None if launch.streaming is None else launch.streaming.value.data
            call = sched.LaunchFuncOp(
                launch.kernel, launch.buffers, counts, function.scalars, warps, stages, early, most, registers, streaming
            )
            call.location = launch.location
            Rewriter.replace_op(launch, call)
        for kernel, function in lowered.values():
            Rewriter.replace_op(kernel, function.func, [])
