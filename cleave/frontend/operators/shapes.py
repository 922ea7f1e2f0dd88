"""Operators that rearrange, cut and join dimensions; sizes of the result come from tracing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..cuts import pieces, selected, slice_start, sliced
from ..sizes import Size, equal, quotient, simplified
from ..values import Lowering, Value
from ..views import (
    concatenated,
    expanded,
    permuted,
    repeat_interleaved,
    repeated,
    reshaped,
    squeezed,
    stacked,
    swapped,
    unsqueezed,
    with_dims,
    wrapped,
)
from .elementwise import as_value, choose, compare
from .table import Lowered, Result, lowers


@lowers("view", "reshape", "_unsafe_view", "flatten", "unflatten", "view_as", "reshape_as", "_reshape_alias", "ravel")
def reshape(
    cx: Lowering,
    result: Result,
    self: Value,
    size: Any = None,
    shape: Any = None,
    start_dim: Any = None,
    end_dim: Any = None,
    dim: Any = None,
    sizes: Any = None,
    other: Any = None,
    dtype: Any = None,
) -> Value:
    """Every reshape: the result's shape says which. Raises: CleaveError for a view as another dtype."""
    if dtype is not None:
        cx.fail("a view of the same bytes as another dtype is not supported", "use .to(dtype) to convert values")
    return reshaped(cx, self, result.shape)


@lowers("permute")
def permute(cx: Lowering, result: Result, self: Value, dims: Sequence[int]) -> Value:
    """torch.permute."""
    return permuted(self, dims)


@lowers("transpose", "swapaxes", "swapdims")
def transpose(
    cx: Lowering, result: Result, self: Value, dim0: int = 0, dim1: int = 0, axis0: int | None = None, axis1: int | None = None
) -> Value:
    """torch.transpose."""
    return swapped(self, dim0 if axis0 is None else axis0, dim1 if axis1 is None else axis1)


@lowers("t", "numpy_T", "mT", "matrix_H", "mH", "adjoint")
def last_two_swapped(cx: Lowering, result: Result, self: Value) -> Value:
    """The transposes of matrices."""
    if cx.op == "numpy_T":
        return with_dims(self, self.dims[::-1])
    return swapped(self, -1, -2) if len(self.dims) > 1 else self


@lowers("movedim", "moveaxis")
def movedim(cx: Lowering, result: Result, self: Value, source: Any, destination: Any) -> Value:
    """torch.movedim."""
    rank = len(self.dims)
    sources = [wrapped(at, rank) for at in ([source] if isinstance(source, int) else source)]
    targets = [wrapped(at, rank) for at in ([destination] if isinstance(destination, int) else destination)]
    table = dict(zip(targets, sources, strict=True))
    rest = iter(at for at in range(rank) if at not in sources)
    return permuted(self, [table[at] if at in table else next(rest) for at in range(rank)])


@lowers("squeeze")
def squeeze(cx: Lowering, result: Result, self: Value, dim: Any = None) -> Value:
    """torch.squeeze."""
    return squeezed(cx, self, [dim] if isinstance(dim, int) else dim)


@lowers("unsqueeze")
def unsqueeze(cx: Lowering, result: Result, self: Value, dim: int) -> Value:
    """torch.unsqueeze."""
    return unsqueezed(self, dim)


@lowers("expand", "expand_as", "broadcast_to")
def expand(cx: Lowering, result: Result, self: Value, size: Any = None, other: Any = None) -> Value:
    """torch.expand."""
    return expanded(cx, self, result.shape)


@lowers("broadcast_tensors")
def broadcast_tensors(cx: Lowering, result: Result, tensors: Sequence[Value]) -> Lowered:
    """torch.broadcast_tensors."""
    return tuple(expanded(cx, value, one.shape) for value, one in zip(tensors, result.many, strict=True))


@lowers("repeat")
def repeat(cx: Lowering, result: Result, self: Value, repeats: Sequence[Size]) -> Value:
    """torch.Tensor.repeat."""
    return repeated(cx, self, repeats)


@lowers("tile")
def tile(cx: Lowering, result: Result, self: Value, dims: Sequence[Size]) -> Value:
    """torch.tile."""
    return repeated(cx, self, [1] * (len(self.dims) - len(dims)) + list(dims))


