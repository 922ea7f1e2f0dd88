"""
From graphs to a program: partition, plans and the choice between them by the cost model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from ..algebra.degrees import degrees as degrees_of
from ..errors import CleaveError
from ..graph import Graph
from .chunks import aligned, split_symbols
from .cost import BYTES, START, Cost, estimate, measure
from .nodes import EntangledError, UnschedulableError
from .partition import Item, Source, cut_candidates, items, needs, problem_of, source_of
from .plans import launches, plans
from .problem import Problem
from .program import Allocate, Kernel, Launch, Program
from .reductions import KernelEmitter
from .roles import Plan
from .sizes import Sizes
from .statements import InfeasibleError
from .targets import Target

CHUNK_COUNTS = (2, 4, 8, 16, 32, 64)
SHORTEST_CHUNK = 64


@dataclass(frozen=True, slots=True)
class ScheduleOptions:
    """
    Bounds of the choice. `plans`: tile choices tried for a kernel; `alternatives`: graphs tried, in the order given; `cuts`: the
    most values stored between kernels beyond those that must be.
    """

    plans: int = 160
    alternatives: int = 12
    cuts: int = 4


@dataclass(frozen=True, slots=True)
class Choice:
    """A scheduled kernel: its plan, code and estimate."""

    plan: Plan
    kernel: Kernel
    cost: Cost


@dataclass(slots=True)
class Candidate:
    """A way to run a graph: its kernels in launch order, workspaces, and estimated seconds."""

    source: Source
    choices: list[Choice]
    stored: list[Item]
    seconds: float
    cuts: tuple[int, ...]

    @property
    def flops(self) -> float:
        """Operations of all kernels."""
        return sum(choice.cost.flops for choice in self.choices)


@dataclass(slots=True)
class Scheduler:
    """Schedules one graph; kernels that several partitions share are chosen once."""

    source: Source
    target: Target
    options: ScheduleOptions
    _chosen: dict[tuple[object, ...], Choice | None] = field(default_factory=lambda: {})

    def best(self) -> Candidate | None:
        """The fastest partition found, or None where some value fits no kernel."""
        forced = self.source.cuts
        found: Candidate | None = None
        candidates = cut_candidates(self.source.graph)
        for _ in range(len(self.source.graph.ops)):
            try:
                found = self.partition(forced)
            except EntangledError as error:
                forced = tuple(sorted({*forced, error.op}))
                continue
            break
        if found is None:
            found = self._safe(tuple(sorted({*forced, *candidates})))
        if found is None:
            return None
        for _ in range(self.options.cuts if self._may_gain(found) else 0):
            better = self._improved(found, candidates, forced)
            if better is None:
                break
            found = better
        return found

    def _may_gain(self, found: Candidate) -> bool:
        """Whether another cut could help: work is done more than once, or the time is far above what must be moved and computed."""
        graph, sizes = self.source.graph, self.source.sizes
        least = 0.0
        for op in graph.ops:
            if op.kind == "contract":
                axes = {axis for arg in op.args for axis in graph.ops[arg].axes}
                least += 2.0 * sizes.hint_product(graph.ordered(axes))
        done = sum(choice.cost.dot_flops for choice in found.choices)
        floor = max(self.floor(found.cuts), least / self.target.dot_rate)
        return done > 1.3 * least or found.seconds > 3 * floor

    def _safe(self, cuts: tuple[int, ...]) -> Candidate | None:
        try:
            return self.partition(cuts)
        except EntangledError:
            return None

    def _improved(self, found: Candidate, candidates: Sequence[int], forced: Sequence[int]) -> Candidate | None:
        """The best partition with one cut more or less, if it beats the one given."""
        best: Candidate | None = None
        limit = 0.98 * found.seconds
        moves = [tuple(sorted({*found.cuts, cut})) for cut in candidates if cut not in found.cuts]
        moves += [tuple(other for other in found.cuts if other != cut) for cut in found.cuts if cut not in forced]
        for cuts in moves:
            if self.floor(cuts) >= limit:
                continue
            option = self._safe(cuts)
            if option is not None and option.seconds < limit:
                best, limit = option, option.seconds
        return best

    def floor(self, cuts: Sequence[int]) -> float:
        """A bound from below on the time of a partition: launches, and every argument, result and cut moved once."""
        sizes = self.source.sizes
        entries = items(self.source, cuts)
        used = {op.attr[0] for op in self.source.graph.ops if op.kind == "input"}
        moved = sum(
            sizes.hint_product(buffer.axes) * BYTES[buffer.dtype] for place, buffer in enumerate(self.source.arguments) if place in used
        )
        for item in entries:
            moved += sizes.hint_product(item.buffer.axes) * BYTES[item.buffer.dtype] * (2 if item.op in cuts else 1)
        kernels = 1 + bool(cuts)
        return moved / self.target.bandwidth + kernels * (self.target.launch + START)

    def partition(self, cuts: tuple[int, ...]) -> Candidate | None:
        """The kernels of a set of cuts, or None where one has no plan. Raises: EntangledError."""
        entries = items(self.source, cuts)
        stored = {item.op: item for item in entries if item.shared and (item.op in cuts)}
        groups = self._groups(entries, stored)
        if groups is None:
            return None
        choices: list[Choice] = []
        for group in groups:
            choice = self.choose(group, stored, len(groups) > 1)
            if choice is None:
                return None
            choices.append(choice)
        seconds = sum(choice.cost.seconds for choice in choices)
        return Candidate(self.source, choices, [item for item in entries if item.buffer not in self.source.results], seconds, cuts)

    def _groups(self, entries: Sequence[Item], stored: Mapping[int, Item]) -> list[list[Item]] | None:
        """Stored values by kernel, in launch order: those ready together and of like axes share one where that is faster."""
        order: list[list[Item]] = []
        done: set[int] = set()
        left = list(entries)
        while left:
            ready = [item for item in left if all(need in done for need in needs(self.source, item, stored))]
            if not ready:
                return None
            left = [item for item in left if item not in ready]
            groups: list[list[Item]] = []
            for item in ready:
                place = self._joins(groups, item, stored)
                if place is None:
                    groups.append([item])
                else:
                    groups[place].append(item)
            order.extend(groups)
            done |= {item.op for item in ready}
        return order

    def _joins(self, groups: Sequence[Sequence[Item]], item: Item, stored: Mapping[int, Item]) -> int | None:
        """The kernel of a level that can store one more value without growing slower than a kernel of its own."""
        for place, group in enumerate(groups):
            if group[0].op == item.op:
                return place
            together = self.choose([*group, item], stored, True)
            if together is None:
                continue
            apart = [self.choose(group, stored, True), self.choose([item], stored, True)]
            if any(choice is None for choice in apart) or together.cost.seconds <= sum(
                choice.cost.seconds for choice in apart if choice is not None
            ):
                return place
        return None

    def choose(self, group: Sequence[Item], stored: Mapping[int, Item], several: bool) -> Choice | None:
        """The best plan of one kernel. Raises: EntangledError."""
        name = self.source.graph.name if not several else f"{self.source.graph.name}_{group[0].buffer.name}"
        key = (name, tuple(item.buffer.name for item in group), tuple(sorted(stored)))
        if key not in self._chosen:
            self._chosen[key] = self._choose(problem_of(self.source, name, group, stored))
        return self._chosen[key]

    def _choose(self, problem: Problem) -> Choice | None:
        found: list[Choice] = []
        for plan, kernel in _kernels(problem, self.options.plans):
            measured = measure(kernel, problem.sizes)
            for warps, stages in launches(problem, plan):
                cost = estimate(measured, warps, stages, problem.sizes, self.target)
                if cost is not None:
                    found.append(Choice(replace(plan, num_warps=warps, num_stages=stages), kernel, cost))
        if not found:
            return None
        # The model does not tell apart what is within a fiftieth: then simpler code wins, and what leaves registers free.
        least = min(choice.cost.seconds for choice in found)
        close = [choice for choice in found if choice.cost.seconds <= 1.02 * least]
        best = min(close, key=lambda choice: (choice.plan.packed, choice.cost.registers > 224, choice.cost.seconds))
        kernel = replace(best.kernel, num_warps=best.plan.num_warps, num_stages=best.plan.num_stages)
        return replace(best, kernel=kernel)


def _kernels(problem: Problem, limit: int) -> list[tuple[Plan, Kernel]]:
    out: list[tuple[Plan, Kernel]] = []
    for plan in plans(problem, limit):
        try:
            out.append((plan, KernelEmitter(problem, plan).kernel()))
        except InfeasibleError:
            continue
    return out


def schedule(
    graphs: Sequence[Graph],
    sizes: Mapping[str, int],
    dynamic: frozenset[str],
    target: Target,
    options: ScheduleOptions | None = None,
) -> Program:
    """
    The fastest program, by the cost model, among equivalent stabilized graphs.

    `sizes` gives every symbol its value, or its hint where it is in `dynamic` and stays a run-time size. `Program.notes` says what
    was chosen and why.
    Raises: CleaveError where a symbol has no size or no graph can be scheduled.
    """
    chosen = options or ScheduleOptions()
    found: list[tuple[str, Candidate]] = []
    failure: CleaveError | None = None
    notes: list[str] = []
    tried = list(enumerate(graphs[: chosen.alternatives]))
    tried.sort(key=lambda entry: bool(_free_counts(entry[1], sizes)))
    for number, graph in tried:
        counts: list[dict[str, int]] = [{}]
        if _free_counts(graph, sizes):
            if any(candidate.seconds <= 2 * (target.launch + START) for _, candidate in found):
                notes.append(f"alternative {number}: not split, two launches take longer")
                continue
            counts = _chunk_counts(graph, sizes, target, bool(found))
            if not counts:
                notes.append(f"alternative {number}: not split, there are enough programs without")
        for count in counts:
            said = f"alternative {number}" + "".join(f", {name} = {value}" for name, value in count.items())
            try:
                candidate = _candidate(graph, {**sizes, **count}, dynamic - set(count), target, chosen)
            except CleaveError as error:
                failure = failure or error
                notes.append(f"{said}: {error}")
                break
            kernels = len(candidate.choices)
            notes.append(f"{said}: {candidate.seconds * 1e6:.2f} us in {kernels} kernel{'s' if kernels > 1 else ''}")
            found.append((said, candidate))
    if not found:
        assert failure is not None, "a schedule needs at least one graph"
        raise failure
    name, best = _preferred(found)
    return assemble(best, [*notes, f"chosen: {name}"])


def _preferred(found: Sequence[tuple[str, Candidate]]) -> tuple[str, Candidate]:
    """The fastest; of those within a tenth of it, which the model cannot tell apart, the one that does least work."""
    least = min(candidate.seconds for _, candidate in found)
    close = [entry for entry in found if entry[1].seconds <= 1.1 * least]
    return min(close, key=lambda entry: (entry[1].flops, entry[1].seconds))


def _free_counts(graph: Graph, sizes: Mapping[str, int]) -> tuple[str, ...]:
    """The numbers of chunks that are the scheduler's to choose."""
    return tuple(name for name in split_symbols(graph) if name not in sizes)


