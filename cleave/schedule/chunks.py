"""
Split reductions made explicit: what each chunk computes, and how chunks are aligned.

In a graph whose axis n is split into (s, ni), a shift over both is one value for all chunks, yet no chunk knows it. Here each
chunk takes the shift of its own elements, and a value of degree -k in it is aligned before anything sums over s:

    m = shift x over [s, ni]          own = shift x over [ni]            top = max own over [s], 0 in place of -inf
    z = sum_ni exp(x - m)      ->     z' = sum_ni exp(x - own)           w = exp(own - top)
    sum_s z                           sum_s z' * w^k

Results of chunks and their shifts are cuts: s is a grid axis of the kernel before, a reduced axis of the kernel after.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..graph import Attr, Builder, Graph, Output
from .nodes import neutral_of, removed_axes
from .splits import is_free
from .statements import widest_float


@dataclass(frozen=True, slots=True)
class Aligned:
    """A graph with explicit chunks, the degrees of its values, the operations that must be stored, and the stored shifts."""

    graph: Graph
    degrees: tuple[Mapping[int, int], ...]
    cuts: tuple[int, ...]
    raw: frozenset[int]


def split_symbols(graph: Graph) -> tuple[str, ...]:
    """The symbols that are numbers of chunks, extents of outer axes, and on which no result depends; others are a caller's to give."""
    return tuple(entry.name for entry in graph.symbols if is_free(graph, entry.name))


def aligned(graph: Graph, degrees: tuple[Mapping[int, int], ...]) -> Aligned:
    """The graph with its chunks explicit; unchanged where nothing is split. Raises: ValueError for a degree no chunk can align."""
    chunks = {entry.name: entry.chunk_of[1] for entry in graph.axes if entry.chunk_of is not None}
    used = {axis for op in graph.ops for axis in op.axes}
    chunks = {inner: outer for inner, outer in chunks.items() if inner in used}
    if not chunks:
        return Aligned(graph, degrees, (), frozenset())
    return _Alignment(graph, degrees, chunks).result()


