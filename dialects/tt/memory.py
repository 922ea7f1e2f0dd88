"""Addresses, loads, stores, atomics and descriptors of `tt`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Self, cast

from xdsl.dialects.builtin import (
    BoolAttr,
    IntegerAttr,
    IntegerType,
    TensorType,
    i1,
    i32,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    IRDLOperation,
    VarConstraint,
    eq,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    MemoryReadEffect,
    MemoryWriteEffect,
    Pure,
)
from xdsl.utils.exceptions import VerifyException

from cleave.dialects.tt.types import PtrType, TensorDescType, check_member, element_of, like, pointee_of, shape_of, spelled

EVICTIONS = {"": 1, "evict_first": 2, "evict_last": 3}
CACHES = {"": 1, "cg": 3}
"""Where a load looks: anywhere, or in the caches that all multiprocessors share."""
ZERO_PADDING = 1
"""What lies outside a described tensor reads as 0."""


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
            raise VerifyException(f"the offset is {self.offset.type}; integers of shape {spelled(shape_of(self.ptr.type))} are needed")


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

    def __init__(self, ptr: SSAValue, mask: SSAValue | None = None, other: SSAValue | None = None, evict: int = 1, cache: int = 1) -> None:
        super().__init__(
            operands=[ptr, mask, other],
            result_types=[pointee_of(ptr.type)],
            properties={"cache": IntegerAttr(cache, i32), "evict": IntegerAttr(evict, i32), "isVolatile": BoolAttr.from_bool(False)},
        )

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        names = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        evict = 1
        if parser.parse_optional_keyword("evict"):
            evict = EVICTIONS[parser.expect(lambda: parser.parse_optional_keyword_in(EVICTIONS), "expected evict_first or evict_last")]
        cache = 1
        if parser.parse_optional_keyword("cache"):
            cache = CACHES[parser.expect(lambda: parser.parse_optional_keyword_in(CACHES), "expected cg")]
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
        op = cls(*(parser.resolve_operand(name, type_) for name, type_ in zip(names, types, strict=False)), evict=evict, cache=cache)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_list(self.operands, printer.print_operand)
        _print_hint(printer, "evict", EVICTIONS, self.evict)
        _print_hint(printer, "cache", CACHES, self.cache)
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


def _print_hint(printer: Printer, keyword: str, names: Mapping[str, int], value: IntegerAttr[IntegerType]) -> None:
    for name, number in names.items():
        if name and number == value.value.data:
            printer.print_string(f" {keyword} {name}")


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
    Reads, combines and writes in one step, giving what was there before: `tt.atomic_rmw add %p, %one acq_rel gpu : !tt.ptr<i32>`.

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

    def __init__(
        self, kind: str, ptr: SSAValue, val: SSAValue, mask: SSAValue | None = None, sem: str = "acq_rel", scope: str = "gpu"
    ) -> None:
        super().__init__(
            operands=[ptr, val, mask],
            result_types=[pointee_of(ptr.type)],
            properties={
                "atomic_rmw_op": IntegerAttr(RMW_KINDS.index(kind) + 1, i32),
                "sem": IntegerAttr(MEMORY_ORDERS.index(sem) + 1, i32),
                "scope": IntegerAttr(SCOPES.index(scope) + 1, i32),
            },
        )

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        kind = parser.expect(lambda: parser.parse_optional_keyword_in(RMW_KINDS), f"expected one of {', '.join(RMW_KINDS)}")
        names = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        sem = parser.expect(lambda: parser.parse_optional_keyword_in(MEMORY_ORDERS), f"expected one of {', '.join(MEMORY_ORDERS)}")
        scope = parser.expect(lambda: parser.parse_optional_keyword_in(SCOPES), f"expected one of {', '.join(SCOPES)}")
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        position = parser.pos
        pointer = parser.parse_type()
        try:
            types = [pointer, pointee_of(pointer), like(pointer, i1)]
        except VerifyException as error:
            parser.raise_error(str(error), position)
        if len(names) not in (2, 3):
            parser.raise_error("an atomic operation takes a pointer, a value and perhaps a mask", position)
        ptr, val, *mask = (parser.resolve_operand(name, type_) for name, type_ in zip(names, types, strict=False))
        op = cls(kind, ptr, val, mask[0] if mask else None, sem, scope)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.kind} ")
        printer.print_list(self.operands, printer.print_operand)
        printer.print_string(f" {self.order} {self.extent}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.ptr.type)

    @property
    def kind(self) -> str:
        """How the value is combined with what is there."""
        return RMW_KINDS[self.atomic_rmw_op.value.data - 1]

    @property
    def order(self) -> str:
        """The memory order."""
        return MEMORY_ORDERS[self.sem.value.data - 1]

    @property
    def extent(self) -> str:
        """Which threads are ordered."""
        return SCOPES[self.scope.value.data - 1]

    def verify_(self) -> None:
        _mask_fits(self.mask, self.ptr)
        check_member(self.atomic_rmw_op, 1, RMW_KINDS, "kind")
        check_member(self.sem, 1, MEMORY_ORDERS, "memory order")
        check_member(self.scope, 1, SCOPES, "scope")
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
        check_member(self.sem, 1, MEMORY_ORDERS, "memory order")
        check_member(self.scope, 1, SCOPES, "scope")
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

    def __init__(self, base: SSAValue, shape: Sequence[SSAValue], strides: Sequence[SSAValue], block: TensorType[Attribute]) -> None:
        super().__init__(
            operands=[base, shape, strides], properties={"padding": IntegerAttr(ZERO_PADDING, i32)}, result_types=[TensorDescType(block)]
        )

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

    def __init__(self, desc: SSAValue, indices: Sequence[SSAValue]) -> None:
        super().__init__(operands=[desc, indices], result_types=[cast(TensorDescType, desc.type).block])

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
