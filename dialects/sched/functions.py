"""What a launch gives to a lowered kernel, beside what that takes."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IndexType, IntegerType, StringAttr, i1, i32, i64
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from cleave.dialects import tt
from cleave.dialects.sched.types import BufferType


def address_type(buffer: BufferType) -> tt.PtrType:
    """The type of a buffer's address: i1 lies in memory as bytes, and index values have 32 bits."""
    element = buffer.element
    return tt.PtrType(IntegerType(8) if element == i1 else i32 if isinstance(element, IndexType) else element)


def check_arguments(function: tt.FuncOp, buffers: Sequence[Attribute], scalars: Sequence[str]) -> None:
    """A function takes the addresses of these buffers and then these scalars. Raises: VerifyException."""
    name, wanted = function.sym_name.data, tuple(function.function_type.inputs)
    given: list[Attribute] = [address_type(buffer) for buffer in buffers if isinstance(buffer, BufferType)]
    given += [i64 if entry.startswith("stride") else i32 for entry in scalars]
    if len(given) != len(wanted):
        raise VerifyException(f"{len(buffers)} buffers and {len(scalars)} scalars are given; function '@{name}' takes {len(wanted)}")
    for position, (one, own) in enumerate(zip(given, wanted, strict=True)):
        if one != own:
            raise VerifyException(f"argument {position} is {one}; function '@{name}' takes {own}")


def check_grid(function: tt.FuncOp, counts: Sequence[str]) -> None:
    """A grid has the dimensions along which a function numbers its programs, where it says which. Raises: VerifyException."""
    dims = function.attributes.get("dims")
    if isinstance(dims, StringAttr) and len(counts) != len(dims.data.split(",")):
        raise VerifyException(f"the grid has {len(counts)} dimensions; function '@{function.sym_name.data}' takes {dims.data}")


def waits(function: tt.FuncOp) -> bool:
    """Whether a function waits for the launches before."""
    return any(isinstance(op, tt.InlineAsmOp) and op.instruction == tt.WAIT for op in function.body.block.ops)
