"""
A subset of Triton's own IR, under its names and types.

Decided at this level: everything but what Triton's compiler decides. Tensors are positional (`tensor<64x128xf16>`), each
address, mask, broadcast and transpose is an operation, dynamic sizes and strides are arguments. Kernels are `tt.func`s whose
bodies also use `arith`, `math` and `scf`; the host side stays a `sched.program` beside them.

Printed in generic form the functions are TTIR. xDSL's `arith` has comparisons, select and the conversions of integers for
scalars alone, so here they are `tt.cmpi`, `tt.cmpf`, `tt.select`, `tt.extsi`, `tt.extui`, `tt.trunci`, `tt.sitofp`, `tt.uitofp`
and `tt.fptosi`; the `ttir` target prints `arith` for these.

Operations may carry two attributes for readers: `dims`, the names of a tensor's dimensions, and `note`.
Source: triton/include/triton/Dialect/Triton/IR/TritonOps.td.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import ClassVar, Self, cast

from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    BoolAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FloatAttr,
    FunctionType,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Dialect, ParametrizedAttribute, Region, SSAValue, TypeAttribute
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    eq,
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
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import (
    HasParent,
    IsolatedFromAbove,
    IsTerminator,
    MemoryReadEffect,
    MemoryWriteEffect,
    Pure,
    RecursiveMemoryEffect,
    SymbolOpInterface,
)
from xdsl.utils.exceptions import VerifyException

PRECISIONS = ("tf32", "tf32x3", "ieee")
EVICTIONS = {"": 1, "evict_first": 2, "evict_last": 3}
_AXES = ("x", "y", "z")


@irdl_attr_definition
class PtrType(ParametrizedAttribute, TypeAttribute):
    """The address of values of a type in global memory, `!tt.ptr<f16>`."""

    name = "tt.ptr"
    pointee: Attribute

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return (parser.parse_type(),)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.pointee)


@irdl_attr_definition
class TensorDescType(ParametrizedAttribute, TypeAttribute):
    """A tensor in global memory read and written by blocks of one shape, `!tt.tensordesc<tensor<64x64xf16>>`."""

    name = "tt.tensordesc"
    block: TensorType[Attribute]

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return (parser.parse_type(),)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.block)


def shape_of(type_: Attribute) -> tuple[int, ...]:
    """The shape of a tensor type; of any other type, none."""
    return type_.get_shape() if isinstance(type_, TensorType) else ()


def element_of(type_: Attribute) -> Attribute:
    """The element type of a tensor type; any other type is its own."""
    return cast(TensorType[Attribute], type_).get_element_type() if isinstance(type_, TensorType) else type_


def like(type_: Attribute, element: Attribute) -> Attribute:
    """The type of that shape with other elements."""
    return TensorType(element, type_.get_shape()) if isinstance(type_, TensorType) else element


def pointee_of(type_: Attribute) -> Attribute:
    """The type of what a pointer, or a tensor of pointers, points at. Raises: VerifyException where it is neither."""
    element = element_of(type_)
    if not isinstance(element, PtrType):
        raise VerifyException(f"{type_} is not a pointer or a tensor of pointers")
    return like(type_, element.pointee)


def splat_value(attr: Attribute) -> float | int | None:
    """The number that a constant's attribute holds in every element, None where it holds several; NaN is one number."""
    if isinstance(attr, FloatAttr | IntegerAttr):
        return attr.value.data
    if not isinstance(attr, DenseIntOrFPElementsAttr):
        return None
    data, count = attr.data.data, _count(attr.get_shape() or ())
    first = data[: len(data) // count] if count else b""
    if not first or data != first * count:
        return None
    return cast(TensorType[AnyFloat], attr.type).get_element_type().unpack(first, 1)[0]


def splat_attr(value: float | int, shape: Sequence[int], element: Attribute) -> DenseIntOrFPElementsAttr:
    """The attribute of a constant tensor that holds one number in every element."""
    if isinstance(element, AnyFloat):
        return DenseIntOrFPElementsAttr.from_list(TensorType(element, shape), [float(value)])
    assert isinstance(element, IntegerType), f"{element} is not a type of numbers"
    return DenseIntOrFPElementsAttr.from_list(TensorType(IntegerType(element.bitwidth), shape), [int(value)])


def _spelled(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "scalar"


def _member(value: IntegerAttr[IntegerType], first: int, names: Sequence[str], what: str) -> None:
    if not 0 <= value.value.data - first < len(names):
        raise VerifyException(f"{value.value.data} is not a {what}; use {first} to {first + len(names) - 1} for {', '.join(names)}")


# Functions


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


# Shapes


@irdl_op_definition
class MakeRangeOp(IRDLOperation):
    """The integers from start to end, exclusive: `tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>`."""

    name = "tt.make_range"
    start = prop_def(IntegerAttr[IntegerType])
    end = prop_def(IntegerAttr[IntegerType])
    result = result_def(TensorType)
    assembly_format = "attr-dict `:` type($result)"
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())

    def __init__(self, start: int, end: int) -> None:
        properties = {"start": IntegerAttr(start, i32), "end": IntegerAttr(end, i32)}
        super().__init__(result_types=[TensorType(i32, [end - start])], properties=properties)

    def verify_(self) -> None:
        length = self.end.value.data - self.start.value.data
        if shape_of(self.result.type) != (length,) or element_of(self.result.type) != i32:
            raise VerifyException(f"the result is {self.result.type}; the range is tensor<{length}xi32>")


@irdl_op_definition
class SplatOp(IRDLOperation):
    """A tensor whose elements are all one scalar."""

    name = "tt.splat"
    src = operand_def()
    result = result_def(TensorType)
    assembly_format = "$src attr-dict `:` type($src) `->` type($result)"
    traits = traits_def(Pure())

    def __init__(self, src: SSAValue, shape: Sequence[int]) -> None:
        super().__init__(operands=[src], result_types=[TensorType(src.type, shape)])

    def verify_(self) -> None:
        if element_of(self.result.type) != self.src.type:
            raise VerifyException(f"the operand is {self.src.type} and the result has elements {element_of(self.result.type)}")


@irdl_op_definition
class UnsplatOp(IRDLOperation):
    """The one element of a tensor of size one."""

    name = "tt.unsplat"
    src = operand_def(TensorType)
    result = result_def()
    traits = traits_def(Pure())

    def __init__(self, src: SSAValue) -> None:
        super().__init__(operands=[src], result_types=[element_of(src.type)])

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operand = parser.parse_unresolved_operand()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        op = cls(parser.resolve_operand(operand, parser.parse_type()))
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_operand(self.src)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.src.type)

    def verify_(self) -> None:
        if any(size != 1 for size in shape_of(self.src.type)) or self.result.type != element_of(self.src.type):
            raise VerifyException(f"{self.src.type} does not hold one {self.result.type}")


