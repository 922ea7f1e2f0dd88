"""Products and reductions of `tt`."""

from __future__ import annotations

from typing import Self

from xdsl.dialects.builtin import (
    IntegerAttr,
    IntegerType,
    TensorType,
    i32,
)
from xdsl.ir import Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    lazy_traits_def,
    operand_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    HasParent,
    IsTerminator,
    Pure,
    RecursiveMemoryEffect,
)
from xdsl.utils.exceptions import VerifyException

from cleave.dialects.tt.types import check_member, element_of, shape_of, spelled

PRECISIONS = ("tf32", "tf32x3", "ieee")


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
            raise VerifyException(f"{spelled(a)} and {spelled(b)} do not multiply")
        if c != (*a[:-1], b[-1]) or self.d.type != self.c.type:
            raise VerifyException(f"the accumulator is {self.c.type}; the product has shape {spelled((*a[:-1], b[-1]))}")
        if element_of(self.a.type) != element_of(self.b.type):
            raise VerifyException(f"the operands have elements {element_of(self.a.type)} and {element_of(self.b.type)}")
        check_member(self.inputPrecision, 0, PRECISIONS, "precision")


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
            raise VerifyException(f"the result is {self.results_[0].type}; its shape is {spelled(shape)} of {element}")
        if [argument.type for argument in self.combine.block.args] != [element, element]:
            raise VerifyException(f"the combination takes two arguments of {element}")
        last = self.combine.block.last_op
        if not isinstance(last, ReduceReturnOp) or last.value.type != element:
            raise VerifyException(f"the combination ends in tt.reduce.return of {element}")