@lowers("repeat_interleave")
def repeat_interleave(cx: Lowering, result: Result, self: Value, repeats: Any, dim: int | None = None, output_size: Any = None) -> Value:
    """torch.repeat_interleave by one number. Raises: CleaveError for a number per element."""
    if isinstance(repeats, Value):
        cx.fail("a number of repeats per element is not supported", "repeat by one number")
    if dim is None:
        flat = reshaped(cx, self, [cx.size(leaf for d in self.dims for leaf in d)])
        return repeat_interleaved(cx, flat, repeats, 0)
    return repeat_interleaved(cx, self, repeats, wrapped(dim, len(self.dims)))


@lowers("select")
def select(cx: Lowering, result: Result, self: Value, dim: int, index: Size) -> Value:
    """torch.select."""
    at = wrapped(dim, len(self.dims))
    return selected(cx, self, at, _from_front(cx, index, cx.size(self.dims[at])))


def _from_front(cx: Lowering, position: Size, size: Size) -> Size:
    if isinstance(position, int):
        return simplified(size + position) if position < 0 else position
    return position


@lowers("slice", "narrow")
def slice_(
    cx: Lowering, result: Result, self: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1, length: Any = None
) -> Value:
    """torch.narrow and slices with a positive step."""
    at = wrapped(dim, len(self.dims))
    if isinstance(start, Value):
        cx.fail("a start that is a tensor is not supported", "use a number")
    first = slice_start(cx.size(self.dims[at]), start)
    return sliced(cx, self, at, first, result.shape[at], step)


@lowers(
    "split", "split_with_sizes", "chunk", "tensor_split", "hsplit", "unsafe_chunk", "unsafe_split", "split_with_sizes_copy", "split_copy"
)
def split(
    cx: Lowering,
    result: Result,
    self: Value,
    split_size: Any = None,
    split_sizes: Any = None,
    chunks: Any = None,
    sections: Any = None,
    indices: Any = None,
    dim: int = 0,
) -> Lowered:
    """Consecutive slices: the results' shapes say where they end."""
    at = wrapped(dim, len(self.dims))
    return pieces(cx, self, at, [one.shape[at] for one in result.many])


@lowers("unbind", "unbind_copy")
def unbind(cx: Lowering, result: Result, self: Value, dim: int = 0) -> Lowered:
    """torch.unbind."""
    at = wrapped(dim, len(self.dims))
    return tuple(selected(cx, self, at, position) for position in range(len(result.many)))


@lowers("cat", "concat", "concatenate")
def cat(cx: Lowering, result: Result, tensors: Sequence[Value], dim: int = 0) -> Value:
    """torch.cat."""
    values = [value for value in tensors if len(value.dims) == len(result.shape)]
    return concatenated(cx, values, wrapped(dim, len(result.shape)), result.dtype, cx.working(result.dtype))


@lowers("hstack", "vstack", "row_stack")
def hstack(cx: Lowering, result: Result, tensors: Sequence[Value]) -> Value:
    """torch.hstack and torch.vstack: joined along the second or first dimension, vectors as rows in the latter."""
    values = [unsqueezed(value, 0) if len(value.dims) == 1 and cx.op != "hstack" else value for value in tensors]
    dim = 1 if cx.op == "hstack" and len(values[0].dims) > 1 else 0
    return concatenated(cx, values, dim, result.dtype, cx.working(result.dtype))


@lowers("stack")
def stack(cx: Lowering, result: Result, tensors: Sequence[Value], dim: int = 0) -> Value:
    """torch.stack."""
    return stacked(cx, tensors, wrapped(dim, len(result.shape)), result.dtype, cx.working(result.dtype))


@lowers("pixel_shuffle")
def pixel_shuffle(cx: Lowering, result: Result, self: Value, upscale_factor: int) -> Value:
    """Channels `(c e f)` of an image become `(h e) (w f)`."""
    return _blocks(cx, self, result.shape, (-3, upscale_factor, upscale_factor), (0, 3, 1, 4, 2))


