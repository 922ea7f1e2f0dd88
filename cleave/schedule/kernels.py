"""
The best plan of one kernel, by the cost model.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf

from .cost import START, Cost, estimate, register_bound, resident, resources
from .descriptors import described
from .diagonal import emitter_of
from .hazards import mended
from .last import Counter, Join, endings, join_of
from .measure import Measure, measure
from .nodes import axis_index
from .partition import Item, Source, needs, problem_of
from .pieces import in_pieces, variants
from .plans import launches, least_plans, plans
from .problem import Problem
from .program import Buffer, For, Kernel, LibraryCall, When, renamed, walk
from .raster import group_of, may_persist, may_reorder
from .roles import Dim, Pieces, Plan
from .sizes import Sizes
from .statements import InfeasibleError
from .targets import Target

REPEATED = 0.05
JOINED = 8
"""Ways to run a kernel with which another is joined, at most."""
REORDERED = 4
"""For how many choices of tiles other orders of these are tried."""


@dataclass(frozen=True, slots=True)
class ScheduleOptions:
    """
    Bounds of the choice. `plans`: tile choices tried for a kernel; `alternatives`: graphs tried, in the order given; `sweeps`:
    passes over the values stored between kernels when a large graph is fused. `ranked`: ways to run a kernel that are kept to be
    timed; `partitions`: ways to divide a graph into kernels kept beside the best.

    With `peel`, loops may have a body without masks beside the masked one, or branch past masks; with `boxes`, dots may load by descriptor;
    with `diagonal`, sums of products in loops with dots may be dots; with `orders`, the tiles of products of matrices that take the machine
    more than one round may be run in other orders (see `cleave.schedule.raster`); with `bounds`, threads may have fewer registers than they
    seem to need; with `gathered`, a kernel may do the work of all that reads its results, and what else that reads. With `ranges`, loops
    may be bounded by ranges of masks that are data.

    With `library`, plain products of two buffers may be left to a library; with `compare` as well, that is kept beside the best kernel to
    be timed, whatever the model finds. With `rounded`, products of two inputs of 16 bits may be stored as these, as PyTorch rounds them.
    """

    plans: int = 160
    alternatives: int = 12
    sweeps: int = 2
    ranked: int = 32
    partitions: int = 2
    peel: bool = False
    boxes: bool = False
    diagonal: bool = False
    library: bool = False
    compare: bool = False
    rounded: bool = True
    orders: bool = False
    bounds: bool = False
    gathered: bool = False
    ranges: bool = True


@dataclass(frozen=True, slots=True)
class Choice:
    """
    A scheduled kernel: its plan, code and estimate. With `call` a library routine computes the same and is run instead. With a
    `counter` its last programs to arrive do what would be a second kernel. `names` are buffers that are called otherwise than in the
    code and the call, which are another kernel's that computes the same.
    """

    plan: Plan
    kernel: Kernel
    cost: Cost
    call: LibraryCall | None = None
    counter: Counter | None = None
    names: tuple[tuple[str, str], ...] = ()

    def named(self) -> Choice:
        """The same with the buffers of its code and its call under their own names."""
        if not self.names:
            return self
        table = dict(self.names)
        call = self.call
        if call is not None:
            call = replace(call, out=table.get(call.out, call.out), args=tuple(table.get(name, name) for name in call.args))
        return replace(self, kernel=renamed(self.kernel, table), call=call, names=())


@dataclass(slots=True)
class Kernels:
    """
    Ranks ways to run the kernels of one graph; what several partitions share is done once. `coarse` tries few tiles. `unfit` is the
    first operation that no kernel can store on the machine, and why. `shared` keeps what was ranked for kernels of this and other graphs
    by what they compute, with the names of their buffers.
    """

    source: Source
    target: Target
    options: ScheduleOptions
    unfit: tuple[int, str] | None = None
    shared: dict[object, tuple[tuple[str, ...], tuple[Choice, ...]]] = field(default_factory=lambda: {})
    _ranked: dict[tuple[object, ...], tuple[Choice, ...]] = field(default_factory=lambda: {})
    _joined: dict[tuple[object, ...], tuple[Choice, ...]] = field(default_factory=lambda: {})

    def choose(self, group: Sequence[Item], stored: Mapping[int, Item], coarse: bool) -> Choice | None:
        """The best kernel that stores a group of values, or None where none fits the machine. Raises: EntangledError."""
        return next(iter(self.ranked(group, stored, coarse)), None)

    def ranked(self, group: Sequence[Item], stored: Mapping[int, Item], coarse: bool) -> tuple[Choice, ...]:
        """Ways to run the kernel that stores a group of values, best first; none where none fits. Raises: EntangledError."""
        key = (coarse, tuple(item.key for item in group), needs(self.source, group, stored))
        if key not in self._ranked:
            problem = problem_of(self.source, self.source.graph.name, group, stored)
            self._ranked[key] = self._shared(coarse, problem, lambda: self._rank(problem, coarse))
        return self._ranked[key]

    def _shared(self, how: object, problem: Problem, rank: Callable[[], tuple[Choice, ...]]) -> tuple[Choice, ...]:
        """What is ranked so for a problem, with the names of its buffers; once for all that compute the same."""
        names, computed = _structure(problem)
        if (how, computed) not in self.shared:
            self.shared[how, computed] = names, rank()
        before, found = self.shared[how, computed]
        other = tuple((old, new) for old, new in zip(before, names, strict=True) if old != new)
        return tuple(replace(choice, names=other) for choice in found) if other else found

    def least(self, group: Sequence[Item], stored: Mapping[int, Item]) -> Choice | None:
        """
        The best kernel that stores a group of values and holds as little as it may, or None where even that does not fit the machine;
        `unfit` then says why. Raises: EntangledError.
        """
        key = ("least", tuple(item.key for item in group), needs(self.source, group, stored))
        if key not in self._ranked:
            problem = problem_of(self.source, self.source.graph.name, group, stored)
            self._ranked[key] = self._shared("least", problem, lambda: self._least(problem))
            if not self._ranked[key]:
                self.unfit = self.unfit or (group[0].op, self._excess(problem))
        return next(iter(self._ranked[key]), None)

    def _least(self, problem: Problem) -> tuple[Choice, ...]:
        return self._kept(list(self._costed(problem, least_plans(problem, 4 * self.options.plans), (), True)), None, True)

    def _excess(self, problem: Problem) -> str:
        """What of a machine the smallest kernel for some work needs too much of."""
        least: tuple[float, str] | None = None
        for plan in least_plans(problem, 4 * self.options.plans):
            for _, measured in self._variants(problem, plan, True):
                for warps, stages in launches(problem, plan):
                    needed = resources(measured, warps, stages, self.target)
                    least = min(least or (inf, ""), (needed.share(self.target), needed.spelled(self.target)))
        axes = ", ".join(f"{axis} = {problem.sizes.hint(axis)}" for axis in problem.used_axes())
        return least[1] if least is not None else f"no loop or tile holds its axes {axes}"

    def _rank(self, problem: Problem, coarse: bool) -> tuple[Choice, ...]:
        found: list[Choice] = []
        for pieces in dict.fromkeys(variants(problem, coarse)):
            parts = in_pieces(problem, pieces)
            own = list(self._costed(parts, plans(parts, self.options.plans, coarse), pieces, coarse))
            found.extend(own)
            if self.options.orders and not coarse:
                found.extend(self._reordered(parts, own))
        return self._kept(found, library_call(problem) if self.options.library else None, coarse)

    def _costed(self, problem: Problem, tried: Iterable[Plan], pieces: tuple[Pieces, ...], coarse: bool) -> Iterator[Choice]:
        """The plans that fit the machine, with their variants, warps and stages."""
        for first in tried:
            for plan, measured in self._variants(problem, replace(first, pieces=pieces), coarse):
                for warps, stages in launches(problem, plan):
                    for most in self._bounds(measured, warps, stages, coarse):
                        cost = estimate(measured, warps, stages, self.target, most)
                        if cost is not None:
                            yield Choice(replace(plan, num_warps=warps, num_stages=stages, max_registers=most), measured.kernel, cost)

    def _bounds(self, measured: Measure, warps: int, stages: int, coarse: bool) -> tuple[int, ...]:
        """Bounds of registers to try, none first; where `bounds` wants it also the one with which more programs run at once."""
        if coarse or not self.options.bounds or not measured.counts.dots or measured.longest <= 1 or self.target.capability[0] != "cuda":
            return (0,)
        most = register_bound(resources(measured, warps, stages, self.target), measured.carried, warps, self.target)
        return (0, most) if most else (0,)

    def _reordered(self, problem: Problem, found: Sequence[Choice]) -> Iterator[Choice]:
        """The few fastest choices of tiles with these in other orders, each at the warps and stages that are fastest of those that fit."""
        seen: dict[tuple[tuple[Dim, ...], bool], set[bool]] = {}
        plain = [choice for choice in found if not (choice.plan.max_registers or choice.plan.ordered)]
        able = [choice for choice in plain if may_reorder(choice.kernel, choice.cost.programs, self.target)]
        for choice in sorted(able, key=lambda choice: choice.cost.seconds):
            tiles = choice.plan.dims, choice.plan.descriptors
            if tiles not in seen and len(seen) == REORDERED:
                continue
            kinds = seen.setdefault(tiles, set())
            for way in self._orders(problem, choice) if len(kinds) < 2 else ():
                kind = bool(way.kernel.persistent)
                cost = estimate(way, choice.plan.num_warps, choice.plan.num_stages, self.target)
                if cost is not None and kind not in kinds:
                    kinds.add(kind)
                    yield Choice(replace(choice.plan, group=way.kernel.group, persistent=way.kernel.persistent), way.kernel, cost)

    def _orders(self, problem: Problem, choice: Choice) -> Iterator[Measure]:
        """A kernel with its tiles in groups, and in turn by as many programs as the machine runs at once where there are more."""

        def ordered(group: int, persistent: int) -> tuple[Measure, int]:
            """So ordered, and how many programs the machine runs at once."""
            way = measure(replace(choice.kernel, group=group, persistent=persistent), problem.sizes)
            needed = resources(way, choice.plan.num_warps, choice.plan.num_stages, self.target)
            return way, resident(needed, choice.plan.num_warps, self.target)

        _, most = ordered(0, 0)
        group = group_of(choice.kernel, problem.sizes.values, most)
        if group:
            yield ordered(group, 0)[0]
        way, most = ordered(0, self.target.multiprocessors)
        if may_persist(way) and choice.cost.programs > most:
            yield ordered(group_of(choice.kernel, problem.sizes.values, most), most)[0]

    def _variants(self, problem: Problem, plan: Plan, coarse: bool) -> Iterator[tuple[Plan, Measure]]:
        """
        A plan with what it costs. Unless `coarse`, also with the programs that have most steps first, where they differ, and where
        `peel` wants it with loops that have a body without masks, and with ones that branch past their masks; each of these with `boxes`
        also with loads by descriptor. Where its loop waits for what no dot reads, `diagonal` makes that a dot.
        """
        for tried, measured in self._bodies(problem, plan, coarse):
            yield tried, measured
            if self.options.boxes and not coarse and self.target.describes:
                by_descriptor = self._boxed(measured.kernel, problem.sizes)
                if by_descriptor is not measured.kernel:
                    yield replace(tried, descriptors=True), measure(by_descriptor, problem.sizes, tried.ordered)

    def _boxed(self, kernel: Kernel, sizes: Sizes) -> Kernel:
        """A kernel with loads by descriptor where it may have them."""
        return described(kernel, {axis: size for axis in sizes.extents if (size := sizes.fixed(axis)) is not None})

    def _bodies(self, problem: Problem, plan: Plan, coarse: bool) -> Iterator[tuple[Plan, Measure]]:
        def kernel(of: Plan) -> Kernel:
            return mended(emitter_of(problem, of).kernel(), self.target)

        def counted(made: Kernel) -> Measure:
            return measure(made, problem.sizes, plan.ordered)

        try:
            measured = counted(kernel(plan))
        except InfeasibleError:
            return
        yield plan, measured
        if coarse:
            return
        for moved in [] if plan.ordered else _longest_first(problem, plan, measured):
            plan, measured = moved, counted(kernel(moved))
            yield plan, measured
        if self.options.diagonal and measured.stalled:
            other = replace(plan, diagonal=True)
            with suppress(InfeasibleError):
                yield other, counted(kernel(other))
        if self.options.peel and any(dim.role == "loop" for dim in plan.dims):
            peeled = replace(plan, peeled=True)
            if _count(For, bodies := kernel(peeled)) != _count(For, measured.kernel):
                yield peeled, counted(bodies)
            branching = replace(plan, branching=True)
            if _count(When, branched := kernel(branching)):
                yield branching, counted(branched)

    def joined(self, first: Sequence[Item], second: Sequence[Item], stored: Mapping[int, Item]) -> tuple[Choice, ...]:
        """
        Ways to run two kernels as one whose last programs to arrive do the work of the second, best first; none where that is not legal.

        Raises: EntangledError.
        """
        if not self.target.publishes:
            return ()
        key = tuple((tuple(item.key for item in group), needs(self.source, group, stored)) for group in (first, second))
        if key not in self._joined:
            one, other = (problem_of(self.source, self.source.graph.name, group, stored) for group in (first, second))
            plain = [way.plan for way in self.ranked(first, stored, False) if way.call is None]
            ways = (join_of(one, other, plan) for plan in plain if not (plan.persistent or plan.max_registers))
            joins = itertools.islice((join for join in ways if join is not None), JOINED)
            found = [choice for join in joins for choice in self._endings(join)]
            self._joined[key] = self._kept(found, None, False)
        return self._joined[key]

    def _endings(self, join: Join) -> Iterator[Choice]:
        """The ways in which the last program to arrive may do the second part."""
        for dims in endings(join.second, join.plan, join.plan.num_warps * self.target.warp):
            try:
                joined = mended(join.kernel(dims), self.target)
                joined = self._boxed(joined, join.sizes) if join.plan.descriptors else joined
                measured = measure(joined, self.source.sizes, join.plan.ordered)
            except InfeasibleError:
                continue
            plan = replace(join.plan, last=dims)
            cost = estimate(measured, plan.num_warps, plan.num_stages, self.target)
            if cost is not None:
                yield Choice(plan, measured.kernel, cost, counter=join.counter)

    def _kept(self, found: Sequence[Choice], call: LibraryCall | None, coarse: bool) -> tuple[Choice, ...]:
        """The choices worth keeping, the best first."""
        if not found:
            return ()
        # The model does not tell apart what is within a fiftieth: then simpler code wins, and what leaves registers free. Where ways are
        # to be timed, loops with branches or a second body, descriptors, sums as diagonals and other orders of tiles are taken for theirs.
        asked = self.options.compare
        plain = [choice for choice in found if not (asked and choice.plan.special)] or found
        least = min(choice.cost.seconds for choice in plain)
        close = [choice for choice in plain if choice.cost.seconds <= 1.02 * least]
        best = min(
            close,
            key=lambda choice: (
                choice.plan.packed,
                choice.plan.peeled or choice.plan.branching,
                choice.plan.reordered,
                bool(choice.plan.descending),
                choice.cost.registers > 224,
                choice.cost.seconds,
            ),
        )
        rest = [choice for choice in found if choice is not best]
        if call is not None and self.options.compare:
            ways = (best, by_library(best, call, self.target))
        elif call is not None:
            ways = (min(best, by_library(best, call, self.target), key=lambda choice: choice.cost.seconds),)
        else:
            ways = (best,)
        kept = ways[:1] if coarse else (*ways, *_varied(best, rest, self.options.ranked - 1))
        return tuple(replace(choice, kernel=_launched(choice.kernel, choice.plan)) for choice in kept)


def _launched(kernel: Kernel, plan: Plan) -> Kernel:
    """A kernel with the warps, stages and registers of a plan."""
    return replace(kernel, num_warps=plan.num_warps, num_stages=plan.num_stages, max_registers=plan.max_registers)


def _structure(problem: Problem) -> tuple[tuple[str, ...], object]:
    """
    The names of the buffers of a kernel's work, and all that its ranking rests on but these names. Buffers are numbered as they occur,
    so work that is the same in two graphs, or at two places of one, is equal.
    """
    names: dict[str, int] = {}

    def buffer(of: Buffer) -> object:
        return names.setdefault(of.name, len(names)), of.axes, of.dtype, of.strides, of.divisor, of.aligned

    ops: list[object] = []
    for op in problem.graph.ops:
        attr = buffer(problem.buffers[int(str(op.attr[0]))]) if op.kind == "input" else repr(op.attr)
        ops.append((op.kind, op.args, op.axes, op.dtype, attr))
    results = tuple((result.op, buffer(result.buffer), result.raw, result.repeated) for result in problem.results)
    sizes = problem.sizes
    axes = tuple((axis.name, sizes.extents[axis.name].text, axis.chunk_of) for axis in problem.graph.axes)
    degrees = tuple(tuple(sorted(degree.items())) for degree in problem.degrees)
    bound = tuple(sorted(sizes.values.items())), tuple(sorted(sizes.dynamic)), problem.graph.symbols
    return tuple(names), (tuple(ops), results, axes, degrees, bound)


def library_call(problem: Problem) -> LibraryCall | None:
    """The library routine that computes the same as a kernel: a product of two whole buffers of the result's type."""
    if len(problem.results) != 1:
        return None
    node, out = problem.stores[0].node, problem.results[0].buffer
    while node.kind == "cast":
        node = node.args[0]
    if node.kind != "contract" or len(node.args) != 2 or any(arg.kind != "load" or arg.dtype != out.dtype for arg in node.args):
        return None
    if any(set(node.removed) - set(arg.axes) for arg in node.args):
        return None
    buffers = [problem.buffers[int(str(arg.attr[0]))] for arg in node.args]
    plain = all(index == axis_index(axis) for arg in node.args for axis, index in arg.where)
    if not plain or set(node.axes) != set(out.axes) or out.dtype not in ("f16", "bf16", "f32"):
        return None
    return LibraryCall("matmul", out.name, tuple(buffer.name for buffer in buffers), node.removed)


