"""Elementwise operations of `tt` that `arith` and `math` do not have for tensors."""

from __future__ import annotations

from abc import ABC
from typing import ClassVar, Self

from xdsl.dialects.builtin import (
    AnyFloat,
    IntegerAttr,
    IntegerType,
    i1,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    Pure,
)
from xdsl.utils.exceptions import VerifyException

from cleave.dialects.tt.types import PtrType, check_member, element_of, like, shape_of, spelled


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
        check_member(self.predicate, 0, self.PREDICATES, "predicate")
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
            raise VerifyException(f"the condition is {self.condition.type}; i1 of shape {spelled(shape_of(self.result.type))} is needed")


@irdl_op_definition
class RemFOp(IRDLOperation):
    """What is left of a float after the truncated quotient, with its sign, as fmod has it; Triton spells it arith.remf."""

    name = "tt.remf"
    T: ClassVar = VarConstraint("T", AnyAttr())
    lhs = operand_def(T)
    rhs = operand_def(T)
    result = result_def(T)
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($result)"
    traits = traits_def(Pure())

    def __init__(self, lhs: SSAValue, rhs: SSAValue) -> None:
        super().__init__(operands=[lhs, rhs], result_types=[lhs.type])

    def verify_(self) -> None:
        if not isinstance(element_of(self.result.type), AnyFloat):
            raise VerifyException(f"the result is {self.result.type}; a remainder of floats is needed")
