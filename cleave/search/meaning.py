"""
The value of every operation of a graph, in a `Space`.

The law: two graphs over the same inputs are equivalent when their outputs have equal values (see `values`). Casts between
floating types are the identity here; what rounds is decided where dtypes are assigned. What the algebra does not see through
(gathers, reshapes, integer division, other movement that `pieces` does not place) is an unknown function of its operands.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from ..extents import Extent, extent
from ..graph import FLOATS, Attr, Graph, Op
from .arithmetic import either
from .attributes import axis_names, axis_pairs, reduced_axes, whole
from .bounded import Bound, Facts, bound, facts, known_exponent, number, opaque, positive, root_exponent, with_facts
from .keys import Key, key_of, without_constant_axes
from .values import Space, Value
from .vanishing import divides_by_a_choice

TRANSPARENT = ("neg", "sqrt", "rsqrt", "add", "sub", "mul", "div", "contract", "rename", "cast", "pow", "select")
"""Operations whose value on a level depends on their operands on that level alone; a selecting bit has the same value on all."""


GUARDED = ("select", "sqrt", "rsqrt", "log", "pow", "compare")
"""Operations that may be opaque (see `bounded`)."""


@dataclass(slots=True)
class Known:
    """
    What was evaluated in a space: operations, by what they do and the numbers of their operands, with a number for their value.

    `facts` is what the program as written shows of its values (see `bounded`).
    """

    values: dict[tuple[object, ...], tuple[int, Value]] = field(default_factory=lambda: {})
    facts: Facts | None = None


def evaluate(graph: Graph, space: Space, known: Known | None = None) -> list[Value]:
    """
    The values of all operations, in order. `space.spoiled` tells in which samples they are not to be trusted.

    Programs over the same inputs can share `known`: then what they have in common is evaluated once. The first of them is the
    program as written.
    """
    known = Known() if known is None else known
    levels = levels_needed(graph, space) if space.exact_roots else None
    guarded = any(op.kind in GUARDED for op in graph.ops)
    keys: list[Key] = []
    found: list[Bound] = []
    numbers: list[int] = []
    values: list[Value] = []
    for op in graph.ops:
        unknown = guarded and opaque(graph, op, found)
        integers = tuple(graph.ops[arg].dtype not in FLOATS for arg in op.args)
        matters = None if levels is None else tuple(sorted(levels[len(values)]))
        key = (op.kind, op.attr, op.dtype in FLOATS or op.dtype, integers, matters, unknown, *(numbers[arg] for arg in op.args))
        number, value = known.values.get(key, (None, None))
        if number is None or value is None:
            if levels is not None:
                space.square_levels = frozenset(levels[len(values)])
            value = operation(graph, space, op, [values[arg] for arg in op.args], unknown)
            number = len(known.values)
            if not space.spoiled.any():
                known.values[key] = (number, value)
            else:
                number = -1 - len(values)
        numbers.append(number)
        values.append(value)
        if guarded:
            keys.append(key_of(without_constant_axes(value)))
            found.append(with_facts(bound(graph, op, found), keys[-1], known.facts))
    if guarded and known.facts is None:
        known.facts = facts(found, keys)
    return values


def levels_needed(graph: Graph, space: Space) -> list[set[int]]:
    """For every operation the levels on which its value matters for the highest level of the outputs."""
    needed: list[set[int]] = [set() for _ in graph.ops]
    top = {space.top, space.top - 1} if any(op.kind == "log" for op in graph.ops) else {space.top}
    for output in graph.outputs:
        needed[output.value] |= top
    for position in range(len(graph.ops) - 1, -1, -1):
        op, mine = graph.ops[position], needed[position]
        if op.kind == "exp":
            below = {level - 1 for level in mine if level > 0}
        elif op.kind == "log":
            below = {level + 1 for level in mine if level < space.top}
        elif op.kind in TRANSPARENT or (op.kind == "reduce" and op.attr[0] == "sum"):
            below = mine
        else:
            below = mine | top
        for arg in op.args:
            needed[arg] |= below
    return needed


def truncates(graph: Graph, op: Op) -> bool:
    """Whether a cast changes values in the algebra: from a floating type to another kind, or to truth values."""
    source = graph.ops[op.args[0]].dtype
    return op.dtype not in FLOATS and (source in FLOATS or (op.dtype == "i1") != (source == "i1"))


def moved_axes(op: Op, operands: Sequence[Op]) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """For an operation that moves elements along axes: the axes each operand loses, and those the result gains."""
    match op.kind, op.attr:
        case ("split", (str(whole), str(outer), str(inner))):
            return [(whole,)], (outer, inner)
        case ("merge", ((str(outer), str(inner)), str(whole))):
            return [(outer, inner)], (whole,)
        case ("slice" | "pad", (str(axis), str(new), *_)):
            return [(axis,)], (new,)
        case ("index", (str(axis), _)):
            return [(axis,)], ()
        case ("concat", (tuple(axes), str(new))):
            return [(str(axis),) for axis in axes], (new,)
        case ("gather", (str(axis),)):
            return [(axis,), ()], ()
        case _:
            raise AssertionError(f"{op.kind} does not move elements; the operands have kinds {[o.kind for o in operands]}")


def operation(graph: Graph, space: Space, op: Op, args: Sequence[Value], unknown: bool = False) -> Value:
    """The value of one operation; as an `unknown` function where the algebra does not see through it (see `bounded`)."""
    axes = reduced_axes(op)
    exponent = root_exponent(graph, op)
    if unknown and exponent is not None:
        return space.raise_to(space.unknown("sqrt", args[:1]), 2 * exponent)
    if unknown or divides_by_a_choice(graph, op):
        name = f"{op.kind} {op.attr}"
        if op.dtype != "i1":
            return space.unknown(name, args)
        return space.compare("lt", space.unknown(f"{name} left", args), space.unknown(f"{name} right", args), False)
    match op.kind:
        case "input":
            source = graph.inputs[whole(op.attr[0])]
            return space.leaf(f"input {op.attr[0]}", source.axes, source.dtype == "i1")
        case "constant":
            value = number(op)
            if value is not None:
                return space.constant(value)
            if op.attr[0] == -math.inf:
                return space.negative_infinity()
            if op.attr[0] == math.inf:
                return space.positive_infinity()
            return space.leaf(f"constant {op.attr[0]}", (), False)
        case "size":
            return Value(space.extent(space.extents[str(op.attr[0])]), 0, space.top)
        case "iota":
            return space.iota(str(op.attr[0]))
        case "neg":
            return space.scale(args[0], Fraction(-1))
        case "exp":
            return space.exponential(args[0]) or space.unknown("exp", args)
        case "log":
            return space.logarithm(args[0]) or space.unknown("log", args)
        case "sqrt":
            return space.raise_to(args[0], Fraction(1, 2))
        case "rsqrt":
            return space.raise_to(args[0], Fraction(-1, 2))
        case "silu":
            return space.multiply(args[0], space.unknown("sigmoid", args))
        case "relu":
            return space.maximum(args[0], space.constant(Fraction(0)))
        case "not":
            return space.add(space.constant(Fraction(1)), space.scale(args[0], Fraction(-1)))
        case "cast":
            return space.unknown(f"cast {op.dtype}", args) if truncates(graph, op) else args[0]
        case "add":
            return space.add(*args)
        case "sub":
            return _difference(space, op, *args)
        case "mul" if not (args[0].bounded and args[1].bounded):
            return _masked_product(graph, space, op, args[0], args[1])
        case "mul" | "and":
            return space.multiply(*args)
        case "or":
            both = space.scale(space.multiply(*args), Fraction(-1))
            return space.add(space.add(*args), both)
        case "div" if op.attr:
            return space.unknown(f"div {op.attr}", args)
        case "div" if not args[0].bounded:
            return _masked_product(graph, space, op, args[0], space.raise_to(_divisor(space, op, args[1]), Fraction(-1)))
        case "div":
            return space.multiply(args[0], space.raise_to(_divisor(space, op, args[1]), Fraction(-1)))
        case "pow":
            exponent = known_exponent(graph, op)
            return space.unknown("pow", args) if exponent is None else space.raise_to(args[0], exponent)
        case "max":
            return space.maximum(*args)
        case "min":
            negated = space.maximum(*(space.scale(arg, Fraction(-1)) for arg in args))
            return space.scale(negated, Fraction(-1))
        case "select":
            return space.select(*args)
        case "compare":
            integers = all(graph.ops[arg].dtype not in FLOATS for arg in op.args)
            return space.compare(str(op.attr[0]), args[0], args[1], integers)
        case "reduce" if op.attr[0] == "sum":
            return space.sum_over(args[0], axes)
        case "reduce" if op.attr[0] == "max":
            return space.maximum_over(args[0], axes)
        case "reduce":
            return space.scale(space.maximum_over(space.scale(args[0], Fraction(-1)), axes), Fraction(-1))
        case "shift":
            return space.maximum_over(args[0], axes)
        case "contract":
            product = args[0]
            for factor in args[1:]:
                product = space.multiply(product, factor)
            return space.sum_over(product, axes)
        case "rename":
            return space.rename(args[0], axis_pairs(op.attr[0]))
        case "split" if space.chunks.get(str(op.attr[2])) == (op.attr[0], op.attr[1]):
            return space.split(args[0], str(op.attr[0]), str(op.attr[1]), str(op.attr[2]))
        case "split" | "merge" | "slice" | "index" | "concat" | "pad" | "gather":
            exact = placed(space, op.kind, op.attr, args)
            if exact is not None:
                return exact
            removed, added = moved_axes(op, [graph.ops[arg] for arg in op.args])
            return space.moved(f"{op.kind} {op.attr}", args, removed, added)
        case _:
            return space.unknown(op.kind, args)


def placed(space: Space, kind: str, attr: tuple[Attr, ...], args: Sequence[Value]) -> Value | None:
    """The value of an operation that moves runs of axes, where the pieces of the axes give it exactly."""
    match kind, attr:
        case ("slice", (str(axis), str(new), int() | str() | Extent() as start, int(step))) if step > 1:
            first = extent(start).constant
            if first is None or first not in range(step):
                return None
            return space.stepped(args[0], axis, new, first, step)
        case ("pad", (str(axis), str(new), int() | str() | Extent() as low, int() | float() as number)):
            if math.isnan(number):
                return None
            infinity = space.negative_infinity if number < 0 else space.positive_infinity
            filling = space.constant(Fraction(number)) if math.isfinite(number) else infinity()
            return space.padded(args[0], axis, new, extent(low), filling)
        case ("merge", ((str(outer), str(inner)), str(whole))):
            return space.merged(args[0], outer, inner, whole)
        case ("split", (str(whole), str(outer), str(inner))):
            return space.parted(args[0], whole, outer, inner)
        case ("slice", (str(axis), str(new), int() | str() | Extent() as start, 1)):
            return space.sliced(args[0], axis, new, extent(start))
        case ("index", (str(axis), int() | str() | Extent() as position)):
            return space.at(args[0], axis, extent(position))
        case ("concat", (parts, str(new))):
            return space.concatenated(args, axis_names(parts), new)
        case _:
            return None


def _difference(space: Space, op: Op, a: Value, b: Value) -> Value:
    """a - b. -inf - -inf spoils the sample, unless it is past the end of an axis, where it may be anything."""
    rest = space.scale(b, Fraction(-1))
    if a.infinite is not None and rest.above is not None:
        both = a.infinite & rest.above
        space.spoil(space.existing(both, op.axes))
        rest = Value(rest.residues, rest.lowest, rest.highest, rest.infinite, rest.above & ~both)
    return space.add(a, rest)


def _divisor(space: Space, op: Op, b: Value) -> Value:
    """A value to divide by: past the end of an axis, where it does not matter, it is not 0."""
    if not any(axis in space.chunks for axis in op.axes):
        return b
    zero = (b.residues[b.lowest : b.highest + 1] == 0).any(axis=0)
    past = zero & ~space.existing(zero, op.axes)
    return Value(np.where(past[None], space.integer(1), b.residues), b.lowest, b.highest, b.infinite, b.above) if past.any() else b


def _masked_product(graph: Graph, space: Space, op: Op, a: Value, b: Value) -> Value:
    """A product with infinite elements: they stay so where the other factor is positive, elsewhere they are unknown."""
    finite = space.multiply(Value(a.residues, a.lowest, a.highest), Value(b.residues, b.lowest, b.highest))
    known = all(x.bounded or positive(graph, other) for x, other in zip((a, b), op.args[::-1], strict=True))
    infinite, above = either(a.infinite, b.infinite), either(a.above, b.above)
    if known:
        return space.add(finite, Value(finite.residues * 0, finite.lowest, finite.highest, infinite, above))
    unknown, where = space.unknown(op.kind, [a, b]), either(infinite, above)
    return Value(np.where(np.asarray(where)[None], unknown.residues, finite.residues), finite.lowest, finite.highest)
