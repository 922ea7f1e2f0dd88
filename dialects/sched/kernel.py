"""Kernels of `sched`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from xdsl.dialects.builtin import (
    ArrayAttr,
    IntegerAttr,
    StringAttr,
    i64,
)
from xdsl.ir import Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    IsolatedFromAbove,
    NoTerminator,
    SymbolOpInterface,
)
from xdsl.utils.exceptions import VerifyException

from cleave.assembly import (
    extent_text,
    names_attr,
    names_of,
    parse_extent,
)
from cleave.dialects.sched.memory import AccessOp
from cleave.dialects.sched.types import INDEX, BufferType, check_names
from cleave.extents import Extent, extent

LEAST_REGISTERS, MOST_REGISTERS = 16, 255
"""The bounds that may be put on the registers of a thread."""


def print_named(printer: Printer, value: SSAValue, name: str) -> None:
    """A block argument, and its name where the text of the value does not say it."""
    if printer.print_ssa_value(value) != name:
        printer.print_string(f" as {name}")


def parse_named(parser: Parser) -> tuple[Parser.UnresolvedArgument, str]:
    """A block argument, and the name it has in plain programs."""
    argument = parser.parse_argument(expect_type=False)
    name = parser.parse_identifier() if parser.parse_optional_keyword("as") else argument.name.text[1:]
    return argument, name


def spelled_extent(text: str) -> str:
    """The text of an extent in IR."""
    return extent_text(extent(text))


def check_resources(warps: IntegerAttr, stages: IntegerAttr, most: IntegerAttr | None) -> None:
    """Warps, stages and a bound on the registers of a thread are such that machines have. Raises: VerifyException."""
    count = warps.value.data
    if count < 1 or count & (count - 1) or count > 32:
        raise VerifyException(f"{count} warps; use a power of two up to 32")
    if stages.value.data < 1:
        raise VerifyException(f"{stages.value.data} stages; use at least 1")
    if most is not None and not LEAST_REGISTERS <= most.value.data <= MOST_REGISTERS:
        raise VerifyException(f"a thread has at most {most.value.data} registers; use {LEAST_REGISTERS} to {MOST_REGISTERS}")


def check_persistent(programs: IntegerAttr | None, grid: ArrayAttr[StringAttr]) -> None:
    """Persistent programs are some, and there are tiles to run. Raises: VerifyException."""
    if programs is not None and programs.value.data < 1:
        raise VerifyException(f"persistent programs are {programs.value.data}; use at least 1")
    if programs is not None and not grid.data:
        raise VerifyException("persistent programs run the tiles of a grid; this one has no dimensions")


def checked_extent(text: str) -> Extent:
    """The extent of a text. Raises: VerifyException."""
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

    With `group 8` after the grid, programs are numbered so that 8 tiles of its first dimension run with all of the second before the
    next 8. With `persistent 132` after that, at most 132 programs are launched, and each runs the body for some tiles of the grid, one
    after another. Either way the body is run once for every tile. With `registers 128` after the stages, a thread has no more of them.
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
    group = opt_prop_def(IntegerAttr)
    persistent = opt_prop_def(IntegerAttr)
    max_registers = opt_prop_def(IntegerAttr)
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
        group: int | None = None,
        persistent: int | None = None,
        max_registers: int | None = None,
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
                "group": None if group is None else IntegerAttr(group, i64),
                "persistent": None if persistent is None else IntegerAttr(persistent, i64),
                "max_registers": None if max_registers is None else IntegerAttr(max_registers, i64),
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
            argument, own = parse_named(parser)
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
        group, persistent = (
            parser.parse_integer(allow_boolean=False, allow_negative=False) if parser.parse_optional_keyword(word) else None
            for word in ("group", "persistent")
        )
        warps = parser.parse_integer(allow_negative=False) if parser.parse_optional_keyword("warps") else 4
        stages = parser.parse_integer(allow_negative=False) if parser.parse_optional_keyword("stages") else 3
        most = parser.parse_integer(allow_boolean=False, allow_negative=False) if parser.parse_optional_keyword("registers") else None
        attributes = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_region([argument for argument, _ in (*buffers, *sizes, *grid)])
        names, places = [own for _, own in buffers], [entry for _, entry in grid]
        op = cls(name, names, [own for _, own in sizes], places, body, warps, stages, group, persistent, most)
        op.attributes |= attributes.data if attributes else {}
        return op

    def print(self, printer: Printer) -> None:
        def buffer(pair: tuple[SSAValue, str]) -> None:
            print_named(printer, *pair)
            printer.print_string(": ")
            printer.print_attribute(pair[0].type)

        def size(pair: tuple[SSAValue, str]) -> None:
            printer.print_ssa_value(pair[0])
            printer.print_string(f" = {pair[1]}")

        def place(pair: tuple[SSAValue, tuple[str, int, str]]) -> None:
            printer.print_ssa_value(pair[0])
            dim, tile, count = pair[1]
            printer.print_string(f" = {dim} by {tile} count {spelled_extent(count)}")

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
        for word, number in (("group", self.group), ("persistent", self.persistent)):
            printer.print_string("" if number is None else f" {word} {number.value.data}")
        printer.print_string(f" warps {self.num_warps.value.data} stages {self.num_stages.value.data}")
        printer.print_string("" if self.max_registers is None else f" registers {self.max_registers.value.data}")
        printer.print_op_attributes(self.attributes, print_keyword=True)
        printer.print_string(" ")
        printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)

    def verify_(self) -> None:
        check_names(names_of(self.buffer_names), "buffer")
        check_names(names_of(self.sizes), "size")
        check_names(names_of(self.grid_dims), "dimension")
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
            checked_extent(count)
        if self.group is not None and self.group.value.data < 1:
            raise VerifyException(f"groups of {self.group.value.data} tiles; use at least 1")
        if self.group is not None and len(self.grid_dims) < 2:
            raise VerifyException(f"groups are of tiles along one dimension of a grid, for another; this one has {len(self.grid_dims)}")
        check_persistent(self.persistent, self.grid_counts)
        check_resources(self.num_warps, self.num_stages, self.max_registers)
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
