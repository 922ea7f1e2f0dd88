"""
Scheduled tile programs: how a graph is computed.

Decided at this level: which kernels there are, their grids, loops and tile sizes, what each loop carries, where memory is
read and written, and the host steps that launch kernels. Left open: how a tile's dimensions lie in registers, addresses,
strides and masks. Those follow from the names: a tile keeps the names of its dimensions, elementwise operations broadcast
by name, and a memory access gives the index of every axis of the buffer as a tile or a scalar:

    %x = sched.load %k [b = %b, n = %n, d = %d] check [n < %n_size] other 0.0 : !sched.tile<[n = 64, d = 128], f16>

reads 64 x 128 elements; lanes with n not below `%n_size` are not read and give 0. The extents are values: a dynamic axis
is an argument of the kernel. A scalar is a tile without dimensions.

`cleave.schedule.program` has the same programs as plain values.
"""

from __future__ import annotations

import re
from abc import ABC
from collections.abc import Callable, Iterable, Sequence
from typing import Self, cast

from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    NoneAttr,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
    f64,
    i1,
    i64,
)
from xdsl.ir import Attribute, Dialect, Operation, ParametrizedAttribute, Region, SSAValue, TypeAttribute
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    lazy_traits_def,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    irdl_custom_directive,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import (
    HasParent,
    IsolatedFromAbove,
    IsTerminator,
    MemoryAllocEffect,
    MemoryReadEffect,
    MemoryWriteEffect,
    NoTerminator,
    Pure,
    RecursiveMemoryEffect,
    SingleBlockImplicitTerminator,
    SymbolOpInterface,
    SymbolTable,
)
from xdsl.utils.exceptions import VerifyException

from cleave.assembly import (
    Operand,
    extent_text,
    literal_attr,
    literal_of,
    literal_text,
    names_attr,
    names_of,
    parse_extent,
    parse_literal,
    type_in_scope,
)
from cleave.extents import Extent, extent
from cleave.layouts import layout_axes

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
SCALAR_ARGUMENT = re.compile(r"(size [A-Za-z_][A-Za-z0-9_]*|stride \d+ [A-Za-z_][A-Za-z0-9_]* by [1-9]\d*|count \d+)\Z")
_FLOAT_TYPES = (Float16Type, BFloat16Type, Float32Type, Float64Type)


# Types


@irdl_attr_definition
class TileType(ParametrizedAttribute, TypeAttribute):
    """
    A block of values with named dimensions in layout order, `!sched.tile<[m = 64, n = 128], f32>`.

    Sizes are powers of two. Without dimensions it is a scalar.
    """

    name = "sched.tile"
    dims: ArrayAttr[StringAttr]
    sizes: ArrayAttr[IntegerAttr]
    element: Attribute

    @staticmethod
    def of(dims: Iterable[tuple[str, int]], element: Attribute) -> TileType:
        """The type of the given dimensions. Raises: VerifyException as `verify`."""
        pairs = tuple(dims)
        return TileType(names_attr([name for name, _ in pairs]), ArrayAttr([IntegerAttr(size, i64) for _, size in pairs]), element)

    @property
    def shape(self) -> dict[str, int]:
        """Size by dimension, in layout order."""
        return {name.data: size.value.data for name, size in zip(self.dims, self.sizes, strict=True)}

    def verify(self) -> None:
        names = [name.data for name in self.dims]
        _names(names, "dimension")
        if len(self.sizes) != len(names):
            raise VerifyException(f"{len(names)} dimensions have {len(self.sizes)} sizes; give one size a dimension")
        for name, size in zip(names, self.sizes, strict=True):
            if size.value.data < 1 or size.value.data & (size.value.data - 1):
                raise VerifyException(f"dimension '{name}' has size {size.value.data}, which is not a power of two; round it up and mask")
        if not isinstance(self.element, (*_FLOAT_TYPES, IndexType)) and not _is_integer(self.element):
            raise VerifyException(f"{self.element} is not an element type; use f16, bf16, f32, f64, i1, i32, i64 or index")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        def dim() -> tuple[str, int]:
            name = parser.parse_identifier()
            parser.parse_punctuation("=")
            return name, parser.parse_integer(allow_negative=False, allow_boolean=False)

        with parser.in_angle_brackets():
            dims = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, dim)
            parser.parse_punctuation(",")
            element = parser.parse_type()
        return names_attr([name for name, _ in dims]), ArrayAttr([IntegerAttr(size, i64) for _, size in dims]), element

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string("<[" + ", ".join(f"{name} = {size}" for name, size in self.shape.items()) + "], ")
        printer.print_attribute(self.element)
        printer.print_string(">")


@irdl_attr_definition
class BufferType(ParametrizedAttribute, TypeAttribute):
    """
    Memory addressed by named axes, `!sched.buffer<[m : ?, k : 1], f16, divisor 8>`.

    An axis has its stride in elements, `?` where only the run time knows it; then `divisor` divides it. The address is a
    multiple of 16 bytes unless the type says `unaligned`.
    """

    name = "sched.buffer"
    axes: ArrayAttr[StringAttr]
    strides: ArrayAttr[IntegerAttr | NoneAttr]
    element: Attribute
    divisor: IntegerAttr
    aligned: IntegerAttr

    @staticmethod
    def of(axes: Sequence[str], strides: Sequence[int | None], element: Attribute, divisor: int = 1, aligned: bool = True) -> BufferType:
        """The type of the given axes and strides. Raises: VerifyException as `verify`."""
        values = ArrayAttr[IntegerAttr | NoneAttr]([NoneAttr() if stride is None else IntegerAttr(stride, i64) for stride in strides])
        return BufferType(names_attr(axes), values, element, IntegerAttr(divisor, i64), IntegerAttr(int(aligned), i1))

    @property
    def stride(self) -> dict[str, int | None]:
        """Stride by axis, None where the run time knows it."""
        known = [None if isinstance(stride, NoneAttr) else stride.value.data for stride in self.strides]
        return dict(zip((axis.data for axis in self.axes), known, strict=True))

    def verify(self) -> None:
        _names([axis.data for axis in self.axes], "axis")
        if len(self.strides) != len(self.axes):
            raise VerifyException(f"{len(self.axes)} axes have {len(self.strides)} strides; give one stride an axis")
        if self.divisor.value.data < 1:
            raise VerifyException(f"divisor {self.divisor.value.data} is not positive")
        if not isinstance(self.element, (*_FLOAT_TYPES, IndexType)) and not _is_integer(self.element):
            raise VerifyException(f"{self.element} is not an element type; use f16, bf16, f32, f64, i1, i32 or i64")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        def axis() -> tuple[str, Attribute]:
            name = parser.parse_identifier()
            parser.parse_punctuation(":")
            if parser.parse_optional_punctuation("?"):
                return name, NoneAttr()
            return name, IntegerAttr(parser.parse_integer(allow_boolean=False), i64)

        divisor, aligned = 1, True
        with parser.in_angle_brackets():
            axes = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, axis)
            parser.parse_punctuation(",")
            element = parser.parse_type()
            while parser.parse_optional_punctuation(","):
                if parser.parse_optional_keyword("unaligned"):
                    aligned = False
                else:
                    parser.parse_keyword("divisor")
                    divisor = parser.parse_integer(allow_negative=False, allow_boolean=False)
        strides = ArrayAttr([stride for _, stride in axes])
        return names_attr([name for name, _ in axes]), strides, element, IntegerAttr(divisor, i64), IntegerAttr(int(aligned), i1)

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string("<[" + ", ".join(f"{a} : {'?' if s is None else s}" for a, s in self.stride.items()) + "], ")
        printer.print_attribute(self.element)
        if self.divisor.value.data != 1:
            printer.print_string(f", divisor {self.divisor.value.data}")
        if not self.aligned.value.data:
            printer.print_string(", unaligned")
        printer.print_string(">")


