"""
Which values to store between kernels.

Small graphs start from as few kernels as possible and gain cuts while that is faster. Large ones start from a kernel for every
reduction and are fused: the kernel of every stored value gives up what it reads, a few cuts deep and through steps that are
slower by themselves, because undoing one cut of a chain alone often only repeats work. Comparisons use coarse plans; the
outcome is planned in full.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from .cost import REPLAY, START
from .kernels import Choice, Kernels, ScheduleOptions, library_call
from .measure import BYTES
from .nodes import REDUCING, EntangledError
from .partition import Item, Source, cut_candidates, grounded, half_products, items, needs, operand_cuts, problem_of
from .targets import Target

FEW_REDUCTIONS = 9
ALIKE = 1.1
"""How much slower an estimate may be and say nothing."""
SMALL = 16
"""How many times as many elements the smallest result has as a value that is computed beside it."""
DEEPEST = 4
FARTHEST = 1.6
WORST_DETOUR = 1.5
GAIN = 0.98
"""What part of a partition's time a better one takes at most: what is closer says nothing."""
REDONE, SLOW = 1.3, 3
"""How many times the operations that are needed, and the time that is needed at least, more cuts may help from."""


@dataclass(slots=True)
class Candidate:
    """A way to run a graph: its kernels in launch order, workspaces, and estimated seconds."""

    source: Source
    groups: list[list[Item]]
    choices: list[Choice]
    stored: dict[int, Item]
    workspaces: list[Item]
    cuts: tuple[int, ...]
    ranked: list[tuple[Choice, ...]] = field(default_factory=lambda: [])
    """For each kernel the ways to run it, best first, where it is planned in full."""

    @property
    def seconds(self) -> float:
        """Estimated time of all kernels."""
        return REPLAY + sum(choice.cost.seconds for choice in self.choices)

    @property
    def spelled(self) -> str:
        """How many kernels there are, for people."""
        joined = sum(choice.counter is not None for choice in self.choices)
        kernels = f"{len(self.choices)} kernel{'s' if len(self.choices) > 1 else ''}"
        return f"{kernels}, in {joined} of which the last program combines" if joined else kernels

    @property
    def flops(self) -> float:
        """Operations of all kernels."""
        return sum(choice.cost.flops for choice in self.choices)

    @property
    def repeats(self) -> bool:
        """Whether programs of a kernel find the same values."""
        return any(item.repeated for group in self.groups for item in group)


