"""
Loop bounds from masks: tiles that a predicate switches off throughout are skipped.

A predicate may bound a loop where its falsity is neutral for everything the loop accumulates: a masked logit of -inf adds
nothing to a maximum, a sum of exponentials or a product with one. Comparisons that are affine in the loop's index with a
coefficient of 1 or -1 give an upper or lower bound, taken at its extreme over the tile of the other dimensions. So do comparisons
of the index itself with integers that are read from memory, a length of each row or what `cleave.schedule.ranges` stores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from . import lanes
from .emit import MOST, Emitter
from .lanes import Lane
from .nodes import REDUCING, Index, Node, combined, data_nodes, number
from .program import Reduce, TileType, Var
from .roles import Dim
from .statements import INFINITY, Scope, Value

FAR = 2**30
"""The largest constants of a bound, together."""
_FLIPPED = {"le": "ge", "lt": "gt", "ge": "le", "gt": "lt"}


@dataclass(frozen=True, slots=True)
class Bound:
    """
    A live lane has an index of at most (`upper`; with `strict`, less than) or at least `limit`, an index without the loop's axis.

    A limit is affine in indices, or data, or one more than data.
    """

    upper: bool
    limit: Index
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Segment:
    """
    Part of a loop, from `start` to `stop` (exclusive). With `whole` every tile is within the dimension, and the conditions
    `true`, by node, hold throughout. With `between`, tiles are, and these hold, in steps from the first of two indices up to the second,
    each of which may be None, where it ends nothing.
    """

    start: Value
    stop: Value
    whole: bool = False
    true: frozenset[int] = frozenset()
    between: tuple[Value | None, Value | None] | None = None


def segments(emitter: Emitter, dim: Dim, members: Sequence[Node], home: Scope) -> list[Segment]:
    """
    The loops a dimension is walked in: one, without what masks switch off throughout, or where the plan peels, up to three, of
    which the middle one needs no masks. Where the plan branches, they are one loop that knows which of its steps need them.
    """
    start, stop = emitter.constant(0, "index"), emitter.stop(dim)
    axis, *others = dim.axes
    masks = [] if others else _masks(emitter, members, axis, home)
    for bound in dict.fromkeys(bound for mask in masks for bound in mask.limits):
        end = _end(emitter, bound, bound.upper, dim, home)
        if bound.upper:
            stop = _scalar(emitter, "min", stop, end, home, f"{dim.name}_stop")
        else:
            start = _scalar(emitter, "max", start, _rounded(emitter, end, dim, False, home), home, f"{dim.name}_start")
    decided = [mask for mask in masks if mask.holds]
    ragged = emitter.ragged[dim.name]
    if not (emitter.plan.peeled and (decided or ragged)) and not (emitter.plan.branching and decided):
        return [Segment(start, stop)]
    low, high = start, _rounded(emitter, emitter.stop(dim), dim, False, home)
    for bound in dict.fromkeys(bound for mask in decided for bound in mask.holds):
        end = _end(emitter, bound, not bound.upper, dim, home)
        if bound.upper:
            high = _scalar(emitter, "min", high, _rounded(emitter, end, dim, False, home), home, f"{dim.name}_whole")
        else:
            low = _scalar(emitter, "max", low, _rounded(emitter, end, dim, True, home), home, f"{dim.name}_low")
    true = frozenset(mask.predicate.id for mask in decided)
    if emitter.plan.branching:
        ends = ragged or any(bound.upper for mask in decided for bound in mask.holds)
        return [Segment(start, stop, true=true, between=(None if low is start else low, high if ends else None))]
    high = _scalar(emitter, "max", high, low, home, f"{dim.name}_whole")
    out = [Segment(low, high, True, true), Segment(high, stop)]
    if low is start:
        return out
    return [Segment(start, _scalar(emitter, "min", low, stop, home)), *out]


@dataclass(frozen=True, slots=True)
class _Mask:
    """A condition that bounds a loop: it is false outside `limits`, and true within `holds`, which are none where that is not known."""

    predicate: Node
    limits: tuple[Bound, ...]
    holds: tuple[Bound, ...]


def _masks(emitter: Emitter, members: Sequence[Node], axis: str, home: Scope) -> list[_Mask]:
    """The conditions that bound a loop."""
    out: list[_Mask] = []
    for predicate in predicates(members, axis):
        if all(neutral_without(member, predicate) for member in members):
            limits = tuple(bound for bound in _limits(predicate, axis) if _is_known(emitter, bound.limit, home))
            holds = _holds(predicate, axis)
            out.append(_Mask(predicate, limits, holds if all(_is_known(emitter, bound.limit, home) for bound in holds) else ()))
    return out


def _limits(node: Node, axis: str) -> tuple[Bound, ...]:
    """Bounds outside which a condition is false."""
    if node.kind == "and":
        return tuple(bound for arg in node.args for bound in _limits(arg, axis))
    if node.kind == "ordered" or (node.kind == "or" and "ranged" in node.attr):
        return _limits(node.args[0], axis)
    return tuple(bounds_of(node, axis))


def _holds(node: Node, axis: str) -> tuple[Bound, ...]:
    """Bounds within which a condition is true, none where that is not known."""
    if node.kind == "and" and "ranged" not in node.attr:
        parts = [_holds(arg, axis) for arg in node.args]
        return tuple(bound for part in parts for bound in part) if all(parts) else ()
    if node.kind == "ordered" or (node.kind in ("and", "or") and "ranged" in node.attr):
        return _holds(node.args[1 if node.kind == "or" else 0], axis)
    return tuple(bounds_of(node, axis))


def _scalar(emitter: Emitter, kind: str, left: Value, right: Value | int, scope: Scope, name: str = "") -> Value:
    other = emitter.constant(right, "index") if isinstance(right, int) else right
    return emitter.let(scope, kind, (left, other), "index", name=name)


def _rounded(emitter: Emitter, value: Value, dim: Dim, up: bool, scope: Scope) -> Value:
    """A number of at least 0 rounded to a multiple of the tile."""
    value = _scalar(emitter, "max", value, 0, scope)
    if up:
        value = _scalar(emitter, "add", value, dim.tile - 1, scope)
    return _scalar(emitter, "mul", _scalar(emitter, "floordiv", value, dim.tile, scope), dim.tile, scope)


def predicates(members: Sequence[Node], axis: str) -> list[Node]:
    """The conditions of selections below some nodes that depend on an axis, in order."""
    seen: dict[int, Node] = {}
    pending = list(members)
    found: dict[int, Node] = {}
    while pending:
        node = pending.pop()
        if node.id in seen:
            continue
        seen[node.id] = node
        pending.extend(node.args)
        if node.kind == "select" and axis in node.args[0].axes:
            found[node.args[0].id] = node.args[0]
    return [found[key] for key in sorted(found)]


def conjuncts(predicate: Node) -> list[Node]:
    """The conditions all of which hold where a condition does."""
    if predicate.kind == "and":
        return [atom for arg in predicate.args for atom in conjuncts(arg)]
    return [predicate]


def neutral_without(member: Node, predicate: Node) -> bool:
    """Whether a reduction gains nothing from lanes where a predicate is false."""
    known: dict[int, Lane] = {}
    values = [_without(arg, predicate, known) for arg in member.args]
    match member.kind:
        case "shift":
            return values[0] == -INFINITY
        case "contract":
            return lanes.product(values) == 0.0
        case _:
            return values[0] == {"sum": 0.0, "max": -INFINITY, "min": INFINITY}[str(member.attr[0])]


def _without(node: Node, predicate: Node, known: dict[int, Lane]) -> Lane:
    """What is known of a value in lanes where a predicate is false. Loaded numbers count as finite."""
    if node.id not in known:
        known[node.id] = _lane(node, predicate, known)
    return known[node.id]


def _lane(node: Node, predicate: Node, known: dict[int, Lane]) -> Lane:
    match node.kind:
        case "constant":
            value = node.attr[0]
            return float(value) if isinstance(value, int | float) else lanes.UNKNOWN
        case "load" | "index" | "size":
            return lanes.FINITE
        case "select" if node.args[0] is predicate:
            return _without(node.args[2], predicate, known)
        case "shifted_exp":
            return 0.0 if _without(node.args[0], predicate, known) == -INFINITY else lanes.UNKNOWN
        case "contract":
            return lanes.product([_without(arg, predicate, known) for arg in node.args])
        case kind if kind in REDUCING:
            return lanes.UNKNOWN
        case kind:
            return lanes.lane_of(kind, node.attr, [_without(arg, predicate, known) for arg in node.args])


def _is_known(emitter: Emitter, limit: Index, home: Scope) -> bool:
    """Whether data that a limit reads is known before a loop: what depends on another loop must be within that one."""
    around = [scope.dim for scope in home.chain()]
    dims = [emitter.dim_of[axis] for axis in limit.axes]
    return not data_nodes(limit) or all(dim.role != "loop" or dim in around for dim in dims)


def bounds_of(atom: Node, axis: str) -> list[Bound]:
    """What a comparison says of an axis' index in live lanes; nothing where it has no such form."""
    if atom.kind != "compare" or any(arg.dtype not in ("index", "i32", "i64") for arg in atom.args):
        return []
    kind = str(atom.attr[0])
    left, right = (_index_of(arg) for arg in atom.args)
    if left is None or right is None or kind == "ne":
        return []
    parts = [kind] if kind != "eq" else ["le", "ge"]
    first, second = _isolated(left, axis), _isolated(right, axis)
    if first is None or second is None:
        return []
    (a, rest_a), (b, rest_b) = first, second
    out: list[Bound] = []
    for part in parts:
        # (a - b) * index + rest_a - rest_b  <part>  0
        coefficient, low, high = a - b, rest_a, rest_b
        if coefficient < 0:
            coefficient, low, high, part = -coefficient, high, low, _FLIPPED[part]
        if coefficient != 1:
            continue
        limit = combined("sub", high, low)
        if (data_nodes(limit) and limit.kind != "data") or _constants(limit) > FAR:
            # Data may hold any integer, so that a sum with it might overflow; so might one with what is beyond most indices.
            continue
        if part == "lt" and limit.kind == "data":
            out.append(Bound(True, limit, True))
            continue
        if part == "lt":
            limit = combined("sub", limit, number(1))
        if part == "gt":
            limit = combined("add", limit, number(1))
        out.append(Bound(part in ("le", "lt"), limit))
    return out


