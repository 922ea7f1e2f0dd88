"""
Numbers of chunks that are found when a program runs.

A split that is scheduled for some sizes has as many chunks there as fill the machine. At other sizes the same kernels, in as many
programs, want another number, which is an extent like any other, of the shapes and the machine:

    128 programs at the hints, tiles of 128 keys    ->    programs_s = max(1, 8*b), s = max(1, min(16, 128 // programs_s, ceildiv(n, 128)))

Chunks are whole tiles, so the last ones may be short or empty; what they store is then neutral. At least one there is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from ..extents import Extent, extent
from .buffers import fresh
from .kernels import Choice
from .last import MOST_SINGLE
from .partition import Source

LEAST = 4
MOST = 64


def most_chunks(hint: int) -> int:
    """
    The most chunks that there may be of what has a number of them at the hints: twice that, as few as can be parts by themselves where
    those are (see `cleave.schedule.last`).
    """
    return min(MOST_SINGLE, max(LEAST, 2 * hint)) if hint <= MOST_SINGLE else MOST


def count_extents(source: Source, choices: Sequence[Choice]) -> tuple[tuple[str, Extent], ...]:
    """
    The numbers of chunks of a program that are not known at compile time, unless they are a caller's to give: by axis, each after what it
    is made of.
    """
    sizes = source.sizes
    counts = {name: sizes.values[name] for name in sizes.most}
    taken = {axis.name for axis in source.graph.axes} | {symbol.name for symbol in source.graph.symbols}
    out: dict[str, Extent] = {}
    for axis in source.graph.axes:
        if axis.chunk_of is None:
            continue
        whole, outer = axis.chunk_of
        if sizes.extents[outer].text in counts and outer not in out:
            least = str(sizes.most[sizes.extents[outer].text])
            grid = _grid(choices, outer, counts)
            if grid is not None:
                others, tile = grid
                name = fresh(f"programs_{outer}", taken)
                out[name] = extent(f"max(1, {'*'.join(f'({other.text})' for other in others) or '1'})")
                programs = counts[sizes.extents[outer].text] * max(1, prod(other.evaluate(sizes.values) for other in others))
                least = f"min({least}, min({programs} // {name}, ceildiv({sizes.extents[whole].text}, {tile.get(axis.name, 1)})))"
            out[outer] = extent(f"max(1, {least})")
    return tuple(out.items())


def _grid(choices: Sequence[Choice], outer: str, counts: Mapping[str, int]) -> tuple[list[Extent], dict[str, int]] | None:
    """Of the kernel that has a program for each chunk, how many there are along the other dimensions of its grid, and its tiles by axis."""
    for choice in choices:
        own = next((dim.name for dim in choice.plan.dims if dim.axes == (outer,) and dim.role == "grid"), None)
        if own is not None:
            others = [dim.count.substituted(counts) for dim in choice.kernel.grid if dim.dim != own]
            return others, {axis: dim.tile for dim in choice.plan.dims for axis in dim.axes}
    return None
