"""
The plans worth considering for one kernel: roles, packing, tile sizes, layout order, warps and stages.

Axes that every result has and nothing reduces are parallel; the others are walked by a loop or held whole in a tile. Parallel
axes that occur with the same operands of every contraction are on the same side of its dots and may be packed into one
dimension; axes that all operands have are batches, one program each.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from .buffers import fresh
from .longest import longest_first, row_orders
from .nodes import REDUCING, Node
from .pieces import SMALLEST
from .problem import Problem
from .relaxed import ROWS
from .roles import Dim, Plan, Role, power_of_two
from .targets import WARP_GROUP_ROWS

LARGEST_WHOLE_DOT = 512
LARGEST_WHOLE = 16384
MOST_ORDERED = 7
DOT_TILES = (16, 32, 64, 128, 256)
OVER_TILES = (16, 32, 64, 128)
LONGEST_STEP, FEW_ROWS = 256, 32
"""How many elements a step of a loop may sum at most where a dot has so few rows: fewer steps wait for memory less often."""
VECTOR_TILES = (64, 128, 256, 512, 1024)
ROW_TILES = (1, 2, 4, 8, 16, 32)
SWEEP_TILES = (128, 256, 512, 1024, 2048)
FEW_PROGRAMS = 128
"""Programs that leave much of a machine idle where there are fewer."""
LEAST_GRID = (16, 4, 1)
LEAST_LOOPS = (16, 1)
DEEP = 128 * 128
"""Elements of the largest tile of a plan for which more stages than usual may fit and be worth it."""


@dataclass(frozen=True, slots=True)
class Slot:
    """Axes that make one dimension, and the (role, tile) pairs it may have."""

    axes: tuple[str, ...]
    choices: tuple[tuple[Role, int], ...]


def plans(problem: Problem, limit: int, coarse: bool = False) -> Iterator[Plan]:
    """Candidate plans, in a fixed order, at most `limit` of them; with `coarse` only a few tile sizes of each dimension."""
    return itertools.islice(_plans(problem, coarse), limit)


def least_plans(problem: Problem, limit: int) -> Iterator[Plan]:
    """
    Plans that hold as little as there is to hold, at most `limit` of them, for work that fits the machine in no other way: programs of
    few elements, loops of few steps at a time, and no dots where there is no room for them.
    """

    def least(slot: Slot, tile: int) -> Slot:
        size = power_of_two(max(1, problem.sizes.hint_product(slot.axes)))
        if slot.choices[0][0] == "grid":
            largest = max(tile for _, tile in slot.choices)
            return replace(slot, choices=(("grid", min(tile, size, largest)),))
        loops: list[tuple[Role, int]] = [("loop", step) for step in LEAST_LOOPS if step < 2 * size]
        if all(problem.sizes.fixed(axis) and axis not in problem.walked for axis in slot.axes) and size <= LARGEST_WHOLE:
            return replace(slot, choices=(*loops, ("full", size)))
        return replace(slot, choices=tuple(loops))

    ways = ([least(slot, tile) for slot in slots] for tile in LEAST_GRID for slots in _structures(problem))
    return itertools.islice(itertools.chain.from_iterable(_tiled(problem, slots, True) for slots in ways), limit)


def _plans(problem: Problem, coarse: bool) -> Iterator[Plan]:
    for slots in _structures(problem):
        yield from _tiled(problem, [replace(slot, choices=_middle(slot.choices)) for slot in slots] if coarse else slots, coarse)


def _tiled(problem: Problem, slots: Sequence[Slot], coarse: bool) -> Iterator[Plan]:
    """The plans of these dimensions."""
    order = _layout(problem, slots)
    names = _names(problem, slots)
    rows = ordered_rows(problem)
    for choice in itertools.product(*(slot.choices for slot in slots)):
        dims = [Dim(name, slot.axes, role, tile) for name, slot, (role, tile) in zip(names, slots, choice, strict=True)]
        if not _reducible(problem, dims) or _too_large(problem, dims):
            continue
        ordered = tuple(dims[place] for place in order)
        first = Plan(ordered, _raster(problem, ordered))
        plan = longest_first(first, rows) if rows else first
        if plan is None:
            continue
        yield plan
        if not coarse and _better_turned(problem, ordered):
            tiled = [dim for dim in ordered if dim.tile > 1]
            yield replace(plan, dims=(*reversed(tiled), *(dim for dim in ordered if dim.tile == 1)))


def _better_turned(problem: Problem, dims: Sequence[Dim]) -> bool:
    """
    Whether the dots of a plan may gain from their sides exchanged: they have fewer rows than the tensor cores of a warp group take, and
    as many columns. Where logits are shifted, what one dot makes is what another reads, in the layout that a dot leaves.
    """
    if not dims:
        return False
    rows, columns = dims[0].tile, max((dim.tile for dim in dims[1:] if dim.role == "grid"), default=1)
    shifted = any(node.kind == "shift" for node in problem.nodes)
    return dims[0].role == "grid" and 1 < rows < WARP_GROUP_ROWS <= columns and bool(contractions(problem)) and not shifted


def _middle(choices: tuple[tuple[Role, int], ...]) -> tuple[tuple[Role, int], ...]:
    """Of each role, the smallest tile and the one nearest below 128."""
    out: list[tuple[Role, int]] = []
    for choice in choices:
        tiles = sorted(tile for role, tile in choices if role == choice[0])
        near = max([tile for tile in tiles if tile <= 128] or tiles[:1])
        if choice[1] in (tiles[0], near):
            out.append(choice)
    return tuple(out)


def _names(problem: Problem, slots: Sequence[Slot]) -> list[str]:
    """A name for every dimension: its axis, or its axes joined where no other axis is called that."""
    taken = {axis.name for axis in problem.graph.axes}
    return [slot.axes[0] if len(slot.axes) == 1 else fresh("_".join(slot.axes), taken) for slot in slots]


def contractions(problem: Problem) -> list[Node]:
    """The sums of products that may become dots."""
    return [node for node in problem.nodes if node.kind == "contract" and len(node.args) > 1]


def parallel_axes(problem: Problem) -> tuple[str, ...]:
    """The axes that every result has, but for those that are repeated, and nothing reduces."""
    reduced = {axis for node in problem.reductions for axis in node.removed}
    common = set(problem.stores[0].axes)
    for stored in problem.stores[1:]:
        if not stored.repeated:
            common &= set(stored.axes)
    return problem.graph.ordered(common - reduced)


def ordered_rows(problem: Problem) -> tuple[str, ...]:
    """The parallel axes whose tiles run in an order that is stored, and those which would if they were not in pieces."""
    parallel = (*parallel_axes(problem), *problem.pieces)
    return tuple(order.row for order in row_orders(problem) if order.row in parallel)


def _signature(problem: Problem, axis: str, dots: Sequence[Node]) -> tuple[tuple[bool, ...], ...]:
    if dots:
        return tuple(tuple(axis in arg.axes for arg in node.args) for node in dots)
    return tuple((axis in node.axes,) for node in problem.nodes if node.kind == "load")


def _is_side(signature: tuple[tuple[bool, ...], ...]) -> bool:
    return any(any(having) and not all(having) for having in signature)


def _structures(problem: Problem) -> Iterator[list[Slot]]:
    """Ways to group axes into dimensions, with the choices of each."""
    parallel = parallel_axes(problem)
    dots = contractions(problem)
    groups: dict[tuple[tuple[bool, ...], ...], list[str]] = {}
    single: list[Slot] = []
    memory = [axis for stored in problem.stores for axis in stored.axes]
    tiles = problem.tile_axes
    for axis in sorted(parallel, key=memory.index):
        signature = _signature(problem, axis, dots)
        one = problem.sizes.fixed(axis) == 1
        if (dots and not _is_side(signature)) or (one and not dots) or _is_chunk_count(problem, axis) or axis in tiles:
            single.append(Slot((axis,), (("grid", 1),)))
        else:
            groups.setdefault(signature, []).append(axis)
    sequential = _sequential(problem, [axis for axis in problem.used_axes() if axis not in parallel], bool(dots))
    vector = _contiguous(problem)
    options: list[list[list[Slot]]] = []
    rows = ordered_rows(problem)[:1]
    for axes in groups.values():
        if set(rows) & set(axes):
            options.append([[Slot((axis,), (("grid", ROWS if axis in rows else 1),)) for axis in axes]])
            continue
        tiles = _side_tiles(problem, axes, dots, vector)
        ways = [[Slot(tuple(axes), tiles)]]
        if len(axes) > 1 and problem.sizes.hint(axes[-1]) >= 16:
            inner = _side_tiles(problem, axes[-1:], dots, vector)
            alone = [*(Slot((axis,), (("grid", 1),)) for axis in axes[:-1]), Slot((axes[-1],), inner)]
            # Of equals the first wins: rows that fill tiles by themselves need no decoding.
            ways.insert(0 if problem.sizes.hint(axes[-1]) >= 64 else 1, alone)
        options.append(ways)
    for way in itertools.product(*options):
        for rest in sequential:
            yield [*(slot for part in way for slot in part), *rest, *single]


def _is_chunk_count(problem: Problem, axis: str) -> bool:
    """Whether an axis counts the chunks of a split that this kernel walks."""
    return any(entry.chunk_of is not None and entry.chunk_of[1] == axis and entry.name in problem.walked for entry in problem.graph.axes)


def _contiguous(problem: Problem) -> str | None:
    """The axis along which the first result is contiguous."""
    return next((axis for axis in reversed(problem.stores[0].axes) if problem.sizes.fixed(axis) != 1), None)


def _side_tiles(problem: Problem, axes: Sequence[str], dots: Sequence[Node], vector: str | None) -> tuple[tuple[Role, int], ...]:
    total = max(1, problem.sizes.hint_product(axes))
    largest = power_of_two(total)
    if dots:
        tiles = [tile for tile in DOT_TILES if tile <= max(16, largest)]
        if largest == 1:
            tiles = [1, *tiles]
        if not _two_sided(problem, axes, dots):
            tiles = [tile for tile in (1, 4, *DOT_TILES) if tile <= largest]
    else:
        tiles = [tile for tile in (VECTOR_TILES if vector in axes else ROW_TILES) if tile <= largest] or [largest]
        if vector in axes and problem.reductions and total < FEW_PROGRAMS * VECTOR_TILES[0]:
            # What is reduced takes longer than the stores of few results: more programs share it.
            tiles = [*(tile for tile in ROW_TILES if tile < tiles[0]), *tiles]
        if vector in axes and largest > tiles[-1] and largest <= LARGEST_WHOLE:
            tiles.append(min(largest, 2048))
    return tuple(("grid", tile) for tile in tiles)


def _two_sided(problem: Problem, axes: Sequence[str], dots: Sequence[Node]) -> bool:
    """Whether some contraction that has these axes also has, on another operand, axes of its own."""
    for node in dots:
        with_axes = [arg for arg in node.args if any(axis in arg.axes for axis in axes)]
        others = [arg for arg in node.args if arg not in with_axes]
        own = {axis for arg in others for axis in arg.axes} - {axis for arg in with_axes for axis in arg.axes}
        if with_axes and any(problem.sizes.fixed(axis) != 1 for axis in own):
            return True
    return False


def _sequential(problem: Problem, axes: Sequence[str], dots: bool) -> list[list[Slot]]:
    """Ways to walk the axes that are not parallel: each alone, or those always reduced together as one loop."""
    alone = [Slot((axis,), _walks(problem, (axis,), dots)) for axis in axes]
    out = [alone]
    together: dict[tuple[int, ...], list[str]] = {}
    stored = {axis for each in problem.stores for axis in each.axes}
    for axis in axes:
        having = tuple(node.id for node in problem.reductions if axis in node.removed)
        if axis not in stored and axis not in problem.walked and axis not in problem.piece_axes:
            together.setdefault(having, []).append(axis)
    packs = [tuple(group) for group in together.values() if len(group) > 1]
    if packs:
        merged = {axis for pack in packs for axis in pack}
        rest = [slot for slot in alone if slot.axes[0] not in merged]
        out.append([*(Slot(pack, _walks(problem, pack, dots)) for pack in packs), *rest])
    return out


def _walks(problem: Problem, axes: tuple[str, ...], dots: bool) -> tuple[tuple[Role, int], ...]:
    """
    The roles and tiles of an axis that one program walks.

    An axis whose reductions all feed reductions over other axes is held whole where it is small, so that the loop is over what
    is reduced last and carries the accumulators of everything before.
    """
    sizes = [problem.sizes.fixed(axis) for axis in axes]
    largest = power_of_two(max(1, problem.sizes.hint_product(axes)))
    if problem.piece_axes & set(axes):
        return (("full", max(largest, SMALLEST)),)
    contracted = any(node.kind == "contract" and set(axes) & set(node.removed) for node in problem.nodes)
    stored = any(set(axes) & set(each.axes) for each in problem.stores)
    whole: list[tuple[Role, int]] = []
    empty = any(size == 0 for size in sizes) or (largest == 1 and bool(problem.walked & set(axes)))
    if all(size is not None for size in sizes) and not empty:
        smallest = 16 if contracted and dots and largest > 1 else 1
        if largest <= (LARGEST_WHOLE_DOT if contracted or dots else LARGEST_WHOLE):
            whole.append(("full", max(largest, smallest)))
            if largest <= 16 or (_feeds_others(problem, axes) and dots and not stored):
                return tuple(whole)
    tiles = OVER_TILES if contracted or dots else SWEEP_TILES
    if dots and _has_few_rows(problem, axes):
        tiles = (*tiles, LONGEST_STEP)
    # A step that is longer than an axis which a tile may hold is nothing but such a tile.
    some = not whole or dots
    loops: list[tuple[Role, int]] = [("loop", tile) for tile in tiles if tile < 2 * largest or (some and tile == tiles[0])]
    if contracted and not dots:
        loops.extend(("loop", tile) for tile in SWEEP_TILES[1:] if tile <= largest)
    most = problem.sizes.largest(axes[0]) if len(axes) == 1 and sizes[0] is None else None
    if most is not None:
        # However many there are at most, one step takes them all if it may.
        loops = [("loop", tile) for tile in dict.fromkeys(min(tile, power_of_two(most)) for _, tile in loops)]
    # Where there may be nothing to walk, only a loop does nothing: a single element in a tile has no lanes to mask.
    return tuple(loops) if (dots and not stored) or empty else (*whole, *loops)


def _has_few_rows(problem: Problem, axes: Sequence[str]) -> bool:
    """Whether all products of matrices summed over these axes are of few rows and what is read: they take as long as to read it."""
    found = [node for node in contractions(problem) if set(axes) & set(node.removed)]
    for node in found:
        sides = sorted((problem.sizes.hint_product(set(arg.axes) & set(node.axes)), arg.kind) for arg in node.args)
        if sides[0][0] > FEW_ROWS or sides[-1][1] != "load":
            return False
    return bool(found)


def _feeds_others(problem: Problem, axes: tuple[str, ...]) -> bool:
    """Whether every reduction over these axes is an operand, directly or not, of a reduction over others."""
    below: set[int] = set()
    for node in reversed(problem.nodes):
        if node.id in below or (node.kind in REDUCING and not set(axes) & set(node.removed)):
            below.update(arg.id for arg in node.args)
    own = [node for node in problem.reductions if set(axes) & set(node.removed)]
    return bool(own) and all(node.id in below for node in own)


def _reducible(problem: Problem, dims: Sequence[Dim]) -> bool:
    """Whether every reduction has at most one loop."""
    role = {axis: dim for dim in dims for axis in dim.axes}
    loops = [{role[axis].name for axis in node.removed if role[axis].role == "loop"} for node in problem.reductions]
    return all(len(names) <= 1 for names in loops)


def _too_large(problem: Problem, dims: Sequence[Dim]) -> bool:
    """Whether some reduced value or result is larger than the registers of a block hold."""
    tile = {axis: dim for dim in dims for axis in dim.axes}
    for node in problem.nodes:
        size = 1
        for name in sorted({tile[axis].name for axis in node.axes}):
            size *= next(dim.tile for dim in dims if dim.name == name)
        if size > 65536 or (node.kind in ("reduce", "contract") and size > 32768 * 2):
            return True
    return False


def _layout(problem: Problem, slots: Sequence[Slot]) -> tuple[int, ...]:
    """The order of dimensions in which the fewest dots need a transposed operand: rows, then what is summed, then columns."""
    name = {axis: place for place, slot in enumerate(slots) for axis in slot.axes}
    tiled = [place for place, slot in enumerate(slots) if any(tile > 1 for _, tile in slot.choices)]
    scalars = [place for place in range(len(slots)) if place not in tiled]
    dots: list[tuple[set[int], set[int], set[int]]] = []
    for node in contractions(problem):
        left = {name[axis] for axis in node.args[0].axes}
        right = {name[axis] for arg in node.args[1:] for axis in arg.axes}
        over = {name[axis] for axis in node.removed}
        dots.append((left - right - over, over, right - left - over))
    free = set(tiled)
    triples = [triple for sides in dots for triple in itertools.product(*(sorted(side & free) for side in sides))]
    if len(tiled) > MOST_ORDERED:
        return (*tiled, *scalars)
    best, least = tuple(tiled), len(triples) + 1
    rank = [0] * len(slots)
    for order in itertools.permutations(tiled):
        for at, place in enumerate(order):
            rank[place] = at
        cost = sum(not (rank[a] < rank[k] < rank[b] or rank[b] < rank[k] < rank[a]) for a, k, b in triples)
        if cost < least:
            best, least = order, cost
        if not least:
            break
    return (*best, *scalars)


def _raster(problem: Problem, dims: Sequence[Dim]) -> tuple[str, ...]:
    """Grid order, fastest first: tiled dimensions in layout order, then single ones from the innermost of the first result outward."""
    tiled = [dim.name for dim in dims if dim.role == "grid" and dim.tile > 1]
    memory = list(problem.stores[0].axes)
    single = [dim for dim in dims if dim.role == "grid" and dim.tile == 1]
    single.sort(key=lambda dim: -memory.index(dim.axes[0]))
    return (*tiled, *(dim.name for dim in single))


def launches(problem: Problem, plan: Plan) -> list[tuple[int, int]]:
    """The (warps, stages) worth trying for a plan."""
    dims = plan.dims
    tile = {axis: dim for dim in dims for axis in dim.axes}
    largest = 1
    for node in problem.nodes:
        size = 1
        for name in sorted({tile[axis].name for axis in node.axes}):
            size *= next(dim.tile for dim in dims if dim.name == name)
        largest = max(largest, size)
    if largest >= 128 * 128:
        warps = (8, 4)
    elif largest >= 2048:
        # Exact dots hold their operands in registers, of which more warps have more.
        exact = any(arg.dtype == "f32" for node in contractions(problem) for arg in node.args)
        warps = (4, 8) if exact else (4,)
    else:
        warps = (4, 2) if largest >= 512 else (1,)
    looped = any(dim.role == "loop" for dim in dims)
    stages = ((3, 2, 4, 5, 6, 8) if largest < DEEP else (3, 2, 4)) if looped else (2,)
    return [(warp, stage) for warp in warps for stage in stages]