@lowers("pixel_unshuffle")
def pixel_unshuffle(cx: Lowering, result: Result, self: Value, downscale_factor: int) -> Value:
    """The inverse of pixel_shuffle."""
    factor = downscale_factor
    *lead, channels, rows, columns = cx.shape(self)
    opened = reshaped(cx, self, [*lead, channels, quotient(rows, factor), factor, quotient(columns, factor), factor])
    rank = len(lead)
    order = [*range(rank), rank, rank + 2, rank + 4, rank + 1, rank + 3]
    return reshaped(cx, permuted(opened, order), result.shape)


def _blocks(cx: Lowering, value: Value, shape: Sequence[Size], parts: tuple[int, int, int], order: Sequence[int]) -> Value:
    _, high, wide = parts
    *lead, channels, rows, columns = cx.shape(value)
    opened = reshaped(cx, value, [*lead, quotient(channels, high * wide), high, wide, rows, columns])
    rank = len(lead)
    return reshaped(cx, permuted(opened, [*range(rank), *[rank + at for at in order]]), shape)


@lowers("select_scatter")
def select_scatter(cx: Lowering, result: Result, self: Value, src: Value, dim: int, index: Size) -> Value:
    """self with one position of a dimension replaced."""
    at = wrapped(dim, len(self.dims))
    position = _from_front(cx, index, cx.size(self.dims[at]))
    place = cx.position(cx.atoms.leaves(self.dims[at]))
    wanted = cx.constant(position, "index") if isinstance(position, int) else cx.number(position, "index")
    here = cx.node("compare", (place, wanted), "i1", ("eq",))
    dims: list[Any] = [()] * len(self.dims)
    dims[at] = self.dims[at]
    return choose(cx, result.dtype, Value(tuple(dims), here, compare(cx, "eq", 0, 0).dtype), unsqueezed(src, at), self)


@lowers("slice_scatter")
def slice_scatter(
    cx: Lowering, result: Result, self: Value, src: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Value:
    """self with a slice replaced. Raises: CleaveError unless the slice is everything."""
    at = wrapped(dim, len(self.dims))
    if step != 1 or not equal(cx.size(self.dims[at]), cx.size(src.dims[at])):
        cx.fail("assigning to a slice is not supported", "build the result with torch.cat or torch.where")
    return src


@lowers("copy")
def copy(cx: Lowering, result: Result, self: Value, src: Any) -> Value:
    """The source, broadcast to the shape of self and in its dtype."""
    source = as_value(cx, src)
    wide = expanded(cx, source, result.shape)
    return Value(wide.dims, cx.cast(wide.node, cx.working(result.dtype)), result.dtype)


@lowers("constant_pad_nd", "pad")
def pad(cx: Lowering, result: Result, self: Value, pad: Sequence[Size], value: float | None = 0.0, mode: str = "constant") -> Value:
    """Constant padding of the last dimensions. Raises: CleaveError for other modes and for cropping."""
    if mode != "constant":
        cx.fail(f"padding by '{mode}' is not supported", "use mode='constant'")
    out = self
    for place, low in enumerate(pad[::2]):
        at = len(self.dims) - 1 - place
        high = pad[2 * place + 1]
        if any(isinstance(amount, int) and amount < 0 for amount in (low, high)):
            cx.fail("cropping by negative padding is not supported", "use a slice")
        out = _padded(cx, out, at, low, high, value or 0.0, result)
    return out


def _padded(cx: Lowering, value: Value, at: int, low: Size, high: Size, fill: float, result: Result) -> Value:
    if low == 0 and high == 0:
        return value
    source = cx.atoms.leaves(value.dims[at]) or (cx.atoms.fresh(1),)
    node = cx.cast(value.node, cx.working(result.dtype))
    missing = [leaf for leaf in source if leaf not in cx.data(node)]
    node = cx.stretch(node, missing) if missing else node
    new = cx.atoms.fresh(simplified(cx.size(source) + low + high))
    atoms = [leaf for leaf in cx.data(node) if leaf not in source]
    held: Any = cx.constant(fill, node.dtype).attr[0]
    node = cx.node("pad", (node,), node.dtype, (source, new, low, held), (*atoms, new))
    dims = (*value.dims[:at], (new,), *value.dims[at + 1 :])
    cx.atoms.separate(leaf for dim in dims for leaf in dim)
    return Value(dims, node, value.dtype)
