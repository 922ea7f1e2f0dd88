"""
Let launches overlap: a launch right after another begins early, and waits before it touches what that one works on.

    sched.launch @first(%x, %s)            ->   sched.launch @first(%x, %s)
    sched.launch @second(%x, %s, %y)            sched.launch @second(%x, %s, %y) early       // sched.wait in its body

Which statements come before the wait is said in `cleave.schedule.overlap`. Values do not change. For NVIDIA GPUs since Hopper: others
have no such launches. Launches that are early already are left as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from cleave.bridge.sched import module_of, program_of
from cleave.dialects import sched
from cleave.errors import CleaveError
from cleave.modules import check_single
from cleave.schedule.overlap import overlapped


@dataclass(frozen=True)
class SchedOverlapPass(ModulePass):
    """Let launches that come right after others begin early."""

    name = "sched-overlap"

    release: bool = True
    """The launch before lets the next one begin as soon as all its own programs have begun; else when they end."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        check_single(op)
        for host in [host for host in op.walk() if isinstance(host, sched.ProgramOp)]:
            launches = [step for step in host.body.block.ops if isinstance(step, sched.LaunchOp)]
            if any(isinstance(step, sched.LaunchFuncOp) for step in host.body.block.ops):
                raise CleaveError(host, "is lowered to Triton's IR", "run sched-overlap before convert-sched-to-tt")
            names = [launch.kernel for launch in launches]
            if len(set(names)) < len(names):
                raise CleaveError(host, "launches a kernel twice", "give each launch a kernel of its own")
            if any(launch.early is not None for launch in launches):
                continue
            program = overlapped(program_of(host), self.release)
            kernels = [kernel for kernel in op.walk() if isinstance(kernel, sched.KernelOp) and kernel.sym_name.data in names]
            places = {kernel.sym_name.data: kernel.location for kernel in kernels}
            made = [inner.detach() or inner for inner in list(module_of(program).body.block.ops)]
            for inner in made:
                own = places.get(inner.sym_name.data) if isinstance(inner, sched.KernelOp) else host.location
                inner.location = own if own is not None else host.location
            for kernel in kernels:
                Rewriter.erase_op(kernel, safe_erase=False)
            Rewriter.replace_op(host, made, [])