@irdl_op_definition
class BroadcastOp(IRDLOperation):
    """A tensor repeated along its dimensions of size one."""

    name = "tt.broadcast"
    src = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = "$src attr-dict `:` type($src) `->` type($result)"
    traits = traits_def(Pure())

    def __init__(self, src: SSAValue, shape: Sequence[int]) -> None:
        super().__init__(operands=[src], result_types=[TensorType(element_of(src.type), shape)])

    def verify_(self) -> None:
        src, result = shape_of(self.src.type), shape_of(self.result.type)
        fits = len(src) == len(result) and all(a in (1, b) for a, b in zip(src, result, strict=False))
        if not fits or element_of(self.src.type) != element_of(self.result.type):
            raise VerifyException(f"{self.src.type} does not broadcast to {self.result.type}")


@irdl_op_definition
class ExpandDimsOp(IRDLOperation):
    """A tensor with a new dimension of size one at `axis`."""

    name = "tt.expand_dims"
    src = operand_def(TensorType)
    axis = prop_def(IntegerAttr[IntegerType])
    result = result_def(TensorType)
    assembly_format = "$src attr-dict `:` type($src) `->` type($result)"
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())

    def __init__(self, src: SSAValue, axis: int) -> None:
        shape = list(shape_of(src.type))
        shape.insert(axis, 1)
        super().__init__(
            operands=[src], result_types=[TensorType(element_of(src.type), shape)], properties={"axis": IntegerAttr(axis, i32)}
        )

    def verify_(self) -> None:
        shape = list(shape_of(self.src.type))
        axis = self.axis.value.data
        if not 0 <= axis <= len(shape):
            raise VerifyException(f"axis {axis} is not in 0 to {len(shape)}")
        shape.insert(axis, 1)
        if list(shape_of(self.result.type)) != shape or element_of(self.result.type) != element_of(self.src.type):
            raise VerifyException(f"the result is {self.result.type}; its shape is {_spelled(shape)}")