def _constants(index: Index) -> int:
    """The largest number that constants of an index add up to."""
    own = abs(index.size.constant or 0) if index.kind == "number" and index.size is not None else 0
    return own + sum(map(_constants, index.args))


def _index_of(node: Node) -> Index | None:
    """An integer node as an index expression."""
    if node.kind == "index":
        return node.index
    if node.kind == "constant" and isinstance(node.attr[0], int) and not isinstance(node.attr[0], bool):
        value = node.attr[0]
        return number(value) if value >= 0 else combined("sub", number(0), number(-value))
    if node.kind == "load":
        return Index("data", node=node, axes=node.axes)
    if node.kind in ("add", "sub", "mul"):
        left, right = (_index_of(arg) for arg in node.args)
        if left is not None and right is not None:
            return combined(node.kind, left, right)
    if node.kind == "cast" and node.args[0].dtype == "i64" and node.dtype != "i64":
        # It keeps the last bits.
        whole = _index_of(node.args[0])
        return Index("data", node=node, axes=node.axes) if whole is not None and data_nodes(whole) else whole
    if node.kind == "cast":
        return _index_of(node.args[0])
    return None


def _isolated(index: Index, axis: str) -> tuple[int, Index] | None:
    """An index as a multiple of one axis' index plus a rest without it, where it has that form."""
    if axis not in index.axes:
        return 0, index
    if index.kind == "axis":
        return 1, number(0)
    if index.kind not in ("add", "sub"):
        return None
    left, right = (_isolated(arg, axis) for arg in index.args)
    if left is None or right is None:
        return None
    sign = 1 if index.kind == "add" else -1
    return left[0] + sign * right[0], combined(index.kind, left[1], right[1])


