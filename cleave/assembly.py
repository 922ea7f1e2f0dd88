"""
Pieces of textual IR that the dialects share: names, lists of names, extents, literals, and operands without types.

Extents read as in `cleave.extents`, with `floordiv` and `mod` for floor division and remainder (`//` starts a comment in
MLIR), or as a string. The directives at the end are for declarative formats.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Sequence
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, FloatAttr, IntegerAttr, StringAttr, f64, i1, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    OperandVariable,
    ParsingState,
    PrintingState,
    TypeDirective,
    VariadicOperandVariable,
    irdl_custom_directive,
)
from xdsl.parser import AttrParser, Parser, UnresolvedOperand
from xdsl.printer import Printer

from .extents import NAME, Extent, extent

RESERVED = ("floordiv", "mod", "min", "max", "ceildiv")
"""What a symbol cannot be called, as extents use these words."""

Literal = float | int | bool
_PARENTHESISED = re.compile(r"\((\w+)\)")
_ONE_OPERATION = re.compile(r"\(\w+ (//|%) \w+\)")
_FLOAT_BITS = {"f16": ("e", "H"), "bf16": ("f", "I"), "f32": ("f", "I"), "f64": ("d", "Q")}


def parse_name(parser: AttrParser, what: str) -> str:
    """A name of `[A-Za-z_][A-Za-z0-9_]*`; `what` says in the error what it would have named."""
    start = parser.pos
    name = parser.parse_optional_identifier()
    if name is None:
        parser.raise_error(f"expected the name of {what}", start)
    if not NAME.match(name):
        parser.raise_error(f"'{name}' cannot name {what}; use letters, digits and _", start, start + len(name))
    return name


def parse_names(parser: AttrParser, what: str) -> tuple[str, ...]:
    """Names in square brackets."""
    return tuple(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: parse_name(parser, what)))


def print_names(printer: Printer, names: Sequence[str]) -> None:
    """Names in square brackets."""
    printer.print_string(f"[{', '.join(names)}]")


def parse_extent(parser: AttrParser) -> Extent:
    """An extent; a string may hold one that needs the operators `//` and `%`."""
    start = parser.pos
    text = parser.parse_optional_str_literal()
    if text is None:
        text = _sum(parser)
    try:
        return extent(text)
    except ValueError as error:
        parser.raise_error(str(error), start, start + 1)


def print_extent(printer: Printer, value: Extent) -> None:
    """An extent in the form `parse_extent` reads."""
    printer.print_string(extent_text(value))


def extent_text(value: Extent) -> str:
    """The text of an extent in IR, without the parentheses it can do without."""
    text = _PARENTHESISED.sub(r"\1", value.text)
    if _ONE_OPERATION.fullmatch(text):
        text = text[1:-1]
    return text.replace("//", "floordiv").replace("%", "mod")


def _sum(parser: AttrParser) -> str:
    out = "-" if parser.parse_optional_punctuation("-") else ""
    out += _product(parser)
    while sign := parser.parse_optional_punctuation("+") or parser.parse_optional_punctuation("-"):
        out += f" {sign} {_product(parser)}"
    return out


def _product(parser: AttrParser) -> str:
    out = _factor(parser)
    while True:
        if parser.parse_optional_punctuation("*"):
            out += f" * {_factor(parser)}"
        elif word := parser.parse_optional_keyword_in(("floordiv", "mod")):
            out += f" {'//' if word == 'floordiv' else '%'} {_factor(parser)}"
        else:
            return out


def _factor(parser: AttrParser) -> str:
    if parser.parse_optional_punctuation("("):
        inside = _sum(parser)
        parser.parse_punctuation(")")
        return f"({inside})"
    number = parser.parse_optional_integer(allow_boolean=False, allow_negative=False)
    if number is not None:
        return str(number)
    name = parse_name(parser, "a symbol, or an integer")
    if not parser.parse_optional_punctuation("("):
        return name
    left = _sum(parser)
    parser.parse_punctuation(",")
    right = _sum(parser)
    parser.parse_punctuation(")")
    return f"{name}({left}, {right})"


def parse_literal(parser: AttrParser) -> Callable[[str], Literal]:
    """
    A number, `true`, `false`, `inf` or `-inf`; which one it is depends on the element type that the caller finds later.

    A hexadecimal integer is the bit pattern of a float type. The function that is returned raises ValueError where the
    literal does not suit the type.
    """
    start = parser.pos
    truth = parser.parse_optional_boolean()
    if truth is not None:
        return lambda dtype: _boolean(truth, dtype)
    if parser.parse_optional_keyword("inf"):
        return lambda dtype: _float(math.inf, dtype)
    negative = parser.parse_optional_punctuation("-") is not None
    if negative and parser.parse_optional_keyword("inf"):
        return lambda dtype: _float(-math.inf, dtype)
    number = parser.parse_optional_number()
    if number is None:
        parser.raise_error("expected a number, true, false, inf or -inf", start)
    written = parser.lexer.input.content[start : parser.pos].split()[0]
    if negative:
        number = -number
    if isinstance(number, int) and written[:2] in ("0x", "0X"):
        return lambda dtype: _from_bits(number, dtype)
    return lambda dtype: _number(number, dtype)


def _boolean(value: bool, dtype: str) -> bool:
    if dtype != "i1":
        raise ValueError(f"a boolean is no {dtype}")
    return value


def _float(value: float, dtype: str) -> float:
    if dtype not in _FLOAT_BITS:
        raise ValueError(f"'{value}' is no {dtype}")
    return value


def _number(value: float | int, dtype: str) -> Literal:
    if dtype in _FLOAT_BITS:
        try:
            return float(value)
        except OverflowError:
            raise ValueError(f"the number does not fit {dtype}") from None
    if dtype == "i1":
        raise ValueError("an i1 is true or false")
    if isinstance(value, float):
        raise ValueError(f"'{value}' is no {dtype}")
    if not fits(value, dtype):
        raise ValueError(f"{value} does not fit {dtype}")
    return value


def fits(value: int, dtype: str) -> bool:
    """Whether an integer type holds a value."""
    bits = 31 if dtype == "i32" else 63
    return -(2**bits) <= value < 2**bits


def _from_bits(bits: int, dtype: str) -> Literal:
    if dtype not in _FLOAT_BITS:
        return _number(bits, dtype)
    to, of = _FLOAT_BITS[dtype]
    wide = bits << 16 if dtype == "bf16" else bits
    if wide >= 1 << 8 * struct.calcsize(of):
        raise ValueError(f"0x{bits:X} has more bits than {dtype}")
    return float(struct.unpack(to, struct.pack(of, wide))[0])


def literal_text(value: Literal) -> str:
    """The text of a literal: the shortest that reads back as the same float64."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(value)
    if isinstance(value, int) or math.isinf(value) or "." in text:
        return text
    return text.replace("e", ".0e")


