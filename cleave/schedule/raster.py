"""
The order in which the tiles of a grid are run.

Programs that run at the same time share what they read through the second-level cache. In groups, some rows of tiles are run with all
columns before the next rows, so that as many programs read fewer rows and columns in all:

    4 rows, 3 columns    0 4 8      in groups of 2 rows    0 2 4
                         1 5 9                             1 3 5
                         2 6 10                            6 8 10
                         3 7 11                            7 9 11

A persistent kernel has as many programs as the machine runs at once, and each runs every so-many-th tile in that order. What the next tile
loads first is then loaded while the one before is stored, and no program has to be started for it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from .measure import Measure
from .program import Dot, For, Kernel, Load, walk
from .targets import WARP_GROUP_ROWS, Target


def places(counts: Sequence[int], group: int = 0) -> Iterator[tuple[int, ...]]:
    """The tiles of a grid by their numbers along each dimension, fastest first, in the order of the programs."""
    if not group:
        yield from (tuple(reversed(place)) for place in itertools.product(*(range(count) for count in reversed(counts))))
        return
    rows, columns, *rest = counts
    for outer in itertools.product(*(range(count) for count in reversed(rest))):
        for first in range(0, rows, group):
            for column in range(columns):
                for row in range(first, min(first + group, rows)):
                    yield (row, column, *reversed(outer))


def covered(counts: Sequence[int], programs: int, group: int = 0) -> list[int]:
    """About how many tiles along each dimension of a grid so many programs in a row have."""
    out = [1] * len(counts)
    before = [(0, min(group, counts[0])), (1, counts[1])] if group else []
    for dim, most in (*before, *enumerate(counts)):
        more = max(1, min(most // out[dim], programs))
        out[dim] *= more
        programs = max(1, programs // more)
    return out


def sides(kernel: Kernel) -> tuple[str, str] | None:
    """The first two dimensions of a grid where they are the rows and columns, or the other way round, of a product of matrices."""
    first = tuple(dim.dim for dim in kernel.grid[:2] if dim.tile > 1)
    made = [set(statement.out.type.names[-2:]) for statement in walk(kernel.body) if isinstance(statement, Dot)]
    return (first[0], first[1]) if len(first) == 2 and set(first) in made else None


def may_reorder(kernel: Kernel, programs: int, target: Target) -> bool:
    """Whether the order of tiles may matter: those of dots with the rows of a warp group, more of them than the machine runs at once."""
    dots = [statement for statement in walk(kernel.body) if isinstance(statement, Dot)]
    wide = any(size >= WARP_GROUP_ROWS for dot in dots for _, size in dot.out.type.dims[-2:-1])
    return wide and programs > target.multiprocessors


def group_of(kernel: Kernel, sizes: Mapping[str, int], programs: int) -> int:
    """
    The rows of the groups in which so many programs in a row read least of both operands, a power of two, or 0 where they read as little
    without. `sizes` are those of the symbols of the grid.
    """
    if sides(kernel) is None:
        return 0
    counts = [dim.count.evaluate(sizes) for dim in kernel.grid]

    def read(group: int) -> int:
        tiles = covered(counts, programs, group)
        return tiles[0] * kernel.grid[0].tile + tiles[1] * kernel.grid[1].tile

    powers = itertools.takewhile(lambda group: group < counts[0], (2**place for place in itertools.count(1)))
    return min((0, *powers), key=read)


def may_persist(measured: Measure) -> bool:
    """
    Whether programs may run several tiles in turn with profit: one loop makes products of what it loads itself, which can be loaded ahead
    for the next tile while one is stored. Where programs differ in length, the machine is better at sharing them out. A descriptor must be
    that of all tiles.
    """
    loops = [statement for statement in walk(measured.kernel.body) if isinstance(statement, For)]
    products = len(loops) == 1 and any(isinstance(statement, Dot) for statement in loops[0].body)
    boxes = [statement for statement in walk(measured.kernel.body) if isinstance(statement, Load) and statement.descriptor]
    several = any(not var.type.dims for load in boxes for _, var in load.index)
    return products and not (measured.resident or measured.varies or measured.arrivals or several)