def _is_integer(element: Attribute) -> bool:
    return isinstance(element, IntegerType) and element.width.data in (1, 32, 64)


def _names(names: Sequence[str], what: str) -> None:
    for name in names:
        if not NAME.match(name):
            raise VerifyException(f"'{name}' is not a name of a {what}; use [A-Za-z_][A-Za-z0-9_]*")
        if names.count(name) > 1:
            raise VerifyException(f"{what} '{name}' is listed twice")


def _tile(value: SSAValue) -> TileType:
    if not isinstance(value.type, TileType):
        raise VerifyException(f"{value.type} is not a tile")
    return value.type


def _is_scalar_index(value: SSAValue) -> bool:
    return isinstance(value.type, TileType) and not value.type.dims and isinstance(value.type.element, IndexType)


def _spelled(shape: dict[str, int]) -> str:
    return "[" + ", ".join(f"{name} = {size}" for name, size in shape.items()) + "]"


def _within(value: SSAValue, out: TileType, what: str) -> None:
    """Every dimension of the value is one of `out`, of the same size."""
    shape = out.shape
    for name, size in _tile(value).shape.items():
        if name not in shape:
            raise VerifyException(f"dimension '{name}' of {what} is not in the result {_spelled(shape)}; add it or reduce it")
        if shape[name] != size:
            raise VerifyException(f"dimension '{name}' has size {size} in {what} and {shape[name]} in the result")


# Elementwise operations


@irdl_custom_directive
class Word(CustomDirective):
    """`custom<Word>($name)`: a name without quotes, stored as a string."""

    name: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        self.name.set(state, StringAttr(parser.parse_identifier()))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        attr = self.name.get(op)
        assert isinstance(attr, StringAttr)
        printer.print_string(attr.data)


class ElementwiseOp(IRDLOperation, ABC):
    """
    An operation on lanes that broadcasts by dimension name: each operand's dimensions are among the result's.

    The text names the type of the result alone.
    """

    traits = traits_def(Pure())
    custom_directives = (Operand, Word)

    def __init__(self, operands: Sequence[SSAValue], out: TileType) -> None:
        super().__init__(operands=list(operands), result_types=[out])

    @property
    def tile(self) -> TileType:
        """The type of the result."""
        return _tile(self.results[0])

    def verify_(self) -> None:
        for position, operand in enumerate(self.operands):
            _within(operand, self.tile, f"operand {position}")
        self.verify_elements()

    def verify_elements(self) -> None:
        """The element types fit. Raises: VerifyException."""
        element = self.tile.element
        for position, operand in enumerate(self.operands):
            if _tile(operand).element != element:
                raise VerifyException(f"operand {position} has elements {_tile(operand).element} and the result {element}; cast one")


def _operand(parser: Parser) -> SSAValue:
    """A value that is already defined, with the type it has."""
    operand = parser.parse_unresolved_operand()
    return parser.resolve_operand(operand, type_in_scope(parser, operand))


def _parse_tile(parser: Parser) -> TileType:
    position = parser.pos
    out = parser.parse_type()
    if not isinstance(out, TileType):
        parser.raise_error(f"{out} is not a !sched.tile", position)
    return out


def _print_tail(op: Operation, printer: Printer) -> None:
    printer.print_op_attributes(op.attributes)
    printer.print_string(" : ")
    printer.print_attribute(op.results[0].type)


def _need(op: ElementwiseOp, kind: str, fits: Callable[[Attribute], bool]) -> None:
    if not fits(op.tile.element):
        raise VerifyException(f"the elements are {op.tile.element}; {kind} are needed")


class UnaryOp(ElementwiseOp, ABC):
    """`out = f(arg)`."""

    arg = operand_def(TileType)
    out = result_def(TileType)
    assembly_format = "custom<Operand>($arg, type($arg)) attr-dict `:` type($out)"


class FloatUnaryOp(UnaryOp, ABC):
    """A function of floats."""

    def verify_elements(self) -> None:
        super().verify_elements()
        _need(self, "floats", lambda element: isinstance(element, AnyFloat))


class NumberUnaryOp(UnaryOp, ABC):
    """A function of floats or integers, not booleans."""

    def verify_elements(self) -> None:
        super().verify_elements()
        _need(self, "numbers", lambda element: element != i1)


class BinaryOp(ElementwiseOp, ABC):
    """`out = f(lhs, rhs)`, operands and result of one element type."""

    lhs = operand_def(TileType)
    rhs = operand_def(TileType)
    out = result_def(TileType)
    assembly_format = "custom<Operand>($lhs, type($lhs)) `,` custom<Operand>($rhs, type($rhs)) attr-dict `:` type($out)"


class FloatBinaryOp(BinaryOp, ABC):
    """A function of two floats."""

    def verify_elements(self) -> None:
        super().verify_elements()
        _need(self, "floats", lambda element: isinstance(element, AnyFloat))


class NumberBinaryOp(BinaryOp, ABC):
    """A function of two floats or integers, not booleans."""

    def verify_elements(self) -> None:
        super().verify_elements()
        _need(self, "numbers", lambda element: element != i1)


class BitBinaryOp(BinaryOp, ABC):
    """A function of two booleans or integers."""

    def verify_elements(self) -> None:
        super().verify_elements()
        _need(self, "booleans or integers", lambda element: not isinstance(element, AnyFloat))


@irdl_op_definition
class NegOp(NumberUnaryOp):
    """`out = -arg`."""

    name = "sched.neg"


