"""The host side of `sched`: programs, what they allocate and leave to a library; launches are in `launches`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    IntegerAttr,
    StringAttr,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
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
    CallableOpInterface,
    HasParent,
    IsolatedFromAbove,
    MemoryAllocEffect,
    MemoryWriteEffect,
    NoTerminator,
    SymbolOpInterface,
)
from xdsl.utils.exceptions import VerifyException

from cleave.assembly import (
    names_attr,
    names_of,
    parse_extent,
)
from cleave.dialects.sched.kernel import (
    checked_extent,
    parse_named,
    print_named,
    spelled_extent,
)
from cleave.dialects.sched.types import BufferType, Word, check_names, parse_defined
from cleave.layouts import layout_axes


class ProgramCallable(CallableOpInterface):
    """An interpreter calls a program by its name."""

    @classmethod
    def get_callable_region(cls, op: Operation) -> Region:
        assert isinstance(op, ProgramOp)
        return op.body

    @classmethod
    def get_argument_types(cls, op: Operation) -> tuple[Attribute, ...]:
        assert isinstance(op, ProgramOp)
        return tuple(op.body.block.arg_types[: op.input_count.value.data])

    @classmethod
    def get_result_types(cls, op: Operation) -> tuple[Attribute, ...]:
        assert isinstance(op, ProgramOp)
        return tuple(op.body.block.arg_types[op.input_count.value.data :])


@irdl_op_definition
class ProgramOp(IRDLOperation):
    """
    The host side: allocates workspaces and launches kernels, in order.

    Arguments of the body are the inputs, then the outputs, each with the layout that maps its memory to axes. `sizes` gives
    every axis its extent over the symbols, and over axes that stand before it, as the number of chunks of a split does:

        sched.program @f sizes [m = m, r = 2, p = "2*m"] (%x: !sched.buffer<[m : 1], f32> layout "m")
            -> (%y: !sched.buffer<[m : 1], f32> layout "m") { sched.launch @k(%x, %y) }
    """

    name = "sched.program"
    sym_name = prop_def(StringAttr)
    buffer_names = prop_def(ArrayAttr[StringAttr])
    layouts = prop_def(ArrayAttr[StringAttr])
    input_count = prop_def(IntegerAttr)
    axes = prop_def(ArrayAttr[StringAttr])
    extents = prop_def(ArrayAttr[StringAttr])
    notes = opt_prop_def(ArrayAttr[StringAttr])
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), NoTerminator(), SymbolOpInterface(), ProgramCallable())

    def __init__(
        self,
        name: str,
        buffer_names: Sequence[str],
        layouts: Sequence[str],
        input_count: int,
        sizes: Sequence[tuple[str, str]],
        body: Region,
        notes: Sequence[str] = (),
    ) -> None:
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "buffer_names": names_attr(buffer_names),
                "layouts": names_attr(layouts),
                "input_count": IntegerAttr(input_count, i64),
                "axes": names_attr([axis for axis, _ in sizes]),
                "extents": names_attr([size for _, size in sizes]),
                "notes": names_attr(notes) if notes else None,
            },
            regions=[body],
        )

    @property
    def sizes(self) -> tuple[tuple[str, str], ...]:
        """Extent over the symbols by axis."""
        return tuple(zip(names_of(self.axes), names_of(self.extents), strict=True))

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        name = parser.parse_symbol_name().data

        def size() -> tuple[str, str]:
            axis = parser.parse_identifier()
            parser.parse_punctuation("=")
            return axis, parse_extent(parser).text

        def buffer() -> tuple[Parser.Argument, str, str]:
            argument, own = parse_named(parser)
            parser.parse_punctuation(":")
            resolved = argument.resolve(parser.parse_type())
            parser.parse_keyword("layout")
            return resolved, own, parser.parse_str_literal()

        parser.parse_keyword("sizes")
        sizes = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, size)
        notes: list[str] = []
        if parser.parse_optional_keyword("notes"):
            notes = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_str_literal)
        inputs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, buffer)
        parser.parse_punctuation("->")
        outputs = parser.parse_comma_separated_list(parser.Delimiter.PAREN, buffer)
        attributes = parser.parse_optional_attr_dict_with_keyword()
        everything = [*inputs, *outputs]
        body = parser.parse_region([argument for argument, _, _ in everything])
        op = cls(name, [own for _, own, _ in everything], [layout for _, _, layout in everything], len(inputs), sizes, body, notes)
        op.attributes |= attributes.data if attributes else {}
        return op

    def print(self, printer: Printer) -> None:
        def buffer(entry: tuple[SSAValue, str, str]) -> None:
            print_named(printer, entry[0], entry[1])
            printer.print_string(": ")
            printer.print_attribute(entry[0].type)
            printer.print_string(f' layout "{entry[2]}"')

        everything = list(zip(self.body.block.args, names_of(self.buffer_names), names_of(self.layouts), strict=True))
        count = self.input_count.value.data
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name)
        printer.print_string(" sizes [" + ", ".join(f"{axis} = {spelled_extent(size)}" for axis, size in self.sizes) + "]")
        if self.notes:
            printer.print_string(" notes [")
            printer.print_list(names_of(self.notes), printer.print_string_literal)
            printer.print_string("]")
        printer.print_string(" (")
        printer.print_list(everything[:count], buffer)
        printer.print_string(") -> (")
        printer.print_list(everything[count:], buffer)
        printer.print_string(")")
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)

    def verify_(self) -> None:
        check_names(names_of(self.buffer_names), "buffer")
        check_names(names_of(self.axes), "axis")
        if len(self.axes) != len(self.extents):
            raise VerifyException(f"{len(self.axes)} axes have {len(self.extents)} extents")
        self._verify_order()
        arguments = self.body.block.args
        if not len(arguments) == len(self.buffer_names) == len(self.layouts) or not 0 <= self.input_count.value.data <= len(arguments):
            raise VerifyException("the body's arguments, their names and their layouts are not as many")
        for value, name, layout in zip(arguments, names_of(self.buffer_names), names_of(self.layouts), strict=True):
            if not isinstance(value.type, BufferType):
                raise VerifyException(f"argument '{name}' is {value.type}; a buffer is needed")
            try:
                laid = layout_axes(layout)
            except ValueError as error:
                raise VerifyException(str(error)) from error
            for axis in names_of(value.type.axes):
                if axis not in laid:
                    raise VerifyException(f"axis '{axis}' of buffer '{name}' is not in its layout '{layout}'")
            for axis in laid:
                if axis not in names_of(value.type.axes):
                    raise VerifyException(f"axis '{axis}' of layout '{layout}' is not in buffer '{name}'")
                if axis not in names_of(self.axes):
                    raise VerifyException(f"axis '{axis}' of buffer '{name}' has no size; add it to sizes")

    def _verify_order(self) -> None:
        """Extents name symbols and axes before them. An axis with the extent of its own name is a symbol."""
        sizes = [(axis, checked_extent(size)) for axis, size in self.sizes]
        later = {axis for axis, size in sizes if size.text != axis}
        for axis, size in sizes:
            for name in size.symbols:
                if name in later:
                    where = "itself" if name == axis else f"axis '{name}', which stands after it"
                    raise VerifyException(f"the size of axis '{axis}' names {where}; name symbols and axes before it only")
            later.discard(axis)


@irdl_op_definition
class AllocateOp(IRDLOperation):
    """
    A workspace, contiguous in the order of its axes: `%p = sched.allocate partial : !sched.buffer<[s : ?, m : 1], f32>`.

    A `zeroed` one holds zeros when the program starts, and kernels leave zeros there: it is cleared once, not for every run.
    """

    name = "sched.allocate"
    buffer_name = prop_def(StringAttr)
    zeroed = opt_prop_def(UnitAttr)
    out = result_def(BufferType)
    traits = traits_def(MemoryAllocEffect(), HasParent(ProgramOp))
    custom_directives = (Word,)
    assembly_format = "custom<Word>($buffer_name) (`zeroed` $zeroed^)? attr-dict `:` type($out)"

    def __init__(self, name: str, out: BufferType, zeroed: bool = False) -> None:
        properties = {"buffer_name": StringAttr(name), "zeroed": UnitAttr() if zeroed else None}
        super().__init__(result_types=[out], properties=properties)

    def verify_(self) -> None:
        check_names([self.buffer_name.data], "buffer")
        parent = self.parent_op()
        if isinstance(parent, ProgramOp):
            for axis in names_of(self.out.type.axes):
                if axis not in names_of(parent.axes):
                    raise VerifyException(f"axis '{axis}' has no size; add it to the sizes of the program")


def parse_call(parser: Parser) -> list[SSAValue]:
    """Operands in parentheses."""
    return parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: parse_defined(parser))


def print_call(printer: Printer, callee: str, operands: Sequence[SSAValue]) -> None:
    """A callee and its operands in parentheses."""
    printer.print_string(f" {callee}(")
    printer.print_list(operands, printer.print_operand)
    printer.print_string(")")


LIBRARY_CALLEES = ("matmul",)


@irdl_op_definition
class LibraryCallOp(IRDLOperation):
    """
    Work done by a library: `sched.library_call matmul(%a, %b) into %c over [k]`.

    Callees: matmul, the sum over the listed axes of the product of two buffers.
    """

    name = "sched.library_call"
    callee = prop_def(StringAttr)
    over = prop_def(ArrayAttr[StringAttr])
    out = operand_def(BufferType)
    args = var_operand_def(BufferType)
    traits = traits_def(MemoryWriteEffect(), HasParent(ProgramOp))

    def __init__(self, callee: str, out: SSAValue, args: Sequence[SSAValue], over: Sequence[str]) -> None:
        super().__init__(operands=[out, list(args)], properties={"callee": StringAttr(callee), "over": names_attr(over)})

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        callee = parser.parse_identifier()
        args = parse_call(parser)
        parser.parse_keyword("into")
        out = parse_defined(parser)
        parser.parse_keyword("over")
        op = cls(callee, out, args, parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_identifier))
        op.attributes |= parser.parse_optional_attr_dict()
        return op

    def print(self, printer: Printer) -> None:
        print_call(printer, self.callee.data, self.args)
        printer.print_string(" into ")
        printer.print_operand(self.out)
        printer.print_string(f" over [{', '.join(names_of(self.over))}]")
        printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        if self.callee.data not in LIBRARY_CALLEES:
            raise VerifyException(f"'{self.callee.data}' is not a library routine; use {', '.join(LIBRARY_CALLEES)}")
        if len(self.args) != 2:
            raise VerifyException(f"{len(self.args)} operands; matmul takes 2")
        first, second = (names_of(cast(BufferType, arg.type).axes) for arg in self.args)
        out = names_of(cast(BufferType, self.out.type).axes)
        for axis in names_of(self.over):
            if axis not in first or axis not in second:
                raise VerifyException(f"axis '{axis}' is not in both operands ({', '.join(first)} and {', '.join(second)})")
        left = [axis for axis in dict.fromkeys((*first, *second)) if axis not in names_of(self.over)]
        if sorted(left) != sorted(out):
            raise VerifyException(f"the result has axes {', '.join(out)}; the product has {', '.join(left)}")
