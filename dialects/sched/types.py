"""Types of `sched`, and what its operations share in checking and reading them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from xdsl.dialects.builtin import (
    ArrayAttr,
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerAttr,
    NoneAttr,
    StringAttr,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
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
from xdsl.utils.exceptions import VerifyException

from cleave.assembly import (
    names_attr,
    type_in_scope,
)
from cleave.extents import NAME

MOST_ELEMENTS = 1 << 20
"""The most elements of a tile, which is Triton's limit for a tensor."""
FLOAT_TYPES = (Float16Type, BFloat16Type, Float32Type, Float64Type)


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
        check_names(names, "dimension")
        if len(self.sizes) != len(names):
            raise VerifyException(f"{len(names)} dimensions have {len(self.sizes)} sizes; give one size a dimension")
        for name, size in zip(names, self.sizes, strict=True):
            if size.value.data < 1 or size.value.data & (size.value.data - 1):
                raise VerifyException(f"dimension '{name}' has size {size.value.data}, which is not a power of two; round it up and mask")
        if prod(self.shape.values()) > MOST_ELEMENTS:
            raise VerifyException(f"the tile has {prod(self.shape.values())} elements; {MOST_ELEMENTS} are the most")
        if not isinstance(self.element, (*FLOAT_TYPES, IndexType)) and not is_integer(self.element):
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

    def boxes(self, tiles: Iterable[str]) -> bool:
        """Whether a machine may copy boxes with these axes as one, from wherever the others say; see `sched.load`."""
        wanted = set(tiles)
        inner = [axis for axis, stride in self.stride.items() if stride == 1]
        if not isinstance(self.element, Float16Type | BFloat16Type) or not self.aligned.value.data or len(inner) != 1:
            return False
        known = all(self.stride[axis] is not None and (self.stride[axis] or 0) > 0 for axis in wanted)
        steps = [self.divisor.value.data if stride is None else stride for axis, stride in self.stride.items() if axis != inner[0]]
        return inner[0] in wanted and known and all(step * 2 % 16 == 0 for step in steps)

    def verify(self) -> None:
        check_names([axis.data for axis in self.axes], "axis")
        if len(self.strides) != len(self.axes):
            raise VerifyException(f"{len(self.axes)} axes have {len(self.strides)} strides; give one stride an axis")
        if self.divisor.value.data < 1:
            raise VerifyException(f"divisor {self.divisor.value.data} is not positive")
        if not isinstance(self.element, (*FLOAT_TYPES, IndexType)) and not is_integer(self.element):
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


def is_integer(element: Attribute) -> bool:
    """Whether an element type is i1, i32 or i64."""
    return element in (i1, i32, i64)


def check_names(names: Sequence[str], what: str) -> None:
    """Every name is a name and occurs once; `what` says what they name. Raises: VerifyException."""
    for name in names:
        if not NAME.match(name):
            raise VerifyException(f"'{name}' is not a name of a {what}; use [A-Za-z_][A-Za-z0-9_]*")
        if names.count(name) > 1:
            raise VerifyException(f"{what} '{name}' is listed twice")


def tile_of(value: SSAValue) -> TileType:
    """The type of a tile. Raises: VerifyException for another value."""
    if not isinstance(value.type, TileType):
        raise VerifyException(f"{value.type} is not a tile")
    return value.type


def is_scalar_index(value: SSAValue) -> bool:
    """Whether a value is an index without dimensions."""
    return isinstance(value.type, TileType) and not value.type.dims and isinstance(value.type.element, IndexType)


def spelled(shape: dict[str, int]) -> str:
    """Dimensions as types write them."""
    return "[" + ", ".join(f"{name} = {size}" for name, size in shape.items()) + "]"


def check_within(value: SSAValue, out: TileType, what: str) -> None:
    """Every dimension of the value is one of `out`, of the same size."""
    shape = out.shape
    for name, size in tile_of(value).shape.items():
        if name not in shape:
            raise VerifyException(f"dimension '{name}' of {what} is not in the result {spelled(shape)}; add it or reduce it")
        if shape[name] != size:
            raise VerifyException(f"dimension '{name}' has size {size} in {what} and {shape[name]} in the result")


INDEX = TileType.of((), IndexType())
"""The type of an index scalar."""


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


def parse_defined(parser: Parser) -> SSAValue:
    """A value that is already defined, with the type it has."""
    operand = parser.parse_unresolved_operand()
    return parser.resolve_operand(operand, type_in_scope(parser, operand))


def parse_tile(parser: Parser) -> TileType:
    """The type of a tile."""
    position = parser.pos
    out = parser.parse_type()
    if not isinstance(out, TileType):
        parser.raise_error(f"{out} is not a !sched.tile", position)
    return out


def print_tail(op: Operation, printer: Printer) -> None:
    """Attributes and the type of the result."""
    printer.print_op_attributes(op.attributes)
    printer.print_string(" : ")
    printer.print_attribute(op.results[0].type)