def _end(emitter: Emitter, bound: Bound, highest: bool, dim: Dim, home: Scope) -> Value:
    """Where a dimension's live lanes end (exclusively) or begin, as a scalar: of the lanes of a tile the last such place or the first."""
    rounded_up = not bound.upper and highest
    data = bound.limit.kind == "data" and not rounded_up and (bound.strict or not bound.upper)
    limit = _extreme(emitter, bound.limit, highest, None if data else dim, home)
    return _scalar(emitter, "add", limit, 1, home) if bound.upper and not bound.strict else limit


def _extreme(emitter: Emitter, index: Index, highest: bool, walked: Dim | None, home: Scope) -> Value:
    """
    The largest or smallest value of an index over the lanes of a tile, as a scalar. Something is to be added to what limits `walked`.
    """
    if index.kind in ("add", "sub"):
        left = _extreme(emitter, index.args[0], highest, walked, home)
        right = _extreme(emitter, index.args[1], highest == (index.kind == "add"), walked, home)
        return _scalar(emitter, index.kind, left, right, home)
    if index.kind == "data":
        limit = _of_chunks(emitter, index, highest, home) or _reduced(emitter, _given(emitter, index, home), highest)
        return limit if walked is None else _within(emitter, limit, highest, walked, home)
    value = emitter.place(index, home)
    if not value.var.type.dims:
        return value
    if index.kind == "axis" and len(emitter.dim_of[index.name].axes) == 1:
        dim = emitter.dim_of[index.name]
        first = emitter.first(dim, home)
        return _scalar(emitter, "add", first, dim.tile - 1, home) if highest else first
    return _reduced(emitter, value, highest)


