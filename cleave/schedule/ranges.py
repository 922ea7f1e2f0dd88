"""
Ranges of masks that are data: from where to where anything is live, computed before the loop that they bound.

A condition P(m, n) over data, such as "both of one document", bounds no loop over n by itself. But with

    lo[m] = min_n select(P, n, |n|)        hi[m] = max_n select(P, n + 1, 0)

P equals `P and n >= lo[m] and n < hi[m]`, whose comparisons do. lo and hi are values like others, which a kernel of their own stores; the
loop over n of a tile of rows then runs from the least lo to the largest hi of them. What has nothing live has lo = |n| and hi = 0.
Of several conditions that must all hold, the range is that of those over data; the others bound the loop themselves or not at all.

Where rows and columns of P can be told apart (see `cleave.schedule.relaxed`) lo and hi are those of a chunk of rows, of what holds for
some row of it, which takes as many times fewer comparisons. Of what holds for every row, the first run is stored too,

    first[c] = min_n select(all, n, |n|)   end[c] = min_n select(n >= first[c] and not all, n, |n|)

and P equals `P or n >= first and n < end`: a loop with a body of its own for tiles that need no mask has one for these.

The ranges are worth their kernel where few tiles are live, which only a run with the data tells: this makes one more program to be timed.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from ..algebra.degrees import degrees
from ..extents import extent
from ..graph import Axis, Builder, Graph, Op, Output
from .bounds import bounds_of, conjuncts, neutral_without, predicates
from .buffers import fresh
from .nodes import REDUCING, Node
from .partition import Item, Source, kernel_graph, problem_of
from .problem import Problem
from .relaxed import ROWS, Chunks, tells_apart
from .sizes import ceildiv

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
    graph, moved = _Rewriter(source, selects, {}).run()
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
    rewriter = _Rewriter(plain, frozenset(), found)
    graph, again = rewriter.run()
    return replace(_moved(plain, graph, again, rewriter.stored), ranged=True)


def _moved(source: Source, graph: Graph, moved: Mapping[int, int], cuts: Collection[int]) -> Source:
    """The source of a rewritten graph; `moved` says where its operations stand."""
    narrow = {moved[at]: dtype for at, dtype in source.narrow.items()}
    known = {axis.name for axis in source.graph.axes}
    sizes = source.sizes.extended(axis for axis in graph.axes if axis.name not in known)
    return replace(source, graph=graph, sizes=sizes, degrees=degrees(graph), cuts=tuple(sorted(cuts)), narrow=narrow)


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

    def __init__(self, source: Source, turned: Collection[int], ranges: Mapping[int, Mapping[str, tuple[int, ...]]]) -> None:
        self.graph = graph = source.graph
        self.sizes = source.sizes
        self.turned = turned
        self.ranges = ranges
        self.builder = Builder(graph.name, graph.symbols, graph.axes, graph.inputs)
        self.new: dict[int, int] = {}
        self.stored: set[int] = set()
        self._chunks: dict[str, tuple[str, str]] = {}

    def run(self) -> tuple[Graph, dict[int, int]]:
        """The graph, and where each operation of the given one stands in it."""
        for position, op in enumerate(self.graph.ops):
            self.builder.place = self.graph.places[position] if self.graph.places else ""
            self.new[position] = self._copied(position, op)
        outputs = tuple(Output(self.new[entry.value], entry.layout, entry.dtype) for entry in self.graph.outputs)
        made = self.builder
        return replace(self.graph, axes=tuple(made.axes), ops=tuple(made.ops), outputs=outputs, places=tuple(made.places)), self.new

    def _copied(self, position: int, op: Op) -> int:
        add = self.builder.add
        if op.kind == "input":
            return int(str(op.attr[0]))
        args = [self.new[arg] for arg in op.args]
        if op.kind == "select":
            condition, yes, no = args
            first, second = (self.graph.ops[arg].kind == "constant" for arg in op.args[1:])
            if position in self.turned and first and not second:
                condition, yes, no = add("not", condition), no, yes
            if op.args[0] in self.ranges:
                condition = self._ranged(op.args[0], self.ranges[op.args[0]])
            args = [condition, yes, no]
        return add(op.kind, *args, attr=op.attr, dtype=op.dtype)

    def _ranged(self, condition: int, along: Mapping[str, tuple[int, ...]]) -> int:
        """A condition with its range along some axes."""
        add = self.builder.add
        parts: dict[int, int] = {}
        ranges: list[int] = []
        for axis, data in along.items():
            joined = self._all([self.new[part] for part in data])
            index = add("cast", add("iota", attr=(axis,)), dtype="i32")
            chunks = self._rows(joined, axis)
            live = joined if chunks is None else chunks.relaxed(joined, "some")
            end, none, one = self._number(axis), self._number(0), self._number(1)
            lo = add("reduce", add("select", live, index, end), attr=("min", (axis,)))
            hi = add("reduce", add("select", live, add("add", index, one), none), attr=("max", (axis,)))
            ranges.append(self._within(index, lo, hi, chunks))
            if chunks is not None:
                whole = chunks.relaxed(joined, "every")
                first = add("reduce", add("select", whole, index, end), attr=("min", (axis,)))
                broken = add("and", add("compare", index, first, attr=("ge",)), add("not", whole))
                last = add("reduce", add("select", broken, index, end), attr=("min", (axis,)))
                inside = self._within(index, first, last, chunks)
                parts |= {part: add("or", parts.get(part, self.new[part]), inside, attr=("ranged",)) for part in data}
        out = self._rebuilt(condition, parts)
        for within in ranges:
            out = add("and", out, within, attr=("ranged",))
        return out

    def _number(self, value: int | str) -> int:
        """A number, or the size of an axis."""
        if isinstance(value, int):
            return self.builder.add("constant", attr=(value,), dtype="i32")
        return self.builder.add("cast", self.builder.add("size", attr=(value,)), dtype="i32")

    def _all(self, conditions: Sequence[int]) -> int:
        out, *others = conditions
        for other in others:
            out = self.builder.add("and", out, other)
        return out

    def _within(self, index: int, first: int, last: int, chunks: Chunks | None) -> int:
        """Whether an index is within a range, whose ends are stored by themselves, whatever else is made from them."""
        add = self.builder.add
        ends = [add("cast", end, attr=("stored",), dtype="i32") for end in (first, last)]
        self.stored |= set(ends)
        low, high = ends if chunks is None else [chunks.row_of(end) for end in ends]
        return add("and", add("compare", index, low, attr=("ge",)), add("compare", index, high, attr=("lt",)))

    def _rebuilt(self, position: int, parts: Mapping[int, int]) -> int:
        """A condition with others in place of some of those that must hold for it."""
        op = self.graph.ops[position]
        if position not in parts and op.kind == "and":
            return self.builder.add("and", *(self._rebuilt(arg, parts) for arg in op.args), attr=op.attr, dtype=op.dtype)
        return parts.get(position, self.new[position])

    def _rows(self, condition: int, along: str) -> Chunks | None:
        """The chunks of the longest axis whose indices a condition tells apart from those along another, None where it tells none."""
        ops = self.builder.ops
        rows = [axis for axis in ops[condition].axes if axis != along and tells_apart(ops, condition, axis, along)]
        row = max(rows, key=self.sizes.hint, default=None)
        return None if row is None else Chunks(self.builder, row, along, *self._chunk_axes(row))

    def _chunk_axes(self, row: str) -> tuple[str, str]:
        """The axes of chunks of rows, and of the rows of one."""
        if row not in self._chunks:
            taken = {axis.name for axis in self.builder.axes}
            names = fresh(f"{row}_chunk", taken), fresh(f"{row}_row", taken)
            extents = ceildiv(self.graph.axis(row).extent, ROWS), extent(ROWS)
            self.builder.axes += [Axis(name, size) for name, size in zip(names, extents, strict=True)]
            self._chunks[row] = names
        return self._chunks[row]