@irdl_op_definition
class TransOp(IRDLOperation):
    """A tensor with its dimensions in another order: result dimension i is operand dimension order[i]."""

    name = "tt.trans"
    src = operand_def(TensorType)
    order = prop_def(DenseArrayBase)
    result = result_def(TensorType)
    assembly_format = "$src attr-dict `:` type($src) `->` type($result)"
    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(Pure())

    def __init__(self, src: SSAValue, order: Sequence[int]) -> None:
        shape = [shape_of(src.type)[position] for position in order]
        super().__init__(
            operands=[src],
            result_types=[TensorType(element_of(src.type), shape)],
            properties={"order": DenseArrayBase.from_list(i32, list(order))},
        )

    @property
    def permutation(self) -> list[int]:
        """The dimension of the operand that each dimension of the result is."""
        return [int(position) for position in cast(DenseArrayBase[IntegerType], self.order).get_values()]

    def verify_(self) -> None:
        shape, order = shape_of(self.src.type), self.permutation
        if sorted(order) != list(range(len(shape))):
            raise VerifyException(f"order {order} does not list the dimensions 0 to {len(shape) - 1} once each")
        expected = tuple(shape[position] for position in order)
        if shape_of(self.result.type) != expected or element_of(self.result.type) != element_of(self.src.type):
            raise VerifyException(f"the result is {self.result.type}; its shape is {_spelled(expected)}")


@irdl_op_definition
class ReshapeOp(IRDLOperation):
    """The elements in row-major order under another shape."""

    name = "tt.reshape"
    src = operand_def(TensorType)
    result = result_def(TensorType)
    assembly_format = "$src attr-dict `:` type($src) `->` type($result)"
    traits = traits_def(Pure())

    def __init__(self, src: SSAValue, shape: Sequence[int]) -> None:
        super().__init__(operands=[src], result_types=[TensorType(element_of(src.type), shape)])

    def verify_(self) -> None:
        counts = [_count(shape_of(value.type)) for value in (self.src, self.result)]
        if counts[0] != counts[1] or element_of(self.src.type) != element_of(self.result.type):
            raise VerifyException(f"{self.src.type} has {counts[0]} elements and {self.result.type} {counts[1]}")


def _count(shape: Sequence[int]) -> int:
    out = 1
    for size in shape:
        out *= size
    return out


# Elements


class ConversionOp(IRDLOperation, ABC):
    """An elementwise conversion: the result has the operand's shape."""

    src = operand_def()
    result = result_def()
    assembly_format = "$src attr-dict `:` type($src) `->` type($result)"
    traits = traits_def(Pure())

    def __init__(self, src: SSAValue, element: Attribute) -> None:
        super().__init__(operands=[src], result_types=[like(src.type, element)])

    def verify_(self) -> None:
        if shape_of(self.src.type) != shape_of(self.result.type):
            raise VerifyException(f"the operand is {self.src.type} and the result {self.result.type}; a conversion keeps the shape")
        self.verify_elements(element_of(self.src.type), element_of(self.result.type))

    def verify_elements(self, source: Attribute, target: Attribute) -> None:
        """The elements fit. Raises: VerifyException."""
        if not isinstance(source, IntegerType) or not isinstance(target, IntegerType):
            raise VerifyException(f"{source} to {target} is not between integers")


@irdl_op_definition
class ExtSIOp(ConversionOp):
    """A wider integer of the same signed value; Triton spells it arith.extsi."""

    name = "tt.extsi"


@irdl_op_definition
class ExtUIOp(ConversionOp):
    """A wider integer of the same unsigned value; Triton spells it arith.extui."""

    name = "tt.extui"


