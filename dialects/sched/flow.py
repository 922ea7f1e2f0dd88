"""Loops and branches of `sched`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from xdsl.dialects.builtin import IntegerAttr, StringAttr, i1, i64
from xdsl.ir import Block, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    lazy_traits_def,
    operand_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import HasParent, IsTerminator, Pure, RecursiveMemoryEffect, SingleBlockImplicitTerminator
from xdsl.utils.exceptions import VerifyException

from cleave.assembly import type_in_scope
from cleave.dialects.sched.types import TileType, is_scalar_index, parse_defined, tile_of
from cleave.extents import NAME


@irdl_op_definition
class YieldOp(IRDLOperation):
    """Ends the body of a loop with the carried tiles for the next iteration, or of a branch with its results."""

    name = "sched.yield"
    values = var_operand_def(TileType)
    traits = lazy_traits_def(lambda: (IsTerminator(), Pure(), HasParent(ForOp, IfOp)))

    def __init__(self, values: Sequence[SSAValue] = ()) -> None:
        super().__init__(operands=[list(values)])

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        values = parser.parse_optional_undelimited_comma_separated_list(
            parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
        )
        op = cls([parser.resolve_operand(value, type_in_scope(parser, value)) for value in values or []])
        op.attributes |= parser.parse_optional_attr_dict()
        return op

    def print(self, printer: Printer) -> None:
        if self.values:
            printer.print_string(" ")
            printer.print_list(self.values, printer.print_operand)
        printer.print_op_attributes(self.attributes)


@irdl_op_definition
class ForOp(IRDLOperation):
    """
    A sequential loop along a dimension, carrying tiles.

        %sum = sched.for n %i = %zero to %n_size step 64 carry (%s = %start) { ... sched.yield %next }

    `%i` runs from the start to the stop, exclusive. Results are the carried tiles after the last iteration.
    """

    name = "sched.for"
    start = operand_def(TileType)
    stop = operand_def(TileType)
    inits = var_operand_def(TileType)
    step = prop_def(IntegerAttr)
    dim = prop_def(StringAttr)
    body = region_def("single_block")
    outs = var_result_def(TileType)
    traits = traits_def(SingleBlockImplicitTerminator(YieldOp), RecursiveMemoryEffect())

    def __init__(self, dim: str, start: SSAValue, stop: SSAValue, step: int, inits: Sequence[SSAValue], body: Region) -> None:
        super().__init__(
            operands=[start, stop, list(inits)],
            result_types=[[init.type for init in inits]],
            properties={"dim": StringAttr(dim), "step": IntegerAttr(step, i64)},
            regions=[body],
        )

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        dim = parser.parse_identifier()
        index = parser.parse_argument(expect_type=False)
        parser.parse_punctuation("=")
        start = parse_defined(parser)
        parser.parse_keyword("to")
        stop = parse_defined(parser)
        parser.parse_keyword("step")
        step = parser.parse_integer(allow_boolean=False)

        def carried() -> tuple[Parser.Argument, SSAValue]:
            inner = parser.parse_argument(expect_type=False)
            parser.parse_punctuation("=")
            init = parse_defined(parser)
            return inner.resolve(init.type), init

        pairs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, carried) if parser.parse_optional_keyword("carry") else []
        body = parser.parse_region((index.resolve(start.type), *(inner for inner, _ in pairs)))
        op = cls(dim, start, stop, step, [init for _, init in pairs], body)
        op.attributes |= parser.parse_optional_attr_dict()
        if not pairs and not isinstance(body.block.last_op, YieldOp):
            body.block.add_op(YieldOp())
        return op

    def print(self, printer: Printer) -> None:
        index, *inner = self.body.block.args
        printer.print_string(f" {self.dim.data} ")
        printer.print_ssa_value(index)
        printer.print_string(" = ")
        printer.print_operand(self.start)
        printer.print_string(" to ")
        printer.print_operand(self.stop)
        printer.print_string(f" step {self.step.value.data}")
        if inner:

            def carried(pair: tuple[SSAValue, SSAValue]) -> None:
                printer.print_ssa_value(pair[0])
                printer.print_string(" = ")
                printer.print_operand(pair[1])

            printer.print_string(" carry (")
            printer.print_list(list(zip(inner, self.inits, strict=True)), carried)
            printer.print_string(")")
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False, print_block_terminators=bool(inner))
        printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        if self.step.value.data < 1:
            raise VerifyException(f"step {self.step.value.data} is not positive")
        if not NAME.match(self.dim.data):
            raise VerifyException(f"'{self.dim.data}' is not a name of a dimension; use [A-Za-z_][A-Za-z0-9_]*")
        if not is_scalar_index(self.start) or not is_scalar_index(self.stop):
            raise VerifyException(f"the bounds are {self.start.type} and {self.stop.type}; index scalars are needed")
        types = [init.type for init in self.inits]
        arguments = [argument.type for argument in self.body.block.args]
        if arguments != [self.start.type, *types]:
            raise VerifyException("the body's arguments are not the index and one for each carried tile, of its type")
        if [out.type for out in self.outs] != types:
            raise VerifyException("the results do not have the types of the carried tiles")
        last = self.body.block.last_op
        if isinstance(last, YieldOp) and [value.type for value in last.values] != types:
            found = ", ".join(str(value.type) for value in last.values) or "nothing"
            raise VerifyException(f"the body yields {found}; the loop carries {', '.join(map(str, types)) or 'nothing'}")


@irdl_op_definition
class IfOp(IRDLOperation):
    """
    Runs its body where a scalar condition is true. Its results are what the body yields, and elsewhere the tiles after `else`.

        %x = sched.if %edge { ... sched.yield %masked } else %dot
    """

    name = "sched.if"
    condition = operand_def(TileType)
    others = var_operand_def(TileType)
    body = region_def("single_block")
    outs = var_result_def(TileType)
    traits = traits_def(SingleBlockImplicitTerminator(YieldOp), RecursiveMemoryEffect())

    def __init__(self, condition: SSAValue, others: Sequence[SSAValue], body: Region) -> None:
        super().__init__(operands=[condition, list(others)], result_types=[[other.type for other in others]], regions=[body])

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        condition = parse_defined(parser)
        body = parser.parse_region()
        if not body.blocks:
            body.add_block(Block())
        others: list[SSAValue] = []
        if parser.parse_optional_keyword("else"):
            others = parser.parse_comma_separated_list(parser.Delimiter.NONE, lambda: parse_defined(parser))
        op = cls(condition, others, body)
        op.attributes |= parser.parse_optional_attr_dict()
        if not others and not isinstance(body.block.last_op, YieldOp):
            body.block.add_op(YieldOp())
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.condition)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False, print_block_terminators=bool(self.others))
        if self.others:
            printer.print_string(" else ")
            printer.print_list(self.others, printer.print_operand)
        printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        condition = tile_of(self.condition)
        if condition.dims or condition.element != i1:
            raise VerifyException(f"the condition is {condition}; a scalar of i1 is needed")
        if self.body.block.args:
            raise VerifyException("the body takes no arguments")
        types = [other.type for other in self.others]
        if [out.type for out in self.outs] != types:
            raise VerifyException("the results do not have the types of the tiles after 'else'")
        last = self.body.block.last_op
        if isinstance(last, YieldOp) and [value.type for value in last.values] != types:
            found = ", ".join(str(value.type) for value in last.values) or "nothing"
            raise VerifyException(f"the body yields {found}; after 'else' there is {', '.join(map(str, types)) or 'nothing'}")
