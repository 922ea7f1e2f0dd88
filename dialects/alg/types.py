"""
Types, attributes and pieces of assembly of the `alg` dialect.

Attributes hold the plain values of `cleave.graph` and `cleave.extents`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from xdsl.dialects.builtin import ArrayAttr, IndexType, IntegerAttr, StringAttr, bf16, f16, f32, f64, i1, i32, i64
from xdsl.dialects.utils.enum_attribute import EnumAttribute
from xdsl.ir import Attribute, Data, ParametrizedAttribute, SpacedOpaqueSyntaxAttribute, TypeAttribute
from xdsl.irdl import IRDLOperation, irdl_attr_definition
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    TypeDirective,
    irdl_custom_directive,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from cleave.assembly import (
    literal_attr,
    literal_of,
    literal_text,
    names_attr,
    names_of,
    parse_extent,
    parse_literal,
    parse_name,
    parse_names,
    print_extent,
    print_names,
)
from cleave.extents import NAME, Extent
from cleave.graph import DTYPES, Axis, Symbol

_ELEMENT_TYPES: dict[str, TypeAttribute] = {
    "f16": f16,
    "bf16": bf16,
    "f32": f32,
    "f64": f64,
    "i1": i1,
    "i32": i32,
    "i64": i64,
    "index": IndexType(),
}
_DTYPE_OF: dict[Attribute, str] = {element: name for name, element in _ELEMENT_TYPES.items()}


@irdl_attr_definition
class TensorType(ParametrizedAttribute, TypeAttribute):
    """
    A tensor with named axes, `!alg.tensor<[b, m, d], f16>`.

    Extents are the graph's; the element type is one of f16, bf16, f32, f64, i1, i32, i64 and index. An index counts elements: it has 32
    bits where it is computed, so what may exceed them is cast to i64 first.
    """

    name = "alg.tensor"
    names: ArrayAttr[StringAttr]
    element: Attribute

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of the axes, as written."""
        return names_of(self.names)

    @property
    def dtype(self) -> str:
        """The name of the element type, as in `cleave.graph.DTYPES`."""
        return _DTYPE_OF[self.element]

    def verify(self) -> None:
        axes = self.axes
        for axis in axes:
            if not NAME.match(axis):
                raise VerifyException(f"'{axis}' cannot name an axis; use letters, digits and _")
            if axes.count(axis) > 1:
                raise VerifyException(f"axis '{axis}' is listed twice; a tensor has an axis once")
        if self.element not in _DTYPE_OF:
            raise VerifyException(f"element type {self.element} is not one of {', '.join(DTYPES)}")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            names = parse_names(parser, "an axis")
            parser.parse_punctuation(",")
            return names_attr(names), parser.parse_type()

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            print_names(printer, self.axes)
            printer.print_string(", ")
            printer.print_attribute(self.element)


@lru_cache(maxsize=4096)
def tensor(axes: tuple[str, ...], dtype: str) -> TensorType:
    """The type of a tensor over `axes`. Raises: KeyError for an unknown dtype, VerifyException for names that are none."""
    return TensorType(names_attr(axes), _ELEMENT_TYPES[dtype])


@irdl_attr_definition
class ExtentAttr(Data[Extent]):
    """A non-negative integer expression over symbols, `#alg.extent<2*n + 1>`."""

    name = "alg.extent"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Extent:
        with parser.in_angle_brackets():
            return parse_extent(parser)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            print_extent(printer, self.data)


@irdl_attr_definition
class SymbolAttr(Data[Symbol]):
    """
    A non-negative integer known at run time, `#alg.symbol<n(hint 4096, multiple_of 16)>`.

    Facts: `hint` (any number of them) is a size to tune for, `multiple_of` divides every value, `positive` excludes 0.
    """

    name = "alg.symbol"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Symbol:
        with parser.in_angle_brackets():
            return parse_symbol(parser)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(self.data.name + facts_text(self.data))


def parse_symbol(parser: AttrParser) -> Symbol:
    """A symbol and its facts, `n(hint 4096)`."""
    name = parse_name(parser, "a symbol")
    return parse_facts(parser, name)


def parse_facts(parser: AttrParser, name: str) -> Symbol:
    """The symbol of that name with the facts in parentheses that may follow."""
    hints: list[int] = []
    multiple_of = 1
    positive = False

    def fact() -> None:
        nonlocal multiple_of, positive
        match parser.parse_keyword_in(("hint", "multiple_of", "positive")):
            case "hint":
                hints.append(parser.parse_integer(allow_boolean=False, allow_negative=False))
            case "multiple_of":
                multiple_of = parser.parse_integer(allow_boolean=False, allow_negative=False)
            case _:
                positive = True

    parser.parse_optional_comma_separated_list(parser.Delimiter.PAREN, fact)
    return Symbol(name, tuple(hints), multiple_of, positive)


