"""
The search: other programs for the same function, the most promising first.

What is promising depends on sizes that are not known: the first few are the best at the hinted sizes and those that are best at
others (`regimes`), and soon there is one for every set of axes that may be in chunks (`among`).

Law: `superoptimize` gives at least the program as written, and every other one has passed `verify`. The result is a function
of the graph and the options as long as no time cap fires; caps that were hit are in the result.

Steps: cut a large program into pieces (segments); evaluate a piece at random points (values, meaning), drop maxima that no
result depends on (freedom), make its operations classes (convert) and close them under the rules (rules, closure, explore); lay
out the operations among classes (edges); take the cheapest programs (extraction); write them as graphs (emit), place
their coefficients (scales) and check them (verify).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import combinations, count
from typing import TypeVar

from ..graph import Graph
from .candidates import Task, extracted, from_weights, operations_found
from .chunk_order import together
from .cost import cost, hinted_sizes, longest_sizes
from .edges import Edge
from .emit import emit
from .explore import Exploration, explore, unsearchable
from .extraction import Chosen, Limits
from .options import SearchOptions
from .regimes import cover, regimes
from .scales import placed
from .segments import Segment, joined, segments, unnamed
from .split import dependent_reductions, split_axes, splittable
from .verify import Verifier
from .watch import Watch, unwatched
from .work import work
from .workers import ALONE, LEAST, Workers

BEST = 3
"""The best programs that come before any in chunks."""
EARLY = 9
"""The programs beside that as written among which there is one for every set of axes in chunks, if there are so few."""
Given = TypeVar("Given")
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Alternative:
    """A program: its graph, FLOPs and bytes as texts of extents, dependent reductions, and a name that says what it is."""

    graph: Graph
    flops: str
    bytes: str
    phases: int
    score: float
    name: str


@dataclass(frozen=True, slots=True)
class SearchResult:
    """
    `alternatives[0]` is the program as written; then come the best one and those that are best at other sizes, then the rest in
    order, with programs in chunks among them (`among`). `caps` says what cut the search short.
    """

    alternatives: tuple[Alternative, ...]
    caps: tuple[str, ...]
    stats: dict[str, float] = field(default_factory=dict[str, float])


def superoptimize(graph: Graph, options: SearchOptions | None = None, workers: Workers = ALONE, watch: Watch = unwatched) -> SearchResult:
    """
    Equivalent programs for a graph, the same for any number of workers. `watch` is told how far the search has come.

    Never raises for a graph the language can express.
    """
    searched = together(graph)
    result = _Search(searched, options or SearchOptions(), workers, watch).run()
    if searched is graph:
        return result
    written = _Search(graph, options or SearchOptions(), workers, watch).alternative(graph, "as written")
    first = replace(result.alternatives[0], name="chunks with their number")
    return replace(result, alternatives=(written, first, *result.alternatives[1:]))


class _Search:
    def __init__(self, graph: Graph, options: SearchOptions, workers: Workers, watch: Watch) -> None:
        self.graph = graph
        self.options = options
        self.workers = workers
        self.watch = watch
        self.size = len(graph.ops)
        self.regimes = regimes(graph)
        self.longest = longest_sizes(graph)
        self.caps: list[str] = []
        self.stats: dict[str, float] = {}
        self.written = [work(graph, sizes, options.hoist) for sizes in self.regimes]
        self.clock = time.monotonic()

    def lap(self, name: str) -> None:
        now = time.monotonic()
        self.stats[name] = self.stats.get(name, 0.0) + now - self.clock
        self.clock = now

    def run(self) -> SearchResult:
        original = self.alternative(self.graph, "as written")
        found = self.scaled(self.ranked(original, [self.alternative(graph, "") for graph in self.found()]))
        self.lap("verification s")
        distinct = {outline(self.graph): original}
        for entry in found:
            distinct.setdefault(outline(entry.graph), entry)
        best = [replace(entry, name=f"{i}") for i, entry in enumerate(distinct.values()) if 0 < i <= self.options.alternatives]
        if self.options.split:
            best = among(best, self.split([*best, original]))
            self.lap("split s")
        self.caps += self.workers.failures
        return SearchResult((original, *best), tuple(dict.fromkeys(self.caps)), self.stats)

    def split(self, programs: Sequence[Alternative]) -> list[Alternative]:
        """
        The best programs with axes in chunks: for every axis that is worth it, those with the fewest dependent reductions over
        it, and for two such axes at once the one with the fewest over both. One may be equal only by pieces of the axis, which
        one in chunks has none of: it is as good to compare with the program that was split, which has been verified.
        """
        searchable = unsearchable(self.graph) is None
        able = {entry.name: frozenset(splittable(entry.graph)) for entry in programs} if searchable else {}
        long = [axis for axis in splittable(self.graph) if self.longest[axis] >= self.options.split_at_least] if searchable else []
        pairs = list(combinations(long, 2)) if self.options.split_at_once > 1 else []
        if len(pairs) > self.options.split_pairs:
            self.caps.append(f"of {len(pairs)} pairs of axes that may be split at once the first {self.options.split_pairs} were")
        chosen: list[tuple[str, Graph, Graph]] = []
        for axes in (*((axis,) for axis in long), *pairs[: self.options.split_pairs]):
            depths = {
                entry.name: sum(dependent_reductions(entry.graph, axis) for axis in axes)
                for entry in programs
                if able[entry.name].issuperset(axes)
            }
            least = min(depths.values(), default=0)
            each = self.options.split_each if len(axes) == 1 else 1
            for entry in [entry for entry in programs if depths.get(entry.name) == least][:each]:
                chosen.append((f"{entry.name} split {' '.join(axes)}", entry.graph, split_axes(entry.graph, axes)))
        tasks = [((self.graph, whole), split, self.options.seed) for _, whole, split in chosen]
        out: list[Alternative] = []
        problems = self.workers.map(differs, tasks, self.size, self.watched("programs in chunks", differs))
        for (name, _, split), problem in zip(chosen, problems, strict=True):
            if problem is None:
                out.append(self.alternative(split, name))
            else:
                self.caps.append(f"{name} was refused by the verifier: {problem}")
        return out

    def watched(self, what: str, function: Callable[[Given], Answer]) -> Callable[[Given], Answer]:
        """The function, telling how often it was called."""
        calls = count(1)

        def told(item: Given) -> Answer:
            classes = f" from {self.stats['classes']:g} classes" if "classes" in self.stats else ""
            self.watch(f"verification of {what}{classes}, number {next(calls)}")
            return function(item)

        return told

    def alternative(self, graph: Graph, name: str) -> Alternative:
        price = cost(graph)
        effort = work(graph, hinted_sizes(graph), self.options.hoist)
        return Alternative(graph, price.flops, price.bytes, price.phases, self.weighted(effort, price.phases), name)

    def weighted(self, effort: float, phases: int) -> float:
        """What a program of so much work counts as in the ranking."""
        return effort * (1 + self.options.phase_weight * phases)

    def scored(self, entry: Alternative, sizes: Mapping[str, int]) -> float:
        """What a program counts as at given sizes."""
        return self.weighted(work(entry.graph, sizes, self.options.hoist), entry.phases)

    def ranked(self, original: Alternative, found: Sequence[Alternative]) -> list[Alternative]:
        """
        Programs in the order in which they are handed out: first those that cover the regimes, then the rest of those that are
        cheap enough at the hinted sizes.
        """
        scores = [[self.scored(entry, sizes) for sizes in self.regimes] for entry in found]
        first, rest = cover(scores, [self.scored(original, sizes) for sizes in self.regimes])
        most = self.written[0] * self.options.cost_factor
        rest = [i for i in rest if work(found[i].graph, self.regimes[0], self.options.hoist) <= most]
        return [found[i] for i in (*first, *rest)]

    def scaled(self, found: list[Alternative]) -> list[Alternative]:
        """The programs, and behind the best one the same with coefficients at cheaper places, if that is worth something."""
        graph = placed(found[0].graph, self.regimes[0], self.options.hoist) if found else None
        if graph is None:
            return found
        problem = differs(((found[0].graph,), graph, self.options.seed))
        if problem is not None:
            self.caps.append(f"coefficients placed otherwise were refused by the verifier: {problem}")
            return found
        return [found[0], self.alternative(graph, ""), *found[1:]]

    def found(self) -> list[Graph]:
        """The verified programs, in no particular order; none where there is nothing to compute."""
        if not self.graph.outputs:
            return []
        pieces = segments(self.graph, self.options.piece)
        return self.found_in_pieces(pieces) if len(pieces) > 1 else self.found_whole()

    def found_in_pieces(self, pieces: Sequence[Segment]) -> list[Graph]:
        """
        The best of every piece together, at the hinted sizes and in every other regime, and the first with one piece in another
        form; every piece is verified by itself.
        """
        graphs = list(dict.fromkeys(unnamed(piece) for piece in pieces))
        options = replace(self.options, split=False, piece=len(self.graph.ops))
        if sum(len(graph.ops) >= LEAST for graph in graphs) > 1:
            tasks = [(graph, options) for graph in graphs]
            results = self.workers.map(_searched, tasks, self.size, lambda task: superoptimize(*task, watch=self.watch))
        else:
            results = [superoptimize(graph, options, self.workers, self.watch) for graph in graphs]
        known = dict(zip(graphs, results, strict=True))
        for result in results:
            self.caps += result.caps
            for name, amount in result.stats.items():
                self.stats[name] = self.stats.get(name, 0.0) + amount
        ranked = [sorted(known[unnamed(piece)].alternatives, key=lambda entry: entry.score) for piece in pieces]
        self.clock = time.monotonic()
        others = [(entry.score - ranked[at][0].score, at, i) for at in range(len(ranked)) for i, entry in enumerate(ranked[at]) if i]
        chosen = [[entries[0].graph for entries in ranked]]
        for sizes in self.regimes[1:]:
            scores = [[self.scored(entry, sizes) for entry in entries] for entries in ranked]
            chosen.append([entries[min(range(len(entries)), key=at.__getitem__)].graph for entries, at in zip(ranked, scores, strict=True)])
        for _, at, i in sorted(others)[: self.options.alternatives]:
            chosen.append([entries[i if place == at else 0].graph for place, entries in enumerate(ranked)])
        distinct = dict.fromkeys(tuple(graphs) for graphs in chosen)
        return [joined(self.graph, pieces, graphs) for graphs in distinct]

    def found_whole(self) -> list[Graph]:
        """The verified programs that are found by looking at everything at once."""
        explored = explore(self.graph, self.options, self.watch)
        if isinstance(explored, str):
            self.caps.append(f"{explored}; nothing was searched")
            return []
        self.caps += explored.caps
        self.stats["classes"] = len(explored.egraph.classes)
        self.lap("closure s")
        programs = self.programs(explored)
        self.lap("extraction s")
        return self.checked(explored, programs)

    def programs(self, explored: Exploration) -> list[Chosen]:
        found = operations_found(explored)
        hoisted = from_weights(explored.egraph, self.graph) if self.options.hoist else frozenset[int]()
        tasks = [Task(explored, found, hoisted, sizes, self.limits(regime)) for regime, sizes in enumerate(self.regimes)]
        results = self.workers.map(extracted, tasks, self.size, lambda task: extracted(task, self.watch))
        self.stats["edges"] = results[0].edges
        out: dict[tuple[tuple[int, Edge], ...], Chosen] = {}
        for regime, result in enumerate(results):
            self.caps += result.caps
            programs = result.programs
            if regime > 0:
                programs = sorted(programs, key=lambda program: self.weighted(program.work, program.phases))[:1]
            for program in programs:
                out.setdefault(program.outline, program)
        return list(out.values())

    def limits(self, regime: int) -> Limits:
        """What extraction may keep and spend: programs of many kinds at the hinted sizes, the cheapest one at others."""
        steps = self.options.steps + self.options.steps_each * len(self.graph.ops)
        ceiling = self.written[regime] * self.options.cost_factor
        keep, wanted = (self.options.keep, self.options.alternatives) if regime == 0 else (1, 1)
        return Limits(keep, wanted, ceiling, steps, self.options.seconds)

    def checked(self, explored: Exploration, programs: list[Chosen]) -> list[Graph]:
        written: list[Graph] = []
        refused = 0
        most = len(self.graph.ops) + self.options.extra_ops
        for program in programs:
            try:
                graph = emit(self.graph, explored.egraph, program.choices, explored.roots, explored.converted)
            except ValueError:
                refused += 1
                continue
            if sum(op.kind != "cast" for op in graph.ops) <= most:
                written.append(graph)
        tasks = [((self.graph,), graph, self.options.seed) for graph in written]
        problems = self.workers.map(differs, tasks, self.size, self.watched("programs", differs))
        out = [graph for graph, problem in zip(written, problems, strict=True) if problem is None]
        refused += len(written) - len(out)
        if refused:
            self.caps.append(f"{refused} programs could not be written or were refused by the verifier")
        return out


def among(whole: Sequence[Alternative], split: Sequence[Alternative]) -> list[Alternative]:
    """
    The best programs, then one for every set of axes in chunks as far as they come among the first `EARLY`, then the rest.

    Who tries only so many programs so tries every kind.
    """
    firsts: dict[str, Alternative] = {}
    for entry in split:
        firsts.setdefault(entry.name.split(" split ")[1], entry)
    early = list(firsts.values())[: EARLY - BEST]
    return [*whole[:BEST], *early, *whole[BEST:], *(entry for entry in split if entry not in early)]


def _searched(task: tuple[Graph, SearchOptions]) -> SearchResult:
    """The search of one piece, in a process of its own perhaps."""
    return superoptimize(*task)


@lru_cache(maxsize=4)
def _verifier(graph: Graph, seed: int) -> Verifier:
    """The verifier of a program; its own values are kept as long as it is asked about that program."""
    return Verifier(graph, seed)


def differs(task: tuple[Sequence[Graph], Graph, int]) -> str | None:
    """None if a program is equal to one of the given ones, else how it differs from the last; (given, program, seed)."""
    problem: str | None = None
    for given in task[0]:
        problem = _verifier(given, task[2]).problem(task[1])
        if problem is None:
            return None
    return problem


def outline(graph: Graph) -> tuple[tuple[object, ...], ...]:
    """What a graph does, without casts, constants and the order of operations: graphs alike in it are one alternative."""
    rows = [(op.kind, repr(op.attr), op.axes) for op in graph.ops if op.kind not in ("cast", "constant", "size")]
    return tuple(sorted(rows))
