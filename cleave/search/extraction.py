"""
Extraction: the cheapest programs for the roots, several of them.

The law: partial programs are settled in order of cost, so the first one settled for a class is its cheapest (Knuth's
generalisation of Dijkstra's algorithm), with work that is used twice counted once. A class keeps a few programs: at most
`keep` for every number of dependent reductions (phases), since fewer phases can be worth more work, and one for every
*skeleton* (the reductions, functions and data movement it uses), since elementwise work between the same reductions is a
detail that is simply done at least cost.

Programs that make a shared class in two ways are not joined: the ones that agree on either way are settled too. (Joining them
by one way and cleaning up was tried: twice the time, the same programs.) So a join is acyclic unless it needs itself.

Sets of edges, of classes and of skeleton parts are bit masks: joining two programs is three unions.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product as tuples

from .edges import Edge, Edges
from .watch import Watch, unwatched


@dataclass(frozen=True, slots=True)
class Program:
    """
    A way to make `root`: masks of the edges taken, of the classes they make, and of the parts of its skeleton.

    `work` is its cost, `phases` the most reductions on one path.
    """

    root: int
    work: float
    phases: int
    edges: int
    classes: int
    skeleton: int


@dataclass(frozen=True, slots=True)
class Limits:
    """
    Programs kept for a class and number of phases, and for the roots and number of phases; the most work of a program, the most
    partial programs tried, and the most seconds.
    """

    keep: int
    wanted: int
    ceiling: float
    steps: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Chosen:
    """A finished program: the edge by which each class it needs is made."""

    choices: Mapping[int, Edge]
    work: float
    phases: int

    @property
    def outline(self) -> tuple[tuple[int, Edge], ...]:
        """What the program does, whatever it costs."""
        return tuple((c, edge._replace(work=0.0)) for c, edge in sorted(self.choices.items()))


@dataclass(frozen=True, slots=True)
class _Way:
    """An edge with its number, the class it makes, the classes it reads, and its skeleton part as a mask."""

    number: int
    target: int
    edge: Edge
    args: tuple[int, ...]
    work: float
    phase: int
    bone: int


def extract(edges: Edges, roots: Sequence[int], limits: Limits, watch: Watch = unwatched) -> tuple[list[Chosen], list[str]]:
    """The programs that make all roots, cheapest first, and the caps that were hit."""
    search = _Extraction(edges, list(dict.fromkeys(roots)), limits)
    caps = search.run(watch)
    return [search.chosen(program) for program in search.settled.get(search.goal, [])], caps


def bits(mask: int) -> Iterator[int]:
    """The positions of the ones."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


class _Extraction:
    def __init__(self, edges: Edges, roots: list[int], limits: Limits) -> None:
        self.limits = limits
        self.ways: list[_Way] = []
        self.users: dict[int, list[_Way]] = {}
        self._bones: dict[tuple[object, ...], int] = {}
        for c, found in edges.of.items():
            for edge in found:
                self._add(c, edge)
        self.goal = roots[0]
        spare = max(edges.of, default=0) + 1
        for step, root in enumerate(roots[1:]):
            self._add(spare + step, Edge("outputs", None, (self.goal, root), 0.0))
            self.goal = spare + step
        self.settled: dict[int, list[Program]] = {}
        self.heap: list[tuple[float, int, int, Program]] = []
        self.count = 0
        self.tried = 0

    def _add(self, c: int, edge: Edge) -> None:
        bone = 0
        if edge.structural:
            part = (c, "sum", edge.payload, edge.body) if edge.body >= 0 else (c, edge.kind, edge.payload)
            bone = 1 << self._bones.setdefault(part, len(self._bones))
        args = tuple(dict.fromkeys(edge.args))
        way = _Way(len(self.ways), c, edge, args, edge.work, int(edge.phase), bone)
        self.ways.append(way)
        for arg in args:
            self.users.setdefault(arg, []).append(way)

    def run(self, watch: Watch) -> list[str]:
        """Settles programs until none is left or a cap is hit; returns the caps."""
        started, settled = time.monotonic(), 0
        for way in self.ways:
            if not way.args:
                self._offer(way, ())
        while self.heap:
            settled += 1
            if self.tried > self.limits.steps:
                return [f"extraction stopped after {self.limits.steps} partial programs"]
            if settled % 256 == 0:
                watch(f"{self.tried} partial programs")
                if time.monotonic() - started > self.limits.seconds:
                    return [f"extraction stopped after {self.limits.seconds:g} s"]
            program = heapq.heappop(self.heap)[-1]
            if self._open(program.root, program.phases, program.skeleton):
                self.settled.setdefault(program.root, []).append(program)
                for way in self.users.get(program.root, []):
                    self._combine(way, program)
        return []

    def _open(self, c: int, phases: int, skeleton: int) -> bool:
        """Whether a class has room for a program of that many phases and with that skeleton."""
        room = self.limits.wanted if c == self.goal else self.limits.keep
        for other in self.settled.get(c, ()):
            if other.phases == phases:
                room -= 1
                if other.skeleton == skeleton:
                    return False
        return room > 0

    def _combine(self, way: _Way, program: Program) -> None:
        """Offers every program of an edge in which this one, just settled, makes one of the operands."""
        others = [self.settled.get(arg, []) if arg != program.root else [program] for arg in way.args]
        if len(others) > 3:
            others = [programs[:1] for programs in others]
        for parts in tuples(*others):
            self._offer(way, parts)

    def _offer(self, way: _Way, parts: tuple[Program, ...]) -> None:
        self.tried += 1
        own, edges, classes, skeleton, phases, work = 1 << way.target, 0, 0, way.bone, 0, way.work
        for part in parts:
            if part.classes & own:
                return
            for shared in bits(edges & part.edges):
                work -= self.ways[shared].work
            work += part.work
            edges |= part.edges
            classes |= part.classes
            skeleton |= part.skeleton
            phases = max(phases, part.phases)
        phases += way.phase
        consistent = edges.bit_count() == classes.bit_count()
        if consistent and work <= self.limits.ceiling and self._open(way.target, phases, skeleton):
            self._push(Program(way.target, work, phases, edges | 1 << way.number, classes | own, skeleton))

    def _push(self, program: Program) -> None:
        self.count += 1
        heapq.heappush(self.heap, (program.work, program.phases, self.count, program))

    def chosen(self, program: Program) -> Chosen:
        """The program with its edges by class."""
        ways = [self.ways[number] for number in bits(program.edges)]
        return Chosen({way.target: way.edge for way in ways if way.edge.kind != "outputs"}, program.work, program.phases)


def order(root: int, args: Mapping[int, Sequence[int]]) -> list[int] | None:
    """The classes a root needs, operands first; None where one needs itself."""
    done: dict[int, None] = {}
    active: set[int] = set()
    stack: list[tuple[int, bool]] = [(root, False)]
    while stack:
        c, leaving = stack.pop()
        if leaving:
            active.discard(c)
            done[c] = None
        elif c not in done:
            active.add(c)
            stack.append((c, True))
            for arg in reversed(args[c]):
                if arg in active:
                    return None
                if arg not in done:
                    stack.append((arg, False))
    return list(done)