@irdl_op_definition
class AbsOp(NumberUnaryOp):
    """The absolute value."""

    name = "sched.abs"


@irdl_op_definition
class ReluOp(NumberUnaryOp):
    """`out = max(arg, 0)`."""

    name = "sched.relu"


@irdl_op_definition
class ExpOp(FloatUnaryOp):
    """`out = e^arg`."""

    name = "sched.exp"


@irdl_op_definition
class Exp2Op(FloatUnaryOp):
    """`out = 2^arg`, one instruction on a GPU."""

    name = "sched.exp2"


@irdl_op_definition
class LogOp(FloatUnaryOp):
    """The natural logarithm."""

    name = "sched.log"


@irdl_op_definition
class Log2Op(FloatUnaryOp):
    """The logarithm to base 2."""

    name = "sched.log2"


@irdl_op_definition
class SqrtOp(FloatUnaryOp):
    """The square root."""

    name = "sched.sqrt"


@irdl_op_definition
class RsqrtOp(FloatUnaryOp):
    """`out = 1 / sqrt(arg)`."""

    name = "sched.rsqrt"


@irdl_op_definition
class TanhOp(FloatUnaryOp):
    """The hyperbolic tangent."""

    name = "sched.tanh"


@irdl_op_definition
class SigmoidOp(FloatUnaryOp):
    """`out = 1 / (1 + e^-arg)`."""

    name = "sched.sigmoid"


@irdl_op_definition
class SiluOp(FloatUnaryOp):
    """`out = arg * sigmoid(arg)`."""

    name = "sched.silu"


@irdl_op_definition
class GeluOp(FloatUnaryOp):
    """`out = arg * Phi(arg)`, Phi the normal distribution, by erf."""

    name = "sched.gelu"


@irdl_op_definition
class GeluTanhOp(FloatUnaryOp):
    """The approximation of gelu by tanh."""

    name = "sched.gelu_tanh"


@irdl_op_definition
class SinOp(FloatUnaryOp):
    """The sine, arg in radians."""

    name = "sched.sin"


@irdl_op_definition
class CosOp(FloatUnaryOp):
    """The cosine, arg in radians."""

    name = "sched.cos"


@irdl_op_definition
class ErfOp(FloatUnaryOp):
    """The error function."""

    name = "sched.erf"


@irdl_op_definition
class NotOp(UnaryOp):
    """The complement, bit by bit."""

    name = "sched.not"

    def verify_elements(self) -> None:
        super().verify_elements()
        _need(self, "booleans or integers", lambda element: not isinstance(element, AnyFloat))


@irdl_op_definition
class AddOp(NumberBinaryOp):
    """`out = lhs + rhs`."""

    name = "sched.add"


@irdl_op_definition
class SubOp(NumberBinaryOp):
    """`out = lhs - rhs`."""

    name = "sched.sub"


@irdl_op_definition
class MulOp(NumberBinaryOp):
    """`out = lhs * rhs`."""

    name = "sched.mul"


@irdl_op_definition
class MaxOp(NumberBinaryOp):
    """The greater; NaN where a float operand is NaN."""

    name = "sched.max"


@irdl_op_definition
class MinOp(NumberBinaryOp):
    """The lesser; NaN where a float operand is NaN."""

    name = "sched.min"


@irdl_op_definition
class FloordivOp(NumberBinaryOp):
    """`out = floor(lhs / rhs)`; index values are not negative."""

    name = "sched.floordiv"


@irdl_op_definition
class ModOp(NumberBinaryOp):
    """`out = lhs - floor(lhs / rhs) * rhs`; index values are not negative."""

    name = "sched.mod"


@irdl_op_definition
class DivOp(FloatBinaryOp):
    """`out = lhs / rhs`, rounded to nearest."""

    name = "sched.div"


@irdl_op_definition
class PowOp(FloatBinaryOp):
    """`out = lhs^rhs`."""

    name = "sched.pow"


@irdl_op_definition
class AndOp(BitBinaryOp):
    """Both, bit by bit."""

    name = "sched.and"


@irdl_op_definition
class OrOp(BitBinaryOp):
    """Either, bit by bit."""

    name = "sched.or"


@irdl_op_definition
class CastOp(UnaryOp):
    """The value in another element type: floats round to nearest even, float to integer truncates, i1 becomes 0 or 1."""

    name = "sched.cast"

    def verify_elements(self) -> None:
        if _tile(self.arg).shape != self.tile.shape:
            raise VerifyException("a cast keeps dimensions; use sched.broadcast for others")


@irdl_op_definition
class BroadcastOp(UnaryOp):
    """The value repeated along the dimensions that it lacks."""

    name = "sched.broadcast"


PREDICATES = ("eq", "ne", "lt", "le", "gt", "ge")


@irdl_op_definition
class CompareOp(ElementwiseOp):
    """`out = lhs predicate rhs` with predicate one of eq, ne, lt, le, gt, ge; false where a float operand is NaN, except ne."""

    name = "sched.compare"
    lhs = operand_def(TileType)
    rhs = operand_def(TileType)
    out = result_def(TileType)
    predicate = prop_def(StringAttr)
    assembly_format = (
        "custom<Word>($predicate) custom<Operand>($lhs, type($lhs)) `,` custom<Operand>($rhs, type($rhs)) attr-dict `:` type($out)"
    )

    def __init__(self, predicate: str, lhs: SSAValue, rhs: SSAValue, out: TileType) -> None:
        IRDLOperation.__init__(self, operands=[lhs, rhs], result_types=[out], properties={"predicate": StringAttr(predicate)})

    def verify_elements(self) -> None:
        if self.predicate.data not in PREDICATES:
            raise VerifyException(f"'{self.predicate.data}' is not a predicate; use {', '.join(PREDICATES)}")
        if self.tile.element != i1:
            raise VerifyException(f"the result has elements {self.tile.element}; a comparison gives i1")
        if _tile(self.lhs).element != _tile(self.rhs).element:
            raise VerifyException(f"the operands have elements {_tile(self.lhs).element} and {_tile(self.rhs).element}; cast one")


