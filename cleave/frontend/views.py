"""
Views: operations that only rearrange dimensions, most of which leave no operation behind.

A reshape deals the atoms of all dimensions out to the new ones, splitting where a size asks for it. What cannot be had so
(24 as 4 x 6 and as 3 x 8) is an explicit regrouping. Repeating adds atoms that the data lacks. Slices
are in `cuts`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import torch

from .atoms import Atom, Dim
from .sizes import Size, equal, quotient, simplified
from .values import Lowering, Node, Value

MOST_PARTS = 16
"""Into how many pieces a split may turn an axis, and of how many a stack may be made."""


def with_dims(value: Value, dims: Sequence[Dim]) -> Value:
    """The same data under other dimensions."""
    return Value(tuple(dims), value.node, value.dtype)


def wrapped(dim: int, rank: int) -> int:
    """A dimension number counted from the front."""
    return dim + rank if dim < 0 else dim


def permuted(value: Value, order: Sequence[int]) -> Value:
    """torch.permute."""
    return with_dims(value, [value.dims[wrapped(at, len(value.dims))] for at in order])


def swapped(value: Value, a: int, b: int) -> Value:
    """torch.transpose."""
    dims = list(value.dims)
    if dims:
        dims[a], dims[b] = dims[b], dims[a]
    return with_dims(value, dims)


def unsqueezed(value: Value, dim: int) -> Value:
    """torch.unsqueeze."""
    at = wrapped(dim, len(value.dims) + 1)
    return with_dims(value, (*value.dims[:at], (), *value.dims[at:]))


def squeezed(cx: Lowering, value: Value, dims: Sequence[int] | None) -> Value:
    """torch.squeeze: drops the dimensions of size 1 among `dims`. Raises: CleaveError for one whose size is a symbol."""
    rank = len(value.dims)
    chosen = range(rank) if dims is None else [wrapped(dim, rank) for dim in dims]
    for at in chosen:
        if not isinstance(cx.size(value.dims[at]), int):
            cx.fail(f"dimension {at} has a dynamic size", "name the dimensions to drop, of fixed size")
    return with_dims(value, [dim for at, dim in enumerate(value.dims) if dim or at not in chosen])


def expanded(cx: Lowering, value: Value, shape: Sequence[Size]) -> Value:
    """torch.expand to a shape: new atoms, which the data lacks."""
    lead = len(shape) - len(value.dims)
    dims: list[Dim] = [cx.atoms.dim(size) for size in shape[:lead]]
    for dim, size in zip(value.dims, shape[lead:], strict=True):
        dims.append(dim or cx.atoms.dim(size))
    return apart(cx, with_dims(value, dims))


def repeated(cx: Lowering, value: Value, counts: Sequence[Size]) -> Value:
    """torch.repeat: the whole dimension over and over."""
    lead = len(counts) - len(value.dims)
    dims: list[Dim] = [()] * lead + list(value.dims)
    return apart(cx, with_dims(value, [(*cx.atoms.dim(count), *dim) for count, dim in zip(counts, dims, strict=True)]))


def repeat_interleaved(cx: Lowering, value: Value, count: Size, dim: int) -> Value:
    """torch.repeat_interleave by a number: each element over and over."""
    dims = list(value.dims)
    dims[dim] = (*dims[dim], *cx.atoms.dim(count))
    return apart(cx, with_dims(value, dims))


def apart(cx: Lowering, value: Value) -> Value:
    """The value, its axes kept apart."""
    cx.atoms.separate(leaf for dim in value.dims for leaf in dim)
    return value


def reshaped(cx: Lowering, value: Value, shape: Sequence[Size]) -> Value:
    """torch.reshape to a shape of the same number of elements."""
    found: list[Dim] = []
    flat = tuple(leaf for dim in value.dims for leaf in dim)

    def change() -> bool:
        parts = cx.cut(flat, shape)
        found.extend(parts or ())
        return parts is not None

    if cx.atoms.attempt(change):
        return with_dims(value, found)
    return _regrouped(cx, value, shape)


def _regrouped(cx: Lowering, value: Value, shape: Sequence[Size]) -> Value:
    """A reshape that cuts across atoms: the shortest runs of equal size on both sides become new atoms."""
    source = list(cx.atoms.leaves(leaf for dim in value.dims for leaf in dim))
    dims: list[Dim] = []
    pairs: list[tuple[Dim, Dim]] = []
    while source or len(dims) < len(shape):
        taken, wanted = _run([atom.extent for atom in source], shape[len(dims) :])
        run, sizes = tuple(source[:taken]), shape[len(dims) : len(dims) + wanted]
        del source[:taken]
        parts: list[Dim] = []

        def change(run: Dim = run, sizes: Sequence[Size] = sizes, parts: list[Dim] = parts) -> bool:
            found = cx.cut(run, sizes)
            parts.extend(found or ())
            return found is not None

        if not cx.atoms.attempt(change):
            parts = [cx.atoms.dim(size) for size in sizes]
            pairs.append((run, tuple(atom for part in parts for atom in part)))
        dims += parts
    out = Value(tuple(dims), value.node, value.dtype)
    return apart(cx, Value(out.dims, cx.regroup(value.node, pairs), value.dtype))


def _run(left: Sequence[Size], right: Sequence[Size]) -> tuple[int, int]:
    """How many sizes from the front of each side have the same product, at least one; everything where that cannot be told."""
    if not left or not right:
        return len(left), len(right)
    i, j = 1, 1
    a, b = left[0], right[0]
    while not equal(a, b):
        if (quotient(b, a) is not None and i < len(left)) or (isinstance(a, int) and isinstance(b, int) and a < b):
            if i == len(left):
                return len(left), len(right)
            a, i = simplified(a * left[i]), i + 1
        elif j < len(right) and (quotient(a, b) is not None or (isinstance(a, int) and isinstance(b, int))):
            b, j = simplified(b * right[j]), j + 1
        else:
            return len(left), len(right)
    while i == len(left) and j < len(right) and right[j] == 1:
        j += 1
    return i, j


def concatenated(cx: Lowering, values: Sequence[Value], dim: int, dtype: torch.dtype, working: str) -> Value:
    """torch.cat. Equal pieces become an axis of their own, outside the axis of one piece."""
    sizes = [cx.size(value.dims[dim]) for value in values]
    if len(values) == 1:
        return values[0]
    if len(values) <= MOST_PARTS and all(equal(size, sizes[0]) for size in sizes):
        return _stacked(cx, values, dim, dim, dtype, working)
    rank = len(values[0].dims)
    space: dict[Hashable, Dim] = {}
    nodes: list[Node] = []
    pieces: list[Dim] = []
    for value in values:
        # The joined dimension takes part while it is bound, so that nothing else of the operand gets its name.
        node = cx.bind(value, ["piece" if at == dim else at for at in range(rank)], space)
        piece = space.pop("piece") or (cx.atoms.fresh(1),)
        node = cx.cast(node, working)
        missing = [leaf for leaf in cx.atoms.leaves(piece) if leaf not in cx.data(node)]
        nodes.append(cx.stretch(node, missing) if missing else node)
        pieces.append(piece)
    new = cx.atoms.fresh(simplified(sum(sizes)))
    atoms: dict[Atom, None] = {}
    for node, piece in zip(nodes, pieces, strict=True):
        atoms.update(dict.fromkeys(leaf for leaf in cx.data(node) if leaf not in cx.atoms.leaves(piece)))
    node = cx.node("concat", nodes, working, (tuple(pieces), new), (*atoms, new))
    dims = [(new,) if at == dim else space[at] for at in range(rank)]
    return apart(cx, Value(tuple(dims), node, dtype))


def stacked(cx: Lowering, values: Sequence[Value], dim: int, dtype: torch.dtype, working: str) -> Value:
    """torch.stack. Raises: CleaveError for more pieces than a chain of selects can sensibly hold."""
    if len(values) > MOST_PARTS:
        cx.fail(f"{len(values)} pieces", f"stack at most {MOST_PARTS}")
    return _stacked(cx, values, dim, None, dtype, working)


def _stacked(cx: Lowering, values: Sequence[Value], dim: int, joined: int | None, dtype: torch.dtype, working: str) -> Value:
    """Pieces along a new axis, which stands alone at `dim` or outside the dimension `joined`."""
    dims, nodes = cx.elementwise_space(values)
    piece: tuple[Atom, ...] = cx.atoms.dim(len(values))
    out = cx.cast(nodes[-1], working)
    for at in range(len(values) - 2, -1, -1):
        here = cx.node("compare", (cx.iota(piece[0]), cx.constant(at, "index")), "i1", ("eq",))
        out = cx.select(here, cx.cast(nodes[at], working), out)
    if joined is None:
        result = (*dims[:dim], piece, *dims[dim:])
    else:
        result = (*dims[:dim], (*piece, *dims[dim]), *dims[dim + 1 :])
    return apart(cx, Value(result, out, dtype))