@irdl_op_definition
class TruncIOp(ConversionOp):
    """The low bits of an integer; Triton spells it arith.trunci."""

    name = "tt.trunci"


class IntegerToFloatOp(ConversionOp, ABC):
    """The float nearest to an integer."""

    def verify_elements(self, source: Attribute, target: Attribute) -> None:
        if not isinstance(source, IntegerType) or not isinstance(target, AnyFloat):
            raise VerifyException(f"{source} to {target} is not from an integer to a float")


@irdl_op_definition
class SIToFPOp(IntegerToFloatOp):
    """The float nearest to a signed integer; Triton spells it arith.sitofp."""

    name = "tt.sitofp"


@irdl_op_definition
class UIToFPOp(IntegerToFloatOp):
    """The float nearest to an unsigned integer; Triton spells it arith.uitofp."""

    name = "tt.uitofp"


@irdl_op_definition
class FPToSIOp(ConversionOp):
    """A float without its fraction as a signed integer; Triton spells it arith.fptosi."""

    name = "tt.fptosi"

    def verify_elements(self, source: Attribute, target: Attribute) -> None:
        if not isinstance(source, AnyFloat) or not isinstance(target, IntegerType):
            raise VerifyException(f"{source} to {target} is not from a float to an integer")


@irdl_op_definition
class BitcastOp(ConversionOp):
    """The same bits as another type of the same width."""

    name = "tt.bitcast"

    def verify_elements(self, source: Attribute, target: Attribute) -> None:
        if isinstance(source, PtrType) != isinstance(target, PtrType):
            raise VerifyException(f"{source} and {target} are not both pointers")
        if isinstance(source, IntegerType | AnyFloat) and isinstance(target, IntegerType | AnyFloat) and source.bitwidth != target.bitwidth:
            raise VerifyException(f"{source} has {source.bitwidth} bits and {target} {target.bitwidth}")


INTEGER_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
FLOAT_PREDICATES = ("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true")


class CompareOp(IRDLOperation, ABC):
    """`lhs predicate rhs` element by element; `predicate` counts in `PREDICATES`."""

    PREDICATES: ClassVar[tuple[str, ...]]
    T: ClassVar = VarConstraint("T", AnyAttr())
    lhs = operand_def(T)
    rhs = operand_def(T)
    predicate = prop_def(IntegerAttr[IntegerType])
    result = result_def()
    traits = traits_def(Pure())

    def __init__(self, lhs: SSAValue, rhs: SSAValue, predicate: str) -> None:
        super().__init__(
            operands=[lhs, rhs],
            result_types=[like(lhs.type, i1)],
            properties={"predicate": IntegerAttr(self.PREDICATES.index(predicate), i64)},
        )

    @property
    def spelled(self) -> str:
        """The name of the predicate."""
        return self.PREDICATES[self.predicate.value.data]

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        predicate = parser.expect(lambda: parser.parse_optional_keyword_in(cls.PREDICATES), f"expected one of {', '.join(cls.PREDICATES)}")
        parser.parse_punctuation(",")
        names = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        position = parser.pos
        type_ = parser.parse_type()
        lhs, rhs = parser.resolve_operands(names, [type_, type_], position)
        op = cls(lhs, rhs, predicate)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.spelled}, ")
        printer.print_list(self.operands, printer.print_operand)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.lhs.type)

    def verify_(self) -> None:
        _member(self.predicate, 0, self.PREDICATES, "predicate")
        if self.result.type != like(self.lhs.type, i1):
            raise VerifyException(f"the result is {self.result.type}; a comparison gives {like(self.lhs.type, i1)}")


@irdl_op_definition
class CmpIOp(CompareOp):
    """A comparison of integers, `tt.cmpi slt, %a, %b : tensor<16xi32>`; Triton spells it arith.cmpi."""

    name = "tt.cmpi"
    PREDICATES: ClassVar[tuple[str, ...]] = INTEGER_PREDICATES


