"""
One function for each kind of operation of the algebra: from named operands to the array of its result.

`MEANING` is the table that graphs (`evaluate`) and the interpreter of the `alg` dialect share. The kinds and their
attributes are those of `cleave.graph`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import numpy as np

from .. import graph as algebra
from ..extents import Extent
from ..graph import FLOATS, Attr, Axis
from .contraction import contraction
from .dtypes import Array, held_in, identity, poison, rounded
from .elementwise import BINARY, COMPARE, UNARY, guarded_div
from .tensors import Named, existing

Shift = Callable[["Call", Array], Array]


@dataclass(frozen=True)
class Setting:
    """
    What an operation is evaluated under.

    `working` holds every float type. With `respect_dtypes` each result is rounded to the type it names, else a cast between
    floats changes nothing. `shift`, where given, turns the maxima of an `alg.shift` into the value it takes instead: any
    array of that shape (results must not depend on it).
    """

    axes: Mapping[str, Axis]
    symbols: Mapping[str, int]
    working: np.dtype[Any] = field(default_factory=lambda: np.dtype(np.float64))
    respect_dtypes: bool = False
    shift: Shift | None = None
    sizes: Mapping[str, int] = field(init=False)

    def __post_init__(self) -> None:
        sizes = {name: axis.extent.evaluate(self.symbols) for name, axis in self.axes.items()}
        object.__setattr__(self, "sizes", sizes)


@dataclass(frozen=True, slots=True)
class Call:
    """One operation about to be evaluated: the axes and dtype of its result, its attributes, operands and setting."""

    kind: str
    axes: tuple[str, ...]
    dtype: str
    attr: tuple[Attr, ...]
    args: tuple[Named, ...]
    setting: Setting

    @property
    def held(self) -> np.dtype[Any]:
        """The numpy type of the result."""
        return held_in(self.dtype, self.setting.working)

    def operand(self, position: int) -> Array:
        """An operand in the type of the result, laid out to broadcast over its axes."""
        return self.args[position].over(self.axes).astype(self.held, copy=False)

    def size(self, axis: str) -> int:
        """The extent of a declared axis."""
        return self.setting.sizes[axis]

    def integer(self, value: Attr) -> int:
        """The value of an extent in the attributes. Raises: TypeError if it is none."""
        if isinstance(value, Extent):
            return value.evaluate(self.setting.symbols)
        if isinstance(value, int):
            return value
        raise TypeError(f"{self.kind}: {value!r} is not an integer")

    def exists(self, axes: Sequence[str], removed: Sequence[str]) -> Array | None:
        """Which elements a reduction over `removed` takes, None for all."""
        return existing(axes, removed, self.setting.axes, self.setting.sizes)

    def full(self, value: Array) -> Array:
        """The value repeated along the axes of the result that it lacks."""
        return np.broadcast_to(value, [self.size(axis) for axis in self.axes])


def meaning(call: Call) -> Named:
    """
    The value of one operation.

    Raises: ValueError where sizes do not fit together (a merge of extents 3 and 4 into 13), KeyError for an unknown kind.
    """
    with np.errstate(all="ignore"):
        out = np.asarray(MEANING[call.kind](call)).astype(call.held, copy=False)
        if call.setting.respect_dtypes:
            out = rounded(out, call.dtype)
    return Named(call.axes, out)


def _names(value: Attr) -> tuple[str, ...]:
    return tuple(str(name) for name in cast("tuple[Attr, ...]", value))


def _constant(call: Call) -> Array:
    return np.asarray(call.attr[0], dtype=call.held)


def _size(call: Call) -> Array:
    return np.asarray(call.size(str(call.attr[0])), dtype=call.held)


def _iota(call: Call) -> Array:
    return np.arange(call.size(str(call.attr[0])), dtype=call.held)


def _unary(call: Call) -> Array:
    return UNARY[call.kind](call.operand(0))


def _binary(call: Call) -> Array:
    return call.full(BINARY[call.kind](call.operand(0), call.operand(1)))


def _div(call: Call) -> Array:
    function = guarded_div if "guarded" in call.attr else BINARY["div"]
    return call.full(function(call.operand(0), call.operand(1)))


def _compare(call: Call) -> Array:
    return call.full(COMPARE[str(call.attr[0])](call.args[0].over(call.axes), call.args[1].over(call.axes)))


def _select(call: Call) -> Array:
    return call.full(np.where(call.args[0].over(call.axes), call.operand(1), call.operand(2)))


def _cast(call: Call) -> Array:
    data = call.args[0].over(call.axes)
    if call.dtype not in FLOATS and data.dtype.kind == "f" and call.dtype != "i1":
        data = np.trunc(data)
    return data.astype(call.held)


def _reduced(call: Call, kind: Literal["sum", "max", "min"], removed: tuple[str, ...]) -> Array:
    order = (*call.axes, *removed)
    data = call.args[0].over(order)
    if data.dtype.kind != "f":
        # Over nothing the result is that of its own type: of a float an infinity, not the least integer.
        data = data.astype(call.held)
    start = identity(kind, np.dtype(np.int32) if call.dtype == "index" else data.dtype)
    mask = call.exists(order, removed)
    if mask is not None:
        data = np.where(mask, data, np.asarray(start, dtype=data.dtype))
    axes = tuple(range(len(call.axes), len(order)))
    if kind == "sum":
        return data.sum(axis=axes, dtype=call.held)
    return data.max(axis=axes, initial=start) if kind == "max" else data.min(axis=axes, initial=start)


def _reduce(call: Call) -> Array:
    return _reduced(call, cast(Literal["sum", "max", "min"], call.attr[0]), _names(call.attr[1]))


def _shift(call: Call) -> Array:
    """The maximum, or 0 where that is -inf: then exp(x - shift) is 0 on a row that is masked throughout, not NaN."""
    top = _reduced(call, "max", _names(call.attr[0]))
    top = np.where(top == -np.inf, top.dtype.type(0), top)
    return top if call.setting.shift is None else call.setting.shift(call, top)


def _contract(call: Call) -> Array:
    removed = _names(call.attr[0])
    order = (*call.axes, *removed)
    args = [Named(arg.axes, arg.data.astype(call.held, copy=False)) for arg in call.args]
    return contraction(args, call.axes, removed, [call.size(axis) for axis in order], call.exists(order, removed))


def _rename(call: Call) -> Array:
    pairs = [_names(pair) for pair in cast("tuple[Attr, ...]", call.attr[0])]
    table = {pair[0]: pair[1] for pair in pairs}
    arg = call.args[0]
    return Named(tuple(table.get(axis, axis) for axis in arg.axes), arg.data).over(call.axes)


def _last(call: Call, axis: str) -> tuple[tuple[str, ...], Array]:
    """The operand with `axis` moved last: the other axes, and the data."""
    rest = tuple(name for name in call.args[0].axes if name != axis)
    return rest, call.args[0].over((*rest, axis))


def _split(call: Call) -> Array:
    axis, outer, inner = _names(call.attr)
    rest, data = _last(call, axis)
    room = call.size(outer) * call.size(inner) - data.shape[-1]
    if room < 0:
        raise ValueError(f"split: {call.size(outer)} chunks of {call.size(inner)} do not hold axis '{axis}' of {data.shape[-1]}")
    padded = np.pad(data, [(0, 0)] * len(rest) + [(0, room)], constant_values=poison(data.dtype))
    return Named((*rest, outer, inner), padded.reshape(*data.shape[:-1], call.size(outer), call.size(inner))).over(call.axes)


def _merge(call: Call) -> Array:
    pair, axis = call.attr
    outer, inner = _names(pair)
    arg = call.args[0]
    rest = tuple(name for name in arg.axes if name not in (outer, inner))
    data = arg.over((*rest, outer, inner))
    flat = data.reshape(*data.shape[:-2], data.shape[-2] * data.shape[-1])
    declared = call.setting.axes[inner].chunk_of
    if flat.shape[-1] < call.size(str(axis)) or (flat.shape[-1] != call.size(str(axis)) and declared != (axis, outer)):
        raise ValueError(f"merge: axes '{outer}' and '{inner}' have {flat.shape[-1]} elements, axis '{axis}' has {call.size(str(axis))}")
    return Named((*rest, str(axis)), flat[..., : call.size(str(axis))]).over(call.axes)


def _slice(call: Call) -> Array:
    axis, new = _names(call.attr[:2])
    start, step = call.integer(call.attr[2]), call.integer(call.attr[3])
    rest, data = _last(call, axis)
    place = start + step * np.arange(call.size(new))
    if place.size and (place.min() < 0 or place.max() >= data.shape[-1]):
        raise ValueError(f"slice: elements {place[0]} to {place[-1]} of axis '{axis}', which has {data.shape[-1]}")
    return Named((*rest, new), data[..., place]).over(call.axes)


def _index(call: Call) -> Array:
    axis, position = str(call.attr[0]), call.integer(call.attr[1])
    rest, data = _last(call, axis)
    if not 0 <= position < data.shape[-1]:
        raise ValueError(f"index: element {position} of axis '{axis}', which has {data.shape[-1]}")
    return Named(rest, data[..., position]).over(call.axes)


def _concat(call: Call) -> Array:
    names, new = _names(call.attr[0]), str(call.attr[1])
    rest = tuple(axis for axis in call.axes if axis != new)
    shape = [call.size(axis) for axis in rest]
    parts: list[Array] = []
    for axis, arg in zip(names, call.args, strict=True):
        part = Named(tuple(new if name == axis else name for name in arg.axes), arg.data).over((*rest, new))
        parts.append(np.broadcast_to(part, [*shape, part.shape[-1]]).astype(call.held, copy=False))
    out = np.concatenate(parts, axis=-1)
    if out.shape[-1] != call.size(new):
        raise ValueError(f"concat: the parts have {out.shape[-1]} elements, axis '{new}' has {call.size(new)}")
    return Named((*rest, new), out).over(call.axes)


def _pad(call: Call) -> Array:
    axis, new = _names(call.attr[:2])
    low = call.integer(call.attr[2])
    rest, data = _last(call, axis)
    high = call.size(new) - low - data.shape[-1]
    if low < 0 or high < 0:
        raise ValueError(f"pad: {data.shape[-1]} elements after {low} do not fit axis '{new}' of {call.size(new)}")
    padded = np.pad(data, [(0, 0)] * len(rest) + [(low, high)], constant_values=cast(Any, call.attr[3]))
    return Named((*rest, new), padded).over(call.axes)


def _gather(call: Call) -> Array:
    """Out of range is poison: an element that does not exist may index with anything."""
    axis = str(call.attr[0])
    rest, table = _last(call, axis)
    indices = call.args[1]
    place = indices.data.astype(np.int64)
    inside = (place >= 0) & (place < table.shape[-1])
    if table.shape[-1] == 0:
        found = np.full((*table.shape[:-1], *place.shape), poison(table.dtype), dtype=table.dtype)
    else:
        found = np.where(inside, table[..., np.where(inside, place, 0)], np.asarray(poison(table.dtype), dtype=table.dtype))
    return Named((*rest, *indices.axes), found).over(call.axes)


def _first(call: Call) -> Array:
    return np.broadcast_to(call.args[0].over(call.axes), [call.size(axis) for axis in call.axes])


MEANING: dict[str, Callable[[Call], Array]] = {
    "constant": _constant,
    "size": _size,
    "iota": _iota,
    **dict.fromkeys(algebra.UNARY, _unary),
    **dict.fromkeys(algebra.BINARY, _binary),
    "div": _div,
    "compare": _compare,
    "select": _select,
    "cast": _cast,
    "reduce": _reduce,
    "shift": _shift,
    "contract": _contract,
    "rename": _rename,
    "split": _split,
    "merge": _merge,
    "slice": _slice,
    "index": _index,
    "concat": _concat,
    "pad": _pad,
    "gather": _gather,
    "ordered": _first,
}
