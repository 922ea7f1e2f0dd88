"""Operations of `tt` that make or change shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self, cast

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    IntegerType,
    TensorType,
    i32,
)
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
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

from cleave.dialects.tt.types import count, element_of, shape_of, spelled


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
            raise VerifyException(f"the result is {self.result.type}; its shape is {spelled(shape)}")


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
            raise VerifyException(f"the result is {self.result.type}; its shape is {spelled(expected)}")


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
        counts = [count(shape_of(value.type)) for value in (self.src, self.result)]
        if counts[0] != counts[1] or element_of(self.src.type) != element_of(self.result.type):
            raise VerifyException(f"{self.src.type} has {counts[0]} elements and {self.result.type} {counts[1]}")