@irdl_op_definition
class SelectOp(ElementwiseOp):
    """`out = condition ? on_true : on_false`, lane by lane."""

    name = "sched.select"
    condition = operand_def(TileType)
    on_true = operand_def(TileType)
    on_false = operand_def(TileType)
    out = result_def(TileType)
    assembly_format = (
        "custom<Operand>($condition, type($condition)) `,` custom<Operand>($on_true, type($on_true)) `,`"
        " custom<Operand>($on_false, type($on_false)) attr-dict `:` type($out)"
    )

    def verify_elements(self) -> None:
        if _tile(self.condition).element != i1:
            raise VerifyException(f"the condition has elements {_tile(self.condition).element}; i1 is needed")
        for what, operand in (("true", self.on_true), ("false", self.on_false)):
            if _tile(operand).element != self.tile.element:
                raise VerifyException(f"the {what} operand has elements {_tile(operand).element} and the result {self.tile.element}")


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """Every lane is `value`: a float (exact in f64), an integer, or a boolean as the result's elements ask."""

    name = "sched.constant"
    value = prop_def(IntegerAttr | FloatAttr)
    out = result_def(TileType)
    traits = traits_def(Pure())

    def __init__(self, value: float, out: TileType) -> None:
        super().__init__(result_types=[out], properties={"value": literal_attr(value)})

    @property
    def number(self) -> float | int | bool:
        """The value: bool for i1, int for integers, float for floats."""
        return literal_of(self.value)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        position = parser.pos
        literal = parse_literal(parser)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        out = _parse_tile(parser)
        try:
            value = literal_attr(literal(str(out.element)))
        except ValueError as error:
            parser.raise_error(str(error), position)
        return cls.create(result_types=[out], properties={"value": value}, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {literal_text(self.number)}")
        _print_tail(self, printer)

    def verify_(self) -> None:
        element = _tile(self.out).element
        is_float, is_boolean = isinstance(self.value, FloatAttr), self.value.type == i1
        if is_float != isinstance(element, AnyFloat) or is_boolean != (element == i1):
            raise VerifyException(f"value {self.value} does not fit elements {element}")


# Tiles from and to memory, and between tiles


@irdl_op_definition
class RangeOp(IRDLOperation):
    """`out[i] = start + i` along the one dimension of the result: the indices a tile covers."""

    name = "sched.range"
    start = operand_def(TileType)
    out = result_def(TileType)
    traits = traits_def(Pure())
    custom_directives = (Operand,)
    assembly_format = "custom<Operand>($start, type($start)) attr-dict `:` type($out)"

    def __init__(self, start: SSAValue, out: TileType) -> None:
        super().__init__(operands=[start], result_types=[out])

    def verify_(self) -> None:
        out = _tile(self.out)
        if not _is_scalar_index(self.start):
            raise VerifyException(f"the start is {self.start.type}; an index scalar is needed")
        if len(out.dims) != 1 or not isinstance(out.element, IndexType):
            raise VerifyException(f"the result is {out}; an index tile of one dimension is needed")


class AccessOp(IRDLOperation, ABC):
    """
    What reads or writes a buffer: an index for each axis, and for each checked axis its extent.

    Lanes whose index reaches the extent of a checked axis are left alone. An index that is outside on any other axis is an
    error of the schedule.
    """

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    @property
    def memory(self) -> SSAValue:
        """The buffer."""
        raise NotImplementedError

    @property
    def places(self) -> tuple[tuple[str, SSAValue], ...]:
        """Index by axis."""
        raise NotImplementedError

    @property
    def bounds(self) -> tuple[tuple[str, SSAValue], ...]:
        """Extent by checked axis."""
        raise NotImplementedError

    @property
    def dims(self) -> dict[str, int]:
        """The union of the indices' dimensions, in order of appearance."""
        out: dict[str, int] = {}
        for _, value in self.places:
            for name, size in _tile(value).shape.items():
                out.setdefault(name, size)
        return out

    def verify_access(self) -> None:
        """Indices, extents and buffer fit. Raises: VerifyException."""
        buffer = self.memory.type
        if not isinstance(buffer, BufferType):
            raise VerifyException(f"{buffer} is not a buffer")
        axes = [axis for axis, _ in self.places]
        _names(axes, "axis")
        for axis in names_of(buffer.axes):
            if axis not in axes:
                raise VerifyException(f"axis '{axis}' of the buffer has no index")
        for axis, value in self.places:
            if axis not in names_of(buffer.axes):
                raise VerifyException(f"axis '{axis}' is not in the buffer (has {', '.join(names_of(buffer.axes))})")
            if not isinstance(_tile(value).element, IndexType):
                raise VerifyException(f"the index of axis '{axis}' has elements {_tile(value).element}; index is needed")
            for name, size in _tile(value).shape.items():
                if self.dims[name] != size:
                    raise VerifyException(f"dimension '{name}' has sizes {size} and {self.dims[name]} in two indices")
        _names([axis for axis, _ in self.bounds], "axis")
        for axis, value in self.bounds:
            if axis not in axes:
                raise VerifyException(f"checked axis '{axis}' is not in the buffer (has {', '.join(names_of(buffer.axes))})")
            if not _is_scalar_index(value):
                raise VerifyException(f"the extent of axis '{axis}' is {value.type}; an index scalar is needed")


def _print_access(printer: Printer, op: AccessOp) -> None:
    def place(entry: tuple[str, SSAValue]) -> None:
        printer.print_string(f"{entry[0]} = ")
        printer.print_operand(entry[1])

    def bound(entry: tuple[str, SSAValue]) -> None:
        printer.print_string(f"{entry[0]} < ")
        printer.print_operand(entry[1])

    printer.print_operand(op.memory)
    printer.print_string(" [")
    printer.print_list(op.places, place)
    printer.print_string("]")
    if op.bounds:
        printer.print_string(" check [")
        printer.print_list(op.bounds, bound)
        printer.print_string("]")


_Access = tuple[SSAValue, list[tuple[str, SSAValue]], list[tuple[str, SSAValue]]]


def _parse_access(parser: Parser) -> _Access:
    def place() -> tuple[str, SSAValue]:
        axis = parser.parse_identifier()
        parser.parse_punctuation("=")
        return axis, _operand(parser)

    def bound() -> tuple[str, SSAValue]:
        axis = parser.parse_identifier()
        parser.parse_punctuation("<")
        return axis, _operand(parser)

    buffer = _operand(parser)
    places = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, place)
    bounds = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, bound) if parser.parse_optional_keyword("check") else []
    return buffer, places, bounds


_Places = Sequence[tuple[str, SSAValue]]