@irdl_op_definition
class CmpFOp(CompareOp):
    """A comparison of floats, `tt.cmpf olt, %a, %b : tensor<16xf32>`; Triton spells it arith.cmpf."""

    name = "tt.cmpf"
    PREDICATES: ClassVar[tuple[str, ...]] = FLOAT_PREDICATES


@irdl_op_definition
class SelectOp(IRDLOperation):
    """Each element from one of two tensors; Triton spells it arith.select."""

    name = "tt.select"
    T: ClassVar = VarConstraint("T", AnyAttr())
    condition = operand_def()
    on_true = operand_def(T)
    on_false = operand_def(T)
    result = result_def(T)
    assembly_format = "$condition `,` $on_true `,` $on_false attr-dict `:` type($condition) `,` type($result)"
    traits = traits_def(Pure())

    def __init__(self, condition: SSAValue, on_true: SSAValue, on_false: SSAValue) -> None:
        super().__init__(operands=[condition, on_true, on_false], result_types=[on_true.type])

    def verify_(self) -> None:
        if element_of(self.condition.type) != i1 or shape_of(self.condition.type) not in ((), shape_of(self.result.type)):
            raise VerifyException(f"the condition is {self.condition.type}; i1 of shape {_spelled(shape_of(self.result.type))} is needed")


# Memory


@irdl_op_definition
class AddPtrOp(IRDLOperation):
    """The address a number of elements further on."""

    name = "tt.addptr"
    T: ClassVar = VarConstraint("T", AnyAttr())
    ptr = operand_def(T)
    offset = operand_def()
    result = result_def(T)
    assembly_format = "$ptr `,` $offset attr-dict `:` type($result) `,` type($offset)"
    traits = traits_def(Pure())

    def __init__(self, ptr: SSAValue, offset: SSAValue) -> None:
        super().__init__(operands=[ptr, offset], result_types=[ptr.type])

    def verify_(self) -> None:
        pointee_of(self.ptr.type)
        if shape_of(self.offset.type) != shape_of(self.ptr.type) or not isinstance(element_of(self.offset.type), IntegerType):
            raise VerifyException(f"the offset is {self.offset.type}; integers of shape {_spelled(shape_of(self.ptr.type))} are needed")


def _mask_fits(mask: SSAValue | None, ptr: SSAValue) -> None:
    if mask is not None and mask.type != like(ptr.type, i1):
        raise VerifyException(f"the mask is {mask.type}; {like(ptr.type, i1)} is needed")


@irdl_op_definition
class LoadOp(IRDLOperation):
    """
    Reads through a pointer or a tensor of pointers: `tt.load %p, %mask, %other : tensor<64x!tt.ptr<f16>>`.

    Where the mask is false nothing is read, and the result is `other`, or undefined without it. `evict` is 1 (normal),
    2 (evict_first) or 3 (evict_last).
    """

    name = "tt.load"
    ptr = operand_def()
    mask = opt_operand_def()
    other = opt_operand_def()
    cache = prop_def(IntegerAttr[IntegerType])
    evict = prop_def(IntegerAttr[IntegerType])
    isVolatile = prop_def(BoolAttr)
    result = result_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(MemoryReadEffect())

    def __init__(self, ptr: SSAValue, mask: SSAValue | None = None, other: SSAValue | None = None, evict: int = 1) -> None:
        super().__init__(
            operands=[ptr, mask, other],
            result_types=[pointee_of(ptr.type)],
            properties={"cache": IntegerAttr(1, i32), "evict": IntegerAttr(evict, i32), "isVolatile": BoolAttr.from_bool(False)},
        )

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        names = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        evict = 1
        if parser.parse_optional_keyword("evict"):
            evict = EVICTIONS[parser.expect(lambda: parser.parse_optional_keyword_in(EVICTIONS), "expected evict_first or evict_last")]
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        position = parser.pos
        pointer = parser.parse_type()
        try:
            types = [pointer, like(pointer, i1), pointee_of(pointer)]
        except VerifyException as error:
            parser.raise_error(str(error), position)
        if len(names) > 3:
            parser.raise_error("a load takes a pointer, a mask and another value", position)
        op = cls(*(parser.resolve_operand(name, type_) for name, type_ in zip(names, types, strict=False)), evict=evict)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_operand)
        _print_eviction(printer, self.evict)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.ptr.type)

    def verify_(self) -> None:
        value = pointee_of(self.ptr.type)
        _mask_fits(self.mask, self.ptr)
        if self.other is not None and (self.mask is None or self.other.type != value):
            raise VerifyException(f"the other value is {self.other.type}; {value} and a mask are needed")
        if self.result.type != value:
            raise VerifyException(f"the result is {self.result.type}; the pointer reads {value}")


