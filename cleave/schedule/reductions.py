"""
Emission of reductions within one tile: sums, maxima and products, as dots where the tiles allow it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from . import lanes
from .emit import Emitter, unit_of
from .lanes import Lane
from .nodes import Node, neutral_of
from .program import Dot, Let, Reduce, TileType, Var
from .roles import Dim
from .statements import INFINITY, Scope, Value, work_dtype

SMALLEST_DOT = 16
MOST_SPREAD = 4096
"""Elements of an accumulator that has dimensions of its own loop."""


def guarded(emitter: Emitter, shift: Node, raw: Value, scope: Scope) -> Value:
    """The level with 0 in place of -inf, where all of a row may be masked, or not exist: a chunk in one tile may be past the end."""
    whole = [dim.axes[0] for dim in _removed_dims(emitter, shift) if dim.role != "loop"]
    absent = any(emitter.chunk_of(axis) is not None and not emitter.is_full(axis) for axis in whole)
    if not absent and not may_be_minus_infinity(shift.args[0]):
        return raw
    dtype = raw.var.type.dtype
    bottom, zero = emitter.constant(-INFINITY, dtype), emitter.constant(0.0, dtype)
    dead = emitter.let(scope, "compare", (raw, bottom), "i1", ("eq",), name="dead")
    return emitter.let(scope, "select", (dead, zero, raw), dtype, name=raw.var.name)


def may_be_minus_infinity(node: Node) -> bool:
    """Whether a value may be -inf in valid programs: constants, masks given as data, and what passes them on."""
    match node.kind:
        case "constant":
            return node.attr[0] == -INFINITY
        case "load" | "log":
            return node.dtype not in ("i1", "i32", "i64", "index")
        case "select":
            return any(may_be_minus_infinity(arg) for arg in node.args[1:])
        case "add" | "sub" | "cast" | "mul" | "div" | "min":
            return any(may_be_minus_infinity(arg) for arg in node.args)
        case "max":
            return all(may_be_minus_infinity(arg) for arg in node.args)
        case "reduce":
            return node.attr[0] != "sum" and may_be_minus_infinity(node.args[0])
        case _:
            return False


def highest(emitter: Emitter, shift: Node, scope: Scope) -> Value:
    """The maximum of a shift's logits within a tile, in its unit."""
    logits = shift.args[0]
    value = emitter.cast(emitter.value(logits, scope), work_dtype(shift.dtype))
    value = _without_false_lanes(emitter, value, shift, -INFINITY, scope)
    _remember(emitter, logits, value)
    # A logit that is NaN makes its exponential NaN, whatever the level.
    top = _reduce_tile(emitter, "maxnum", value, shift, scope)
    return emitter.times(top, unit_of(shift), "level")


def _remember(emitter: Emitter, node: Node, value: Value) -> None:
    """Later users of a masked value take it in place of the unmasked one: they agree on every lane that exists."""
    if node.dtype == value.var.type.dtype:
        value.scope.memo[node] = value


def _removed_dims(emitter: Emitter, node: Node) -> list[Dim]:
    """The tile dimensions a reducing node removes, in layout order."""
    names = emitter.names(node.removed)
    return [emitter.by_name[name] for name, _ in emitter.tile_dims(names)]


def _without_false_lanes(emitter: Emitter, value: Value, node: Node, neutral: float, scope: Scope) -> Value:
    for dim in _removed_dims(emitter, node):
        if emitter.ragged[dim.name] and value.lanes.get(dim.name, lanes.UNKNOWN) != neutral:
            value = emitter.masked(value, dim, neutral, scope)
    return value


def _repeated(emitter: Emitter, value: Value, node: Node, scope: Scope) -> Value:
    """A value to be summed with the tile dimensions that the node removes and it lacks, 0 in their false lanes."""
    absent = [dim for dim in _removed_dims(emitter, node) if dim.name not in value.var.type.names]
    if absent:
        dims = emitter.tile_dims({*value.var.type.names, *(dim.name for dim in absent)})
        value = emitter.let(scope, "broadcast", (value,), value.var.type.dtype, name=value.var.name, dims=dims)
        for dim in absent:
            if emitter.ragged[dim.name]:
                value = emitter.masked(value, dim, neutral_of("sum", value.var.type.dtype), scope)
    return value


