"""
Axes in pieces: an extent that is no power of two as a sum of some, instead of a tile padded to the next one.

    e = 192:    e = e_0 (128 elements)  and  e = 128 + e_128 (64)
    n = 6144 in tiles of 192:   n = 192 * n_tile + n_0  and  n = 192 * n_tile + 128 + n_128

Exact f32 dots need pieces for another reason: a product of theirs is one long chain of sums, whose rounding errors grow with its
length. The sum of a few shorter chains is as accurate as what PyTorch computes.

A piece is an axis of its own with an index of the axis it is part of. So a value that has the axis is one node for each
piece, a reduction over it combines a reduction over each, and everything else, plans and emission among them, meets axes
that fill their tiles. Single elements may be more than the axis turns out to have when the program runs: reductions over it skip those.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

from ..extents import extent
from ..graph import Axis
from .buffers import fresh
from .nodes import REDUCING, Index, Node, axis_index, combined, number
from .problem import Problem
from .roles import Pieces, power_of_two

SMALLEST = 16
"""The smallest piece, which is the smallest side of a dot."""
MOST = 3
WASTE = 1.1
"""How many times larger than its extent a padded tile is where pieces are worth considering, at least."""
GRID_TILES = (192, 96)
SHORTEST_CHAIN, CHAINS, LONGEST_CHAINED = 16, 4, 256
"""
Elements that the chain of an exact dot sums at least, how many chains there are of what is longer, and the most elements that are held
whole for this.
"""


def binary(size: int) -> tuple[int, ...]:
    """Powers of two, falling, whose sum is `size`, the last rounded up to the smallest of a piece."""
    out: list[int] = []
    while size > 0:
        piece = max(SMALLEST, 1 << size.bit_length() - 1)
        out.append(piece)
        size -= piece
    return tuple(out)


def chains(problem: Problem) -> tuple[Pieces, ...]:
    """
    The axes that exact f32 dots sum and that are small enough to be held whole, in pieces whose sums are chains of their own.

    A dot sums over one dimension. Of a contraction over several axes the shortest are taken element by element, which are chains
    too; where more than one is left, or what is summed is long, none is in pieces, so that all may be packed into one dimension.
    """
    reducing = [node for node in problem.nodes if node.kind in REDUCING]
    chunked = {name for each in problem.graph.axes if each.chunk_of is not None for name in (each.name, *each.chunk_of)}
    out: list[Pieces] = []
    for node in reducing:
        if node.kind != "contract" or len(node.args) < 2 or not node.removed or {arg.dtype for arg in node.args} != {"f32"}:
            continue
        sizes = {axis: problem.sizes.fixed(axis) or 0 for axis in node.removed}
        free = [
            axis
            for axis in node.removed
            if [node] == [other for other in reducing if axis in other.removed]
            and not any(axis in result.buffer.axes for result in problem.results)
            and axis not in chunked
        ]
        *short, longest = sorted(node.removed, key=lambda axis: (sizes[axis], axis))
        total = prod(sizes.values())
        if (short and len(free) < len(node.removed)) or prod(sizes[axis] for axis in short) > CHAINS or not 0 < total <= LONGEST_CHAINED:
            continue
        part = max(SHORTEST_CHAIN, power_of_two(total) // CHAINS)
        out.extend(Pieces(axis, part=1) for axis in short)
        if longest in free and sizes[longest] > part:
            out.append(Pieces(longest, part=part))
    return tuple(out)


def worthwhile(size: int) -> bool:
    """Whether few pieces of a size hold notably less than one padded tile."""
    parts = binary(size)
    return 1 < len(parts) <= MOST and WASTE * sum(parts) <= power_of_two(size)


def variants(problem: Problem, coarse: bool) -> Iterator[tuple[Pieces, ...]]:
    """
    Ways to have axes of a kernel's work in pieces, first as few as there may be. Where only few plans are tried, none with tiles of a
    grid.
    """
    always = chains(problem)
    for chosen in ((), *_optional(problem, coarse)):
        yield *(entry for entry in chosen if all(entry.axis != other.axis for other in always)), *always


def _optional(problem: Problem, coarse: bool) -> Iterator[tuple[Pieces, ...]]:
    dots = [node for node in problem.nodes if node.kind == "contract" and len(node.args) > 1]
    if not dots:
        return
    known = {axis: problem.sizes.fixed(axis) for axis in problem.used_axes()}
    shifted = {axis for node in problem.nodes if node.kind == "shift" for axis in node.removed}
    chunked = {name for axis in problem.graph.axes if axis.chunk_of is not None for name in (axis.name, *axis.chunk_of)}
    free = [axis for axis in known if axis not in shifted | chunked and _on_sides(dots, axis)]
    whole = [axis for axis in free if worthwhile(known[axis] or 0) and power_of_two(known[axis] or 0) <= 2 * LARGEST_WHOLE]
    if whole:
        yield tuple(Pieces(axis) for axis in whole)
    if coarse:
        return
    reduced = {axis for node in problem.nodes if node.kind in REDUCING for axis in node.removed}
    for axis in free:
        size = known[axis] or 0
        if axis not in reduced and all(result.repeated or axis in result.buffer.axes for result in problem.results):
            for tile in GRID_TILES:
                if size > tile and size % tile == 0:
                    yield Pieces(axis, tile), *(Pieces(other) for other in whole if other != axis)


LARGEST_WHOLE = 512
"""The largest piece of an axis that is held whole."""


def _on_sides(dots: Sequence[Node], axis: str) -> bool:
    """Whether some dot has an axis on one side or sums over it, and none has it throughout."""
    having = [[axis in arg.axes for arg in node.args] for node in dots]
    summed = [axis in node.removed for node in dots]
    return any(any(sides) for sides in having) and all(over or not all(sides) for sides, over in zip(having, summed, strict=True))


def in_pieces(problem: Problem, chosen: Sequence[Pieces]) -> Problem:
    """The same work with axes in pieces."""
    if not chosen:
        return problem
    graph, sizes = problem.graph, problem.sizes
    taken = {axis.name for axis in graph.axes} | {symbol.name for symbol in graph.symbols}
    made: dict[str, tuple[Index, ...]] = {}
    added: dict[str, list[Axis]] = {}
    for entry in chosen:
        size = entry.most or sizes.fixed(entry.axis)
        assert size is not None, "an axis in pieces has a known size"
        own = added.setdefault(entry.axis, [])
        start: Index = number(0)
        if entry.tile:
            own.append(Axis(fresh(f"{entry.axis}_tile", taken), extent(-(-size // entry.tile))))
            start = combined("mul", axis_index(own[0].name), number(entry.tile))
            size = entry.tile
        indices: list[Index] = []
        offset = 0
        for part in (entry.part,) * -(-size // entry.part) if entry.part else binary(size):
            if part == 1:
                indices.append(replace(number(offset), loose=entry.most > 0 and offset > 0))
                offset += 1
                continue
            own.append(Axis(fresh(f"{entry.axis}_{offset}", taken), extent(min(part, size - offset))))
            indices.append(combined("add", combined("add", start, axis_index(own[-1].name)), number(offset)))
            offset += part
        made[entry.axis] = tuple(indices)
    axes = [each for axis in graph.axes for each in (axis, *added.get(axis.name, ()))]
    sizes = sizes.extended(axis for part in added.values() for axis in part)
    return replace(problem, graph=replace(graph, axes=tuple(axes)), sizes=sizes, pieces=made)