@irdl_op_definition
class LoadOp(AccessOp):
    """
    Reads a tile over the union of the indices' dimensions.

    Lanes that a check leaves alone give `other`, or without it an unusable value (NaN). `eviction` is a cache hint,
    evict_first or evict_last.
    """

    name = "sched.load"
    buffer = operand_def(BufferType)
    indices = var_operand_def(TileType)
    extents = var_operand_def(TileType)
    axes = prop_def(ArrayAttr[StringAttr])
    checked = prop_def(ArrayAttr[StringAttr])
    other = opt_prop_def(FloatAttr)
    eviction = opt_prop_def(StringAttr)
    out = result_def(TileType)
    traits = traits_def(MemoryReadEffect())

    def __init__(
        self, buffer: SSAValue, places: _Places, bounds: _Places, out: TileType, other: float | None = None, eviction: str = ""
    ) -> None:
        super().__init__(
            operands=[buffer, [value for _, value in places], [value for _, value in bounds]],
            result_types=[out],
            properties={
                "axes": names_attr([axis for axis, _ in places]),
                "checked": names_attr([axis for axis, _ in bounds]),
                "other": None if other is None else FloatAttr(other, f64),
                "eviction": StringAttr(eviction) if eviction else None,
            },
        )

    @property
    def memory(self) -> SSAValue:
        return self.buffer

    @property
    def places(self) -> tuple[tuple[str, SSAValue], ...]:
        return tuple(zip(names_of(self.axes), self.indices, strict=False))

    @property
    def bounds(self) -> tuple[tuple[str, SSAValue], ...]:
        return tuple(zip(names_of(self.checked), self.extents, strict=False))

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        buffer, places, bounds = _parse_access(parser)
        other = float(parse_literal(parser)("f64")) if parser.parse_optional_keyword("other") else None
        eviction = parser.parse_identifier() if parser.parse_optional_keyword("evict") else ""
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        out = _parse_tile(parser)
        op = cls(buffer, places, bounds, out, other, eviction)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        _print_access(printer, self)
        if self.other is not None:
            printer.print_string(f" other {literal_text(self.other.value.data)}")
        if self.eviction is not None:
            printer.print_string(f" evict {self.eviction.data}")
        _print_tail(self, printer)

    def verify_(self) -> None:
        if len(self.axes) != len(self.indices) or len(self.checked) != len(self.extents):
            raise VerifyException("the numbers of axes and of their indices or extents differ")
        self.verify_access()
        out = _tile(self.out)
        if set(out.shape.items()) != set(self.dims.items()) or out.element != cast(BufferType, self.buffer.type).element:
            element = cast(BufferType, self.buffer.type).element
            raise VerifyException(f"the result is {out}; the indices and the buffer give {_spelled(self.dims)} of {element}")
        if self.eviction is not None and self.eviction.data not in ("evict_first", "evict_last"):
            raise VerifyException(f"'{self.eviction.data}' is not a cache hint; use evict_first or evict_last")


@irdl_op_definition
class StoreOp(AccessOp):
    """Writes a tile, which broadcasts to the indices' dimensions; lanes that a check leaves alone are not written."""

    name = "sched.store"
    value = operand_def(TileType)
    buffer = operand_def(BufferType)
    indices = var_operand_def(TileType)
    extents = var_operand_def(TileType)
    axes = prop_def(ArrayAttr[StringAttr])
    checked = prop_def(ArrayAttr[StringAttr])
    traits = traits_def(MemoryWriteEffect())

    def __init__(self, value: SSAValue, buffer: SSAValue, places: _Places, bounds: _Places) -> None:
        super().__init__(
            operands=[value, buffer, [value for _, value in places], [value for _, value in bounds]],
            properties={"axes": names_attr([axis for axis, _ in places]), "checked": names_attr([axis for axis, _ in bounds])},
        )

    @property
    def memory(self) -> SSAValue:
        return self.buffer

    @property
    def places(self) -> tuple[tuple[str, SSAValue], ...]:
        return tuple(zip(names_of(self.axes), self.indices, strict=False))

    @property
    def bounds(self) -> tuple[tuple[str, SSAValue], ...]:
        return tuple(zip(names_of(self.checked), self.extents, strict=False))

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        value = _operand(parser)
        parser.parse_keyword("to")
        buffer, places, bounds = _parse_access(parser)
        op = cls(value, buffer, places, bounds)
        op.attributes |= parser.parse_optional_attr_dict()
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.value)
        printer.print_string(" to ")
        _print_access(printer, self)
        printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        if len(self.axes) != len(self.indices) or len(self.checked) != len(self.extents):
            raise VerifyException("the numbers of axes and of their indices or extents differ")
        self.verify_access()
        element = cast(BufferType, self.buffer.type).element
        if _tile(self.value).element != element:
            raise VerifyException(f"the value has elements {_tile(self.value).element} and the buffer {element}; cast it")
        for name, size in _tile(self.value).shape.items():
            if self.dims.get(name) != size:
                raise VerifyException(f"dimension '{name}' = {size} of the value is not in the indices {_spelled(self.dims)}")


@irdl_op_definition
class ReduceOp(IRDLOperation):
    """Removes one dimension by sum, max or min: `sched.reduce max %x over n : !sched.tile<[m = 64], f32>`."""

    name = "sched.reduce"
    kind = prop_def(StringAttr)
    dim = prop_def(StringAttr)
    value = operand_def(TileType)
    out = result_def(TileType)
    traits = traits_def(Pure())
    custom_directives = (Operand, Word)
    assembly_format = "custom<Word>($kind) custom<Operand>($value, type($value)) `over` custom<Word>($dim) attr-dict `:` type($out)"

    def __init__(self, kind: str, value: SSAValue, dim: str, out: TileType) -> None:
        super().__init__(operands=[value], result_types=[out], properties={"kind": StringAttr(kind), "dim": StringAttr(dim)})

    def verify_(self) -> None:
        shape, out = _tile(self.value).shape, _tile(self.out)
        if self.kind.data not in ("sum", "max", "min"):
            raise VerifyException(f"'{self.kind.data}' is not a reduction; use sum, max or min")
        if self.dim.data not in shape:
            raise VerifyException(f"dimension '{self.dim.data}' is not in the operand {_spelled(shape)}")
        del shape[self.dim.data]
        if list(out.shape.items()) != list(shape.items()) or out.element != _tile(self.value).element:
            raise VerifyException(f"the result is {out}; the reduction gives {_spelled(shape)} of {_tile(self.value).element}")


