"""
Two kernels in one launch: what the second does with the results of the first, the last program to arrive does.

The first kernel's grid has dimensions that the second sums over, such as the chunks of a split. The programs that differ in
these alone share the tiles that the second would make of their results; each stores its part and counts itself, and the
last one goes on with the second kernel's work on those tiles, in dimensions of its own:

    first:   s grid 1, m grid 64, e full 128, ni loop 64        stores parts [s, m, e]
    last:    s full 8, m loop 8, e full 128                     the 8 parts of 64 rows, 8 rows at a time

A few parts are single elements of the sum instead, so that all tiles have two dimensions and no load waits for another: tiles of
three, summed along the first, added 42 us to a kernel of 13 us on an H200, these 2.

This is legal where every other grid dimension of the first kernel is one of all results of the second, which reads parts at
just those indices, and where at least one program comes for every tile. Reading what others stored takes a barrier that
orders memory as a GPU of NVIDIA's does; see `Target.publishes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeVar

from ..extents import Extent, extent
from .buffers import fresh
from .diagonal import emitter_of
from .nodes import axis_index
from .pieces import SMALLEST, in_pieces
from .plans import parallel_axes
from .problem import Problem
from .program import Buffer, Carried, Kernel, Last
from .roles import Dim, Pieces, Plan, Role, power_of_two
from .statements import Scope, Value
from .whole import KernelEmitter

PER_THREAD = (32, 64)
"""Elements of the largest tile of the second part that a thread may hold; rows are walked in tiles that keep to it."""
PARTS_PER_THREAD = 128
"""The same of all parts together that may not be there: they are loaded at once, as none waits for the sum of those before."""
LARGEST_WHOLE = 4096
MOST_SINGLE = 16
MOST_CHUNKS = 64
"""The most parts, as chunks of a split are, that are worth walking one by one alone."""


_Key = TypeVar("_Key")
_Held = TypeVar("_Held")


@dataclass(frozen=True, slots=True)
class Counter:
    """What programs count themselves in: a buffer of zeros with one axis, and the extent of that."""

    buffer: Buffer
    extent: Extent

    @property
    def axis(self) -> str:
        """The axis."""
        return self.buffer.axes[0]


class _LastEmitter(KernelEmitter):
    """Emits the second part within what the last program runs; sizes and starts are those of the first part."""

    def __init__(self, problem: Problem, plan: Plan, outer: KernelEmitter) -> None:
        super().__init__(problem, plan)
        self.outer = outer
        self.root = Scope(parent=outer.root)
        self.arguments, self.checked, self.starts = outer.arguments, outer.checked, outer.starts
        for key, value in outer.root.memo.items():
            if isinstance(key, tuple) and key and key[0] in ("argument", "size"):
                self.root.memo[key] = value
        self.stored = {buffer.name for buffer in outer.written()}

    def is_fresh(self, buffer: Buffer) -> bool:
        return buffer.name in self.stored

    def open_loop(
        self, dim: Dim, home: Scope, bounds: tuple[Value, Value] | None = None
    ) -> tuple[Scope, Callable[[Sequence[Carried]], None]]:
        """A loop along a grid dimension of the first part covers the tile of this program."""
        whole = self.outer.by_name.get(dim.name)
        if bounds is None and whole is not None and whole.role == "grid":
            start = Value(self.starts[dim.name], self.outer.root)
            end = self.let(self.root, "add", (start, self.constant(whole.tile, "index")), "index", name=f"{dim.name}_end")
            bounds = start, self.let(self.root, "min", (end, self.stop(dim)), "index", name=f"{dim.name}_end")
        return super().open_loop(dim, home, bounds)


class Join:
    """A first kernel under a plan, to be joined with a second one in several ways; made by `join_of`."""

    def __init__(self, first: Problem, plan: Plan, second: Problem) -> None:
        self.plan, self.second, self.sizes = plan, second, first.sizes
        self.emitter = emitter_of(first, plan)
        self.emitter.place_grid()
        self.emitter.store_all()
        self.kept = tuple(dim for dim in plan.dims if dim.role == "grid" and set(dim.axes) <= set(second.stores[0].axes))
        self.counter = self._counter(first)

    def _counter(self, first: Problem) -> Counter:
        names = {axis.name for axis in first.graph.axes} | {symbol.name for symbol in first.graph.symbols}
        stem = first.results[0].buffer.name
        counts = [dim.count for dim in self.emitter.grid if any(dim.dim == kept.name for kept in self.kept)]
        known = [count.constant for count in counts]
        whole = extent(prod(count for count in known if count is not None))
        if None in known:
            whole = extent("*".join(f"({count.text})" for count in counts))
        axis = fresh(f"tile_{stem}", names)
        taken = {buffer.name for buffer in (*first.buffers, *self.second.buffers, *self.emitter.written())}
        return Counter(Buffer(fresh(f"arrived_{stem}", taken), (axis,), "i32", (1,)), whole)

    def kernel(self, dims: Sequence[Dim]) -> Kernel:
        """The kernel whose second part has these dimensions. Raises: InfeasibleError."""
        first = self.emitter
        root, before = first.root, (list(first.root.statements), dict(first.root.memo), dict(first.arguments), dict(first.checked))
        try:
            second = _LastEmitter(self.second, Plan(tuple(dims), self.plan.raster), first)
            second.store_all()
            index, count = self._place()
            root.statements.append(Last(self.counter.buffer, ((self.counter.axis, index.var),), count.var, tuple(second.root.statements)))
            own = first.read()
            parts = {buffer.name for buffer in (*first.written(), *own)}
            more = tuple(buffer for buffer in second.read() if buffer.name not in parts)
            written = (*first.written(), self.counter.buffer, *second.written())
            return first.built((*own, *more, *written), written)
        finally:
            root.statements[:] = before[0]
            _restore(root.memo, before[1])
            _restore(first.arguments, before[2])
            _restore(first.checked, before[3])

    def _place(self) -> tuple[Value, Value]:
        """Where a program counts itself, and how many do so there."""
        first = self.emitter
        root = first.root
        index, count, unit = first.constant(0, "index"), None, None
        for dim in first.grid:
            size = first.expression(dim.count)
            if not any(dim.dim == kept.name for kept in self.kept):
                count = size if count is None else first.let(root, "mul", (count, size), "index", name="arrivals")
                continue
            number = Value(first.starts[dim.dim], root)
            if dim.tile > 1:
                number = first.let(root, "floordiv", (number, first.constant(dim.tile, "index")), "index")
            if unit is not None:
                number = first.let(root, "mul", (number, unit), "index")
            index = number if unit is None else first.let(root, "add", (index, number), "index", name="tile")
            unit = size if unit is None else first.let(root, "mul", (unit, size), "index")
        assert count is not None, "something is gathered"
        return index, count


def _restore(table: MutableMapping[_Key, _Held], before: dict[_Key, _Held]) -> None:
    table.clear()
    table.update(before)


def join_of(first: Problem, second: Problem, plan: Plan) -> Join | None:
    """The first kernel under a plan, ready to be joined with the second; None where that is not legal."""
    tiles = [entry for entry in plan.pieces if entry.tile and entry.axis in second.used_axes()]
    first, second = in_pieces(first, plan.pieces), in_pieces(second, [*tiles, *_single(second)])
    return Join(first, plan, second) if _is_legal(first, plan, second) else None


def _single(second: Problem) -> list[Pieces]:
    """
    The axes that the second kernel sums over and nothing else has, of few elements, in parts of one; none where a value has several such
    axes, and so many elements.
    """
    reduced = {axis for node in second.reductions for axis in node.removed if node.kind != "shift"}
    kept = {axis for node in second.reductions if node.kind == "shift" for axis in node.removed}
    kept |= {axis for stored in second.stores for axis in stored.axes}
    sizes = second.sizes
    few = {axis: most for axis in second.used_axes() if 1 < (most := sizes.largest(axis) or 0) <= MOST_SINGLE and axis in reduced - kept}
    if any(prod(few.get(axis, 1) for axis in node.axes) > MOST_SINGLE for node in second.nodes):
        return []
    return [Pieces(axis, part=1, most=most if sizes.fixed(axis) is None else 0) for axis, most in few.items()]


def _is_legal(first: Problem, plan: Plan, second: Problem) -> bool:
    """Whether the last program of the first kernel under a plan can do the second's work."""
    own = set(parallel_axes(second))
    parts = {result.buffer.name for result in first.results}
    kept: set[str] = set()
    gathered: list[Dim] = []
    for dim in plan.dims:
        if dim.role != "grid":
            continue
        if set(dim.axes) <= own:
            kept |= set(dim.axes)
        elif set(dim.axes) & {axis for stored in second.stores for axis in stored.axes}:
            return False
        else:
            gathered.append(dim)
    if not gathered or any(not _at_least_one(first, axis) for dim in gathered for axis in dim.axes):
        return False
    reads = 0
    for node in second.nodes:
        if node.kind == "load" and second.buffers[int(str(node.attr[0]))].name in parts:
            reads += 1
            for axis, index in node.where:
                own_indices = first.pieces.get(axis, (axis_index(axis),))
                if any(name in kept for own_index in own_indices for name in own_index.axes) and index not in own_indices:
                    return False
    return reads > 0