@dataclass(slots=True)
class Fusion:
    """
    Partitions one graph. `tried` are the partitions estimated on the way, by their cuts. With `frugal`, which is the last resort,
    kernels that fit in no other way hold as little as they may. `shared` is for graphs that have kernels in common.
    """

    source: Source
    target: Target
    options: ScheduleOptions
    kernels: Kernels = field(init=False)
    forced: tuple[int, ...] = field(init=False)
    patient: bool = field(init=False)
    frugal: bool = False
    shared: dict[object, tuple[tuple[str, ...], tuple[Choice, ...]]] = field(default_factory=lambda: {})
    tried: dict[tuple[int, ...], Candidate] = field(default_factory=lambda: {})
    _rough: list[Candidate] | None = None
    _calls: dict[tuple[object, ...], bool] = field(default_factory=lambda: {})

    def __post_init__(self) -> None:
        self.kernels = Kernels(self.source, self.target, self.options, shared=self.shared)
        self.forced = self.source.cuts
        self.patient = sum(op.kind in REDUCING for op in self.source.graph.ops) <= FEW_REDUCTIONS

    def best(self) -> Candidate | None:
        """
        The fastest partition found, planned in full, or None where some value fits no kernel. Of those within a tenth of it, which the
        model cannot tell apart, the one with the fewest kernels.
        """
        full = [form for candidate in self.rough() for form in self._forms(candidate)]
        least = min((candidate.seconds for candidate in full), default=0.0)
        close = [candidate for candidate in full if candidate.seconds <= ALIKE * least]
        return min(close, key=lambda candidate: (len(candidate.choices), candidate.seconds), default=None)

    def _forms(self, found: Candidate) -> list[Candidate]:
        """A partition planned in full, as it is and with kernels joined where their last programs may do the work of the next."""
        plain = joined = self._in_full(found)
        place = 0
        while place < len(joined.groups):
            joined = self._joined(joined, place) or joined
            place += 1
        return [plain] if joined is plain else [plain, joined]

    def _joined(self, found: Candidate, place: int) -> Candidate | None:
        """A candidate whose kernel at a place also does the work of one that reads its results, None where no such work is legal."""
        first = found.groups[place]
        if found.choices[place].counter is not None:
            return None
        stores = {item.op for item in first}
        before = {item.op for group in found.groups[: place + 1] for item in group}
        for other, second in enumerate(found.groups[place + 1 :], place + 1):
            reads = set(needs(self.source, second, found.stored))
            if not reads & stores or not reads <= before or found.choices[other].counter is not None:
                continue
            ways = self.kernels.joined(first, second, found.stored)
            if ways:
                groups = [[*first, *second] if group is first else group for group in found.groups if group is not second]
                ranked = [ways if number == place else kept for number, kept in enumerate(found.ranked) if number != other]
                return replace(found, groups=groups, ranked=ranked, choices=[kept[0] for kept in ranked])
        return None

    def _gathered(self, found: Candidate) -> Candidate | None:
        """
        A candidate of which one kernel, and its last programs, do the work of all that reads its results and what else that reads: smaller
        values, which no one else needs and every program finds for itself. None where there is no such kernel.
        """
        for place, first in enumerate(found.groups):
            stores = {item.op for item in first}
            for second in found.groups[place + 1 :]:
                reads = set(needs(self.source, second, found.stored))
                beside = [group for group in found.groups if reads & {item.op for item in group} and group is not first]
                merged = [item for group in beside for item in group]
                if not beside or not reads & stores or not all(self._is_part(item, first, second, found) for item in merged):
                    continue
                every = [*first, *(replace(item, repeated=True) for item in merged)]
                ways = self.kernels.joined(every, second, found.stored)
                if ways:
                    kept = [number for number, group in enumerate(found.groups) if group is not second and group not in beside]
                    groups = [[*every, *second] if found.groups[number] is first else found.groups[number] for number in kept]
                    ranked = [ways if number == place else found.ranked[number] for number in kept]
                    return replace(found, groups=groups, ranked=ranked, choices=[known[0] for known in ranked])
        return None

    def _is_part(self, item: Item, first: Sequence[Item], second: Sequence[Item], found: Candidate) -> bool:
        """Whether each program of a kernel may find a value, as small a part of what it stores itself, that only a second one reads."""
        readers = [group for group in found.groups if item.op in needs(self.source, group, found.stored)]
        apart = not set(needs(self.source, [item], found.stored)) and item.buffer not in self.source.results
        return apart and set(item.buffer.axes) < set(first[0].buffer.axes) and readers == [second]

    def rough(self) -> list[Candidate]:
        """The partitions worth planning in full, with coarse plans; none where some value fits no kernel."""
        if self._rough is None:
            self._rough = self._partitions()
        return self._rough

    def _partitions(self) -> list[Candidate]:
        self._cut_entangled()
        graph = self.source.graph
        candidates = tuple(cut for cut in cut_candidates(graph) if cut not in self.forced)
        found: list[Candidate] = []
        if self.patient:
            start = self.partition(self.forced)
            if start is not None:
                found = [start, self._grown(start, candidates)]
        if not found:
            start = self.partition(tuple(sorted({*self.forced, *candidates})))
            if start is not None:
                fused = self._fused(start)
                near = (entry for entry in self.tried.values() if entry.seconds <= ALIKE * fused.seconds)
                found = [fused, min(near, key=lambda entry: (len(entry.choices), entry.seconds))]
        if not found and not self.frugal:
            self.frugal = True
            return self._frugal(candidates)
        # Coarse plans may misjudge the one large kernel of a small graph: it is planned in full beside what it grew into.
        return list({candidate.cuts: candidate for candidate in found}.values())

    def _frugal(self, candidates: Sequence[int]) -> list[Candidate]:
        """
        The partition with all cuts, where some value fits no kernel of the usual tiles, and of a small graph, or where that is none, the
        one with only those that are forced.
        """
        whole = self.partition(tuple(sorted({*self.forced, *candidates})))
        joined = self.partition(self.forced) if whole is None or self.patient else None
        return list({candidate.cuts: candidate for candidate in (joined, whole) if candidate is not None}.values())

    def _cut_entangled(self) -> None:
        """Forces cuts at reductions that are read along an axis they remove."""
        for _ in self.source.graph.ops:
            entries = items(self.source, self.forced)
            stored = _stored(entries, self.forced)
            try:
                for item in entries:
                    problem_of(self.source, self.source.graph.name, [item], stored)
            except EntangledError as error:
                self.forced = tuple(sorted({*self.forced, error.op}))
            else:
                return

    def _grown(self, start: Candidate, candidates: Sequence[int]) -> Candidate:
        """Adds or removes one cut at a time, the best first, while that is faster."""
        found = start
        for _ in candidates:
            if not self._may_gain(found):
                break
            limit = GAIN * found.seconds
            moves = [tuple(sorted({*found.cuts, cut})) for cut in candidates if cut not in found.cuts]
            moves += [tuple(other for other in found.cuts if other != cut) for cut in found.cuts if cut not in self.forced]
            better: Candidate | None = None
            for cuts in moves:
                option = self.partition(cuts) if self._floor(cuts) < limit else None
                if option is not None and option.seconds < limit:
                    better, limit = option, option.seconds
            if better is None:
                break
            found = better
        return found

    def _fused(self, start: Candidate) -> Candidate:
        """Gives up cuts before each stored value while that is faster, through up to `DEEPEST` steps that need not be faster each."""
        found = start
        for _ in range(self.options.sweeps):
            before = found
            for op in sorted({item.op for group in start.groups for item in group}):
                found = self._fused_into(found, op)
            if found is before:
                break
        return found

    def _fused_into(self, found: Candidate, op: int) -> Candidate:
        """The best partition met when the kernel of an operation gives up, one by one, the cuts it reads."""
        at, best = found, found
        for _ in range(DEEPEST):
            group = next((group for group in at.groups if any(item.op == op for item in group)), None)
            if group is None:
                break
            options: list[Candidate] = []
            for read in needs(self.source, group, at.stored):
                option = None if read in self.forced else self.partition(tuple(cut for cut in at.cuts if cut != read))
                if option is not None:
                    options.append(option)
            if not options:
                break
            at = min(options, key=lambda option: option.seconds)
            if at.seconds < best.seconds:
                best = at
            elif at.seconds > WORST_DETOUR * best.seconds:
                break
        return best

    def _may_gain(self, found: Candidate) -> bool:
        """Whether another cut could help: work is done more than once, or the time is far above what must be moved and computed."""
        graph, sizes = self.source.graph, self.source.sizes
        least = 0.0
        for op in graph.ops:
            if op.kind == "contract":
                axes = {axis for arg in op.args for axis in graph.ops[arg].axes}
                least += 2.0 * sizes.hint_product(graph.ordered(axes))
        done = sum(choice.cost.dot_flops for choice in found.choices)
        floor = max(self._floor(found.cuts), least / self.target.dot_rate)
        return done > REDONE * least or found.seconds > SLOW * floor

    def _floor(self, cuts: Sequence[int]) -> float:
        """A bound from below on the time of a partition: launches, and every argument, result and cut moved once."""
        sizes = self.source.sizes
        used = {op.attr[0] for op in self.source.graph.ops if op.kind == "input"}
        moved = sum(
            sizes.hint_product(buffer.axes) * BYTES[buffer.dtype] for place, buffer in enumerate(self.source.arguments) if place in used
        )
        for item in items(self.source, cuts):
            moved += sizes.hint_product(item.buffer.axes) * BYTES[item.buffer.dtype] * (2 if item.op in cuts else 1)
        return REPLAY + moved / self.target.bandwidth + (1 + bool(cuts)) * (self.target.launch + START)

    def partition(self, cuts: tuple[int, ...]) -> Candidate | None:
        """The kernels of a set of cuts with coarse plans, or None where one has none."""
        cuts = grounded(self.source, cuts)
        entries = items(self.source, cuts)
        stored = _stored(entries, cuts)
        groups = self._groups(entries, stored)
        if groups is None:
            return None
        choices: list[Choice] = []
        for group in groups:
            choice = self._choose(group, stored)
            if choice is None:
                return None
            choices.append(choice)
        workspaces = [item for item in entries if item.buffer not in self.source.results]
        return self.tried.setdefault(cuts, Candidate(self.source, groups, choices, stored, workspaces, cuts))

    def _choose(self, group: Sequence[Item], stored: Mapping[int, Item]) -> Choice | None:
        try:
            if self._has_other_chunks(group, stored):
                return None
            found = self.kernels.choose(group, stored, True)
            # What fits with no coarse plan, which has the smallest tiles of each role, hardly ever fits with another.
            if found is None and self.frugal:
                found = self.kernels.choose(group, stored, False) or self.kernels.least(group, stored)
            return found
        except EntangledError:
            return None

    def _has_other_chunks(self, group: Sequence[Item], stored: Mapping[int, Item]) -> bool:
        """
        Whether a kernel walks chunks and reads what another one found for each: chunks are whole tiles, which differ between kernels, but
        where elements are stored by their place in a chunk.
        """
        read = [frozenset(stored[op].buffer.axes) for op in needs(self.source, group, stored)]
        known = [*read, *(frozenset(item.buffer.axes) for item in group)]
        for axis in self.source.graph.axes:
            outer = axis.chunk_of[1] if axis.chunk_of is not None else ""
            apart = any(outer in axes for axes in read) and not any(axis.name in axes for axes in known)
            if apart and axis.name in problem_of(self.source, self.source.graph.name, group, stored).walked:
                return True
        return False

    def _in_full(self, found: Candidate) -> Candidate:
        """The candidate with its kernels planned in full."""
        ranked = [
            self.kernels.ranked(group, found.stored, False) or (coarse,) for group, coarse in zip(found.groups, found.choices, strict=True)
        ]
        return replace(found, choices=[ways[0] for ways in ranked], ranked=ranked)

    def least(self) -> float:
        """
        The coarse estimate of the fastest partition, of a small graph with those that store computed operands of contractions, and
        those that leave products to a library.
        """
        found = self.rough()
        graph = self.source.graph
        operands = operand_cuts(graph, self.source.sizes) if self.patient else ()
        products = half_products(self.source) if self.patient else ()
        if operands or products:
            for more in ((), cut_candidates(graph), products):
                self.partition(tuple(sorted({*self.forced, *operands, *more})))
        return min(candidate.seconds for candidate in (*found, *self.tried.values()))

    def others(self, best: Candidate) -> list[Candidate]:
        """
        The best partition in its other forms, what is worth it where launches overlap, and the next best that were tried, planned in full.
        """
        beside = self._beside(best)
        forms = self._forms(self.tried[best.cuts]) if best.cuts in self.tried else []
        own = [form for form in forms if len(form.groups) != len(best.groups)]
        if forms and self.options.gathered and (whole := self._gathered(forms[0])) is not None:
            own.append(whole)
        known = {best.cuts, *(entry.cuts for entry in beside)}
        rest = sorted((entry for entry in self.tried.values() if entry.cuts not in known), key=lambda entry: entry.seconds)
        close = [entry for entry in rest if entry.seconds <= FARTHEST * best.seconds]
        return [*own, *(self._in_full(entry) for entry in (*beside, *close[: self.options.partitions]))]

    def _beside(self, best: Candidate) -> list[Candidate]:
        """
        The best partition with a small value in a kernel of its own, which another computes for every tile anew: where launches overlap
        it is computed beside that kernel's sums. At most one.
        """
        if not self.target.overlaps or not self.patient:
            return []
        graph, sizes = self.source.graph, self.source.sizes
        least = min((sizes.hint_product(graph.ops[entry.value].axes) for entry in graph.outputs), default=0)
        small = [cut for cut in cut_candidates(graph) if sizes.hint_product(graph.ops[cut].axes) * SMALL <= least]
        found = [self.partition(tuple(sorted({*best.cuts, cut}))) for cut in small if cut not in best.cuts]
        most = ALIKE * best.seconds + 2 * (self.target.launch + START)
        more = [entry for entry in found if entry is not None and len(entry.groups) > len(best.groups) and entry.seconds <= most]
        return [min(more, key=lambda entry: entry.seconds)] if more else []

    def _groups(self, entries: Sequence[Item], stored: Mapping[int, Item]) -> list[list[Item]] | None:
        """Stored values by kernel, in launch order: those ready together and of like axes share one where that is faster."""
        order: list[list[Item]] = []
        done: set[int] = set()
        left = list(entries)
        reads = {id(item): needs(self.source, [item], stored) for item in entries}
        while left:
            ready = [item for item in left if all(need in done for need in reads[id(item)])]
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
        own = set(item.buffer.axes)
        if self._called(item, stored):
            return None
        for place, group in enumerate(groups):
            if group[0].op == item.op:
                return place
            other = set(group[0].buffer.axes)
            if self._called(group[0], stored):
                continue
            together = self._choose([*group, item], stored) if own <= other or other <= own else None
            if together is None:
                continue
            apart = [self._choose(group, stored), self._choose([item], stored)]
            if any(choice is None for choice in apart) or together.cost.seconds <= sum(
                choice.cost.seconds for choice in apart if choice is not None
            ):
                return place
        return None

    def _called(self, item: Item, stored: Mapping[int, Item]) -> bool:
        """Whether a library may compute a value that is stored for others, so that it does not share a kernel."""
        if not self.options.library or item.buffer in self.source.results:
            return False
        key = (item.op, item.buffer.name, needs(self.source, [item], stored))
        if key not in self._calls:
            try:
                self._calls[key] = library_call(problem_of(self.source, self.source.graph.name, [item], stored)) is not None
            except EntangledError:
                self._calls[key] = False
        return self._calls[key]


def _stored(entries: Sequence[Item], cuts: Sequence[int]) -> dict[int, Item]:
    return {item.op: item for item in entries if item.shared and item.op in cuts}