@irdl_op_definition
class DotOp(IRDLOperation):
    """
    Matrix product accumulated in f32, `out = a . b + acc`.

    Shapes: a [batch..., m, over], b [batch..., over, n], acc and out [batch..., m, n] with at most one batch dimension.
    `precision` says how f32 operands are multiplied: ieee (exact) or tf32.
    """

    name = "sched.dot"
    a = operand_def(TileType)
    b = operand_def(TileType)
    acc = opt_operand_def(TileType)
    over = prop_def(StringAttr)
    precision = prop_def(StringAttr)
    out = result_def(TileType)
    traits = traits_def(Pure())

    def __init__(self, a: SSAValue, b: SSAValue, over: str, acc: SSAValue | None, out: TileType, precision: str = "ieee") -> None:
        super().__init__(
            operands=[a, b, acc], result_types=[out], properties={"over": StringAttr(over), "precision": StringAttr(precision)}
        )

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        a = _operand(parser)
        parser.parse_punctuation(",")
        b = _operand(parser)
        parser.parse_keyword("over")
        over = parser.parse_identifier()
        operands = [a, b]
        if parser.parse_optional_keyword("acc"):
            operands.append(_operand(parser))
        precision = parser.parse_identifier() if parser.parse_optional_keyword("precision") else "ieee"
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        properties: dict[str, Attribute] = {"over": StringAttr(over), "precision": StringAttr(precision)}
        return cls.create(operands=operands, result_types=[parser.parse_type()], properties=properties, attributes=attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list((self.a, self.b), printer.print_operand)
        printer.print_string(f" over {self.over.data}")
        if self.acc is not None:
            printer.print_string(" acc ")
            printer.print_operand(self.acc)
        if self.precision.data != "ieee":
            printer.print_string(f" precision {self.precision.data}")
        _print_tail(self, printer)

    def verify_(self) -> None:
        a, b, out = (list(_tile(value).shape.items()) for value in (self.a, self.b, self.out))
        if len(a) not in (2, 3) or len(b) != len(a) or a[:-2] != b[:-2]:
            raise VerifyException(
                f"the operands have dimensions {_spelled(dict(a))} and {_spelled(dict(b))}; a dot multiplies two matrices"
            )
        if a[-1][0] != self.over.data or b[-2] != a[-1]:
            raise VerifyException(f"'{self.over.data}' is not last in {_spelled(dict(a))} and last but one in {_spelled(dict(b))}")
        if out != [*a[:-1], b[-1]] or not isinstance(_tile(self.out).element, Float32Type):
            raise VerifyException(f"the result is {self.out.type}; the product is {_spelled(dict([*a[:-1], b[-1]]))} of f32")
        if self.acc is not None and self.acc.type != self.out.type:
            raise VerifyException(f"the accumulator is {self.acc.type} and the result {self.out.type}")
        element = _tile(self.a).element
        if element != _tile(self.b).element or not isinstance(element, AnyFloat):
            raise VerifyException(f"the operands have elements {element} and {_tile(self.b).element}; two equal float types are needed")
        if self.precision.data not in ("ieee", "tf32"):
            raise VerifyException(f"'{self.precision.data}' is not a precision; use ieee or tf32")


@irdl_op_definition
class YieldOp(IRDLOperation):
    """Ends the body of a loop with the carried tiles for the next iteration."""

    name = "sched.yield"
    values = var_operand_def(TileType)
    traits = lazy_traits_def(lambda: (IsTerminator(), Pure(), HasParent(ForOp)))

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
        start = _operand(parser)
        parser.parse_keyword("to")
        stop = _operand(parser)
        parser.parse_keyword("step")
        step = parser.parse_integer(allow_boolean=False)

        def carried() -> tuple[Parser.Argument, SSAValue]:
            inner = parser.parse_argument(expect_type=False)
            parser.parse_punctuation("=")
            init = _operand(parser)
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
        if not _is_scalar_index(self.start) or not _is_scalar_index(self.stop):
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


# Kernels and the host


def _print_named(printer: Printer, value: SSAValue, name: str) -> None:
    """A block argument, and its name where the text of the value does not say it."""
    if printer.print_ssa_value(value) != name:
        printer.print_string(f" as {name}")


def _parse_named(parser: Parser) -> tuple[Parser.UnresolvedArgument, str]:
    argument = parser.parse_argument(expect_type=False)
    name = parser.parse_identifier() if parser.parse_optional_keyword("as") else argument.name.text[1:]
    return argument, name


def _spelled_extent(text: str) -> str:
    return extent_text(extent(text))


def _extent_of(text: str) -> Extent:
    try:
        return extent(text)
    except ValueError as error:
        raise VerifyException(str(error)) from error


@irdl_op_definition
class KernelOp(IRDLOperation):
    """
    A kernel: every program of its grid runs the body.

    Arguments of the body: the buffers; the sizes, index scalars that the run time passes, each an axis or a symbol of the
    program; and for each dimension of the grid, fastest varying first, the index where the program starts, which is its
    number times the tile:

        sched.kernel @k (%x: !sched.buffer<[n : 1], f32>) sizes (%n_size = n) grid (%n0 = n by 64 count "ceildiv(n, 64)")
            warps 4 stages 3 { ... }
    """

    name = "sched.kernel"
    sym_name = prop_def(StringAttr)
    buffer_names = prop_def(ArrayAttr[StringAttr])
    sizes = prop_def(ArrayAttr[StringAttr])
    grid_dims = prop_def(ArrayAttr[StringAttr])
    grid_counts = prop_def(ArrayAttr[StringAttr])
    grid_tiles = prop_def(ArrayAttr[IntegerAttr])
    num_warps = prop_def(IntegerAttr)
    num_stages = prop_def(IntegerAttr)
    body = region_def("single_block")
    traits = traits_def(IsolatedFromAbove(), NoTerminator(), SymbolOpInterface())

    def __init__(
        self,
        name: str,
        buffer_names: Sequence[str],
        sizes: Sequence[str],
        grid: Sequence[tuple[str, int, str]],
        body: Region,
        num_warps: int = 4,
        num_stages: int = 3,
    ) -> None:
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "buffer_names": names_attr(buffer_names),
                "sizes": names_attr(sizes),
                "grid_dims": names_attr([dim for dim, _, _ in grid]),
                "grid_tiles": ArrayAttr([IntegerAttr(tile, i64) for _, tile, _ in grid]),
                "grid_counts": names_attr([count for _, _, count in grid]),
                "num_warps": IntegerAttr(num_warps, i64),
                "num_stages": IntegerAttr(num_stages, i64),
            },
            regions=[body],
        )

    @property
    def grid(self) -> tuple[tuple[str, int, str], ...]:
        """Dimension, tile and count of programs, fastest varying first."""
        tiles = [tile.value.data for tile in self.grid_tiles]
        return tuple(zip(names_of(self.grid_dims), tiles, names_of(self.grid_counts), strict=True))

    @property
    def buffer_arguments(self) -> tuple[SSAValue, ...]:
        """The body's arguments that are buffers."""
        return tuple(self.body.block.args[: len(self.buffer_names)])

    @property
    def size_arguments(self) -> tuple[SSAValue, ...]:
        """The body's arguments that are sizes."""
        first = len(self.buffer_names)
        return tuple(self.body.block.args[first : first + len(self.sizes)])

    @property
    def grid_arguments(self) -> tuple[SSAValue, ...]:
        """The body's arguments that say where the program starts."""
        return tuple(self.body.block.args[len(self.buffer_names) + len(self.sizes) :])

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        name = parser.parse_symbol_name().data

        def buffer() -> tuple[Parser.Argument, str]:
            argument, own = _parse_named(parser)
            parser.parse_punctuation(":")
            return argument.resolve(parser.parse_type()), own

        def size() -> tuple[Parser.Argument, str]:
            argument = parser.parse_argument(expect_type=False)
            parser.parse_punctuation("=")
            return argument.resolve(INDEX), parser.parse_identifier()

        def place() -> tuple[Parser.Argument, tuple[str, int, str]]:
            argument = parser.parse_argument(expect_type=False)
            parser.parse_punctuation("=")
            dim = parser.parse_identifier()
            parser.parse_keyword("by")
            tile = parser.parse_integer(allow_boolean=False, allow_negative=False)
            parser.parse_keyword("count")
            return argument.resolve(INDEX), (dim, tile, parse_extent(parser).text)

        buffers = parser.parse_comma_separated_list(parser.Delimiter.PAREN, buffer)
        sizes = parser.parse_comma_separated_list(parser.Delimiter.PAREN, size) if parser.parse_optional_keyword("sizes") else []
        grid = parser.parse_comma_separated_list(parser.Delimiter.PAREN, place) if parser.parse_optional_keyword("grid") else []
        warps = parser.parse_integer(allow_negative=False) if parser.parse_optional_keyword("warps") else 4
        stages = parser.parse_integer(allow_negative=False) if parser.parse_optional_keyword("stages") else 3
        attributes = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region([argument for argument, _ in (*buffers, *sizes, *grid)])
        op = cls(name, [own for _, own in buffers], [own for _, own in sizes], [entry for _, entry in grid], body, warps, stages)
        op.attributes |= attributes.data if attributes else {}
        return op

    def print(self, printer: Printer) -> None:
        def buffer(pair: tuple[SSAValue, str]) -> None:
            _print_named(printer, *pair)
            printer.print_string(": ")
            printer.print_attribute(pair[0].type)

        def size(pair: tuple[SSAValue, str]) -> None:
            printer.print_ssa_value(pair[0])
            printer.print_string(f" = {pair[1]}")

        def place(pair: tuple[SSAValue, tuple[str, int, str]]) -> None:
            printer.print_ssa_value(pair[0])
            dim, tile, count = pair[1]
            printer.print_string(f" = {dim} by {tile} count {_spelled_extent(count)}")

        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name)
        printer.print_string(" (")
        printer.print_list(list(zip(self.buffer_arguments, names_of(self.buffer_names), strict=True)), buffer)
        printer.print_string(")")
        if self.sizes:
            printer.print_string(" sizes (")
            printer.print_list(list(zip(self.size_arguments, names_of(self.sizes), strict=True)), size)
            printer.print_string(")")
        if self.grid:
            printer.print_string(" grid (")
            printer.print_list(list(zip(self.grid_arguments, self.grid, strict=True)), place)
            printer.print_string(")")
        printer.print_string(f" warps {self.num_warps.value.data} stages {self.num_stages.value.data}")
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)

    def verify_(self) -> None:
        _names(names_of(self.buffer_names), "buffer")
        _names(names_of(self.sizes), "size")
        _names(names_of(self.grid_dims), "dimension")
        if not len(self.grid_dims) == len(self.grid_tiles) == len(self.grid_counts):
            raise VerifyException("the grid's dimensions, tiles and counts are not as many")
        if len(self.body.block.args) != len(self.buffer_names) + len(self.sizes) + len(self.grid_dims):
            raise VerifyException(
                f"the body has {len(self.body.block.args)} arguments for {len(self.buffer_names)} buffers,"
                f" {len(self.sizes)} sizes and {len(self.grid_dims)} grid dimensions"
            )
        for value in self.buffer_arguments:
            if not isinstance(value.type, BufferType):
                raise VerifyException(f"argument {value.type} is not a buffer")
        for value in (*self.size_arguments, *self.grid_arguments):
            if value.type != INDEX:
                raise VerifyException(f"argument {value.type} is not an index scalar")
        for dim, tile, count in self.grid:
            if tile < 1:
                raise VerifyException(f"grid dimension '{dim}' has tile {tile}, which is not positive")
            _extent_of(count)
        warps, stages = self.num_warps.value.data, self.num_stages.value.data
        if warps < 1 or warps & (warps - 1) or warps > 32:
            raise VerifyException(f"{warps} warps; use a power of two up to 32")
        if stages < 1:
            raise VerifyException(f"{stages} stages; use at least 1")
        self.extents()

    def extents(self) -> dict[str, SSAValue]:
        """The extent that loads and stores check, by axis. Raises: VerifyException where two differ for one axis."""
        out: dict[str, SSAValue] = {}
        for op in self.body.walk():
            if isinstance(op, AccessOp):
                for axis, value in op.bounds:
                    if out.setdefault(axis, value) is not value:
                        raise VerifyException(f"axis '{axis}' is checked against two extents; use one value for an axis")
        return out