def _given(emitter: Emitter, limit: Index, home: Scope) -> Value:
    """What is read from memory, as an index tile or scalar."""
    assert limit.node is not None, "data is of a node"
    return _as_index(emitter, emitter.value(limit.node, home))


def _as_index(emitter: Emitter, value: Value) -> Value:
    """An integer as an index; one that no index is as the nearest."""
    if value.var.type.dtype == "i64":
        for kind, end in (("min", MOST), ("max", -MOST)):
            value = emitter.let(value.scope, kind, (value, emitter.constant(end, "i64")), "i64")
    return emitter.cast(value, "index")


def _of_chunks(emitter: Emitter, limit: Index, highest: bool, home: Scope) -> Value | None:
    """
    The largest or smallest over a tile of what is stored for each chunk of rows, read once a chunk. None where it is stored otherwise, and
    where tiles are no multiple or part of a chunk.
    """
    node = limit.node
    assert node is not None, "data is of a node"
    found = [(axis, chunks) for axis, at in node.where if (chunks := _chunks_of(at)) is not None]
    if node.kind != "load" or len(found) != 1:
        return None
    axis, (row, size) = found[0]
    dim = emitter.dim_of[row]
    others = [(other, emitter.place(at, home)) for other, at in node.where if other != axis]
    fits = len(dim.axes) == 1 and dim.role != "full" and (dim.tile % size == 0 or size % dim.tile == 0)
    if not fits or any(value.var.type.dims for _, value in others):
        return None
    scope = emitter.home(node, home)
    first = _scalar(emitter, "floordiv", emitter.first(dim, scope), size, scope, axis)
    out: Value | None = None
    for place in range(max(1, dim.tile // size)):
        at = _scalar(emitter, "add", first, place, scope, axis) if place else first
        if place and emitter.ragged[dim.name]:
            last = _scalar(emitter, "sub", emitter.size(axis), 1, scope)
            at = _scalar(emitter, "min", at, last, scope, axis)
        where = {**dict(others), axis: at}
        value = _as_index(emitter, emitter.element(node, [(name, where[name]) for name, _ in node.where], scope))
        out = value if out is None else _scalar(emitter, "max" if highest else "min", out, value, scope)
    return out


def _chunks_of(at: Index) -> tuple[str, int] | None:
    """The axis and the number of its indices that an index counts chunks of."""
    while at.kind == "clamp":
        at = at.args[0]
    node = at.node
    if node is None or node.kind != "floordiv":
        return None
    row, size = (_index_of(arg) for arg in node.args)
    number = None if size is None or size.size is None else size.size.constant
    return (row.name, number) if row is not None and row.kind == "axis" and number else None


def _reduced(emitter: Emitter, value: Value, highest: bool) -> Value:
    """The largest or smallest value over the lanes of an index tile that exist; what is read in others is 0, which raises no limit."""
    kind = "max" if highest else "min"
    for name, _ in value.var.type.dims:
        if value.lanes.get(name) == 0.0 and not highest:
            value = emitter.masked(value, emitter.by_name[name], MOST, value.scope)
    for name, _ in reversed(value.var.type.dims):
        dims = tuple(entry for entry in value.var.type.dims if entry[0] != name)
        out = Var(kind, TileType(dims, "index"))
        value.scope.statements.append(Reduce(out, kind, value.var, name))
        value = Value(out, value.scope)
    return value


def _within(emitter: Emitter, value: Value, highest: bool, dim: Dim, home: Scope) -> Value:
    """
    A limit read from memory as one from -1 to the end of a dimension, which admits the same indices and does not overflow.

    The end that bounds nothing comes first: an estimate, which does not know the data, takes it for the limit.
    """
    least, most = emitter.constant(-1, "index"), emitter.stop(dim)
    order = (("min", most), ("max", least)) if highest else (("max", least), ("min", most))
    for kind, other in order:
        value = _scalar(emitter, kind, value, other, home)
    return value