def _at_least_one(problem: Problem, axis: str) -> bool:
    """Whether an axis certainly has an element: it counts chunks, or its size is known."""
    counts = any(entry.chunk_of is not None and entry.chunk_of[1] == axis for entry in problem.graph.axes)
    return counts or (problem.sizes.fixed(axis) or 0) > 0


def endings(second: Problem, plan: Plan, threads: int) -> Iterator[tuple[Dim, ...]]:
    """Dimensions in which the last program may do the second's work on a tile of the first kernel's plan, for a number of threads."""
    own = {axis for stored in second.stores for axis in stored.axes}
    kept = [dim for dim in plan.dims if dim.role == "grid" and set(dim.axes) <= own]
    rest = [axis for axis in second.used_axes() if not any(axis in dim.axes for dim in kept)]
    reduced = {axis for node in second.reductions for axis in node.removed}
    rest.sort(key=lambda axis: axis not in reduced)
    seen: set[tuple[Dim, ...]] = set()
    parts = max((len(indices) for indices in second.pieces.values() if any(index.loose for index in indices)), default=0)
    rooms = (PARTS_PER_THREAD // parts,) if parts else PER_THREAD
    for ways in _products([_walks(second, axis, axis in reduced, axis in own) for axis in rest]):
        others = [Dim(axis, (axis,), role, tile) for axis, (role, tile) in zip(rest, ways, strict=True)]
        lead = [dim for dim in others if dim.axes[0] in reduced]
        deep = max(sum(dim.tile > 1 for dim in (*kept, *others) if set(dim.axes) & set(node.axes)) for node in second.nodes)
        if deep > 2 and any(dim.tile > 1 for dim in lead):
            continue
        held = max(prod(dim.tile for dim in others if dim.axes[0] in node.axes) for node in second.nodes)
        for most in rooms:
            shrunk = _shrunk(kept, most * threads // held)
            if shrunk is not None:
                dims = (*lead, *shrunk, *(dim for dim in others if dim not in lead))
                if dims not in seen:
                    seen.add(dims)
                    yield dims


def _products(ways: Sequence[Sequence[tuple[Role, int]]]) -> Iterator[tuple[tuple[Role, int], ...]]:
    if not ways:
        yield ()
        return
    for first in ways[0]:
        for others in _products(ways[1:]):
            yield first, *others


def _shrunk(kept: Sequence[Dim], room: int) -> list[Dim] | None:
    """The grid dimensions, the largest walked in smaller tiles where all of them together are more than `room`; None where none do."""
    total = prod(dim.tile for dim in kept)
    if total <= room:
        return list(kept)
    largest = max(kept, key=lambda dim: dim.tile, default=None)
    tile = largest.tile * room // total if largest is not None else 0
    if tile < 1:
        return None
    return [Dim(dim.name, dim.axes, "loop", tile) if dim is largest else dim for dim in kept]


def _walks(problem: Problem, axis: str, reduced: bool, stored: bool) -> list[tuple[Role, int]]:
    """The roles and tiles of an axis that the first kernel's grid leaves to the second part."""
    size = problem.sizes.fixed(axis)
    largest = power_of_two(max(1, problem.sizes.hint(axis)))
    out: list[tuple[Role, int]] = []
    if axis in problem.piece_axes:
        return [("full", max(SMALLEST, largest))]
    if size is not None and 0 < size <= LARGEST_WHOLE:
        out.append(("full", largest))
    if reduced and not stored:
        out.append(("loop", 1))
        if largest > MOST_CHUNKS:
            out.append(("loop", 16))
    elif not reduced:
        out.extend(("loop", tile) for tile in (64, 256) if tile < largest or size is None)
    return out or [("loop", min(largest, 128))]