def _print_eviction(printer: Printer, evict: IntegerAttr[IntegerType]) -> None:
    for name, number in EVICTIONS.items():
        if name and number == evict.value.data:
            printer.print_string(f" evict {name}")


@irdl_op_definition
class StoreOp(IRDLOperation):
    """Writes through a pointer or a tensor of pointers, where the mask is true: `tt.store %p, %value, %mask : !tt.ptr<f16>`."""

    name = "tt.store"
    ptr = operand_def()
    value = operand_def()
    mask = opt_operand_def()
    cache = prop_def(IntegerAttr[IntegerType])
    evict = prop_def(IntegerAttr[IntegerType])
    traits = traits_def(MemoryWriteEffect())

    def __init__(self, ptr: SSAValue, value: SSAValue, mask: SSAValue | None = None) -> None:
        super().__init__(operands=[ptr, value, mask], properties={"cache": IntegerAttr(1, i32), "evict": IntegerAttr(1, i32)})

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        names = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        position = parser.pos
        pointer = parser.parse_type()
        try:
            types = [pointer, pointee_of(pointer), like(pointer, i1)]
        except VerifyException as error:
            parser.raise_error(str(error), position)
        if len(names) not in (2, 3):
            parser.raise_error("a store takes a pointer, a value and perhaps a mask", position)
        op = cls(*(parser.resolve_operand(name, type_) for name, type_ in zip(names, types, strict=False)))
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_operand)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.ptr.type)

    def verify_(self) -> None:
        _mask_fits(self.mask, self.ptr)
        if self.value.type != pointee_of(self.ptr.type):
            raise VerifyException(f"the value is {self.value.type}; the pointer writes {pointee_of(self.ptr.type)}")


RMW_KINDS = ("and", "or", "xor", "add", "fadd", "max", "min", "umax", "umin", "exch")
MEMORY_ORDERS = ("relaxed", "acquire", "release", "acq_rel")
SCOPES = ("gpu", "cta", "sys")


@irdl_op_definition
class AtomicRMWOp(IRDLOperation):
    """
    Reads, combines and writes in one step, giving what was there before.

    `atomic_rmw_op` counts from 1 in `RMW_KINDS`, `sem` from 1 in `MEMORY_ORDERS`, `scope` from 1 in `SCOPES`.
    """

    name = "tt.atomic_rmw"
    atomic_rmw_op = prop_def(IntegerAttr[IntegerType])
    ptr = operand_def()
    val = operand_def()
    mask = opt_operand_def()
    sem = prop_def(IntegerAttr[IntegerType])
    scope = prop_def(IntegerAttr[IntegerType])
    result = result_def()
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        _mask_fits(self.mask, self.ptr)
        _member(self.atomic_rmw_op, 1, RMW_KINDS, "kind")
        _member(self.sem, 1, MEMORY_ORDERS, "memory order")
        _member(self.scope, 1, SCOPES, "scope")
        if self.val.type != pointee_of(self.ptr.type) or self.result.type != self.val.type:
            raise VerifyException(f"the value is {self.val.type} and the result {self.result.type}; both are {pointee_of(self.ptr.type)}")


@irdl_op_definition
class AtomicCASOp(IRDLOperation):
    """Writes `val` where memory equals `cmp`, in one step, giving what was there before."""

    name = "tt.atomic_cas"
    ptr = operand_def()
    cmp = operand_def()
    val = operand_def()
    sem = prop_def(IntegerAttr[IntegerType])
    scope = prop_def(IntegerAttr[IntegerType])
    result = result_def()
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def verify_(self) -> None:
        _member(self.sem, 1, MEMORY_ORDERS, "memory order")
        _member(self.scope, 1, SCOPES, "scope")
        value = pointee_of(self.ptr.type)
        if not self.cmp.type == self.val.type == self.result.type == value:
            raise VerifyException(f"the operands and the result are not all {value}")