def _reduce_tile(emitter: Emitter, kind: str, value: Value, node: Node, scope: Scope) -> Value:
    """Removes every tile dimension of a reducing node."""
    if kind == "sum":
        value = _repeated(emitter, value, node, scope)
    for dim in reversed(_removed_dims(emitter, node)):
        if dim.name not in value.var.type.names:
            continue
        dims = tuple(entry for entry in value.var.type.dims if entry[0] != dim.name)
        out = Var(kind.removesuffix("num"), TileType(dims, value.var.type.dtype))
        scope.statements.append(Reduce(out, kind, value.var, dim.name))
        value = Value(out, scope, {name: lanes.reduced(kind, value.lanes[name]) for name, _ in dims if name in value.lanes})
    return value


def kind_of(node: Node) -> str:
    """Sum, max or min."""
    return str(node.attr[0]) if node.kind == "reduce" else "sum"


def accumulator_dtype(node: Node) -> str:
    """The type a reduction accumulates in."""
    return "f32" if node.dtype in ("f16", "bf16") else node.dtype


def tile_reduction(emitter: Emitter, node: Node, scope: Scope) -> Value:
    """A reduction within one tile, in its accumulator's type."""
    sides = dot_sides(emitter, node) if node.kind == "contract" else None
    if sides is not None:
        return dot(emitter, node, sides, None, scope)
    return _reduce_tile(emitter, kind_of(node), _terms(emitter, node, scope), node, scope)


def _terms(emitter: Emitter, node: Node, scope: Scope) -> Value:
    """What a reduction that is no dot combines, neutral in false lanes, in its accumulator's type."""
    dtype, kind = accumulator_dtype(node), kind_of(node)
    if node.kind != "contract":
        value = emitter.cast(emitter.value(node.args[0], scope), dtype)
        return _without_false_lanes(emitter, value, node, neutral_of(kind, dtype), scope) if dtype not in ("i1",) else value
    operands = [emitter.cast(emitter.value(arg, scope), dtype) for arg in node.args]
    operands = _neutral_product(emitter, operands, node, scope)
    out = operands[0]
    for operand in operands[1:]:
        out = emitter.let(scope, "mul", (out, operand), dtype)
    return out


def spread_dims(emitter: Emitter, node: Node) -> tuple[tuple[str, int], ...] | None:
    """
    The dimensions of an accumulator that keeps a sum or extreme for every lane of a loop's step, to be combined after the loop: without
    exchange between threads in each step. None for dots, and where registers do not hold so many.
    """
    if node.kind == "shift" or accumulator_dtype(node) == "i1" or (node.kind == "contract" and dot_sides(emitter, node) is not None):
        return None
    dims = emitter.tile_dims(emitter.names((*node.axes, *node.removed)))
    return dims if prod(size for _, size in dims) <= MOST_SPREAD else None


def spread_terms(emitter: Emitter, node: Node, dims: tuple[tuple[str, int], ...], scope: Scope) -> Value:
    """What a step adds to such an accumulator."""
    value = _terms(emitter, node, scope)
    value = _repeated(emitter, value, node, scope) if kind_of(node) == "sum" else value
    if value.var.type.dims == dims:
        return value
    return emitter.let(scope, "broadcast", (value,), value.var.type.dtype, name=value.var.name, dims=dims)


def gathered(emitter: Emitter, node: Node, accumulator: Value, scope: Scope) -> Value:
    """The reduction of all lanes of such an accumulator."""
    return _reduce_tile(emitter, kind_of(node), accumulator, node, scope)


def _neutral_product(emitter: Emitter, operands: Sequence[Value], node: Node, scope: Scope) -> list[Value]:
    """The operands of a sum of products with false lanes masked as far as the product is not 0 there by itself."""
    out = list(operands)
    for dim in _removed_dims(emitter, node):
        if not emitter.ragged[dim.name]:
            continue
        having = [place for place, operand in enumerate(out) if dim.name in operand.var.type.names]
        for place in having:
            if not lanes.finite(out[place].lanes.get(dim.name, lanes.UNKNOWN)):
                out[place] = emitter.masked(out[place], dim, neutral_of("sum", out[place].var.type.dtype), scope)
        if having and all(out[place].lanes[dim.name] != 0.0 for place in having):
            out[having[0]] = emitter.masked(out[having[0]], dim, neutral_of("sum", out[having[0]].var.type.dtype), scope)
    return out


@dataclass(frozen=True, slots=True)
class Sides:
    """How a contraction maps to a dot: the operands (by position) of each side, and its three dimensions."""

    left: tuple[int, ...]
    right: tuple[int, ...]
    rows: str
    over: str
    columns: str
    dtype: str