def literal_attr(value: Literal) -> FloatAttr | IntegerAttr:
    """How a literal is stored: floats as f64, exactly, integers as i64, booleans as i1."""
    if isinstance(value, bool):
        return IntegerAttr(int(value), i1)
    return IntegerAttr(value, i64) if isinstance(value, int) else FloatAttr(value, f64)


def literal_of(attr: Attribute) -> Literal:
    """The literal that an attribute stores. Raises: ValueError for other attributes."""
    if isinstance(attr, FloatAttr):
        return attr.value.data
    if isinstance(attr, IntegerAttr):
        return bool(attr.value.data) if attr.get_type() == i1 else attr.value.data
    raise ValueError(f"{attr} is not a number")


def names_attr(names: Sequence[str]) -> ArrayAttr[StringAttr]:
    """Names as an attribute."""
    return ArrayAttr([StringAttr(name) for name in names])


def names_of(attr: ArrayAttr[StringAttr]) -> tuple[str, ...]:
    """The names in an attribute."""
    return tuple(name.data for name in attr)


def type_in_scope(parser: Parser, operand: UnresolvedOperand) -> Attribute:
    """The type of a value that was defined before; formats that write no operand types use it."""
    values = parser.ssa_values.get(operand.operand_name)
    if values is None or operand.index >= len(values):
        parser.raise_error(f"%{operand.operand_name} is used but not defined", operand.span)
    return values[operand.index].type


@irdl_custom_directive
class Operand(CustomDirective):
    """`custom<Operand>($x, type($x))`: a value whose type is the one it was defined with."""

    value: OperandVariable
    type: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        operand = parser.parse_unresolved_operand()
        self.value.set(state, operand)
        self.type.set(state, (type_in_scope(parser, operand),))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        self.value.print(printer, state, op)


@irdl_custom_directive
class Operands(CustomDirective):
    """`custom<Operands>($xs, type($xs))`: one or more values whose types are those they were defined with."""

    values: VariadicOperandVariable
    types: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        operands = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        self.values.set(state, operands)
        self.types.set(state, [type_in_scope(parser, operand) for operand in operands])

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        values: Sequence[SSAValue] = self.values.get(op)
        printer.print_list(values, printer.print_ssa_value)


@irdl_custom_directive
class AxisName(CustomDirective):
    """`custom<AxisName>($axis)`: the bare name of an axis, stored as a string."""

    name: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        self.name.set(state, StringAttr(parse_name(parser, "an axis")))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        attr = self.name.get(op)
        assert isinstance(attr, StringAttr)
        printer.print_string(attr.data)


@irdl_custom_directive
class AxisNames(CustomDirective):
    """`custom<AxisNames>($axes)`: bare names in square brackets, stored as strings."""

    names: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        self.names.set(state, names_attr(parse_names(parser, "an axis")))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        print_names(printer, [name.data for name in _strings(self.names.get(op))])


@irdl_custom_directive
class AxisPairs(CustomDirective):
    """`custom<AxisPairs>($pairs)`: `[old -> new, ...]`, stored as pairs of strings."""

    pairs: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        def pair() -> ArrayAttr[StringAttr]:
            old = parse_name(parser, "an axis")
            parser.parse_punctuation("->")
            return names_attr((old, parse_name(parser, "an axis")))

        self.pairs.set(state, ArrayAttr(parser.parse_comma_separated_list(parser.Delimiter.SQUARE, pair)))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        pairs = [_strings(pair) for pair in _elements(self.pairs.get(op))]
        printer.print_string(f"[{', '.join(f'{old.data} -> {new.data}' for old, new in pairs)}]")


def _elements(attr: Attribute | None) -> tuple[Attribute, ...]:
    assert isinstance(attr, ArrayAttr)
    return cast("ArrayAttr[Attribute]", attr).data


def _strings(attr: Attribute | None) -> list[StringAttr]:
    return [name for name in _elements(attr) if isinstance(name, StringAttr)]
