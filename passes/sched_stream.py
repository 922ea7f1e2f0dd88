"""
Let launches stream their largest input: its lines are the first that the second-level cache evicts.

    sched.launch @product(%x, %w, %y)   ->   sched.launch @product(%x, %w, %y) streaming 1

Which buffer that is, is said in `cleave.schedule.streaming`. Values do not change. For NVIDIA GPUs since Ampere: other launches cannot say
so. Launches that stream already are left as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.passes import ModulePass

from cleave.bridge.sched import program_of
from cleave.dialects import sched
from cleave.errors import CleaveError
from cleave.passes.alg_bind import parse_sizes
from cleave.schedule.program import Launch
from cleave.schedule.streaming import streamed


@dataclass(frozen=True)
class SchedStreamPass(ModulePass):
    """Let launches stream their largest input through the second-level cache."""

    name = "sched-stream"

    least: int = 0
    """How many bytes an input must have."""

    sizes: str = ""
    """The sizes of symbols that are known at run time only, as "m=64,n=4096"."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.least < 0:
            raise CleaveError(op, f"{self.name}: option least is {self.least}", "give at least 0")
        symbols = {name: values[-1] for name, values in parse_sizes(self.sizes, self.name).items()}
        for host in [host for host in op.walk() if isinstance(host, sched.ProgramOp)]:
            launches = [step for step in host.body.block.ops if isinstance(step, sched.LaunchOp)]
            if any(isinstance(step, sched.LaunchFuncOp) for step in host.body.block.ops):
                raise CleaveError(host, "is lowered to Triton's IR", "run sched-stream before convert-sched-to-tt")
            if any(launch.streaming is not None for launch in launches):
                continue
            try:
                program = streamed(program_of(host), symbols, self.least)
            except KeyError as error:
                raise CleaveError(host, f"symbol '{error.args[0]}' has no size", f'give it, as in sizes="{error.args[0]}=64"') from error
            except ValueError as error:
                raise CleaveError(host, f"at these sizes there is a {error}", "give other sizes") from error
            for launch, step in zip(launches, (step for step in program.steps if isinstance(step, Launch)), strict=True):
                if step.streaming:
                    launch.streaming = IntegerAttr(step.buffers.index(step.streaming), i64)