def dot_sides(emitter: Emitter, node: Node) -> Sides | None:
    """The dot a contraction is at these tiles, or None where it must be a product and a sum."""
    removed = _removed_dims(emitter, node)
    out = emitter.tile_dims(emitter.names(node.axes))
    if len(removed) != 1 or len(out) != 2 or min(removed[0].tile, out[0][1], out[1][1]) < SMALLEST_DOT or len(node.args) < 2:
        return None
    rows, columns, over = out[0][0], out[1][0], removed[0].name
    left: list[int] = []
    right: list[int] = []
    for place, arg in enumerate(node.args):
        names = emitter.names(arg.axes)
        if rows in names and columns in names:
            return None
        (right if columns in names else left).append(place)
    for side, own in ((left, rows), (right, columns)):
        names = {name for place in side for name in emitter.names(node.args[place].axes)}
        if own not in names or over not in names:
            return None
    dtypes = {arg.dtype for arg in node.args}
    if not dtypes <= {"f16", "bf16", "f32"}:
        return None
    dtype = dtypes.pop() if len(dtypes) == 1 else "f32"
    return Sides(tuple(left), tuple(right), rows, over, columns, dtype)


def dot(emitter: Emitter, node: Node, sides: Sides, acc: Value | None, scope: Scope) -> Value:
    """A contraction as a dot, added to an accumulator where one is given."""
    operands = [_operand(emitter, node.args[place], sides, place in sides.left, scope) for place in range(len(node.args))]
    operands = _neutral_product(emitter, operands, node, scope)
    left = _side(emitter, [operands[place] for place in sides.left], (sides.rows, sides.over), sides.dtype, scope)
    right = _side(emitter, [operands[place] for place in sides.right], (sides.over, sides.columns), sides.dtype, scope)
    out = Var("dot", TileType(emitter.tile_dims({sides.rows, sides.columns}), "f32"))
    scope.statements.append(Dot(out, left.var, right.var, sides.over, None if acc is None else acc.var))
    false: dict[str, Lane] = {name: lanes.FINITE for name in (sides.rows, sides.columns) if emitter.ragged[name]}
    for side, name in ((left, sides.rows), (right, sides.columns)):
        other = right if side is left else left
        whole = other.lanes.get(sides.over, lanes.FINITE)
        if name in false and side.lanes.get(name) == 0.0 and lanes.finite(whole):
            false[name] = 0.0
        elif name in false and not lanes.finite(side.lanes.get(name, lanes.UNKNOWN)):
            false[name] = lanes.UNKNOWN
    return Value(out, scope, dict(false))


def _operand(emitter: Emitter, node: Node, sides: Sides, left: bool, scope: Scope) -> Value:
    """
    A dot operand; what is loaded is loaded with its dimensions already in the order of its side.

    What dots read in both orders, as keys that are the values too, is loaded once: tensor cores read either from shared memory.
    """
    wanted = (sides.rows, sides.over) if left else (sides.over, sides.columns)
    names = emitter.names(node.axes)
    order = tuple(name for name in wanted if name in names)
    if node.kind != "load" or set(order) != names:
        return emitter.value(node, scope)
    home = emitter.home(node, scope)
    if tuple(name for name, _ in emitter.tile_dims(names)) == order or _is_read_turned(emitter, node, order):
        return emitter.value(node, scope)
    key = ("load", node.id, order)
    if key not in home.memo:
        home.memo[key] = emitter.load(node, home, order)
    return home.memo[key]


def _is_read_turned(emitter: Emitter, node: Node, order: Sequence[str]) -> bool:
    """Whether another dot of 16-bit operands reads a loaded tile in the other order."""
    for user in emitter.problem.nodes:
        sides = dot_sides(emitter, user) if user.kind == "contract" and node in user.args else None
        if sides is not None and sides.dtype != "f32":
            left = user.args.index(node) in sides.left
            other = (sides.rows, sides.over) if left else (sides.over, sides.columns)
            if set(other) == set(order) and tuple(other) != tuple(order):
                return True
    return False


def _side(emitter: Emitter, operands: Sequence[Value], order: tuple[str, str], dtype: str, scope: Scope) -> Value:
    """One side of a dot: the product of its operands, cast, with exactly the dimensions `order`."""
    out = operands[0] if len(operands) == 1 else emitter.cast(operands[0], "f32")
    for operand in operands[1:]:
        out = emitter.let(scope, "mul", (out, emitter.cast(operand, "f32")), "f32")
    out = emitter.cast(out, dtype)
    if out.var.type.names == order:
        return out
    dims = tuple((name, emitter.by_name[name].tile) for name in order)
    moved = Var(out.var.name, TileType(dims, dtype))
    where = out.scope if set(out.var.type.names) == set(order) else scope
    where.statements.append(Let(moved, "broadcast", (out.var,)))
    return Value(moved, where, {name: out.lanes.get(name, lanes.FINITE) for name in order if emitter.ragged[name]})
