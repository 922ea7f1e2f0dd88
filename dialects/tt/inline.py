"""Machine instructions within `tt`."""

from __future__ import annotations

from typing import Self

from xdsl.dialects.builtin import BoolAttr, IntegerAttr, IntegerType, StringAttr, i32
from xdsl.irdl import IRDLOperation, irdl_op_definition, prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

WAIT, RELEASE = "griddepcontrol.wait;", "griddepcontrol.launch_dependents;"
"""Waits until the launches before have ended; lets the next launch begin. Source: the PTX ISA, section `griddepcontrol`."""


@irdl_op_definition
class InlineAsmOp(IRDLOperation):
    """
    An instruction of PTX for its effect on memory: `tt.elementwise_inline_asm "griddepcontrol.wait;"`.

    Of Triton's operation of that name this has the form without operands; the result, an i32, means nothing.
    """

    name = "tt.elementwise_inline_asm"
    asm_string = prop_def(StringAttr)
    constraints = prop_def(StringAttr)
    pure = prop_def(BoolAttr)
    packed_element = prop_def(IntegerAttr[IntegerType])
    result = result_def(i32)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(self, instruction: str) -> None:
        super().__init__(
            result_types=[i32],
            properties={
                "asm_string": StringAttr(f"{instruction} // dummy $0"),
                "constraints": StringAttr("=r,~{memory}"),
                "pure": BoolAttr.from_bool(False),
                "packed_element": IntegerAttr(1, i32),
            },
        )

    @property
    def instruction(self) -> str:
        """The instruction without its comment."""
        return self.asm_string.data.split("//", 1)[0].strip()

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        op = cls(parser.parse_str_literal())
        op.attributes |= parser.parse_optional_attr_dict()
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_string_literal(self.instruction)
        printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        if self.instruction not in (WAIT, RELEASE):
            raise VerifyException(f"'{self.instruction}' is not an instruction that is used here; use '{WAIT}' or '{RELEASE}'")
