"""
Slices and single positions.

A slice that is one part of an equal division splits the axis and picks the part. Any other slice of an argument is an offset
into its memory, and so is one of a value that is only ever sliced, where every operand that has the axis can be sliced
instead: an uneven q | k | v split of a packed projection becomes three views of its weight. What is left is a slice.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..graph import BINARY, UNARY
from .atoms import Atom, Dim
from .sizes import Size, equal, floor_division, largest, quotient, simplified, smallest
from .values import Lowering, Node, Value
from .views import MOST_PARTS, apart, with_dims

_ENDLESS = 2**63 - 1
_ELEMENTWISE = (*UNARY, *BINARY, "compare", "select", "cast", "contract")


def selected(cx: Lowering, value: Value, dim: int, position: Size) -> Value:
    """torch.select: one position of a dimension, which goes."""
    rest = (*value.dims[:dim], *value.dims[dim + 1 :])
    held = set(cx.data(value.node))
    leaves = cx.atoms.leaves(value.dims[dim])
    if not held.intersection(leaves):
        return with_dims(value, rest)
    atoms = [leaf for leaf in cx.data(value.node) if leaf not in leaves]
    return Value(rest, cx.node("index", (value.node,), value.node.dtype, (leaves, position), atoms), value.dtype)


def sliced(cx: Lowering, value: Value, dim: int, start: Size, length: Size, step: int = 1) -> Value:
    """`length` positions of a dimension from `start` on, `step` apart."""
    source = value.dims[dim]
    before, after = value.dims[:dim], value.dims[dim + 1 :]
    if equal(cx.size(source), length) and step == 1:
        return value
    if length == 1:
        rest = selected(cx, value, dim, start)
        return with_dims(rest, (*before, (), *after))
    leaves = cx.atoms.leaves(source)
    held = set(cx.data(value.node))
    if not held.intersection(leaves):
        return apart(cx, with_dims(value, (*before, cx.atoms.dim(length), *after)))
    part = _equal_part(cx, value, dim, start, length, step)
    if part is not None:
        return part
    cx.uneven.update(dict.fromkeys(leaves))
    new = cx.atoms.fresh(length)
    node = _cut(cx, value.node, leaves, start, new, step) if cx.only_sliced or value.node.kind == "input" else None
    if node is None:
        missing = [leaf for leaf in leaves if leaf not in held]
        node = cx.stretch(value.node, missing) if missing else value.node
        atoms = [leaf for leaf in cx.data(node) if leaf not in leaves]
        node = cx.node("slice", (node,), node.dtype, (leaves, new, start, step), (*atoms, new))
    return apart(cx, Value((*before, (new,), *after), node, value.dtype))


def _equal_part(cx: Lowering, value: Value, dim: int, start: Size, length: Size, step: int) -> Value | None:
    """A slice that is one of several equal parts, or one residue of a step: an index of the small part of a split."""
    source = value.dims[dim]
    size = cx.size(source)
    if step == 1:
        parts, chosen = quotient(size, length), quotient(start, length)
        if chosen is None or not isinstance(parts, int) or parts > MOST_PARTS:
            return None
        if parts > 2 and any(leaf in cx.uneven for leaf in cx.atoms.leaves(source)):
            return None
        found = cx.split_leading(source, parts, length)
        part, rest = found if found is not None else ((), ())
    else:
        if not isinstance(start, int) or start >= step or not equal(size, simplified(length * step)):
            return None
        found = cx.split_leading(source, length, step)
        chosen = start
        rest, part = found if found is not None else ((), ())
    if found is None:
        return None
    whole = with_dims(value, (*value.dims[:dim], part, rest, *value.dims[dim + 1 :]))
    return selected(cx, whole, dim, chosen)


def _cut(cx: Lowering, node: Node, leaves: Dim, start: Size, new: Atom, step: int) -> Node | None:
    """The node with its axis cut in the arguments that it comes from, or None where that is not possible."""
    held = set(cx.data(node))
    if not held.intersection(leaves):
        return node
    if not held.issuperset(leaves):
        return None
    if node.kind == "input":
        return _offset(cx, node, leaves, start, new, step)
    if node.kind not in _ELEMENTWISE:
        return None
    args: list[Node] = []
    for arg in node.args:
        cut = _cut(cx, arg, leaves, start, new, step)
        if cut is None:
            return None
        args.append(cut)
    atoms = [leaf for leaf in cx.data(node) if leaf not in leaves]
    return Node(node.kind, tuple(args), (*atoms, new), node.dtype, node.attr, node.place)


def _offset(cx: Lowering, node: Node, leaves: Dim, start: Size, new: Atom, step: int) -> Node | None:
    """An argument cut along one of its dimensions, or along consecutive axes of one: another view of the same memory."""
    key, entries = node.attr
    for at, (atoms, source, first, stride) in enumerate(entries):
        own: Dim = cx.atoms.leaves(atoms)
        place = next((p for p in range(len(own)) if own[p : p + len(leaves)] == leaves), None)
        if place is None:
            continue
        outer, inner = own[:place], own[place + len(leaves) :]
        begin = simplified(first + start * cx.size(inner) * stride)
        parts = [(outer, source, 0, simplified(stride * cx.size(own[place:])))] if outer else []
        if step == 1:
            parts.append(((new, *inner), source, begin, stride))
        else:
            parts.append(((new,), source, begin, simplified(stride * step * cx.size(inner))))
            parts += [(inner, source, 0, stride)] if inner else []
        changed = (*entries[:at], *parts, *entries[at + 1 :])
        held = [atom for entry in changed for atom in entry[0]]
        return Node("input", (), tuple(held), node.dtype, (key, changed), node.place)
    return None


def pieces(cx: Lowering, value: Value, dim: int, lengths: Sequence[Size]) -> tuple[Value, ...]:
    """Consecutive slices of the given lengths."""
    if not all(equal(length, lengths[0]) for length in lengths):
        cx.uneven.update(dict.fromkeys(cx.atoms.leaves(value.dims[dim])))
    out: list[Value] = []
    start: Size = 0
    for length in lengths:
        out.append(sliced(cx, value, dim, start, length))
        start = simplified(start + length)
    return tuple(out)


def slice_start(size: Size, start: Size | None) -> Size:
    """The first position of a slice of a dimension; a symbolic start counts from the front."""
    if isinstance(start, int) and start < 0:
        return largest(0, simplified(size + start))
    return 0 if start is None else smallest(start, size)


def slice_length(size: Size, start: Size | None, end: Size | None, step: int) -> Size:
    """How many positions a slice of a dimension has."""
    last = size if end is None or (isinstance(end, int) and end >= _ENDLESS) else slice_start(size, end)
    return floor_division(simplified(largest(0, simplified(last - slice_start(size, start))) + step - 1), step)
