"""What the last program to arrive does: `sched.last`."""

from __future__ import annotations

from typing import Self

from xdsl.dialects.builtin import ArrayAttr, StringAttr, i32
from xdsl.ir import Block, Region, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    lazy_traits_def,
    operand_def,
    prop_def,
    region_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import HasParent, MemoryReadEffect, MemoryWriteEffect, NoTerminator
from xdsl.utils.exceptions import VerifyException

from cleave.assembly import names_attr, names_of
from cleave.dialects.sched.kernel import KernelOp
from cleave.dialects.sched.memory import AccessOp, LoadOp, StoreOp
from cleave.dialects.sched.types import BufferType, is_scalar_index, parse_defined, spelled


@irdl_op_definition
class LastOp(AccessOp):
    """
    Runs its body in the last of `count` programs that come here with the same element of a counter.

        sched.last %arrived [tile = %tile] of %count { ... }

    The body may read what all of these programs stored before, by loads that are `fresh`. The counter has elements i32, zeros before and
    after the launch. Every program of the grid comes here once: the operation stands in the kernel's body itself, which is not persistent.
    """

    name = "sched.last"
    counter = operand_def(BufferType)
    indices = var_operand_def()
    count = operand_def()
    axes = prop_def(ArrayAttr[StringAttr])
    body = region_def("single_block")
    traits = lazy_traits_def(lambda: (MemoryReadEffect(), MemoryWriteEffect(), NoTerminator(), HasParent(KernelOp)))

    def __init__(self, counter: SSAValue, places: list[tuple[str, SSAValue]], count: SSAValue, body: Region) -> None:
        super().__init__(
            operands=[counter, [value for _, value in places], count],
            properties={"axes": names_attr([axis for axis, _ in places])},
            regions=[body],
        )

    @property
    def memory(self) -> SSAValue:
        return self.counter

    @property
    def places(self) -> tuple[tuple[str, SSAValue], ...]:
        return tuple(zip(names_of(self.axes), self.indices, strict=False))

    @property
    def bounds(self) -> tuple[tuple[str, SSAValue], ...]:
        return ()

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        def place() -> tuple[str, SSAValue]:
            axis = parser.parse_identifier()
            parser.parse_punctuation("=")
            return axis, parse_defined(parser)

        counter = parse_defined(parser)
        places = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, place)
        parser.parse_keyword("of")
        count = parse_defined(parser)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region()
        if not body.blocks:
            body.add_block(Block())
        op = cls(counter, places, count, body)
        op.attributes |= attributes.data if attributes else {}
        return op

    def print(self, printer: Printer) -> None:
        def place(entry: tuple[str, SSAValue]) -> None:
            printer.print_string(f"{entry[0]} = ")
            printer.print_operand(entry[1])

        printer.print_string(" ")
        printer.print_operand(self.counter)
        printer.print_string(" [")
        printer.print_list(self.places, place)
        printer.print_string("] of ")
        printer.print_operand(self.count)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)

    def verify_(self) -> None:
        if len(self.axes) != len(self.indices):
            raise VerifyException("the numbers of axes and of their indices differ")
        self.verify_access()
        if self.dims:
            raise VerifyException(f"the indices have dimensions {spelled(self.dims)}; a program arrives at one element")
        buffer = self.counter.type
        assert isinstance(buffer, BufferType), "operands have been checked"
        if buffer.element != i32:
            raise VerifyException(f"the counter has elements {buffer.element}; i32 is needed")
        if not is_scalar_index(self.count):
            raise VerifyException(f"the count is {self.count.type}; an index scalar is needed")
        self.verify_body()

    def verify_body(self) -> None:
        """Loads of what the kernel stores elsewhere are fresh. Raises: VerifyException."""
        if self.body.block.args:
            raise VerifyException("the body takes no arguments")
        parent = self.parent_op()
        if isinstance(parent, KernelOp) and parent.persistent is not None:
            raise VerifyException("the kernel is persistent, whose programs come here more than once; remove 'persistent'")
        inside = set(self.body.walk())
        stores = [op for op in parent.walk() if isinstance(op, StoreOp) and op not in inside] if parent is not None else []
        stored = {op.buffer for op in stores}
        for op in inside:
            if isinstance(op, LoadOp) and op.buffer in stored and op.fresh is None:
                raise VerifyException("a load in the body reads what the kernel stores before, which other programs did too; make it fresh")