@irdl_op_definition
class ProgramOp(IRDLOperation):
    """
    The host side: allocates workspaces and launches kernels, in order.

    Arguments of the body are the inputs, then the outputs, each with the layout that maps its memory to axes. `sizes` gives
    every axis its extent over the symbols:

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
    traits = traits_def(IsolatedFromAbove(), NoTerminator(), SymbolOpInterface())

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
            argument, own = _parse_named(parser)
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
            _print_named(printer, entry[0], entry[1])
            printer.print_string(": ")
            printer.print_attribute(entry[0].type)
            printer.print_string(f' layout "{entry[2]}"')

        everything = list(zip(self.body.block.args, names_of(self.buffer_names), names_of(self.layouts), strict=True))
        count = self.input_count.value.data
        printer.print_string(" ")
        printer.print_symbol_name(self.sym_name)
        printer.print_string(" sizes [" + ", ".join(f"{axis} = {_spelled_extent(size)}" for axis, size in self.sizes) + "]")
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
        _names(names_of(self.buffer_names), "buffer")
        _names(names_of(self.axes), "axis")
        if len(self.axes) != len(self.extents):
            raise VerifyException(f"{len(self.axes)} axes have {len(self.extents)} extents")
        for size in names_of(self.extents):
            _extent_of(size)
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
        _names([self.buffer_name.data], "buffer")
        parent = self.parent_op()
        if isinstance(parent, ProgramOp):
            for axis in names_of(self.out.type.axes):
                if axis not in names_of(parent.axes):
                    raise VerifyException(f"axis '{axis}' has no size; add it to the sizes of the program")


def _parse_call(parser: Parser) -> list[SSAValue]:
    return parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: _operand(parser))


def _print_call(printer: Printer, callee: str, operands: Sequence[SSAValue]) -> None:
    printer.print_string(f" {callee}(")
    printer.print_list(operands, printer.print_operand)
    printer.print_string(")")


@irdl_op_definition
class LaunchOp(IRDLOperation):
    """Runs a kernel on buffers, in the order of the kernel's: `sched.launch @k(%x, %y)`."""

    name = "sched.launch"
    callee = prop_def(SymbolRefAttr)
    buffers = var_operand_def(BufferType)
    traits = traits_def(MemoryWriteEffect(), HasParent(ProgramOp))

    def __init__(self, callee: str, buffers: Sequence[SSAValue]) -> None:
        super().__init__(operands=[list(buffers)], properties={"callee": SymbolRefAttr(callee)})

    @property
    def kernel(self) -> str:
        """The name of the kernel."""
        return self.callee.root_reference.data

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        op = cls(parser.parse_symbol_name().data, _parse_call(parser))
        op.attributes |= parser.parse_optional_attr_dict()
        return op

    def print(self, printer: Printer) -> None:
        _print_call(printer, f"@{self.kernel}", self.buffers)
        printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
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
        symbols = {symbol for _, size in parent.sizes for symbol in _extent_of(size).symbols}
        for name in names_of(kernel.sizes):
            if name not in names_of(parent.axes) and name not in symbols:
                raise VerifyException(f"kernel '@{self.kernel}' takes the size of '{name}', which the program does not have")


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
        args = _parse_call(parser)
        parser.parse_keyword("into")
        out = _operand(parser)
        parser.parse_keyword("over")
        op = cls(callee, out, args, parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_identifier))
        op.attributes |= parser.parse_optional_attr_dict()
        return op

    def print(self, printer: Printer) -> None:
        _print_call(printer, self.callee.data, self.args)
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


