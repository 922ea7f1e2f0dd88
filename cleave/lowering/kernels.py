"""
One `sched.kernel` as a `tt.func`: its arguments, and where a program is in the grid.

- All dimensions of the grid are one in the launch, as only x may have more than 65535 programs; `cleave.lowering.grid` numbers them.
- A program of a persistent kernel loops over tiles; what no tile changes is before that loop.
- Arguments: addresses, then the strides, sizes and counts that the body uses. A stride is passed divided by what is known
  to divide it, so the compiler sees the factor.
- Index values are 32 bits: an extent may not reach 2^31.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast as typed

from xdsl.dialects import scf
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, StringAttr, UnitAttr, i32, i64
from xdsl.ir import Attribute, Block, Region, SSAValue

from cleave.assembly import names_of
from cleave.dialects import sched, tt
from cleave.errors import CleaveError
from cleave.extents import extent
from cleave.lowering.functions import Functions
from cleave.lowering.grid import Count, placed, product
from cleave.lowering.memory import Memory
from cleave.lowering.statements import Statements
from cleave.lowering.tensors import Blocks, Tensor, multiply
from cleave.lowering.values import Values, name


@dataclass(frozen=True, slots=True)
class LoweredKernel:
    """A function and the scalar arguments that it takes after the addresses, as `sched.launch_func` names them."""

    func: tt.FuncOp
    scalars: tuple[str, ...]


def lower_kernel(op: sched.KernelOp) -> LoweredKernel:
    """The function of a verified kernel. Raises: CleaveError for what Triton cannot express."""
    try:
        return _Lowering(op).finish()
    except CleaveError as error:
        raise error if error.place else CleaveError(op, error.found, error.advice) from error


class _Lowering:
    def __init__(self, op: sched.KernelOp) -> None:
        self.op = op
        self.block = Block()
        self.scalars: list[str] = []
        self.pointers: dict[SSAValue, SSAValue] = {}
        buffers = list(zip(names_of(op.buffer_names), op.buffer_arguments, strict=True))
        for called, buffer in buffers:
            self.pointers[buffer] = self.argument(sched.address_type(typed(sched.BufferType, buffer.type)), f"{called}_ptr")
        strides: dict[tuple[SSAValue, str], SSAValue] = {}
        for position, (called, buffer) in enumerate(buffers):
            type_ = typed(sched.BufferType, buffer.type)
            for axis, stride in type_.stride.items():
                if stride is None:
                    told = f"stride {position} {axis} by {type_.divisor.value.data}"
                    strides[buffer, axis] = self.scalar(i64, f"{called}_stride_{axis}", told)
        sizes = [
            self.scalar(i32, size.name_hint or f"{called}_size", f"size {called}")
            for called, size in zip(names_of(op.sizes), op.size_arguments, strict=True)
        ]
        counts: list[Count] = []
        for position, (dim, _, count) in enumerate(op.grid):
            known = extent(count).constant
            counts.append(self.scalar(i32, f"{dim}_programs", f"count {position}") if known is None else known)
        self.blocks = Blocks(self.block)
        self.functions = Functions(self.blocks)
        self.values = Values(self.blocks)
        self.values.tensors |= {size: Tensor(value) for size, value in zip(op.size_arguments, sizes, strict=True)}
        self.memory = Memory(op, self.pointers, strides, self.functions, self.values)
        self.tiles: scf.ForOp | None = None
        self.place_program(counts)

    def argument(self, type_: Attribute, called: str) -> SSAValue:
        out = self.block.insert_arg(type_, len(self.block.args))
        if SSAValue.is_valid_name(called):
            out.name_hint = called
        return out

    def scalar(self, type_: Attribute, called: str, told: str) -> SSAValue:
        """An argument that launches find by what it is told to be."""
        self.scalars.append(told)
        return self.argument(type_, called)

    def place_program(self, counts: Sequence[Count]) -> None:
        """The starts of the program along each dimension of the grid, from its number."""
        grid = self.op.grid
        if not grid:
            return
        number = Tensor(self.blocks.value(tt.GetProgramIdOp(0)))
        if self.op.persistent:
            number = self.open_tiles(number, counts)
        elif [tile for _, tile, _ in grid] != [1]:
            number.value.name_hint = "program"
        places = placed(self.functions, number, counts, self.op.group.value.data if self.op.group else 0)
        for place, (dim, tile, _), start in zip(places, grid, self.op.grid_arguments, strict=True):
            self.values.tensors[start] = multiply(self.blocks, place, tile)
            name(self.values.tensors[start].value, start.name_hint or f"{dim}_start")

    def open_tiles(self, program: Tensor, counts: Sequence[Count]) -> Tensor:
        """
        A loop over the tiles that a program of a persistent kernel runs, as far apart as there are programs, and the number of one.

        Where one loop within makes all products, of what is loaded there, the two are flattened to one, in which Triton loads ahead across
        the ends of tiles.
        """
        total, step = product(self.functions, counts), self.blocks.value(tt.GetNumProgramsOp(0))
        self.tiles = scf.ForOp(program.value, total.value, step, [], Block(arg_types=[i32]))
        loops = [op for op in self.op.body.walk() if isinstance(op, sched.ForOp)]
        dots = [op for op in self.op.body.walk() if isinstance(op, sched.DotOp)]
        if len(loops) == 1 and dots and all(side.owner.parent is loops[0].body.block for dot in dots for side in (dot.a, dot.b)):
            self.tiles.attributes["tt.flatten"] = UnitAttr()
        block = self.tiles.body.block
        block.args[0].name_hint = "tile"
        self.blocks.enter(block)
        return Tensor(block.args[0])

    def finish(self) -> LoweredKernel:
        """Lowers the body, then drops arguments that nothing uses."""
        Statements(self.functions, self.values, self.memory).block(self.op.body.block)
        if self.tiles is not None:
            self.blocks.add(scf.YieldOp())
            self.blocks.leave()
            self.blocks.add(self.tiles)
        self.block.add_op(tt.ReturnOp())
        kept: list[str] = []
        for told, argument in zip(self.scalars, self.block.args[len(self.pointers) :], strict=True):
            if argument.first_use is None:
                self.block.erase_arg(argument)
            else:
                kept.append(told)
        attrs: list[DictionaryAttr] = []
        for buffer in self.pointers:
            aligned = bool(typed(sched.BufferType, buffer.type).aligned.value.data)
            attrs.append(DictionaryAttr({"tt.divisibility": IntegerAttr(16, i32)} if aligned else {}))
        attrs += [DictionaryAttr({}) for _ in kept]
        func = tt.FuncOp(self.op.sym_name.data, [argument.type for argument in self.block.args], Region(self.block), attrs)
        func.location = self.op.location
        if self.op.grid:
            func.attributes["dims"] = StringAttr(", ".join(dim for dim, _, _ in self.op.grid))
        return LoweredKernel(func, tuple(kept))