class _Alignment:
    def __init__(self, graph: Graph, degrees: tuple[Mapping[int, int], ...], chunks: Mapping[str, str]) -> None:
        self.graph = graph
        self.old_degrees = degrees
        self.chunks = chunks
        self.builder = Builder(graph.name, graph.symbols, graph.axes, graph.inputs)
        self.degrees: dict[int, dict[int, int]] = {}
        self.cuts: set[int] = set()
        self.raw: set[int] = set()
        self._whole: dict[int, int] = {}
        self._own: dict[int, int] = {}
        self._tops: dict[int, tuple[int, int]] = {}

    def result(self) -> Aligned:
        """Rewrites what the outputs need."""
        outputs = [Output(self.whole(entry.value), entry.layout, entry.dtype) for entry in self.graph.outputs]
        ops = tuple(self.builder.ops)
        graph = Graph(
            self.graph.name, self.graph.symbols, self.graph.axes, self.graph.inputs, ops, tuple(outputs), tuple(self.builder.places)
        )
        degrees = tuple(self.degrees.get(position, {}) for position in range(len(ops)))
        return Aligned(graph, degrees, tuple(sorted(self.cuts)), frozenset(self.raw))

    def _add(self, kind: str, args: tuple[int, ...], attr: tuple[Attr, ...], dtype: str, old: int, own: bool) -> int:
        if kind == "input":
            return int(str(attr[0]))
        place = self.graph.places[old] if self.graph.places else ""
        out = self.builder.add(kind, *args, attr=attr, dtype=dtype, place=place)
        degree: dict[int, int] = {}
        for shift, power in self.old_degrees[old].items():
            table = self._own if self._chunked(shift) else self._whole
            if shift in table and (own or not self._chunked(shift)):
                degree[table[shift]] = power
        self.degrees.setdefault(out, degree)
        return out

    def _chunked(self, position: int) -> bool:
        op = self.graph.ops[position]
        return op.kind == "shift" and bool(self._outers(position))

    def _outers(self, position: int) -> tuple[str, ...]:
        """The chunk counts an operation removes."""
        return tuple(axis for axis in removed_axes(self.graph.ops[position]) if axis in self.chunks.values())

    def whole(self, position: int) -> int:
        """The value relative to the shift of all chunks."""
        if position not in self._whole:
            self._whole[position] = self._make_whole(position)
        return self._whole[position]

    def _make_whole(self, position: int) -> int:
        op = self.graph.ops[position]
        if self._chunked(position):
            return self._top(position)[0]
        outers = self._outers(position)
        if op.kind not in ("reduce", "contract") or not outers:
            args = tuple(self.whole(arg) for arg in op.args)
            return self._add(op.kind, args, op.attr, op.dtype, position, False)
        inner = tuple(axis for axis in removed_axes(self.graph.ops[position]) if axis in self.chunks)
        kind = str(op.attr[0]) if op.kind == "reduce" else "sum"
        rest = tuple(axis for axis in removed_axes(self.graph.ops[position]) if axis not in inner)
        if inner:
            # A reduction over chunks and within them at once: within first.
            args = tuple(self.own(arg) for arg in op.args)
            attr: tuple[Attr, ...] = (*op.attr[:-1], inner)
            part = self._add(op.kind, args, attr, op.dtype, position, True)
            joined = self._align(part, position)
            return self._add("reduce", (joined,), (kind, rest), op.dtype, position, False)
        joined_args: list[int] = []
        for arg in op.args:
            part = self.own(arg)
            joined_args.append(self._align(part, arg))
        return self._add(op.kind, tuple(joined_args), op.attr, op.dtype, position, False)

    def own(self, position: int) -> int:
        """The value relative to the shift of its own chunk."""
        if position not in self._own:
            self._own[position] = self._make_own(position)
        return self._own[position]

    def _make_own(self, position: int) -> int:
        op = self.graph.ops[position]
        removed = removed_axes(self.graph.ops[position])
        if self._chunked(position):
            inner = tuple(axis for axis in removed if axis not in self.chunks.values())
            out = self._add("shift", (self.own(op.args[0]),), (inner,), op.dtype, position, True)
            self._own[position] = out
            return out
        if self._outers(position):
            if any(self._chunked(shift) for shift in self.old_degrees[position]):
                raise ValueError(f"operation {position} ({op.kind}) mixes sums over all chunks with values of one")
            return self.whole(position)
        args = tuple(self.own(arg) for arg in op.args)
        return self._add(op.kind, args, op.attr, op.dtype, position, True)

    def _top(self, shift: int) -> tuple[int, int]:
        """The shift of all chunks, and each chunk's weight relative to it."""
        if shift not in self._tops:
            own = self.own(shift)
            add = self.builder.add
            dtype = widest_float((self.builder.ops[own].dtype,))
            stored = add("cast", own, attr=("stored",), dtype=dtype)
            self.cuts.add(stored)
            self.raw.add(stored)
            highest = add("reduce", stored, attr=("max", self._outers(shift)))
            bottom, zero = (add("constant", attr=(value,), dtype=dtype) for value in (float("-inf"), 0.0))
            top = add("select", add("compare", highest, bottom, attr=("eq",)), zero, highest)
            self._tops[shift] = top, add("exp", add("sub", stored, top))
        return self._tops[shift]

    def _align(self, part: int, old: int) -> int:
        """A chunk's value, which is stored, relative to the shift of all chunks."""
        axes = set(self.builder.ops[part].axes)
        if axes & set(self.chunks.values()) and not axes & set(self.chunks):
            self.cuts.add(part)
        out = part
        for shift, power in self.old_degrees[old].items():
            if not self._chunked(shift):
                continue
            if power > 0:
                raise ValueError(f"operation {old} grows with its shift and cannot be aligned between chunks")
            weight = self._top(shift)[1]
            for _ in range(-power):
                dtype = widest_float(self.builder.ops[at].dtype for at in (out, weight))
                out = self.builder.add("mul", out, weight, dtype=dtype)
        return part if out is part else self._unless_empty(part, out, old)

    def _unless_empty(self, part: int, scaled: int, old: int) -> int:
        """An extreme of a chunk, scaled unless there is nothing in it: the infinity that it is then would be NaN times a weight of 0."""
        op = self.graph.ops[old]
        while op.kind == "cast":
            op = self.graph.ops[op.args[0]]
        if op.kind != "reduce" or op.attr[0] not in ("max", "min"):
            return scaled
        add = self.builder.add
        dtype = self.builder.ops[scaled].dtype
        whole = add("cast", part, dtype=dtype) if self.builder.ops[part].dtype != dtype else part
        none = add("constant", attr=(neutral_of(str(op.attr[0]), dtype),), dtype=dtype)
        return add("select", add("compare", whole, none, attr=("eq",)), none, scaled)