def facts_text(symbol: Symbol) -> str:
    """The facts of a symbol in parentheses, or nothing where there are none."""
    facts = [f"hint {hint}" for hint in symbol.hints]
    if symbol.multiple_of != 1:
        facts.append(f"multiple_of {symbol.multiple_of}")
    if symbol.positive:
        facts.append("positive")
    return f"({', '.join(facts)})" if facts else ""


@irdl_attr_definition
class AxisAttr(Data[Axis]):
    """
    An axis and its extent, `#alg.axis<d = 128>`.

    The inner axis of a split says of what: `#alg.axis<ni = ceildiv(n, s) chunk of n by s>`. Its element i in chunk o stands for
    element o * |ni| + i of n, and does not exist where that reaches |n|; reductions skip it.
    """

    name = "alg.axis"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Axis:
        with parser.in_angle_brackets():
            name = parse_name(parser, "an axis")
            parser.parse_punctuation("=")
            return parse_axis(parser, name)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            print_axis(printer, self.data)


def parse_axis(parser: AttrParser, name: str) -> Axis:
    """The axis of that name with the extent that follows."""
    value = parse_extent(parser)
    if not parser.parse_optional_keyword("chunk"):
        return Axis(name, value)
    parser.parse_keyword("of")
    whole = parse_name(parser, "an axis")
    parser.parse_keyword("by")
    return Axis(name, value, (whole, parse_name(parser, "an axis")))


def print_axis(printer: Printer, axis: Axis) -> None:
    """An axis as a graph declares it."""
    printer.print_string(f"{axis.name} = ")
    print_extent(printer, axis.extent)
    if axis.chunk_of is not None:
        printer.print_string(f" chunk of {axis.chunk_of[0]} by {axis.chunk_of[1]}")


class Predicate(StrEnum):
    """How `alg.compare` compares. Ordered comparisons with NaN are false, `ne` is true."""

    EQ = "eq"
    NE = "ne"
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"


@irdl_attr_definition
class PredicateAttr(EnumAttribute[Predicate], SpacedOpaqueSyntaxAttribute):
    """A comparison, one of eq, ne, lt, le, gt and ge."""

    name = "alg.predicate"


class Reduction(StrEnum):
    """What `alg.reduce` does with the elements along the axes it removes."""

    SUM = "sum"
    MAX = "max"
    MIN = "min"


@irdl_attr_definition
class ReductionAttr(EnumAttribute[Reduction], SpacedOpaqueSyntaxAttribute):
    """A reduction, one of sum, max and min."""

    name = "alg.reduction"


def parse_result_type(parser: AttrParser) -> TensorType:
    """A tensor type; an element type alone is that of a tensor without axes."""
    start = parser.pos
    found = parser.parse_type()
    if found in _DTYPE_OF:
        return tensor((), _DTYPE_OF[found])
    if not isinstance(found, TensorType):
        parser.raise_error(f"expected !alg.tensor<[axes], element> or an element type, found {found}", start)
    return found


@irdl_custom_directive
class Result(CustomDirective):
    """`custom<Result>(type($out))`: a tensor type; one without axes is written as its element type."""

    type: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        self.type.set(state, (parse_result_type(parser),))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        print_result_type(printer, self.type.get(op)[0])


def print_result_type(printer: Printer, found: Attribute) -> None:
    """A tensor type, as its element type if it has no axes."""
    printer.print_attribute(found.element if isinstance(found, TensorType) and not found.axes else found)


@irdl_custom_directive
class Bound(CustomDirective):
    """`custom<Bound>($start)`: an extent."""

    value: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        self.value.set(state, ExtentAttr(parse_extent(parser)))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        attr = self.value.get(op)
        assert isinstance(attr, ExtentAttr)
        print_extent(printer, attr.data)


@irdl_custom_directive
class TypedNumber(CustomDirective):
    """`custom<TypedNumber>($value, type($out))`: a literal, a colon and the type of the result, which says what the literal is."""

    value: AttributeVariable
    type: TypeDirective

    def parse(self, parser: Parser, state: ParsingState) -> None:
        start = parser.pos
        literal = parse_literal(parser)
        parser.parse_punctuation(":")
        found = parse_result_type(parser)
        self.type.set(state, (found,))
        try:
            self.value.set(state, literal_attr(literal(found.dtype)))
        except ValueError as error:
            parser.raise_error(str(error), start)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        attr = self.value.get(op)
        assert attr is not None
        printer.print_string(literal_text(literal_of(attr)) + " : ")
        print_result_type(printer, self.type.get(op)[0])


@irdl_custom_directive
class Step(CustomDirective):
    """`custom<Step>($step)`: an integer, stored as i64."""

    value: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        self.value.set(state, IntegerAttr(parser.parse_integer(allow_boolean=False), i64))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        attr = self.value.get(op)
        assert isinstance(attr, IntegerAttr)
        printer.print_int(attr.value.data)
