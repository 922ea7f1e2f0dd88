"""
Ranges of masks that are data: from where to where anything is live, computed before the loop that they bound.

A condition P(m, n) over data, such as "both of one document", bounds no loop over n by itself. But with

    lo[m] = min_n select(P, n, |n|)        hi[m] = max_n select(P, n + 1, 0)

P equals `P and n >= lo[m] and n < hi[m]`, whose comparisons do. lo and hi are values like others, which a kernel of their own stores; the
loop over n of a tile of rows then runs from the least lo to the largest hi of them. What has nothing live has lo = |n| and hi = 0.
Of several conditions that must all hold, the range is that of those over data; the others bound the loop themselves or not at all. Where
lengths are compared, all are made into ranges.

Where rows and columns of P can be told apart (see `cleave.schedule.relaxed`) lo and hi are those of a chunk of rows, of what holds for
some row of it, which takes as many times fewer comparisons. Of what holds for every row, the first run is stored too,

    first[c] = min_n select(all, n, |n|)   end[c] = min_n select(n >= first[c] and not all, n, |n|)

and P equals `P or n >= first and n < end`: a loop with a body of its own for tiles that need no mask has one for these.

The ranges are worth their kernel where few tiles are live, which only a run with the data tells: this makes one more program to be timed,
and another in which tiles of rows also run in the order of their ranges, the longest first (see `cleave.schedule.longest`).
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..algebra.degrees import degrees
from ..extents import Extent, extent
from ..graph import Axis, Builder, Graph, Op, Output
from .bounds import bounds_of, conjuncts, neutral_without, predicates
from .buffers import fresh
from .longest import order_of
from .nodes import REDUCING, Node
from .partition import Item, Source, kernel_graph, problem_of
from .problem import Problem
from .relaxed import ROWS, Chunks, tells_apart
from .sizes import ceildiv

INTEGERS = ("i1", "i32", "i64")


def within_ranges(source: Source, groups: Sequence[Sequence[Item]], stored: Mapping[int, Item], ordered: bool = False) -> Source | None:
    """
    The same program with ranges for its masks that are data, None where it has no such mask or its axes are split into chunks. With
    `ordered` also with the order of rows that they give, None where there is none.

    Masks are looked for in what computes each item of `groups` from what it reads of `stored`.
    """
    graph = source.graph
    selects = _selections_by_data(graph)
    if source.cuts or any(axis.chunk_of is not None for axis in _used(graph)) or not selects:
        return None
    graph, moved = _Rewriter(source, selects, {}).run()
    plain = _moved(source, graph, moved, ())
    known = {moved[at]: replace(item, op=moved[item.op]) for at, item in stored.items()}
    found: dict[int, dict[str, _Masks]] = {}
    for item in itertools.chain.from_iterable(groups):
        own = [replace(item, op=moved[item.op])]
        *_, origin = kernel_graph(plain, own, known)
        for at, axis, masks in _data_masks(problem_of(plain, graph.name, own, known)):
            data, others = (tuple(origin[part] for part in parts) for parts in (masks.data, masks.others))
            found.setdefault(origin[at], {})[axis] = _Masks(data, others)
    if not found:
        return None
    rewriter = _Rewriter(plain, frozenset(), found, ordered)
    graph, again = rewriter.run()
    if ordered and not rewriter.orders:
        return None
    return replace(_moved(plain, graph, again, rewriter.stored), ranged=True, ordered=ordered)


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


@dataclass(frozen=True, slots=True)
class _Masks:
    """
    Conditions that must hold for one: those over data, which bound no loop by themselves, and others, but none that is found by summing,
    as one of scores is, which costs more than the columns that it rules out.
    """

    data: tuple[int, ...]
    others: tuple[int, ...]


def _data_masks(problem: Problem) -> Iterator[tuple[int, str, _Masks]]:
    """
    The conditions of selections that switch off what a loop accumulates, the axis of the loop, and what must hold for them, of which
    something is over data.
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
                others = [atom.op for atom in wanted if atom.op not in data and not _sums(_below(atom))]
                yield predicate.op, axis, _Masks(tuple(dict.fromkeys(data)), tuple(dict.fromkeys(others)))


def _parts(graph: Graph, position: int) -> set[int]:
    """The operations that must all be true for one to be."""
    op = graph.ops[position]
    return {part for arg in op.args for part in _parts(graph, arg)} if op.kind == "and" else {position}


def _below(node: Node) -> list[Node]:
    """A value, and all that it is computed from."""
    below = {node.id: node}
    pending = [node]
    while pending:
        more = {arg.id: arg for arg in pending.pop().args if arg.id not in below}
        below |= more
        pending += more.values()
    return list(below.values())


def _sums(nodes: Sequence[Node]) -> bool:
    return any(node.kind in REDUCING for node in nodes)


def _reads_along(node: Node, axis: str) -> bool:
    """Whether a value is computed element by element, of what is read from memory at indices of an axis."""
    below = _below(node)
    return any(part.kind == "load" and axis in part.axes for part in below) and not _sums(below)


