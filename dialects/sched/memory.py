"""Loads and stores of `sched`."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from typing import Self, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    FloatAttr,
    IndexType,
    StringAttr,
    UnitAttr,
    f64,
)
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
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
)
from xdsl.utils.exceptions import VerifyException

from cleave.assembly import (
    literal_text,
    names_attr,
    names_of,
    parse_literal,
)
from cleave.dialects.sched.types import (
    BufferType,
    TileType,
    check_names,
    is_scalar_index,
    parse_defined,
    parse_tile,
    print_tail,
    spelled,
    tile_of,
)

BOX_BYTES = 16
"""The least bytes that lie together in a box, which is also what machines copy at a time."""


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
            for name, size in tile_of(value).shape.items():
                out.setdefault(name, size)
        return out

    def verify_access(self) -> None:
        """Indices, extents and buffer fit. Raises: VerifyException."""
        buffer = self.memory.type
        if not isinstance(buffer, BufferType):
            raise VerifyException(f"{buffer} is not a buffer")
        axes = [axis for axis, _ in self.places]
        check_names(axes, "axis")
        for axis in names_of(buffer.axes):
            if axis not in axes:
                raise VerifyException(f"axis '{axis}' of the buffer has no index")
        for axis, value in self.places:
            if axis not in names_of(buffer.axes):
                raise VerifyException(f"axis '{axis}' is not in the buffer (has {', '.join(names_of(buffer.axes))})")
            if not isinstance(tile_of(value).element, IndexType):
                raise VerifyException(f"the index of axis '{axis}' has elements {tile_of(value).element}; index is needed")
            for name, size in tile_of(value).shape.items():
                if self.dims[name] != size:
                    raise VerifyException(f"dimension '{name}' has sizes {size} and {self.dims[name]} in two indices")
        check_names([axis for axis, _ in self.bounds], "axis")
        for axis, value in self.bounds:
            if axis not in axes:
                raise VerifyException(f"checked axis '{axis}' is not in the buffer (has {', '.join(names_of(buffer.axes))})")
            if not is_scalar_index(value):
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
        return axis, parse_defined(parser)

    def bound() -> tuple[str, SSAValue]:
        axis = parser.parse_identifier()
        parser.parse_punctuation("<")
        return axis, parse_defined(parser)

    buffer = parse_defined(parser)
    places = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, place)
    bounds = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, bound) if parser.parse_optional_keyword("check") else []
    return buffer, places, bounds


_Places = Sequence[tuple[str, SSAValue]]


@irdl_op_definition
class LoadOp(AccessOp):
    """
    Reads a tile over the union of the indices' dimensions.

    Lanes that a check leaves alone give `other`, or without it an unusable value (NaN). `eviction` is a cache hint,
    evict_first or evict_last. A `fresh` load sees what other programs stored, where a `sched.last` orders them:

        %x = sched.load %parts [s = %s, m = %m] fresh : !sched.tile<[s = 4, m = 64], f32>

    One by `descriptor` reads a box of two dimensions, which a machine may copy as one: 16-bit floats at an aligned address, along one
    axis together, at least 16 bytes of them, along all others in steps of a multiple of 16 bytes. Its two axes are checked, and what is
    outside is 0:

        %k = sched.load %keys [b = %b, n = %n, d = %d] check [n < %n_size, d < %c64] other 0.0 descriptor : ...
    """

    name = "sched.load"
    buffer = operand_def(BufferType)
    indices = var_operand_def(TileType)
    extents = var_operand_def(TileType)
    axes = prop_def(ArrayAttr[StringAttr])
    checked = prop_def(ArrayAttr[StringAttr])
    other = opt_prop_def(FloatAttr)
    eviction = opt_prop_def(StringAttr)
    fresh = opt_prop_def(UnitAttr)
    descriptor = opt_prop_def(UnitAttr)
    out = result_def(TileType)
    traits = traits_def(MemoryReadEffect())

    def __init__(
        self,
        buffer: SSAValue,
        places: _Places,
        bounds: _Places,
        out: TileType,
        other: float | None = None,
        eviction: str = "",
        fresh: bool = False,
        descriptor: bool = False,
    ) -> None:
        super().__init__(
            operands=[buffer, [value for _, value in places], [value for _, value in bounds]],
            result_types=[out],
            properties={
                "axes": names_attr([axis for axis, _ in places]),
                "checked": names_attr([axis for axis, _ in bounds]),
                "other": None if other is None else FloatAttr(other, f64),
                "eviction": StringAttr(eviction) if eviction else None,
                "fresh": UnitAttr() if fresh else None,
                "descriptor": UnitAttr() if descriptor else None,
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
        fresh = parser.parse_optional_keyword("fresh") is not None
        descriptor = parser.parse_optional_keyword("descriptor") is not None
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        out = parse_tile(parser)
        op = cls(buffer, places, bounds, out, other, eviction, fresh, descriptor)
        op.attributes |= attributes
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        _print_access(printer, self)
        if self.other is not None:
            printer.print_string(f" other {literal_text(self.other.value.data)}")
        if self.eviction is not None:
            printer.print_string(f" evict {self.eviction.data}")
        if self.fresh is not None:
            printer.print_string(" fresh")
        if self.descriptor is not None:
            printer.print_string(" descriptor")
        print_tail(self, printer)

    def verify_(self) -> None:
        if len(self.axes) != len(self.indices) or len(self.checked) != len(self.extents):
            raise VerifyException("the numbers of axes and of their indices or extents differ")
        self.verify_access()
        out = tile_of(self.out)
        if set(out.shape.items()) != set(self.dims.items()) or out.element != cast(BufferType, self.buffer.type).element:
            element = cast(BufferType, self.buffer.type).element
            raise VerifyException(f"the result is {out}; the indices and the buffer give {spelled(self.dims)} of {element}")
        if self.eviction is not None and self.eviction.data not in ("evict_first", "evict_last"):
            raise VerifyException(f"'{self.eviction.data}' is not a cache hint; use evict_first or evict_last")
        if self.descriptor is not None:
            self._verify_descriptor()

    def _verify_descriptor(self) -> None:
        """What is read is a box. Raises: VerifyException."""
        buffer, tiles = cast(BufferType, self.buffer.type), {axis for axis, value in self.places if tile_of(value).shape}
        checked = {axis for axis, _ in self.bounds}
        if self.eviction is not None or self.fresh is not None:
            raise VerifyException("a load by descriptor has no cache hint and is not fresh")
        if len(tiles) != 2 or len(tile_of(self.out).shape) != 2:
            raise VerifyException(f"a load by descriptor has one dimension on each of two axes; {len(tiles)} axes have tiles")
        if checked != tiles or self.other is None or self.other.value.data != 0.0:
            raise VerifyException(f"a load by descriptor checks the axes of its tiles, {' and '.join(sorted(tiles))}, with other 0.0")
        if not buffer.boxes(tiles):
            raise VerifyException(
                "a load by descriptor needs an aligned buffer of 16-bit floats, known strides of the axes of its tiles, of which one is 1,"
                " and other strides of a multiple of 16 bytes"
            )
        (inner,) = (value for axis, value in self.places if buffer.stride[axis] == 1)
        (least,) = tile_of(inner).shape.values()
        if least * 2 < BOX_BYTES:
            raise VerifyException(f"a load by descriptor reads at least {BOX_BYTES} bytes that lie together; these are {least * 2}")


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
        value = parse_defined(parser)
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
        if tile_of(self.value).element != element:
            raise VerifyException(f"the value has elements {tile_of(self.value).element} and the buffer {element}; cast it")
        for name, size in tile_of(self.value).shape.items():
            if self.dims.get(name) != size:
                raise VerifyException(f"dimension '{name}' = {size} of the value is not in the indices {spelled(self.dims)}")
