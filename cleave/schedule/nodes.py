"""
What one kernel computes, with the operations on axes resolved away.

Renames, splits, merges, slices, indexing, padding and concatenation only say *where* a value is read. `resolve` pushes them
down to the leaves: a `Node` is a value at given indices, and a load names an `Index` for every axis of its buffer. The same
operation read at two places gives two nodes. What is left are elementwise operations and reductions over named axes.

`exp(x - m)` with m a free shift becomes one node `shifted_exp`, and positive constant factors of the logits move into the
scale of the shift and of its exponentials: exp(c*y - m) is exp2(c*log2(e)*y - m*log2(e)).
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias, cast

from ..extents import Extent, extent
from ..graph import FLOATS, Attr, Graph, Op
from .sizes import Sizes

Where: TypeAlias = "tuple[tuple[str, Index], ...]"
REDUCING = ("reduce", "contract", "shift")
_NONE: Mapping[str, tuple[Index, ...]] = MappingProxyType({})


def neutral_of(kind: str, dtype: str) -> float | int:
    """What a sum, maximum or minimum starts from: of integers, the least or largest that the type holds. An index has 32 bits."""
    if kind == "sum":
        return 0.0 if dtype in FLOATS else 0
    if dtype in FLOATS:
        return float("-inf") if kind == "max" else float("inf")
    bits = 63 if dtype == "i64" else 31
    return -(2**bits) if kind == "max" else 2**bits - 1


@dataclass(frozen=True, slots=True)
class Index:
    """
    An integer as a function of axis indices.

    Kinds: `axis` (the index of axis `name`), `number` (`size`), `length` (of axis `name`), `add sub mul floordiv mod`,
    `clamp` (at least 0), `data` (the integer value `node`). `axes` are those it depends on; `loose` says that it may reach the
    extent it indexes even where every axis index is in range, as a number does that an axis of unknown size may not have.
    """

    kind: str
    args: tuple[Index, ...] = ()
    name: str = ""
    size: Extent | None = None
    node: Node | None = None
    axes: tuple[str, ...] = ()
    loose: bool = False


@dataclass(eq=False, slots=True)
class Node:
    """
    A value at given indices. Nodes are shared, so equal nodes are identical; `id` increases from operands to users.

    `axes` are the free axes, `op` the graph operation it stems from, `shifts` the free shifts that exponentials below it use.
    `where` gives, for a load, the index of every buffer axis; values that indices read are in `args`. Reducing nodes keep the
    axes they remove in `removed`. `scale` is the constant of a shift or shifted exponential.
    """

    id: int
    kind: str
    args: tuple[Node, ...]
    axes: tuple[str, ...]
    dtype: str
    op: int
    attr: tuple[Attr, ...] = ()
    where: Where = ()
    index: Index | None = None
    removed: tuple[str, ...] = ()
    scale: float = 1.0
    shifts: tuple[Node, ...] = field(default=())


class EntangledError(Exception):
    """A reduction is read at an index made of the axis it removes, so it needs a kernel of its own. `op` is its position."""

    def __init__(self, op: int) -> None:
        super().__init__(f"operation {op} is read at an index of the axis it removes")
        self.op = op


class UnschedulableError(Exception):
    """An operation that no kernel can compute. `op` is its position in the graph, `why` the reason."""

    def __init__(self, op: int, why: str) -> None:
        super().__init__(why)
        self.op = op
        self.why = why


def axis_index(name: str) -> Index:
    """The index of an axis itself."""
    return Index("axis", name=name, axes=(name,))


def number(value: int | Extent) -> Index:
    """A constant index."""
    return Index("number", size=extent(value))


def data_nodes(index: Index) -> list[Node]:
    """The integer values an index reads."""
    return ([] if index.node is None else [index.node]) + [node for arg in index.args for node in data_nodes(arg)]


def combined(kind: str, left: Index, right: Index) -> Index:
    """Arithmetic on two indices, simplified where a term is 0 or 1 or a merge undoes a split."""
    a, b = (arg.size.constant if arg.kind == "number" and arg.size is not None else None for arg in (left, right))
    if (kind in ("add", "sub") and b == 0) or (kind in ("mul", "floordiv") and b == 1):
        return left
    if (kind == "add" and a == 0) or (kind == "mul" and a == 1):
        return right
    if kind == "add" and left.kind == "number":
        left, right = right, left
    if a is not None and b is not None and kind in ("add", "mul"):
        return number(a + b if kind == "add" else a * b)
    if kind in ("floordiv", "mod") and left.kind == "add" and left.args[0].kind == "mul":
        (high, unit), low = left.args[0].args, left.args[1]
        if unit == right and low.kind == "axis" and right.kind == "length" and right.name == low.name:
            return high if kind == "floordiv" else low
    axes = tuple(dict.fromkeys(left.axes + right.axes))
    return Index(kind, (left, right), axes=axes, loose=left.loose or right.loose)


def _decided(predicate: str, args: Sequence[Node]) -> bool | None:
    """What a comparison of two integers gives where both are known."""
    left, right = (_known(arg) for arg in args)
    return None if left is None or right is None else bool(getattr(operator, predicate)(left, right))


def _known(node: Node) -> int | None:
    if node.kind == "constant" and isinstance(node.attr[0], int) and not isinstance(node.attr[0], bool):
        return node.attr[0]
    index = node.index
    return index.size.constant if index is not None and index.kind == "number" and index.size is not None else None


def _clamped(index: Index) -> Index:
    return Index("clamp", (index,), axes=index.axes, loose=True)


class Resolver:
    """
    Builds the nodes of one kernel's graph.

    `walked` are inner axes of splits of which a program walks one chunk: the end of that loop leaves out what does not exist.
    For other splits reductions mask it. `pieces` gives the indices at which an axis in pieces is read.
    """

    def __init__(self, graph: Graph, sizes: Sizes, walked: frozenset[str], pieces: Mapping[str, tuple[Index, ...]] = _NONE) -> None:
        self.graph = graph
        self.walked = walked
        self.sizes = sizes
        self.pieces = pieces
        self.nodes: list[Node] = []
        self._known: dict[tuple[object, ...], Node] = {}
        self._at: dict[tuple[int, Where], Node] = {}

    def places(self, axes: Sequence[str]) -> list[Where]:
        """The indices that cover axes: one set of them, or where axes are in pieces one for each of their combinations."""
        own = [self.pieces.get(axis, (axis_index(axis),)) for axis in axes]
        return [tuple(zip(axes, indices, strict=True)) for indices in itertools.product(*own)]

    def value(self, position: int, where: Where) -> Node:
        """The node of an operation's value where its axes have the given indices. Raises: EntangledError, UnschedulableError."""
        found = self._at.get((position, where))
        if found is None:
            found = self._resolve(position, self.graph.ops[position], dict(where))
            self._at[position, where] = found
        return found

    def _arg(self, position: int, table: Mapping[str, Index]) -> Node:
        return self.value(position, tuple((axis, table[axis]) for axis in self.graph.ops[position].axes))

    def _make(
        self,
        kind: str,
        args: Sequence[Node],
        axes: Iterable[str],
        dtype: str,
        op: int,
        attr: tuple[Attr, ...] = (),
        where: Where = (),
        index: Index | None = None,
        removed: tuple[str, ...] = (),
        scale: float = 1.0,
    ) -> Node:
        if kind == "select" and args[0].kind == "constant" and (taken := args[1 if args[0].attr[0] else 2]).dtype == dtype:
            return taken
        if kind == "compare" and (decided := _decided(str(attr[0]), args)) is not None:
            return self._number(decided, "i1", op)
        ordered = self.graph.ordered(axes)
        key = (kind, tuple(arg.id for arg in args), ordered, dtype, repr(attr), where, index, removed, scale)
        found = self._known.get(key)
        if found is not None:
            return found
        shifts = {shift.id: shift for arg in args for shift in arg.shifts}
        if kind == "shifted_exp":
            shifts[args[1].id] = args[1]
        elif kind == "shift":
            shifts = {}
        ranked = tuple(shifts[key] for key in sorted(shifts))
        node = Node(len(self.nodes), kind, tuple(args), ordered, dtype, op, attr, where, index, removed, scale, ranked)
        self.nodes.append(node)
        self._known[key] = node
        return node

    def _number(self, value: float | int | bool, dtype: str, op: int) -> Node:
        return self._make("constant", (), (), dtype, op, attr=(value,))

    def _place(self, index: Index, op: int) -> Node:
        return self._make("index", data_nodes(index), index.axes, "index", op, index=index)

    def _resolve(self, position: int, op: Op, at: Mapping[str, Index]) -> Node:
        args = op.args
        match op.kind, op.attr:
            case "input", (int(source),):
                where = tuple((axis, at[axis]) for axis in self.graph.inputs[source].axes)
                data = [node for _, index in where for node in data_nodes(index)]
                return self._make("load", data, _axes_of(where), op.dtype, position, attr=(source,), where=where)
            case "constant", (bool() | int() | float() as value,):
                return self._number(value, op.dtype, position)
            case "size", (str(axis),):
                return self._typed(self._place(Index("length", name=axis), position), op)
            case "iota", (str(axis),):
                return self._typed(self._place(at[axis], position), op)
            case "reduce", (str(), axes):
                return self._reduction(position, op, at, _names(axes), op.attr[:1])
            case "contract" | "shift", (axes,):
                return self._reduction(position, op, at, _names(axes), ())
            case "rename", (tuple(pairs),):
                table = dict(at)
                renamed = [_names(pair) for pair in pairs]
                for _, new in renamed:
                    table.pop(new, None)
                table.update((old, at[new]) for old, new in renamed if new in at)
                return self._arg(args[0], table)
            case "split", (str(axis), str(outer), str(inner)):
                whole = combined("add", combined("mul", at[outer], self._length(inner)), at[inner])
                if self.sizes.axes[inner].chunk_of is not None:
                    whole = Index(whole.kind, whole.args, axes=whole.axes, loose=True)
                return self._arg(args[0], {**at, axis: whole})
            case "merge", (pair, str(axis)):
                outer, inner = _names(pair)
                unit = self._length(inner)
                return self._arg(args[0], {**at, outer: combined("floordiv", at[axis], unit), inner: combined("mod", at[axis], unit)})
            case "slice", (str(axis), str(new), start, step):
                back = isinstance(step, int) and step < 0
                stride = number(-step) if isinstance(step, int) and back else number(_extent(step))
                moved = combined("sub" if back else "add", number(_extent(start)), combined("mul", at[new], stride))
                # Lanes past the end of the new axis would reach below 0.
                moved = _clamped(moved) if back else moved
                return self._arg(args[0], {**at, axis: moved})
            case "index", (str(axis), place):
                return self._arg(args[0], {**at, axis: number(_extent(place))})
            case "pad", (str(axis), str(new), low, value):
                return self._pad(position, op, at, axis, at[new], _extent(low), cast("float", value))
            case "concat", (axes, str(new)):
                return self._concat(position, op, at, _names(axes), at[new])
            case "gather", (str(axis),):
                indices = self._arg(args[1], at)
                # A negative index is a mistake of the caller's, which must not read other memory.
                data = _clamped(Index("data", node=indices, axes=indices.axes))
                return self._arg(args[0], {**at, axis: data})
            case "exp", _:
                return self._exp(position, op, at)
            case _:
                operands = [self._arg(arg, at) for arg in args]
                axes = [axis for operand in operands for axis in operand.axes]
                return self._make(op.kind, operands, axes, op.dtype, position, attr=op.attr)

    def _length(self, axis: str) -> Index:
        return Index("length", name=axis)

    def _typed(self, node: Node, op: Op) -> Node:
        return node if op.dtype == node.dtype else self._make("cast", (node,), node.axes, op.dtype, node.op)

    def _reduction(self, position: int, op: Op, at: Mapping[str, Index], removed: tuple[str, ...], attr: tuple[Attr, ...]) -> Node:
        parts = [self._part(position, op, at, removed, dict(place), attr) for place in self.places(removed)]
        out, *others = parts
        for other in others:
            kind = "add" if op.kind == "contract" or attr == ("sum",) else str(attr[0])
            out = self._make(kind, (out, other), (*out.axes, *other.axes), out.dtype, position)
        return self._typed(out, op)

    def _part(
        self,
        position: int,
        op: Op,
        at: Mapping[str, Index],
        removed: tuple[str, ...],
        place: Mapping[str, Index],
        attr: tuple[Attr, ...],
    ) -> Node:
        """A reduction over the given indices of the axes it removes."""
        inner = tuple(name for index in place.values() for name in index.axes)
        if any(axis in index.axes for index in at.values() for axis in inner):
            raise EntangledError(position)
        table = {**at, **place}
        operands = [self._arg(arg, table) for arg in op.args]
        kind = "sum" if op.kind == "contract" else str(attr[0]) if attr else "max"
        for chunk in self._masked_chunks(op, removed):
            operands = [self._existing(operand, chunk, table, kind, position) for operand in operands]
        for axis, index in place.items():
            if index.kind == "number" and index.loose:
                operands = [self._within(operand, index, axis, kind, position) for operand in operands]
        free = [axis for operand in operands for axis in operand.axes if axis not in inner]
        scale = 1.0
        if op.kind == "shift":
            logits, scale = self._scaled(operands[0])
            operands = [logits]
        # Parts are combined before they are rounded.
        whole = inner == removed or op.dtype not in ("f16", "bf16")
        if removed and not inner:
            return self._single(operands, op.dtype if whole else "f32", position)
        return self._make(op.kind, operands, free, op.dtype if whole else "f32", position, attr=attr, removed=inner, scale=scale)

    def _single(self, operands: Sequence[Node], dtype: str, position: int) -> Node:
        """The product of single elements, in place of a sum or maximum of one."""
        parts = [node if node.dtype == dtype else self._make("cast", (node,), node.axes, dtype, position) for node in operands]
        out = parts[0]
        for part in parts[1:]:
            out = self._make("mul", (out, part), (*out.axes, *part.axes), dtype, position)
        return out

    def _masked_chunks(self, op: Op, removed: tuple[str, ...]) -> list[str]:
        """The inner axes of splits some elements of which a reduction must skip by a mask."""
        present = {axis for arg in op.args for axis in self.graph.ops[arg].axes}
        chunked = [(axis.name, axis.chunk_of[1]) for axis in self.graph.axes if axis.chunk_of is not None and axis.name not in self.walked]
        return [inner for inner, outer in chunked if {inner, outer} <= present and (inner in removed or outer in removed)]

    def _existing(self, node: Node, inner: str, at: Mapping[str, Index], kind: str, op: int) -> Node:
        """A value with what is past the end of a split axis replaced by what is neutral for a kind of reduction."""
        chunk = self.sizes.axes[inner].chunk_of
        assert chunk is not None
        whole = combined("add", combined("mul", at[chunk[1]], self._length(inner)), at[inner])
        return self._within(node, whole, chunk[0], kind, op) if set(whole.axes) & set(node.axes) else node

    def _within(self, node: Node, place: Index, axis: str, kind: str, op: int) -> Node:
        """A value with what is neutral for a kind of reduction in its place where an index is past the end of an axis."""
        index, end = self._place(place, op), self._place(self._length(axis), op)
        exists = self._make("compare", (index, end), index.axes, "i1", op, attr=("lt",))
        fill = self._number(neutral_of(kind, node.dtype), node.dtype, op)
        return self._make("select", (exists, node, fill), (*index.axes, *node.axes), node.dtype, op)

    def _exp(self, position: int, op: Op, at: Mapping[str, Index]) -> Node:
        inner = self.graph.ops[op.args[0]]
        if inner.kind == "sub":
            x, shift = (self._arg(arg, at) for arg in inner.args)
            if shift.kind == "shift":
                logits, scale = self._scaled(x)
                axes = (*x.axes, *shift.axes)
                return self._make("shifted_exp", (logits, shift), axes, op.dtype, position, scale=scale)
        operand = self._arg(op.args[0], at)
        return self._make("exp", (operand,), operand.axes, op.dtype, position)

    def _scaled(self, node: Node) -> tuple[Node, float]:
        """A node and a positive constant whose product the given node is."""
        if node.kind in ("mul", "div") and node.dtype == "f32":
            pairs = ((node.args[0], node.args[1]),) if node.kind == "div" else (node.args, node.args[::-1])
            for value, factor in pairs:
                constant = factor.attr[0] if factor.kind == "constant" else None
                if isinstance(constant, int | float) and 0 < constant < float("inf"):
                    inner, scale = self._scaled(value)
                    return inner, scale * constant if node.kind == "mul" else scale / constant
        if node.kind == "select":
            for position in (1, 2):
                if node.args[3 - position].kind == "constant" and node.args[3 - position].attr == (float("-inf"),):
                    inner, scale = self._scaled(node.args[position])
                    args = tuple(inner if place == position else arg for place, arg in enumerate(node.args))
                    return self._make("select", args, node.axes, node.dtype, node.op), scale
        return node, 1.0

    def _pad(self, position: int, op: Op, at: Mapping[str, Index], axis: str, place: Index, low: Extent, value: float) -> Node:
        inner = self._arg(op.args[0], {**at, axis: _clamped(combined("sub", place, number(low)))})
        index = self._place(place, position)
        start = self._place(number(low), position)
        end = self._place(combined("add", number(low), self._length(axis)), position)
        above = self._make("compare", (index, start), index.axes, "i1", position, attr=("ge",))
        below = self._make("compare", (index, end), index.axes, "i1", position, attr=("lt",))
        inside = self._make("and", (above, below), index.axes, "i1", position)
        fill = self._number(value, op.dtype, position)
        return self._make("select", (inside, inner, fill), (*index.axes, *inner.axes), op.dtype, position)

    def _concat(self, position: int, op: Op, at: Mapping[str, Index], axes: tuple[str, ...], place: Index) -> Node:
        index = self._place(place, position)
        offset: Index = number(0)
        parts: list[tuple[Index, Node]] = []
        for axis, arg in zip(axes, op.args, strict=True):
            moved = place if not parts else _clamped(combined("sub", place, offset))
            if not parts and len(axes) > 1:
                moved = Index(moved.kind, moved.args, moved.name, moved.size, moved.node, moved.axes, loose=True)
            part = self._arg(arg, {**at, axis: moved})
            offset = combined("add", offset, self._length(axis))
            parts.append((offset, part))
        out = parts[-1][1]
        for end, part in reversed(parts[:-1]):
            limit = self._place(end, position)
            inside = self._make("compare", (index, limit), index.axes, "i1", position, attr=("lt",))
            out = self._make("select", (inside, part, out), (*index.axes, *part.axes, *out.axes), op.dtype, position)
        return out


def removed_axes(op: Op) -> tuple[str, ...]:
    """The axes that an operation of a graph reduces."""
    match op.kind, op.attr:
        case ("reduce", (_, axes)) | ("contract" | "shift", (axes,)):
            return _names(axes)
        case _:
            return ()


def _axes_of(where: Where) -> list[str]:
    return [axis for _, index in where for axis in index.axes]


def _names(value: Attr) -> tuple[str, ...]:
    return tuple(str(name) for name in cast("tuple[Attr, ...]", value))


def _extent(value: Attr) -> Extent:
    return value if isinstance(value, Extent) else extent(cast("int | str", value))
