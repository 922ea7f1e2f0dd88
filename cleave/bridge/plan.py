"""The host plan of a lowered program: `sched.program` whose launches are `sched.launch_func`."""

from __future__ import annotations

from typing import Literal, cast

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from cleave.assembly import names_of
from cleave.bridge.sched import plain_buffer
from cleave.dialects import sched
from cleave.errors import CleaveError
from cleave.extents import extent
from cleave.runtime.plan import Call, Plan, Scalar, Step
from cleave.schedule.program import Allocate, Buffer, LibraryCall


def scalar_of(text: str) -> Scalar:
    """The scalar argument that a text of `sched.launch_func` names."""
    kind, *rest = text.split()
    match kind:
        case "stride":
            position, axis, _, divisor = rest
            return Scalar("stride", axis, int(position), int(divisor))
        case "count":
            return Scalar("count", position=int(rest[0]))
        case _:
            return Scalar(cast(Literal["size"], kind), rest[0])


def plan_of(op: sched.ProgramOp) -> Plan:
    """The plan of a program. Raises: CleaveError for a launch that is not lowered."""
    values: dict[SSAValue, str] = {}
    buffers: list[Buffer] = []
    for name, argument in zip(names_of(op.buffer_names), op.body.block.args, strict=True):
        values[argument] = name
        buffers.append(plain_buffer(name, argument.type))
    steps: list[Step] = []
    for step in op.body.block.ops:
        match step:
            case sched.AllocateOp():
                values[step.out] = step.buffer_name.data
                steps.append(Allocate(plain_buffer(step.buffer_name.data, step.out.type), step.zeroed is not None))
            case sched.LibraryCallOp():
                args = tuple(values[arg] for arg in step.args)
                steps.append(LibraryCall(step.callee.data, values[step.out], args, names_of(step.over)))
            case sched.LaunchFuncOp():
                names = tuple(values[buffer] for buffer in step.buffers)
                steps.append(
                    Call(
                        step.kernel,
                        names,
                        tuple(extent(count) for count in names_of(step.grid)),
                        tuple(scalar_of(text) for text in names_of(step.scalars)),
                        step.num_warps.value.data,
                        step.num_stages.value.data,
                        step.early is not None,
                        step.persistent.value.data if step.persistent else 0,
                        step.max_registers.value.data if step.max_registers else 0,
                        "" if step.streaming is None else names[step.streaming.value.data],
                    )
                )
            case _:
                raise CleaveError(step, "is not lowered to Triton's IR", "run convert-sched-to-tt first")
    count = op.input_count.value.data
    sizes = tuple((axis, extent(size)) for axis, size in op.sizes)
    return Plan(op.sym_name.data, tuple(buffers[:count]), tuple(buffers[count:]), names_of(op.layouts), sizes, tuple(steps))


def plans_of(module: ModuleOp) -> tuple[Plan, ...]:
    """The plans of the programs in a lowered module. Raises: CleaveError as `plan_of`."""
    return tuple(plan_of(op) for op in module.ops if isinstance(op, sched.ProgramOp))
