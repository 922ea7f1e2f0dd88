"""
Ranges of masks that are data: from where to where each row has anything live, computed before the loop that they bound.

A condition P(m, n) over data, such as "both of one document", bounds no loop over n by itself. But with

    lo[m] = min_n select(P, n, |n|)        hi[m] = max_n select(P, n + 1, 0)

P equals `P and n >= lo[m] and n < hi[m]`, whose comparisons do. lo and hi are values like others, which a kernel of their own stores; the
loop over n of a tile of rows then runs from the least lo to the largest hi of them. A row without anything live has lo = |n| and hi = 0.
Of several conditions that must all hold, the range is that of those over data; the others bound the loop themselves or not at all.
The range is worth its kernel where few tiles are live, which only a run with the data tells: this makes one more program to be timed.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from ..algebra.degrees import degrees
from ..graph import Axis, Builder, Graph, Op, Output
from .bounds import bounds_of, conjuncts, neutral_without, predicates
from .nodes import REDUCING, Node
from .partition import Item, Source, kernel_graph, problem_of
from .problem import Problem

INTEGERS = ("i1", "i32", "i64")


def within_ranges(source: Source, groups: Sequence[Sequence[Item]], stored: Mapping[int, Item]) -> Source | None:
    """
    The same program with ranges for its masks that are data, None where it has no such mask or its axes are split into chunks.

    Masks are looked for in what computes each item of `groups` from what it reads of `stored`.
    """
    graph = source.graph
    selects = _selections_by_data(graph)
    if source.cuts or any(axis.chunk_of is not None for axis in _used(graph)) or not selects:
        return None
    graph, moved = _Rewriter(graph, selects, {}).run()
    plain = _moved(source, graph, moved, ())
    known = {moved[at]: replace(item, op=moved[item.op]) for at, item in stored.items()}
    found: dict[int, dict[str, tuple[int, ...]]] = {}
    for item in itertools.chain.from_iterable(groups):
        own = [replace(item, op=moved[item.op])]
        *_, origin = kernel_graph(plain, own, known)
        for at, axis, parts in _data_masks(problem_of(plain, graph.name, own, known)):
            found.setdefault(origin[at], {})[axis] = tuple(origin[part] for part in parts)
    if not found:
        return None
    rewriter = _Rewriter(graph, frozenset(), found)
    graph, again = rewriter.run()
    return replace(_moved(plain, graph, again, rewriter.stored), ranged=True)


def _moved(source: Source, graph: Graph, moved: Mapping[int, int], cuts: Collection[int]) -> Source:
    """The source of a rewritten graph; `moved` says where its operations stand."""
    narrow = {moved[at]: dtype for at, dtype in source.narrow.items()}
    return replace(source, graph=graph, degrees=degrees(graph), cuts=tuple(sorted(cuts)), narrow=narrow)


def _used(graph: Graph) -> list[Axis]:
    names = {axis for op in graph.ops for axis in op.axes}
    return [axis for axis in graph.axes if axis.name in names]


def _selections_by_data(graph: Graph) -> frozenset[int]:
    """The selections by conditions that are made of integers or truth values from memory."""
    data: set[int] = set()
    for position, op in enumerate(graph.ops):
        if op.dtype in INTEGERS and (op.kind == "input" or any(arg in data for arg in op.args)):
            data.add(position)
    return frozenset(position for position, op in enumerate(graph.ops) if op.kind == "select" and op.args[0] in data)


def _data_masks(problem: Problem) -> Iterator[tuple[int, str, tuple[int, ...]]]:
    """
    The conditions of selections that switch off what a loop accumulates, the axis of the loop, and those conditions over data that must
    hold for them and bound no loop by themselves.
    """
    graph = problem.graph
    conditions = {op.args[0] for op in graph.ops if op.kind == "select"}
    for axis in problem.used_axes():
        members = [node for node in problem.reductions if axis in node.removed]
        for predicate in predicates(members, axis):
            if predicate.op not in conditions or not any(neutral_without(member, predicate) for member in members):
                continue
            parts = _parts(graph, predicate.op)
            wanted = [atom for atom in conjuncts(predicate) if atom.op in parts and axis in graph.ops[atom.op].axes]
            data = [atom.op for atom in wanted if _reads_along(atom, axis) and not bounds_of(atom, axis)]
            if data:
                yield predicate.op, axis, tuple(dict.fromkeys(data))


def _parts(graph: Graph, position: int) -> set[int]:
    """The operations that must all be true for one to be."""
    op = graph.ops[position]
    return {part for arg in op.args for part in _parts(graph, arg)} if op.kind == "and" else {position}


def _reads_along(node: Node, axis: str) -> bool:
    """Whether a value is computed element by element, of what is read from memory at indices of an axis."""
    below = {node.id: node}
    pending = [node]
    while pending:
        more = {arg.id: arg for arg in pending.pop().args if arg.id not in below}
        below |= more
        pending += more.values()
    reads = any(part.kind == "load" and axis in part.axes for part in below.values())
    return reads and all(part.kind not in REDUCING for part in below.values())


class _Rewriter:
    """
    Copies a graph with ranges for some conditions, for each axis those of the conjuncts given; `stored` are the ends of the ranges.

    Of the selections in `turned`, those that keep something where their condition is false are turned: then conditions say what is live.
    """

    def __init__(self, graph: Graph, turned: Collection[int], ranges: Mapping[int, Mapping[str, tuple[int, ...]]]) -> None:
        self.graph = graph
        self.turned = turned
        self.ranges = ranges
        self.builder = Builder(graph.name, graph.symbols, graph.axes, graph.inputs)
        self.new: dict[int, int] = {}
        self.stored: set[int] = set()

    def run(self) -> tuple[Graph, dict[int, int]]:
        """The graph, and where each operation of the given one stands in it."""
        for position, op in enumerate(self.graph.ops):
            place = self.graph.places[position] if self.graph.places else ""
            self.new[position] = self._copied(position, op, place)
        outputs = tuple(Output(self.new[entry.value], entry.layout, entry.dtype) for entry in self.graph.outputs)
        return replace(self.graph, ops=tuple(self.builder.ops), outputs=outputs, places=tuple(self.builder.places)), self.new

    def _copied(self, position: int, op: Op, place: str) -> int:
        add = self.builder.add
        if op.kind == "input":
            return int(str(op.attr[0]))
        args = [self.new[arg] for arg in op.args]
        if op.kind == "select":
            condition, yes, no = args
            first, second = (self.graph.ops[arg].kind == "constant" for arg in op.args[1:])
            if position in self.turned and first and not second:
                condition, yes, no = add("not", condition, place=place), no, yes
            args = [self._ranged(condition, self.ranges.get(op.args[0], {}), place), yes, no]
        return add(op.kind, *args, attr=op.attr, dtype=op.dtype, place=place)

    def _ranged(self, condition: int, along: Mapping[str, tuple[int, ...]], place: str) -> int:
        """A condition with its range along some axes."""
        out, add = condition, self.builder.add
        for axis, parts in along.items():
            data, *others = (self.new[part] for part in parts)
            for other in others:
                data = add("and", data, other, place=place)
            index = add("cast", add("iota", attr=(axis,)), dtype="i32", place=place)
            end = add("cast", add("size", attr=(axis,)), dtype="i32", place=place)
            none, one = (add("constant", attr=(value,), dtype="i32") for value in (0, 1))
            first = add("select", data, index, end, place=place)
            after = add("select", data, add("add", index, one, place=place), none, place=place)
            lo = add("reduce", first, attr=("min", (axis,)), place=place)
            hi = add("reduce", after, attr=("max", (axis,)), place=place)
            self.stored |= {lo, hi}
            above = add("compare", index, lo, attr=("ge",), place=place)
            below = add("compare", index, hi, attr=("lt",), place=place)
            out = add("and", out, add("and", above, below, place=place), attr=("ranged",), place=place)
        return out