class _Rewriter:
    """
    Copies a graph with ranges for some conditions, for each axis those of its masks; `stored` are the ends of the ranges, and orders.

    Of the selections in `turned`, those that keep something where their condition is false are turned: then conditions say what is live.
    With `ordered`, conditions say in which order their rows are best run; there are as many `orders`.
    """

    def __init__(self, source: Source, turned: Collection[int], ranges: Mapping[int, Mapping[str, _Masks]], ordered: bool = False) -> None:
        self.graph = graph = source.graph
        self.sizes = source.sizes
        self.turned = turned
        self.ranges = ranges
        self.builder = Builder(graph.name, graph.symbols, graph.axes, graph.inputs)
        self.new: dict[int, int] = {}
        self.stored: set[int] = set()
        self.ordered = ordered
        self.orders = 0
        self._made: dict[tuple[str, tuple[str, str]], tuple[str, str]] = {}

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

    def _ranged(self, condition: int, along: Mapping[str, _Masks]) -> int:
        """A condition with its range along some axes."""
        add = self.builder.add
        parts: dict[int, int] = {}
        ranges: list[int] = []
        lengths: dict[str, list[int]] = {}
        for axis, masks in along.items():
            joined = self._all([self.new[part] for part in masks.data])
            index = add("cast", add("iota", attr=(axis,)), dtype="i32")
            chunks = self._rows(joined, axis)
            live = self._live(joined, [self.new[part] for part in masks.others] if self.ordered else [], chunks)
            end, none, one = self._number(axis), self._number(0), self._number(1)
            lo = add("reduce", add("select", live, index, end), attr=("min", (axis,)))
            hi = add("reduce", add("select", live, add("add", index, one), none), attr=("max", (axis,)))
            ends = self._stored(lo), self._stored(hi)
            ranges.append(self._within(index, ends, chunks))
            others = [name for name in self.builder.ops[joined].axes if name != axis]
            rows = (chunks or self._longest(others, axis)) if self.ordered else None
            if rows is not None and self.sizes.hint(rows.row) > ROWS:
                lengths.setdefault(rows.row, []).append(self._length(ends, rows, chunks is None))
            if chunks is not None:
                whole = chunks.relaxed(joined, "every")
                first = add("reduce", add("select", whole, index, end), attr=("min", (axis,)))
                broken = add("and", add("compare", index, first, attr=("ge",)), add("not", whole))
                last = add("reduce", add("select", broken, index, end), attr=("min", (axis,)))
                inside = self._within(index, (self._stored(first), self._stored(last)), chunks)
                parts |= {part: add("or", parts.get(part, self.new[part]), inside, attr=("ranged",)) for part in masks.data}
        out = self._rebuilt(condition, parts)
        for within in ranges:
            out = add("and", out, within, attr=("ranged",))
        for row, each in lengths.items():
            out = add("ordered", out, self._order(row, each))
        self.orders += len(lengths)
        return out

    def _live(self, joined: int, others: Sequence[int], chunks: Chunks | None) -> int:
        """
        Where conditions hold of which a range is made: for a row, or for some of a chunk of rows. There `others` may be taken to hold where
        they do not tell rows and columns apart: ranges are wider then.
        """
        if chunks is None:
            return self._all([joined, *others])
        ops = self.builder.ops
        apart = [other for other in others if tells_apart(ops, other, chunks.row, chunks.along)]
        return chunks.relaxed(self._all([joined, *apart]), "some")

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

    def _stored(self, value: int) -> int:
        """A number as it is stored by itself, whatever else is made from it."""
        out = self.builder.add("cast", value, attr=("stored",), dtype="i32")
        self.stored.add(out)
        return out

    def _within(self, index: int, ends: tuple[int, int], chunks: Chunks | None) -> int:
        """Whether an index is within a range."""
        add = self.builder.add
        low, high = ends if chunks is None else [chunks.row_of(end) for end in ends]
        return add("and", add("compare", index, low, attr=("ge",)), add("compare", index, high, attr=("lt",)))

    def _length(self, ends: tuple[int, int], rows: Chunks, apart: bool) -> int:
        """How many columns each chunk of rows walks; `apart` says that the ends of ranges are those of single rows."""
        first, last = (rows.end(ends[0], "min"), rows.end(ends[1], "max")) if apart else ends
        length = self.builder.add("sub", last, first)
        return self._stored(length) if apart else length

    def _order(self, row: str, lengths: Sequence[int]) -> int:
        """For each row, which chunk of rows is best run in the place of its own."""
        chunks = Chunks(self.builder, row, row, *self._chunk_axes(row))
        other, place = self._axes(row, ("other", "place"), (self._count(row), self._count(row)))
        return chunks.row_of(self._stored(order_of(self.builder, lengths, chunks.chunk, other, place)), place)

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
        return self._longest(rows, along)

    def _longest(self, rows: Sequence[str], along: str) -> Chunks | None:
        """The chunks of the longest of some axes, None where there are none."""
        row = max(rows, key=self.sizes.hint, default=None)
        return None if row is None else Chunks(self.builder, row, along, *self._chunk_axes(row))

    def _chunk_axes(self, row: str) -> tuple[str, str]:
        """The axes of chunks of rows, and of the rows of one."""
        return self._axes(row, ("chunk", "row"), (self._count(row), extent(ROWS)))

    def _count(self, row: str) -> Extent:
        """How many chunks of rows there are."""
        return ceildiv(self.graph.axis(row).extent, ROWS)

    def _axes(self, row: str, kinds: tuple[str, str], extents: tuple[Extent, Extent]) -> tuple[str, str]:
        """Two axes that are made for one of rows, the same every time."""
        if (row, kinds) not in self._made:
            taken = {axis.name for axis in self.builder.axes}
            first, second = (fresh(f"{row}_{kind}", taken) for kind in kinds)
            self.builder.axes += [Axis(first, extents[0]), Axis(second, extents[1])]
            self._made[row, kinds] = first, second
        return self._made[row, kinds]