def _chunk_counts(graph: Graph, sizes: Mapping[str, int], target: Target, optional: bool) -> list[dict[str, int]]:
    """
    Numbers of chunks to try: those that bring the number of programs near what fills the machine.

    None where the results alone make enough programs and the split is `optional`.
    """
    free = _free_counts(graph, sizes)
    values = {**dict.fromkeys(free, 2), **sizes}
    extents = graph.sizes(values)
    outputs = {axis for entry in graph.outputs for axis in graph.ops[entry.value].axes}
    elements = prod(max(1, extents[axis]) for axis in graph.ordered(outputs))
    programs = max(1, elements // (64 * 64))
    if programs >= target.multiprocessors and optional:
        return []
    whole = {entry.chunk_of[0] for entry in graph.axes if entry.chunk_of is not None and entry.extent.symbols}
    longest = max((extents[axis] for axis in graph.ordered(whole)), default=1)
    wanted = [count for count in CHUNK_COUNTS if count * SHORTEST_CHUNK <= longest and count * programs <= 8 * target.multiprocessors]
    return [dict.fromkeys(free, count) for count in wanted[-3:] or [CHUNK_COUNTS[0]]]


def _candidate(graph: Graph, sizes: Mapping[str, int], dynamic: frozenset[str], target: Target, options: ScheduleOptions) -> Candidate:
    place = next((entry for entry in graph.places if entry), "")
    try:
        bound = Sizes(graph, sizes, dynamic)
        source = source_of(aligned(graph, degrees_of(graph)), bound)
    except KeyError as error:
        raise CleaveError(place, f"symbol '{error.args[0]}' has no size", "bind it or give a hint", op=graph.name) from error
    except ValueError as error:
        raise CleaveError(place, str(error), "run alg-stabilize first", op=graph.name) from error
    try:
        found = Scheduler(source, target, options).best()
    except UnschedulableError as error:
        at = source.graph.places[error.op] if source.graph.places else ""
        raise CleaveError(at or place, error.why, op=source.graph.ops[error.op].kind) from error
    if found is None:
        raise CleaveError(place, "no plan fits the machine", "cut the graph or choose another target", op=graph.name)
    return found


def assemble(candidate: Candidate, notes: Sequence[str]) -> Program:
    """The program of a candidate: workspaces first, then a launch for each kernel."""
    source = candidate.source
    steps: list[Allocate | Launch] = [Allocate(item.buffer) for item in candidate.stored]
    for choice in candidate.choices:
        steps.append(Launch(choice.kernel.name, tuple(buffer.name for buffer in choice.kernel.buffers)))
    layouts = (*(entry.layout for entry in source.graph.inputs), *(entry.layout for entry in source.graph.outputs))
    reasons = [f"{choice.kernel.name}: {choice.plan}; {choice.cost}" for choice in candidate.choices]
    return Program(
        source.graph.name,
        source.arguments,
        source.results,
        layouts,
        tuple(source.sizes.extents.items()),
        tuple(choice.kernel for choice in candidate.choices),
        tuple(steps),
        (*notes, *reasons),
    )
