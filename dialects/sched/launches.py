"""Launches of kernels, as `sched` has them and as they are once kernels are lowered."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Self, cast

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr, SymbolRefAttr, UnitAttr, i64
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, opt_prop_def, prop_def, traits_def, var_operand_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import HasParent, MemoryWriteEffect, SymbolTable
from xdsl.utils.exceptions import VerifyException

from cleave.assembly import names_attr, names_of, parse_extent
from cleave.dialects import tt
from cleave.dialects.sched.functions import check_arguments, check_grid, waits
from cleave.dialects.sched.host import AllocateOp, ProgramOp, parse_call, print_call
from cleave.dialects.sched.kernel import KernelOp, check_persistent, check_resources, checked_extent, spelled_extent
from cleave.dialects.sched.overlap import WaitOp
from cleave.dialects.sched.types import BufferType

SCALAR_ARGUMENT = re.compile(r"(size [A-Za-z_][A-Za-z0-9_]*|stride \d+ [A-Za-z_][A-Za-z0-9_]* by [1-9]\d*|count \d+)\Z")


def check_early(op: LaunchOp | LaunchFuncOp) -> None:
    """A launch comes right before an early one. Raises: VerifyException."""
    before = op.prev_op
    while isinstance(before, AllocateOp):
        before = before.prev_op
    if op.early is not None and op.parent is not None and not isinstance(before, LaunchOp | LaunchFuncOp):
        raise VerifyException("the launch is early and what comes before it is no launch; remove 'early'")


def parse_streaming(parser: Parser) -> int | None:
    """`streaming` and the position of a buffer, where it stands there."""
    return parser.parse_integer(allow_boolean=False, allow_negative=False) if parser.parse_optional_keyword("streaming") else None


def print_attributes(printer: Printer, op: LaunchOp | LaunchFuncOp) -> None:
    """What is said of how a launch runs beside others."""
    printer.print_string("" if op.early is None else " early")
    printer.print_string("" if op.streaming is None else f" streaming {op.streaming.value.data}")


def check_streaming(op: LaunchOp | LaunchFuncOp) -> None:
    """The buffer that streams is one of the launch. Raises: VerifyException."""
    if op.streaming is not None and not 0 <= op.streaming.value.data < len(op.buffers):
        raise VerifyException(f"streaming names buffer {op.streaming.value.data} of {len(op.buffers)}; they are counted from 0")


def check_sizes(program: ProgramOp, what: str, sizes: Sequence[str], counts: Sequence[str]) -> None:
    """A program has the sizes that a launch takes, and those that counts of its grid are made of. Raises: VerifyException."""
    known = {*names_of(program.axes), *(symbol for _, size in program.sizes for symbol in checked_extent(size).symbols)}
    for name in (*sizes, *(symbol for count in counts for symbol in checked_extent(count).symbols)):
        if name not in known:
            raise VerifyException(f"{what} takes the size of '{name}', which the program does not have")


@irdl_op_definition
class LaunchOp(IRDLOperation):
    """
    Runs a kernel on buffers, in the order of the kernel's: `sched.launch @k(%x, %y)`.

    An `early` one, `sched.launch @k(%x, %y) early`, may begin before the launch before it has ended; its kernel waits by `sched.wait`.
    With `streaming 0` after that, the second-level cache evicts lines of buffer 0, here `%x`, before others.
    """

    name = "sched.launch"
    callee = prop_def(SymbolRefAttr)
    buffers = var_operand_def(BufferType)
    early = opt_prop_def(UnitAttr)
    streaming = opt_prop_def(IntegerAttr)
    traits = traits_def(MemoryWriteEffect(), HasParent(ProgramOp))

    def __init__(self, callee: str, buffers: Sequence[SSAValue], early: bool = False, streaming: int | None = None) -> None:
        properties = {
            "callee": SymbolRefAttr(callee),
            "early": UnitAttr() if early else None,
            "streaming": None if streaming is None else IntegerAttr(streaming, i64),
        }
        super().__init__(operands=[list(buffers)], properties=properties)

    @property
    def kernel(self) -> str:
        """The name of the kernel."""
        return self.callee.root_reference.data

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        name, buffers = parser.parse_symbol_name().data, parse_call(parser)
        op = cls(name, buffers, parser.parse_optional_keyword("early") is not None, parse_streaming(parser))
        op.attributes |= parser.parse_optional_attr_dict()
        return op

    def print(self, printer: Printer) -> None:
        print_call(printer, f"@{self.kernel}", self.buffers)
        print_attributes(printer, self)
        printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        check_early(self)
        check_streaming(self)
        parent = self.parent_op()
        if not isinstance(parent, ProgramOp) or parent.parent_op() is None:
            return
        kernel = SymbolTable.lookup_symbol(parent, self.callee)
        if not isinstance(kernel, KernelOp):
            raise VerifyException(f"'@{self.kernel}' is not a sched.kernel of the module")
        wanted = kernel.buffer_arguments
        if len(wanted) != len(self.buffers):
            raise VerifyException(f"{len(self.buffers)} buffers are given; kernel '@{self.kernel}' takes {len(wanted)}")
        for position, (value, argument) in enumerate(zip(self.buffers, wanted, strict=True)):
            given, own = value.type, argument.type
            same = isinstance(given, BufferType) and isinstance(own, BufferType) and (given.axes, given.element) == (own.axes, own.element)
            if not same:
                raise VerifyException(f"buffer {position} is {given}; kernel '@{self.kernel}' takes {own}")
        check_sizes(parent, f"kernel '@{self.kernel}'", names_of(kernel.sizes), names_of(kernel.grid_counts))
        if self.early is not None and not any(isinstance(op, WaitOp) for op in kernel.body.block.ops):
            raise VerifyException(f"the launch is early and kernel '@{self.kernel}' does not wait; put sched.wait into it")


@irdl_op_definition
class LaunchFuncOp(IRDLOperation):
    """
    Runs a lowered kernel, `tt.func @callee`: what `sched.launch` becomes under `convert-sched-to-tt`.

    `grid` counts programs along each of its dimensions, fastest varying first; the function numbers them all along x. It
    takes the addresses of the buffers and then `scalars`, each `size NAME` (of an axis or a symbol), `stride POSITION AXIS by
    DIVISOR` (of the buffer at that position, in units of the divisor) or `count POSITION` (of the grid). With `persistent 132`, at most so
    many programs are launched, which run the others' tiles too; with `registers 128` before, threads have no more of these. `early` and
    `streaming 1` stand after these, as in `sched.launch`.
    """

    name = "sched.launch_func"
    callee = prop_def(SymbolRefAttr)
    buffers = var_operand_def(BufferType)
    grid = prop_def(ArrayAttr[StringAttr])
    scalars = prop_def(ArrayAttr[StringAttr])
    num_warps = prop_def(IntegerAttr)
    num_stages = prop_def(IntegerAttr)
    persistent = opt_prop_def(IntegerAttr)
    max_registers = opt_prop_def(IntegerAttr)
    early = opt_prop_def(UnitAttr)
    streaming = opt_prop_def(IntegerAttr)
    traits = traits_def(MemoryWriteEffect(), HasParent(ProgramOp))

    def __init__(
        self,
        callee: str,
        buffers: Sequence[SSAValue],
        grid: Sequence[str],
        scalars: Sequence[str],
        num_warps: int = 4,
        num_stages: int = 3,
        early: bool = False,
        persistent: int | None = None,
        max_registers: int | None = None,
        streaming: int | None = None,
    ) -> None:
        super().__init__(
            operands=[list(buffers)],
            properties={
                "callee": SymbolRefAttr(callee),
                "grid": names_attr(grid),
                "scalars": names_attr(scalars),
                "num_warps": IntegerAttr(num_warps, i64),
                "num_stages": IntegerAttr(num_stages, i64),
                "persistent": None if persistent is None else IntegerAttr(persistent, i64),
                "max_registers": None if max_registers is None else IntegerAttr(max_registers, i64),
                "early": UnitAttr() if early else None,
                "streaming": None if streaming is None else IntegerAttr(streaming, i64),
            },
        )

    @property
    def kernel(self) -> str:
        """The name of the function."""
        return self.callee.root_reference.data

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        name = parser.parse_symbol_name().data
        buffers = parse_call(parser)
        parser.parse_keyword("grid")
        grid = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: parse_extent(parser).text)
        parser.parse_keyword("scalars")
        scalars = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_str_literal)
        parser.parse_keyword("warps")
        warps = parser.parse_integer(allow_negative=False)
        parser.parse_keyword("stages")
        stages = parser.parse_integer(allow_negative=False)
        registers, most = (
            parser.parse_integer(allow_boolean=False, allow_negative=False) if parser.parse_optional_keyword(word) else None
            for word in ("registers", "persistent")
        )
        early, streaming = parser.parse_optional_keyword("early") is not None, parse_streaming(parser)
        op = cls(name, buffers, grid, scalars, warps, stages, early, most, registers, streaming)
        op.attributes |= parser.parse_optional_attr_dict()
        return op

    def print(self, printer: Printer) -> None:
        print_call(printer, f"@{self.kernel}", self.buffers)
        printer.print_string(" grid [" + ", ".join(spelled_extent(count) for count in names_of(self.grid)) + "]")
        printer.print_string(" scalars [" + ", ".join(f'"{entry}"' for entry in names_of(self.scalars)) + "]")
        printer.print_string(f" warps {self.num_warps.value.data} stages {self.num_stages.value.data}")
        for word, number in (("registers", self.max_registers), ("persistent", self.persistent)):
            printer.print_string("" if number is None else f" {word} {number.value.data}")
        print_attributes(printer, self)
        printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        check_early(self)
        check_streaming(self)
        check_resources(self.num_warps, self.num_stages, self.max_registers)
        check_persistent(self.persistent, self.grid)
        for count in names_of(self.grid):
            checked_extent(count)
        for entry in names_of(self.scalars):
            if not SCALAR_ARGUMENT.match(entry):
                raise VerifyException(
                    f"'{entry}' is not a scalar argument; use 'size NAME', 'stride POSITION AXIS by DIVISOR' or 'count POSITION'"
                )
            if entry.startswith("count") and int(entry.split()[1]) >= len(self.grid):
                raise VerifyException(f"'{entry}' names a dimension of {len(self.grid)} of the grid")
            if entry.startswith("stride"):
                _, position, axis, _, _ = entry.split()
                if int(position) >= len(self.buffers):
                    raise VerifyException(f"'{entry}' names buffer {position} of {len(self.buffers)}")
                if axis not in names_of(cast(BufferType, self.buffers[int(position)].type).axes):
                    raise VerifyException(f"'{entry}' names an axis that the buffer does not have")
        parent = self.parent_op()
        if not isinstance(parent, ProgramOp) or parent.parent_op() is None:
            return
        function = SymbolTable.lookup_symbol(parent, self.callee)
        if not isinstance(function, tt.FuncOp):
            raise VerifyException(f"'@{self.kernel}' is not a tt.func of the module")
        check_arguments(function, [buffer.type for buffer in self.buffers], names_of(self.scalars))
        check_grid(function, names_of(self.grid))
        sizes = [entry.split()[1] for entry in names_of(self.scalars) if entry.startswith("size")]
        check_sizes(parent, f"function '@{self.kernel}'", sizes, names_of(self.grid))
        if self.early is not None and not waits(function):
            raise VerifyException(f"the launch is early and function '@{self.kernel}' does not wait; put '{tt.WAIT}' into it")
