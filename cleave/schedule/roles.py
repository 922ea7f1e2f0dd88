"""
Schedules of one kernel as plain values: which axes make up each tile dimension, and the role and size of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Role: TypeAlias = Literal["grid", "loop", "full"]


@dataclass(frozen=True, slots=True)
class Dim:
    """
    A dimension of tiles: one axis, or several packed and decoded by div and mod, the last fastest.

    Roles: `grid` (parallel programs of `tile` elements), `loop` (sequential, `tile` at a time), `full` (the whole dimension in a
    tile, whose size is its extent rounded up to a power of two). `tile` is a power of two; dimensions of tile 1 are scalars.
    One `along` another is a second name for the elements that this one has in a program.
    """

    name: str
    axes: tuple[str, ...]
    role: Role
    tile: int
    along: str = ""


@dataclass(frozen=True, slots=True)
class Pieces:
    """
    An axis in pieces: those powers of two that its extent is the sum of, or with `part` as many of that size as it takes; parts of 1
    are single elements, which have no axis. With `tile`, each tile of that many elements is in pieces, and tiles are programs of the
    grid. With `most`, parts are of 1 and the axis has 1 to so many, known when the program runs. See `cleave.schedule.pieces`.
    """

    axis: str
    tile: int = 0
    part: int = 0
    most: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """
    The schedule of one kernel. `dims` are in layout order, which fixes the sides of dots. `raster` orders the grid, fastest first; with a
    `group`, so many tiles of its first dimension run with all of the second before the next ones. Where it is `persistent`, at most so many
    programs are launched, which run the tiles in turn; see `cleave.schedule.raster`.

    With `peeled`, loops with masks or ragged ends have a body of their own for tiles that need no mask; with `branching`, they have one
    body that branches past its masks where a tile needs none. The programs of a grid dimension in `descending` are numbered from its end;
    those of one that is `ordered` as is stored, see `cleave.schedule.longest`.
    `last` are the dimensions of what the last program to arrive does with the results of others; see `cleave.schedule.last`. For the axes
    of `pieces` the dimensions are of their pieces. With `descriptors` dots load by descriptor what they may. With `diagonal`, sums of
    products of two rows are made by dots; see `cleave.schedule.diagonal`. Where `max_registers` is not 0, a thread has no more, so that
    more programs run at once.
    """

    dims: tuple[Dim, ...]
    raster: tuple[str, ...]
    num_warps: int = 4
    num_stages: int = 3
    peeled: bool = False
    branching: bool = False
    descending: str = ""
    ordered: str = ""
    last: tuple[Dim, ...] = ()
    pieces: tuple[Pieces, ...] = ()
    descriptors: bool = False
    diagonal: bool = False
    group: int = 0
    persistent: int = 0
    max_registers: int = 0

    def dim_of(self, axis: str) -> Dim:
        """The dimension an axis is in. Raises: KeyError."""
        for dim in self.dims:
            if axis in dim.axes:
                return dim
        raise KeyError(axis)

    @property
    def special(self) -> bool:
        """Whether it is one that only its time can speak for."""
        return self.peeled or self.branching or self.descriptors or self.diagonal or self.reordered or bool(self.max_registers)

    @property
    def reordered(self) -> bool:
        """Whether tiles are run in another order than that of the grid, or in turn."""
        return bool(self.group or self.persistent)

    @property
    def packed(self) -> int:
        """How many dimensions are made of several axes."""
        return sum(len(dim.axes) > 1 for dim in self.dims)

    def __str__(self) -> str:
        order = f", from the last {self.descending}" if self.descending else f", the longest {self.ordered} first" if self.ordered else ""
        then = f"; the last to arrive: {_spelled(self.last)}" if self.last else ""
        walked = ", peeled" if self.peeled else ", branching at masks" if self.branching else ""
        boxes, squares = ", by descriptor" if self.descriptors else "", ", sums as diagonals" if self.diagonal else ""
        grouped = f", {self.raster[0]} in groups of {self.group}" if self.group else ""
        turns = f", in turn by {self.persistent} programs" if self.persistent else ""
        bound = f" of at most {self.max_registers} registers" if self.max_registers else ""
        launch = f"{self.num_warps} warps{bound}, {self.num_stages} stages"
        return f"{_spelled(self.dims)}; {launch}{walked}{boxes}{squares}{order}{grouped}{turns}{then}"


def _spelled(dims: tuple[Dim, ...]) -> str:
    return ", ".join(f"{dim.name} {dim.role} {dim.tile}" for dim in dims)


def power_of_two(value: int) -> int:
    """The smallest power of two that is at least `value` and 1."""
    return 1 << max(0, value - 1).bit_length()
