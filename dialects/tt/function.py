"""Functions of `tt`, and the grid as they see it."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import Self

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IntegerAttr,
    IntegerType,
    StringAttr,
    i32,
)
from xdsl.ir import Attribute, Region
from xdsl.irdl import (
    IRDLOperation,
    eq,
    irdl_op_definition,
    lazy_traits_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    HasParent,
    IsolatedFromAbove,
    IsTerminator,
    Pure,
    SymbolOpInterface,
)
from xdsl.utils.exceptions import VerifyException

_AXES = ("x", "y", "z")


@irdl_op_definition
class FuncOp(IRDLOperation):
    """A kernel, `tt.func public @k(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %n: i32) { ... tt.return }`."""

    name = "tt.func"
    sym_name = prop_def(StringAttr)
    function_type = prop_def(FunctionType)
    sym_visibility = opt_prop_def(StringAttr)
    arg_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), SymbolOpInterface())

    def __init__(self, name: str, inputs: Sequence[Attribute], body: Region, arg_attrs: Sequence[DictionaryAttr] | None = None) -> None:
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "function_type": FunctionType.from_lists(list(inputs), []),
                "sym_visibility": StringAttr("public"),
                "arg_attrs": None if arg_attrs is None else ArrayAttr(arg_attrs),
            },
            regions=[body],
        )

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        visibility = parser.parse_optional_visibility_keyword()
        name = parser.parse_symbol_name()

        def argument() -> tuple[Parser.Argument, DictionaryAttr]:
            return parser.parse_argument(), DictionaryAttr(parser.parse_optional_attr_dict())

        arguments = parser.parse_comma_separated_list(parser.Delimiter.PAREN, argument)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region([entry for entry, _ in arguments])
        plain = not any(attrs.data for _, attrs in arguments)
        op = cls(name.data, [entry.type for entry, _ in arguments], body, None if plain else [attrs for _, attrs in arguments])
        if visibility is None:
            del op.properties["sym_visibility"]
        else:
            op.sym_visibility = visibility
        op.attributes |= attributes.data if attributes else {}
        return op

    def print(self, printer: Printer) -> None:
        def argument(position: int) -> None:
            printer.print_block_argument(self.body.block.args[position])
            if self.arg_attrs is not None:
                printer.print_op_attributes(self.arg_attrs.data[position].data)

        printer.print_string(f" {self.sym_visibility.data} " if self.sym_visibility else " ")
        printer.print_symbol_name(self.sym_name)
        with printer.in_parens():
            printer.print_list(range(len(self.body.block.args)), argument)
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)

    def verify_(self) -> None:
        inputs = tuple(self.function_type.inputs)
        if inputs != tuple(argument.type for argument in self.body.block.args):
            raise VerifyException("the function's type and the arguments of its body differ")
        if self.function_type.outputs.data:
            raise VerifyException("a kernel returns nothing; store its results")
        if self.arg_attrs is not None and len(self.arg_attrs) != len(inputs):
            raise VerifyException(f"{len(inputs)} arguments have {len(self.arg_attrs)} attribute dictionaries")


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """Ends a function."""

    name = "tt.return"
    srcs = var_operand_def()
    assembly_format = "attr-dict ($srcs^ `:` type($srcs))?"
    traits = lazy_traits_def(lambda: (IsTerminator(), HasParent(FuncOp)))

    def __init__(self) -> None:
        super().__init__(operands=[[]])


class ProgramIdBase(IRDLOperation, ABC):
    """Something about the grid along x, y or z (0, 1 or 2)."""

    axis = prop_def(IntegerAttr[IntegerType])
    result = result_def(eq(i32))
    traits = traits_def(Pure())

    def __init__(self, axis: int) -> None:
        super().__init__(result_types=[i32], properties={"axis": IntegerAttr(axis, i32)})

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        axis = _AXES.index(parser.expect(lambda: parser.parse_optional_keyword_in(_AXES), "expected x, y or z"))
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        parser.parse_type()
        op = cls(axis)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {_AXES[self.axis.value.data]}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : i32")

    def verify_(self) -> None:
        if not 0 <= self.axis.value.data < 3:
            raise VerifyException(f"axis {self.axis.value.data} is not one of 0, 1, 2")


@irdl_op_definition
class GetProgramIdOp(ProgramIdBase):
    """The number of the running program along an axis of the grid: `tt.get_program_id x : i32`."""

    name = "tt.get_program_id"


@irdl_op_definition
class GetNumProgramsOp(ProgramIdBase):
    """The number of programs along an axis of the grid: `tt.get_num_programs x : i32`."""

    name = "tt.get_num_programs"