def by_library(choice: Choice, call: LibraryCall, target: Target) -> Choice:
    """The choice run by a library. Libraries reach the dot rate but for launch and start."""
    cost = choice.cost
    seconds = target.launch + START + max(cost.dot_flops / target.dot_rate, cost.memory_bytes / target.bandwidth)
    return replace(choice, cost=replace(cost, seconds=seconds), call=call)


def _longest_first(problem: Problem, plan: Plan, measured: Measure) -> list[Plan]:
    """The plan with the grid dimension that programs differ in slowest and from its end, where that sorts them by length."""
    if len(measured.varying) != 1:
        return []
    (name,) = measured.varying
    dim = next(dim for dim in plan.dims if dim.name == name)
    order = (*(other for other in plan.raster if other != name), name)
    return [replace(plan, raster=order, descending=name)] if len(dim.axes) == 1 and problem.sizes.fixed(dim.axes[0]) else []


def _count(kind: type[For | When], kernel: Kernel) -> int:
    return sum(isinstance(statement, kind) for statement in walk(kernel.body))


def _varied(best: Choice, rest: Sequence[Choice], count: int) -> list[Choice]:
    """
    The fastest choices after the best, where each further one with the same tiles counts as a little slower than estimated:
    errors of the model are alike for the same tiles.
    """
    seen: dict[object, int] = {_tiles(best.plan): 1}
    handicapped: list[tuple[float, int]] = []
    for place, choice in sorted(enumerate(rest), key=lambda entry: (entry[1].cost.seconds, entry[0])):
        tiles = _tiles(choice.plan)
        handicapped.append((choice.cost.seconds * (1 + REPEATED * seen.get(tiles, 0)), place))
        seen[tiles] = seen.get(tiles, 0) + 1
    return [rest[place] for _, place in sorted(handicapped)[:count]]


def _tiles(plan: Plan) -> object:
    """What plans have in common of which the model's errors are alike."""
    return plan.dims, plan.raster, plan.last, plan.descriptors
