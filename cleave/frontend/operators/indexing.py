"""Reading by an integer tensor: `gather` of the algebra for whole rows, a sum over matching positions for single elements."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import torch

from ..atoms import Dim
from ..sizes import equal
from ..values import Lowering, Value
from ..views import reshaped, wrapped
from .elementwise import as_value, choose, common_dtype, compare
from .reductions import reduced
from .table import Result, lowers


def gathered(cx: Lowering, table: Value, dim: int, indices: Value) -> Value:
    """The table with one dimension replaced by the dimensions of an integer tensor."""
    if not is_integer(indices):
        cx.fail(f"an index of dtype {str(indices.dtype).removeprefix('torch.')} is not supported", "use an integer tensor")
    space: dict[Hashable, Dim] = {("table", at): d for at, d in enumerate(table.dims)}
    labels = [("index", at) for at in range(len(indices.dims))]
    place = cx.bind(indices, labels, space)
    source = cx.atoms.leaves(table.dims[dim])
    node = table.node
    missing = [leaf for leaf in source if leaf not in cx.data(node)]
    node = cx.stretch(node, missing) if missing else node
    atoms = dict.fromkeys([*(leaf for leaf in cx.data(node) if leaf not in source), *cx.data(place)])
    out = cx.node("gather", (node, place), node.dtype, (source,), atoms)
    return Value((*table.dims[:dim], *[space[label] for label in labels], *table.dims[dim + 1 :]), out, table.dtype)


@lowers("embedding")
def embedding(
    cx: Lowering, result: Result, weight: Value, indices: Value, padding_idx: int = -1, scale_grad_by_freq: bool = False
) -> Value:
    """Rows of a table."""
    return gathered(cx, weight, 0, indices)


@lowers("index_select")
def index_select(cx: Lowering, result: Result, self: Value, dim: int, index: Value) -> Value:
    """Positions of one dimension."""
    return gathered(cx, self, wrapped(dim, len(self.dims)), index)


@lowers("index")
def index(cx: Lowering, result: Result, self: Value, indices: Sequence[Value | None]) -> Value:
    """x[..., i, ...] with one integer tensor. Raises: CleaveError for several, and for boolean masks."""
    given = [(at, entry) for at, entry in enumerate(indices) if entry is not None]
    if len(given) != 1:
        cx.fail(f"an index by {len(given)} tensors is not supported", "index by one integer tensor at a time")
    at, entry = given[0]
    return gathered(cx, self, at, from_start(cx, entry, self.dims[at]))


@lowers("gather")
def gather(cx: Lowering, result: Result, self: Value, dim: int, index: Value, sparse_grad: bool = False) -> Value:
    """out[.., i, ..] = x[.., index[.., i, ..], ..], as a sum over the positions that match."""
    at = wrapped(dim, len(self.dims))
    for place, (one, other) in enumerate(zip(self.dims, index.dims, strict=True)):
        if place != at and not equal(cx.size(one), cx.size(other)):
            cx.fail("sizes of the table and the index differ beside the gathered dimension", "slice the table first")
    return picked(cx, self, at, index)


@lowers("take_along_dim")
def take_along_dim(cx: Lowering, result: Result, self: Value, indices: Value, dim: int | None = None) -> Value:
    """As gather, the other dimensions broadcast; without a dimension, of the flattened table."""
    if dim is None:
        return picked(cx, reshaped(cx, self, [cx.size(leaf for d in self.dims for leaf in d)]), 0, reshaped(cx, indices, result.shape))
    return picked(cx, self, wrapped(dim, len(self.dims)), indices)


@lowers("one_hot")
def one_hot(cx: Lowering, result: Result, self: Value, num_classes: int = -1) -> Value:
    """1 at the position that each index names."""
    places = cx.atoms.dim(result.shape[-1])
    dims: list[Dim] = [()] * len(self.dims)
    position = Value((*dims, places), cx.position(places), self.dtype)
    here = compare(cx, "eq", Value((*self.dims, ()), self.node, self.dtype), position)
    return choose(cx, result.dtype, here, 1, 0)


def from_start(cx: Lowering, indices: Value, dim: Dim) -> Value:
    """Positions in a dimension, negative ones counted from its end."""
    if not is_integer(indices):
        return indices
    dims, nodes = cx.elementwise_space([indices, as_value(cx, cx.size(dim))])
    work = common_dtype(cx, indices.dtype, nodes)
    moved = cx.node("add", [cx.cast(node, work) for node in nodes], work)
    return choose(cx, indices.dtype, compare(cx, "lt", indices, 0), Value(dims, moved, indices.dtype), indices)


def is_integer(value: Value) -> bool:
    """Whether a value is of an integer type, which booleans are not."""
    return not value.dtype.is_floating_point and value.dtype != torch.bool


def picked(cx: Lowering, table: Value, at: int, index: Value) -> Value:
    """The element of a dimension that an index of the same rank names, by comparing positions."""
    source = cx.atoms.leaves(table.dims[at])
    wide = Value((*table.dims[:at], table.dims[at], (), *table.dims[at + 1 :]), table.node, table.dtype)
    wanted = Value((*index.dims[:at], (), index.dims[at], *index.dims[at + 1 :]), index.node, index.dtype)
    place: list[Dim] = [()] * (len(table.dims) + 1)
    place[at] = source
    position = Value(tuple(place), cx.position(source), index.dtype)
    chosen = choose(cx, table.dtype, compare(cx, "eq", position, wanted), wide, 0)
    return reduced(cx, "sum", chosen, [at], keepdim=False)