@irdl_op_definition
class MakeTensorDescOp(IRDLOperation):
    """Describes a tensor in memory: base address, shape (i32) and strides in elements (i64, the last one 1)."""

    name = "tt.make_tensor_descriptor"
    base = operand_def(PtrType)
    shape = var_operand_def(eq(i32))
    strides = var_operand_def()
    padding = prop_def(IntegerAttr[IntegerType])
    result = result_def(TensorDescType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    traits = traits_def(Pure())

    def verify_(self) -> None:
        rank = len(shape_of(self.result.type.block))
        if len(self.shape) != rank or len(self.strides) != rank:
            raise VerifyException(f"the block has {rank} dimensions; {len(self.shape)} sizes and {len(self.strides)} strides are given")


@irdl_op_definition
class DescriptorLoadOp(IRDLOperation):
    """Reads the block at the given indices; what lies outside the tensor reads as the descriptor's padding."""

    name = "tt.descriptor_load"
    desc = operand_def(TensorDescType)
    indices = var_operand_def(eq(i32))
    result = result_def(TensorType)
    traits = traits_def(MemoryReadEffect())

    def verify_(self) -> None:
        block = cast(TensorDescType, self.desc.type).block
        if self.result.type != block or len(self.indices) != len(shape_of(block)):
            raise VerifyException(f"the descriptor reads {block} at {len(shape_of(block))} indices")


@irdl_op_definition
class DescriptorStoreOp(IRDLOperation):
    """Writes the block at the given indices; what lies outside the tensor is not written."""

    name = "tt.descriptor_store"
    desc = operand_def(TensorDescType)
    src = operand_def(TensorType)
    indices = var_operand_def(eq(i32))
    traits = traits_def(MemoryWriteEffect())

    def verify_(self) -> None:
        block = cast(TensorDescType, self.desc.type).block
        if self.src.type != block or len(self.indices) != len(shape_of(block)):
            raise VerifyException(f"the descriptor writes {block} at {len(shape_of(block))} indices")


# Compound operations


@irdl_op_definition
class DotOp(IRDLOperation):
    """
    `d = a . b + c`: `tt.dot %a, %b, %c precision ieee : tensor<16x32xf16> * tensor<32x16xf16> -> tensor<16x16xf32>`.

    `inputPrecision` counts in `PRECISIONS` and says how f32 operands are multiplied.
    """

    name = "tt.dot"
    a = operand_def(TensorType)
    b = operand_def(TensorType)
    c = operand_def(TensorType)
    inputPrecision = prop_def(IntegerAttr[IntegerType])
    maxNumImpreciseAcc = prop_def(IntegerAttr[IntegerType])
    d = result_def(TensorType)
    traits = traits_def(Pure())

    def __init__(self, a: SSAValue, b: SSAValue, c: SSAValue, precision: str = "ieee") -> None:
        super().__init__(
            operands=[a, b, c],
            result_types=[c.type],
            properties={
                "inputPrecision": IntegerAttr(PRECISIONS.index(precision), i32),
                "maxNumImpreciseAcc": IntegerAttr(0, i32),
            },
        )

    @property
    def precision(self) -> str:
        """The name of the input precision."""
        return PRECISIONS[self.inputPrecision.value.data]

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        names = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        parser.parse_keyword("precision")
        precision = parser.expect(lambda: parser.parse_optional_keyword_in(PRECISIONS), "expected tf32, tf32x3 or ieee")
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        position = parser.pos
        types = [parser.parse_type()]
        parser.parse_punctuation("*")
        types.append(parser.parse_type())
        parser.parse_punctuation("->")
        types.append(parser.parse_type())
        op = cls(*parser.resolve_operands(names, types, position), precision=precision)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_operand)
        printer.print_string(f" precision {self.precision}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.a.type)
        printer.print_string(" * ")
        printer.print_attribute(self.b.type)
        printer.print_string(" -> ")
        printer.print_attribute(self.d.type)

    def verify_(self) -> None:
        a, b, c = (shape_of(value.type) for value in (self.a, self.b, self.c))
        if len(a) not in (2, 3) or len(b) != len(a) or a[:-2] != b[:-2] or a[-1] != b[-2]:
            raise VerifyException(f"{_spelled(a)} and {_spelled(b)} do not multiply")
        if c != (*a[:-1], b[-1]) or self.d.type != self.c.type:
            raise VerifyException(f"the accumulator is {self.c.type}; the product has shape {_spelled((*a[:-1], b[-1]))}")
        if element_of(self.a.type) != element_of(self.b.type):
            raise VerifyException(f"the operands have elements {element_of(self.a.type)} and {element_of(self.b.type)}")
        _member(self.inputPrecision, 0, PRECISIONS, "precision")


@irdl_op_definition
class ReduceReturnOp(IRDLOperation):
    """Ends the combination of a reduction."""

    name = "tt.reduce.return"
    value = operand_def()
    assembly_format = "$value attr-dict `:` type($value)"
    traits = lazy_traits_def(lambda: (IsTerminator(), HasParent(ReduceOp)))

    def __init__(self, value: SSAValue) -> None:
        super().__init__(operands=[value])


@irdl_op_definition
class ReduceOp(IRDLOperation):
    """Removes dimension `axis` by combining elements two at a time as the region says."""

    name = "tt.reduce"
    srcs = var_operand_def(TensorType)
    axis = prop_def(IntegerAttr[IntegerType])
    combine = region_def("single_block")
    results_ = var_result_def()
    traits = traits_def(RecursiveMemoryEffect())

    def __init__(self, src: SSAValue, axis: int, combine: Region) -> None:
        shape = list(shape_of(src.type))
        del shape[axis]
        element = element_of(src.type)
        super().__init__(
            operands=[[src]],
            result_types=[[TensorType(element, shape) if shape else element]],
            properties={"axis": IntegerAttr(axis, i32)},
            regions=[combine],
        )

    def verify_(self) -> None:
        if len(self.srcs) != 1 or len(self.results_) != 1:
            raise VerifyException("one operand and one result are supported")
        shape, axis = list(shape_of(self.srcs[0].type)), self.axis.value.data
        if not 0 <= axis < len(shape):
            raise VerifyException(f"axis {axis} is not in 0 to {len(shape) - 1}")
        del shape[axis]
        element = element_of(self.srcs[0].type)
        if list(shape_of(self.results_[0].type)) != shape or element_of(self.results_[0].type) != element:
            raise VerifyException(f"the result is {self.results_[0].type}; its shape is {_spelled(shape)} of {element}")
        if [argument.type for argument in self.combine.block.args] != [element, element]:
            raise VerifyException(f"the combination takes two arguments of {element}")
        last = self.combine.block.last_op
        if not isinstance(last, ReduceReturnOp) or last.value.type != element:
            raise VerifyException(f"the combination ends in tt.reduce.return of {element}")


SPELLED = {f"tt.{name}": f"arith.{name}" for name in ("cmpi", "cmpf", "select", "extsi", "extui", "trunci", "sitofp", "uitofp", "fptosi")}
"""Operations that Triton spells otherwise."""

Tt = Dialect(
    "tt",
    [
        FuncOp,
        ReturnOp,
        GetProgramIdOp,
        GetNumProgramsOp,
        MakeRangeOp,
        SplatOp,
        UnsplatOp,
        BroadcastOp,
        ExpandDimsOp,
        TransOp,
        ReshapeOp,
        ExtSIOp,
        ExtUIOp,
        TruncIOp,
        SIToFPOp,
        UIToFPOp,
        FPToSIOp,
        BitcastOp,
        CmpIOp,
        CmpFOp,
        SelectOp,
        AddPtrOp,
        LoadOp,
        StoreOp,
        AtomicRMWOp,
        AtomicCASOp,
        MakeTensorDescOp,
        DescriptorLoadOp,
        DescriptorStoreOp,
        DotOp,
        ReduceReturnOp,
        ReduceOp,
    ],
    [PtrType, TensorDescType],
)
