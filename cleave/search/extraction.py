"""
Extraction: the cheapest programs for the roots, several of them.

The law: partial programs are settled in order of cost, so the first one settled for a class is its cheapest (Knuth's
generalisation of Dijkstra's algorithm), with work that is used twice counted once. A class keeps a few programs: at most
`keep` for every number of dependent reductions (phases), since fewer phases can be worth more work, and one for every
*skeleton* (the reductions, functions and data movement it uses), since elementwise work between the same reductions is a
detail that is simply done at least cost.

Two programs that are joined may make a shared class in two ways; then the first one's way is taken, what nobody needs any
more is dropped, and a program that would need itself is discarded.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product as tuples

from .edges import Edge, Edges


@dataclass(frozen=True, slots=True)
class Program:
    """`choices` makes every class that `root` needs; `work` is its cost, `phases` the most reductions on one path."""

    root: int
    work: float
    phases: int
    choices: Mapping[int, Edge]
    skeleton: frozenset[tuple[int, str, object, int]]


@dataclass(frozen=True, slots=True)
class Limits:
    """Programs kept for a class and number of phases, and for the roots and number of phases; most work, steps and seconds."""

    keep: int
    wanted: int
    ceiling: float
    steps: int
    seconds: float


def extract(edges: Edges, roots: Sequence[int], limits: Limits) -> tuple[list[Program], list[str]]:
    """The programs that make all roots, cheapest first, and the caps that were hit."""
    return _Extraction(edges, roots, limits).run()


class _Extraction:
    def __init__(self, edges: Edges, roots: Sequence[int], limits: Limits) -> None:
        self.of = dict(edges.of)
        self.users = {c: list(users) for c, users in edges.users.items()}
        self.limits = limits
        self.goal = self._tie(list(dict.fromkeys(roots)))
        self.settled: dict[int, list[Program]] = {}
        self.heap: list[tuple[float, int, int, Program]] = []
        self.count = 0

    def _tie(self, roots: list[int]) -> int:
        """A class that needs all roots: pairs of pairs under negative numbers."""
        goal = roots[0]
        for step, root in enumerate(roots[1:]):
            pair = -1 - step
            edge = Edge("outputs", None, (goal, root), 0.0)
            self.of[pair] = [edge]
            for arg in (goal, root):
                self.users.setdefault(arg, []).append((pair, edge))
            goal = pair
        return goal

    def run(self) -> tuple[list[Program], list[str]]:
        started, steps = time.monotonic(), 0
        for c, edges in self.of.items():
            for edge in edges:
                if not edge.args:
                    self._offer(c, edge, ())
        while self.heap:
            steps += 1
            if steps > self.limits.steps:
                return self._found(), [f"extraction stopped after {self.limits.steps} partial programs"]
            if steps % 256 == 0 and time.monotonic() - started > self.limits.seconds:
                return self._found(), [f"extraction stopped after {self.limits.seconds:g} s"]
            program = heapq.heappop(self.heap)[-1]
            if not self._settle(program):
                continue
            for c, edge in self.users.get(program.root, []):
                self._combine(c, edge, program)
        return self._found(), []

    def _found(self) -> list[Program]:
        return self.settled.get(self.goal, [])

    def _settle(self, program: Program) -> bool:
        mine = self.settled.setdefault(program.root, [])
        alike = [other for other in mine if other.phases == program.phases]
        limit = self.limits.wanted if program.root == self.goal else self.limits.keep
        if len(alike) >= limit or any(other.skeleton == program.skeleton for other in alike):
            return False
        mine.append(program)
        return True

    def _combine(self, c: int, edge: Edge, program: Program) -> None:
        """Offers every program of the edge in which this one, just settled, makes one of the operands."""
        args = list(dict.fromkeys(edge.args))
        others = [self.settled.get(arg, []) if arg != program.root else [program] for arg in args]
        if len(args) > 3:
            others = [programs[:1] for programs in others]
        for chosen in tuples(*others):
            self._offer(c, edge, chosen)

    def _offer(self, c: int, edge: Edge, parts: tuple[Program, ...]) -> None:
        program = joined(c, edge, parts)
        if program is None or program.work > self.limits.ceiling:
            return
        self.count += 1
        heapq.heappush(self.heap, (program.work, program.phases, self.count, program))


def joined(c: int, edge: Edge, parts: Sequence[Program]) -> Program | None:
    """The program that makes a class by an edge from programs for its operands, None if it would need itself."""
    if any(c in part.choices for part in parts):
        return None
    if not parts:
        return Program(c, edge.work, int(edge.phase), {c: edge}, _bone(c, edge))
    choices = dict(parts[0].choices)
    clash = False
    for part in parts[1:]:
        for key, choice in part.choices.items():
            if choices.setdefault(key, choice) is not choice and choices[key] != choice:
                clash = True
    choices[c] = edge
    if clash:
        return _rebuilt(c, choices)
    if len(parts) == 1:
        work = parts[0].work + edge.work
    else:
        work = sum(choice.work for choice in choices.values())
    skeleton = _bone(c, edge).union(*(part.skeleton for part in parts))
    phases = max(part.phases for part in parts) + int(edge.phase)
    return Program(c, work, phases, choices, skeleton)


def _bone(c: int, edge: Edge) -> frozenset[tuple[int, str, object, int]]:
    if not edge.structural:
        return frozenset()
    if edge.body >= 0:
        return frozenset([(c, "sum", edge.payload, edge.body)])
    return frozenset([(c, edge.kind, edge.payload, -1)])


def order(root: int, choices: Mapping[int, Edge]) -> list[int] | None:
    """The classes a root needs, operands first; None where a choice needs itself."""
    done: dict[int, None] = {}
    active: set[int] = set()
    stack: list[tuple[int, bool]] = [(root, False)]
    while stack:
        c, leaving = stack.pop()
        if leaving:
            active.discard(c)
            done[c] = None
            continue
        if c in done:
            continue
        if c in active:
            return None
        active.add(c)
        stack.append((c, True))
        for arg in reversed(choices[c].args):
            if arg in active:
                return None
            if arg not in done:
                stack.append((arg, False))
    return list(done)


def _rebuilt(root: int, choices: Mapping[int, Edge]) -> Program | None:
    needed = order(root, choices)
    if needed is None:
        return None
    kept = {c: choices[c] for c in needed}
    phases: dict[int, int] = {}
    bones: frozenset[tuple[int, str, object, int]] = frozenset()
    for c, edge in kept.items():
        phases[c] = max((phases[arg] for arg in edge.args), default=0) + int(edge.phase)
        bones |= _bone(c, edge)
    return Program(root, sum(edge.work for edge in kept.values()), phases[root], kept, bones)