@irdl_op_definition
class LaunchFuncOp(IRDLOperation):
    """
    Runs a lowered kernel, `tt.func @callee`: what `sched.launch` becomes under `convert-sched-to-tt`.

    `grid` counts programs along each of its dimensions, fastest varying first; the function numbers them all along x. It
    takes the addresses of the buffers and then `scalars`, each `size NAME` (of an axis or a symbol), `stride POSITION AXIS by
    DIVISOR` (of the buffer at that position, in units of the divisor) or `count POSITION` (of the grid).
    """

    name = "sched.launch_func"
    callee = prop_def(SymbolRefAttr)
    buffers = var_operand_def(BufferType)
    grid = prop_def(ArrayAttr[StringAttr])
    scalars = prop_def(ArrayAttr[StringAttr])
    num_warps = prop_def(IntegerAttr)
    num_stages = prop_def(IntegerAttr)
    traits = traits_def(MemoryWriteEffect(), HasParent(ProgramOp))

    def __init__(
        self,
        callee: str,
        buffers: Sequence[SSAValue],
        grid: Sequence[str],
        scalars: Sequence[str],
        num_warps: int = 4,
        num_stages: int = 3,
    ) -> None:
        super().__init__(
            operands=[list(buffers)],
            properties={
                "callee": SymbolRefAttr(callee),
                "grid": names_attr(grid),
                "scalars": names_attr(scalars),
                "num_warps": IntegerAttr(num_warps, i64),
                "num_stages": IntegerAttr(num_stages, i64),
            },
        )

    @property
    def kernel(self) -> str:
        """The name of the function."""
        return self.callee.root_reference.data

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        name = parser.parse_symbol_name().data
        buffers = _parse_call(parser)
        parser.parse_keyword("grid")
        grid = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: parse_extent(parser).text)
        parser.parse_keyword("scalars")
        scalars = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_str_literal)
        parser.parse_keyword("warps")
        warps = parser.parse_integer(allow_negative=False)
        parser.parse_keyword("stages")
        op = cls(name, buffers, grid, scalars, warps, parser.parse_integer(allow_negative=False))
        op.attributes |= parser.parse_optional_attr_dict()
        return op

    def print(self, printer: Printer) -> None:
        _print_call(printer, f"@{self.kernel}", self.buffers)
        printer.print_string(" grid [" + ", ".join(_spelled_extent(count) for count in names_of(self.grid)) + "]")
        printer.print_string(" scalars [" + ", ".join(f'"{entry}"' for entry in names_of(self.scalars)) + "]")
        printer.print_string(f" warps {self.num_warps.value.data} stages {self.num_stages.value.data}")
        printer.print_op_attributes(self.attributes)

    def verify_(self) -> None:
        for count in names_of(self.grid):
            _extent_of(count)
        for entry in names_of(self.scalars):
            if not SCALAR_ARGUMENT.match(entry):
                raise VerifyException(
                    f"'{entry}' is not a scalar argument; use 'size NAME', 'stride POSITION AXIS by DIVISOR' or 'count POSITION'"
                )
            if entry.startswith("stride"):
                _, position, axis, _, _ = entry.split()
                if int(position) >= len(self.buffers):
                    raise VerifyException(f"'{entry}' names buffer {position} of {len(self.buffers)}")
                if axis not in names_of(cast(BufferType, self.buffers[int(position)].type).axes):
                    raise VerifyException(f"'{entry}' names an axis that the buffer does not have")


INDEX = TileType.of((), IndexType())

ELEMENTWISE: tuple[type[ElementwiseOp], ...] = (
    NegOp,
    AbsOp,
    ReluOp,
    ExpOp,
    Exp2Op,
    LogOp,
    Log2Op,
    SqrtOp,
    RsqrtOp,
    TanhOp,
    SigmoidOp,
    SiluOp,
    GeluOp,
    GeluTanhOp,
    SinOp,
    CosOp,
    ErfOp,
    NotOp,
    AddOp,
    SubOp,
    MulOp,
    MaxOp,
    MinOp,
    FloordivOp,
    ModOp,
    DivOp,
    PowOp,
    AndOp,
    OrOp,
    CastOp,
    BroadcastOp,
    CompareOp,
    SelectOp,
)

Sched = Dialect(
    "sched",
    [
        *ELEMENTWISE,
        ConstantOp,
        RangeOp,
        LoadOp,
        StoreOp,
        ReduceOp,
        DotOp,
        YieldOp,
        ForOp,
        KernelOp,
        ProgramOp,
        AllocateOp,
        LaunchOp,
        LibraryCallOp,
        LaunchFuncOp,
    ],
    [TileType, BufferType],
)
