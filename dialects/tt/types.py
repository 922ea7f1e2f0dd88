"""Types of `tt`, and what its operations share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    TensorType,
)
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import (
    irdl_attr_definition,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException


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
    data, size = attr.data.data, count(attr.get_shape() or ())
    first = data[: len(data) // size] if size else b""
    if not first or data != first * size:
        return None
    return cast(DenseIntOrFPElementsAttr[AnyFloat], attr).get_element_type().unpack(first, 1)[0]


def splat_attr(value: float | int, shape: Sequence[int], element: Attribute) -> DenseIntOrFPElementsAttr:
    """The attribute of a constant tensor that holds one number in every element."""
    if isinstance(element, AnyFloat):
        return DenseIntOrFPElementsAttr.from_list(TensorType(element, shape), [float(value)])
    assert isinstance(element, IntegerType), f"{element} is not a type of numbers"
    return DenseIntOrFPElementsAttr.from_list(TensorType(IntegerType(element.bitwidth), shape), [int(value)])


def spelled(shape: Sequence[int]) -> str:
    """A shape as types write it."""
    return "x".join(map(str, shape)) or "scalar"


def check_member(value: IntegerAttr[IntegerType], first: int, names: Sequence[str], what: str) -> None:
    """An enumeration holds one of its numbers, counted from `first`. Raises: VerifyException."""
    if not 0 <= value.value.data - first < len(names):
        raise VerifyException(f"{value.value.data} is not a {what}; use {first} to {first + len(names) - 1} for {', '.join(names)}")


def count(shape: Sequence[int]) -> int:
    """The number of elements of a shape."""
    out = 1
    for size in shape:
        out *= size
    return out
