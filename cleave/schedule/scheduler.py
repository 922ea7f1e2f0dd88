"""
From equivalent graphs to one program: every graph is partitioned, and the fastest by the cost model is assembled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from ..algebra.degrees import degrees as degrees_of
from ..errors import CleaveError
from ..graph import Graph
from .chunks import aligned, split_symbols
from .cost import ARRIVE, LAST_STEP, REPLAY, START
from .counts import count_extents, most_chunks
from .fusion import ALIKE, Candidate, Fusion
from .kernels import Choice, ScheduleOptions
from .nodes import UnschedulableError
from .partition import Product, products, source_of
from .program import Allocate, For, Launch, Program, Step, walk
from .ranges import within_ranges
from .repeats import with_repeats
from .sizes import Sizes
from .splits import exact_chunks
from .targets import Target

DEEP = 100
"""Chains of so many operations are followed."""
CHUNK_COUNTS = (2, 4, 8, 16, 32, 64)
SHORTEST_CHUNK = 64
MOST_COUNTS = 5
SURELY_FULL = 3
MOST_FULL = 6
SURELY_STORED = 2
FARTHEST_FULL = 1.15


def schedule(
    graphs: Sequence[Graph],
    sizes: Mapping[str, int],
    dynamic: frozenset[str],
    target: Target,
    options: ScheduleOptions | None = None,
) -> Program:
    """
    The fastest program, by the cost model, among equivalent stabilized graphs; the first trial of `space`.

    `sizes` gives every symbol its value, or its hint where it is in `dynamic` and stays a run-time size. `Program.notes` says what
    was chosen and why.
    Raises: CleaveError where a symbol has no size or no graph can be scheduled.
    """
    found, notes = considered(graphs, sizes, dynamic, target, options or ScheduleOptions(), False)
    name, best = preferred(found)
    return assemble(best, best.choices, [*notes, f"chosen: {name}"])


def _too_deep(graph: Graph) -> CleaveError | None:
    """
    What is said of a graph whose values are made of each other in longer chains than are followed, at the end of the longest; None where
    all are short, so that the graph is not to blame.
    """
    depths: list[int] = []
    for op in graph.ops:
        depths.append(1 + max((depths[arg] for arg in op.args), default=0))
    last = max(range(len(depths)), key=depths.__getitem__)
    if depths[last] <= DEEP:
        return None
    place = graph.places[last] if graph.places else ""
    found = f"ends a chain of {depths[last]} operations, each of which needs the one before; that is too deep to schedule"
    return CleaveError(place, found, "cut the program into shorter ones", op=f"alg.{graph.ops[last].kind}")


def considered(
    graphs: Sequence[Graph], sizes: Mapping[str, int], dynamic: frozenset[str], target: Target, chosen: ScheduleOptions, several: bool
) -> tuple[list[tuple[str, Candidate]], list[str]]:
    """
    Ways to run the graphs, each with what it is called, and notes on the choice. `several` keeps more than one partition a graph, and
    with the option `ranges`, where masks are data, one that bounds loops by their ranges.

    Raises: CleaveError where there is none.
    """
    try:
        return _considered(graphs, sizes, dynamic, target, chosen, several)
    except RecursionError:
        failure = _too_deep(graphs[0])
        if failure is None:
            raise
        raise failure from None


def _considered(
    graphs: Sequence[Graph], sizes: Mapping[str, int], dynamic: frozenset[str], target: Target, chosen: ScheduleOptions, several: bool
) -> tuple[list[tuple[str, Candidate]], list[str]]:
    rough: list[tuple[float, str, Fusion]] = []
    failure: CleaveError | None = None
    notes: list[str] = []
    halves = products(graphs[0]).values() if chosen.library and chosen.rounded else ()
    written = frozenset(product for product, _ in halves)
    shared: dict[object, tuple[tuple[str, ...], tuple[Choice, ...]]] = {}
    tried = list(enumerate(graphs[: chosen.alternatives]))
    if len(tried) < len(graphs):
        notes.append(f"alternatives {len(tried)} to {len(graphs) - 1}: not tried, the option alternatives is {chosen.alternatives}")
    tried.sort(key=lambda entry: bool(_free_counts(entry[1], sizes)))
    for number, graph in tried:
        counts: list[dict[str, int]] = [{}]
        if _free_counts(graph, sizes):
            combined = min(target.launch + START, ARRIVE + LAST_STEP) if target.publishes else target.launch + START
            if any(seconds <= REPLAY + target.launch + START + combined for seconds, _, _ in rough):
                notes.append(f"alternative {number}: not split, a launch and a combination take longer")
                continue
            counts = _chunk_counts(graph, sizes, target, bool(rough))
            if not counts:
                notes.append(f"alternative {number}: not split, there are enough programs without")
        for count in counts:
            said = f"alternative {number}" + "".join(f", {name} = {value}" for name, value in count.items())
            try:
                # Where other sizes are known when the program runs, the number of chunks that suits them is as well.
                open_ = any(symbol.name in dynamic for symbol in graph.symbols)
                most = {name: most_chunks(value) for name, value in count.items() if open_}
                fusion = _fusion(graph, {**sizes, **count}, dynamic - set(count) | set(most), most, target, chosen, written, shared)
            except CleaveError as error:
                failure = failure or error
                notes.append(f"{said}: {error}")
                break
            rough.append((min(candidate.seconds for candidate in fusion.rough()), said, fusion))
    if not rough:
        assert failure is not None, "a schedule needs at least one graph"
        raise failure
    found = _planned(rough, notes, several)
    if several and chosen.ranges:
        bounded = _within_ranges(found, target, chosen, shared)
        notes += [f"{said}: {best.seconds * 1e6:.2f} us in {best.spelled}, less where tiles are masked" for said, best in bounded]
        found += bounded
    return found, notes


def _within_ranges(
    found: Sequence[tuple[str, Candidate]],
    target: Target,
    options: ScheduleOptions,
    shared: dict[object, tuple[tuple[str, ...], tuple[Choice, ...]]],
) -> list[tuple[str, Candidate]]:
    """
    The fastest way to run the graphs that may be bounded by ranges of its masks, so bounded, and where that may be with the longest tiles
    of rows first; nothing where there is none.
    """

    def bounded(candidate: Candidate, ordered: bool) -> Candidate | None:
        source = within_ranges(candidate.source, candidate.groups, candidate.stored, ordered)
        try:
            return None if source is None else Fusion(source, target, options, shared=shared).best()
        except UnschedulableError:
            return None

    for said, candidate in sorted(found, key=lambda entry: entry[1].seconds):
        plain = bounded(candidate, False)
        if plain is not None:
            out = [(f"{said}, within ranges", plain)]
            sorted_ = bounded(candidate, True)
            if sorted_ is not None and any(choice.plan.ordered for choice in sorted_.choices):
                out.append((f"{said}, within ranges, longest first", sorted_))
            return out
    return []


def _planned(rough: Sequence[tuple[float, str, Fusion]], notes: list[str], several: bool) -> list[tuple[str, Candidate]]:
    """The promising ways to run the graphs, planned in full; notes say what each is estimated at."""
    ranked = sorted(rough, key=lambda entry: entry[0])
    near = FARTHEST_FULL * ranked[0][0]
    promising = {said for place, (seconds, said, _) in enumerate(ranked[:MOST_FULL]) if place < SURELY_FULL or seconds <= near}
    if several:
        stored = sorted((fusion.least(), place) for place, (_, _, fusion) in enumerate(ranked))
        promising |= {ranked[place][1] for _, place in stored[:SURELY_STORED]}
    found: list[tuple[str, Candidate]] = []
    for seconds, said, fusion in rough:
        best = fusion.best() if said in promising else None
        if best is None:
            notes.append(f"{said}: about {seconds * 1e6:.2f} us")
            continue
        notes.append(f"{said}: {best.seconds * 1e6:.2f} us in {best.spelled}")
        found.append((said, best))
        if several:
            found.extend((f"{said}, {other.spelled}", other) for other in fusion.others(best))
    return found


def preferred(found: Sequence[tuple[str, Candidate]]) -> tuple[str, Candidate]:
    """
    The fastest; of those within a tenth of it, which the model cannot tell apart, fewest kernels, then loops, then least work. What
    ranges save depends on data, so those are left out, and so is what is taken for its time alone.
    """
    plain = [entry for entry in found if not entry[1].source.ranged and not entry[1].repeats]
    least = min(candidate.seconds for _, candidate in plain)
    close = [entry for entry in plain if entry[1].seconds <= ALIKE * least]
    return min(close, key=lambda entry: (*_parts(entry[1]), entry[1].flops, entry[1].seconds))


def _parts(candidate: Candidate) -> tuple[int, int]:
    """How many kernels and loops a candidate has."""
    bodies = [choice.kernel.body for choice in candidate.choices]
    return len(bodies), sum(isinstance(statement, For) for body in bodies for statement in walk(body))


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
    wanted = [count for count in CHUNK_COUNTS if count * SHORTEST_CHUNK <= longest and count * programs <= 4 * target.multiprocessors]
    return [dict.fromkeys(free, count) for count in wanted[-MOST_COUNTS:] or [CHUNK_COUNTS[0]]]


def _fusion(
    graph: Graph,
    sizes: Mapping[str, int],
    dynamic: frozenset[str],
    most: Mapping[str, int],
    target: Target,
    options: ScheduleOptions,
    written: frozenset[Product],
    shared: dict[object, tuple[tuple[str, ...], tuple[Choice, ...]]],
) -> Fusion:
    """The partitions of one graph, at least one. Raises: CleaveError."""
    place = next((entry for entry in graph.places if entry), "")
    try:
        bound = Sizes(graph, sizes, dynamic, most, exact_chunks(graph))
        made = aligned(graph, degrees_of(graph))
        source = source_of(made, bound, written)
    except KeyError as error:
        raise CleaveError(place, f"symbol '{error.args[0]}' has no size", "bind it or give a hint", op=graph.name) from error
    except ValueError as error:
        raise CleaveError(place, str(error), "run alg-stabilize first", op=graph.name) from error
    try:
        fusion = Fusion(source, target, options, shared=shared)
        found = fusion.rough()
        if not found and (stored := with_repeats(made, bound)) is not made:
            source = source_of(stored, bound, written)
            fusion = Fusion(source, target, options, shared=shared)
            found = fusion.rough()
    except UnschedulableError as error:
        at = source.graph.places[error.op] if source.graph.places else ""
        raise CleaveError(at or place, error.why, op=source.graph.ops[error.op].kind) from error
    if not found:
        at, why = fusion.kernels.unfit or (None, "its values depend on each other in a circle")
        op = graph.name if at is None else source.graph.ops[at].kind
        place = source.graph.places[at] if at is not None and source.graph.places else place
        raise CleaveError(place, f"no plan fits {target.name}: {why}", "cut the graph there or choose another target", op=op)
    return fusion


def assemble(candidate: Candidate, choices: Sequence[Choice], notes: Sequence[str]) -> Program:
    """The program of a candidate with these ways to run its kernels: workspaces first, then a launch for each kernel."""
    source = candidate.source
    name = source.graph.name
    choices = [choice.named() for choice in choices]
    kernels = [
        replace(choice.kernel, name=name if len(choices) == 1 else f"{name}_{group[0].buffer.name}")
        for group, choice in zip(candidate.groups, choices, strict=True)
    ]
    counts = count_extents(source, choices)
    sizes = [(axis, size) for axis, size in source.sizes.extents.items() if axis not in dict(counts)]
    # Chunks come after their number.
    first = next((place for place, (axis, _) in enumerate(sizes) if source.sizes.axes[axis].chunk_of is not None), len(sizes))
    sizes[first:first] = counts
    counters = [choice.counter for choice in choices if choice.counter is not None]
    steps: list[Step] = [Allocate(item.buffer) for item in candidate.workspaces]
    steps += [Allocate(counter.buffer, zeroed=True) for counter in counters]
    for kernel, choice in zip(kernels, choices, strict=True):
        steps.append(choice.call or Launch(kernel.name, tuple(buffer.name for buffer in kernel.buffers)))
    layouts = (*(entry.layout for entry in source.graph.inputs), *(entry.layout for entry in source.graph.outputs))
    reasons = [
        f"{kernel.name}: {choice.plan if choice.call is None else 'library'}; {choice.cost}"
        for kernel, choice in zip(kernels, choices, strict=True)
    ]
    return Program(
        name,
        source.arguments,
        source.results,
        layouts,
        (*sizes, *((counter.axis, counter.extent) for counter in counters)),
        tuple(kernel for kernel, choice in zip(kernels, choices, strict=True) if choice.call is None),
        tuple(steps),
        (*notes, *reasons),
    )
