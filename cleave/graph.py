"""
The tensor algebra as plain values: what the search and the scheduler work on.

A `Graph` is a list of operations in topological order over tensors with named axes. It mirrors the `alg` dialect one to
one (`cleave.bridge` converts both ways) and holds no IR: operations are small hashable tuples, an operand is the position
of the operation that makes it. Two tensors that share an axis name share its index.

Operation kinds, with `attr` in brackets:

- leaves: `input [position]`, `constant [value]`, `size [axis]`, `iota [axis]`
- elementwise, broadcasting by name: the names in `UNARY` and `BINARY`, `compare [predicate]`, `select`, `cast`
- `div ["guarded"]`, a quotient by a sum of shifted exponentials: 0 where the denominator is 0, as it is only where everything is
  masked (`alg-stabilize` marks it; a plain `div []` is IEEE's)
- `and ["ranged"]`, a condition and a range of an axis outside which it is false, and `or ["ranged"]`, a condition and a range within
  which it is true: equal to the condition alone (the scheduler writes these)
- `ordered`, its first operand; the second gives, for the chunk of an axis that an index is in, the chunk that is best run in its place
  (the scheduler writes this: `cleave.schedule.longest`)
- removing axes: `reduce [kind, axes]` with kind sum, max or min; `contract [axes]`, the sum over axes of a product of any
  number of operands
- axes themselves: `rename [((old, new), ...)]`, `split [axis, outer, inner]`, `merge [(outer, inner), axis]`,
  `slice [axis, new_axis, start, step]`, `index [axis, position]`, `concat [(axis of each operand, ...), new_axis]`,
  `pad [axis, new_axis, low, value]`
- `shift [axes]`, the free shift of an exponential (reference meaning: the maximum over axes, 0 where that is -inf)
- `gather [axis]`, operands (table, indices): index `axis` of the table by an integer tensor

Axis `start`, `position` and `low` are extents (`cleave.extents`). The order of `Op.axes` is the graph's declared order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from .extents import Extent
from .layouts import layout_axes

UNARY = (
    "neg", "exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "tanh", "sigmoid", "silu", "gelu", "gelu_tanh", "relu", "sin", "cos", "abs",
    "erf", "erfc", "not",
)  # fmt: skip
BINARY = ("add", "sub", "mul", "div", "max", "min", "pow", "floordiv", "mod", "and", "or")
PREDICATES = ("eq", "ne", "lt", "le", "gt", "ge")
REDUCTIONS = ("sum", "max", "min")
FLOATS = ("f16", "bf16", "f32", "f64")
"""The element types that are floats."""
DTYPES = (*FLOATS, "i1", "i32", "i64", "index")
ELEMENT_BYTES = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8, "i1": 1, "i32": 4, "i64": 8}
"""What an element takes in memory. How an index is held is for those to say who hold some."""
DEFAULT_HINT = 1024
"""The size that a symbol without hints is taken to have."""

Attr: TypeAlias = "str | int | float | bool | Extent | tuple[Attr, ...]"


@dataclass(frozen=True, slots=True)
class Op:
    """One operation: what it does, the positions of its operands, the axes and dtype of its result."""

    kind: str
    args: tuple[int, ...]
    axes: tuple[str, ...]
    dtype: str
    attr: tuple[Attr, ...] = ()


@dataclass(frozen=True, slots=True)
class Symbol:
    """A non-negative integer known at run time. `hints` are sizes to tune for; `multiple_of` divides every value it takes."""

    name: str
    hints: tuple[int, ...] = ()
    multiple_of: int = 1
    positive: bool = False


@dataclass(frozen=True, slots=True)
class Axis:
    """
    A named axis and its extent.

    `chunk_of` marks the inner axis of a split, as (whole, outer): element (o, i) stands for o * |inner| + i of `whole`, and
    does not exist where that reaches |whole|. Reductions skip what does not exist (a sum adds 0, a maximum -inf).
    """

    name: str
    extent: Extent
    chunk_of: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Input:
    """A graph argument. `layout` maps memory to axes as einops do, `"b (g r) m d"`; `weight` says it is constant between calls."""

    name: str
    axes: tuple[str, ...]
    dtype: str
    layout: str
    weight: bool = False


@dataclass(frozen=True, slots=True)
class Output:
    """A graph result: the operation that makes it, its dtype and layout. A layout axis the value lacks is broadcast."""

    value: int
    layout: str
    dtype: str


@dataclass(frozen=True, slots=True)
class Graph:
    """A program. `axes` and `symbols` are declared once; `places[i]`, where given, is the source location of `ops[i]`."""

    name: str
    symbols: tuple[Symbol, ...]
    axes: tuple[Axis, ...]
    inputs: tuple[Input, ...]
    ops: tuple[Op, ...]
    outputs: tuple[Output, ...]
    places: tuple[str, ...] = field(default=(), compare=False)

    def axis(self, name: str) -> Axis:
        """The declared axis of that name. Raises: KeyError."""
        for axis in self.axes:
            if axis.name == name:
                return axis
        raise KeyError(name)

    def ordered(self, names: Iterable[str]) -> tuple[str, ...]:
        """The names in declared order, without repeats."""
        wanted = set(names)
        return tuple(axis.name for axis in self.axes if axis.name in wanted)

    def sizes(self, values: Mapping[str, int]) -> dict[str, int]:
        """Every axis' size for the given values of the symbols. Raises: KeyError for a symbol without a value."""
        return {axis.name: axis.extent.evaluate(values) for axis in self.axes}

    def users(self) -> list[list[int]]:
        """For every operation, the positions of the operations that read it."""
        out: list[list[int]] = [[] for _ in self.ops]
        for position, op in enumerate(self.ops):
            for arg in dict.fromkeys(op.args):
                out[arg].append(position)
        return out


def result_axes(graph_order: Sequence[str], kind: str, operands: Sequence[frozenset[str]], attr: tuple[Attr, ...]) -> tuple[str, ...]:
    """
    The axes of an operation's result, in the given order.

    Raises: ValueError, saying which axis is wrong, where operands and attributes do not fit.
    """
    union = frozenset[str]().union(*operands)

    def need(axes: Iterable[str], present: frozenset[str]) -> None:
        for axis in axes:
            if axis not in present:
                raise ValueError(f"axis '{axis}' is not in the operand (has {', '.join(sorted(present)) or 'no axes'})")

    def fresh(axes: Iterable[str], present: frozenset[str]) -> None:
        for axis in axes:
            if axis in present:
                raise ValueError(f"axis '{axis}' is already in the operand")

    match kind, attr:
        case ("input", _):
            raise ValueError("the axes of an input are declared, not inferred")
        case ("constant" | "size", _):
            out = frozenset[str]()
        case ("iota", (str(axis),)):
            out = frozenset((axis,))
        case ("reduce", (_, tuple(axes))) | ("contract" | "shift", (tuple(axes),)):
            names = [str(axis) for axis in axes]
            if len(set(names)) != len(names):
                raise ValueError("an axis is listed twice")
            need(names, union)
            out = union - set(names)
        case ("rename", (tuple(pairs),)):
            table = {str(old): str(new) for old, new in pairs}  # type: ignore[misc]
            need(table, union)
            renamed = [table.get(axis, axis) for axis in sorted(union)]
            if len(set(renamed)) != len(renamed):
                raise ValueError("two axes would get the same name")
            out = frozenset(renamed)
        case ("split", (str(axis), str(outer), str(inner))):
            need((axis,), union)
            fresh((outer, inner), union - {axis})
            out = union - {axis} | {outer, inner}
        case ("merge", ((str(outer), str(inner)), str(axis))):
            need((outer, inner), union)
            fresh((axis,), union - {outer, inner})
            out = union - {outer, inner} | {axis}
        case ("slice" | "pad", (str(axis), str(new), *_)):
            need((axis,), union)
            fresh((new,), union - {axis})
            out = union - {axis} | {new}
        case ("index", (str(axis), _)):
            need((axis,), union)
            out = union - {axis}
        case ("concat", (tuple(axes), str(new))):
            if len(axes) != len(operands):
                raise ValueError(f"{len(axes)} axes for {len(operands)} operands")
            out = frozenset((new,))
            for axis, operand in zip(axes, operands, strict=True):
                need((str(axis),), operand)
                fresh((new,), operand - {str(axis)})
                out |= operand - {str(axis)}
        case ("gather", (str(axis),)):
            need((axis,), operands[0])
            fresh(operands[0] - {axis}, operands[1])
            out = operands[0] - {axis} | operands[1]
        case _:
            out = union
    missing = sorted(out - set(graph_order))
    if missing:
        raise ValueError(f"axis '{missing[0]}' is not declared by the graph")
    return tuple(axis for axis in graph_order if axis in out)


class Builder:
    """
    Builds the operations of a graph, inferring axes and sharing equal operations.

    `Builder.add` returns the position of the operation, new or found. Dtypes: elementwise results take `dtype` where given,
    else that of the first operand; comparisons are i1; `iota` and `size` are index. `place` is the source location of operations that
    are added without one.
    """

    def __init__(self, name: str, symbols: Sequence[Symbol], axes: Sequence[Axis], inputs: Sequence[Input]) -> None:
        self.name = name
        self.symbols = list(symbols)
        self.axes = list(axes)
        self.inputs = list(inputs)
        self.ops: list[Op] = []
        self.places: list[str] = []
        self.place = ""
        self._known: dict[Op, int] = {}
        for position, entry in enumerate(self.inputs):
            self._put(Op("input", (), self.ordered(entry.axes), entry.dtype, (position,)), "")

    def ordered(self, names: Iterable[str]) -> tuple[str, ...]:
        """The names in declared order."""
        wanted = set(names)
        return tuple(axis.name for axis in self.axes if axis.name in wanted)

    def _put(self, op: Op, place: str) -> int:
        found = self._known.get(op)
        if found is not None:
            return found
        self.ops.append(op)
        self.places.append(place)
        self._known[op] = len(self.ops) - 1
        return len(self.ops) - 1

    def add(self, kind: str, *args: int, attr: tuple[Attr, ...] = (), dtype: str | None = None, place: str = "") -> int:
        """Adds one operation and returns its position. Raises: ValueError where operands do not fit."""
        order = [axis.name for axis in self.axes]
        axes = result_axes(order, kind, [frozenset(self.ops[arg].axes) for arg in args], attr)
        if dtype is None:
            match kind:
                case "compare" | "not" | "and" | "or":
                    dtype = "i1"
                case "iota" | "size":
                    dtype = "index"
                case "constant":
                    dtype = "i1" if isinstance(attr[0], bool) else "index" if isinstance(attr[0], int) else "f32"
                case "select":
                    dtype = self.ops[args[1]].dtype
                case _:
                    dtype = self.ops[args[0]].dtype
        return self._put(Op(kind, args, axes, dtype, attr), place or self.place)

    def finish(self, outputs: Sequence[Output]) -> Graph:
        """The graph, without operations that no output needs (inputs stay)."""
        graph = Graph(
            self.name,
            tuple(self.symbols),
            tuple(self.axes),
            tuple(self.inputs),
            tuple(self.ops),
            tuple(outputs),
            tuple(self.places),
        )
        return without_dead_code(graph)


def without_dead_code(graph: Graph) -> Graph:
    """The same graph without operations that no output needs; inputs stay, in order."""
    needed = {output.value for output in graph.outputs} | {i for i, op in enumerate(graph.ops) if op.kind == "input"}
    for position in range(len(graph.ops) - 1, -1, -1):
        if position in needed:
            needed.update(graph.ops[position].args)
    place_of = {old: new for new, old in enumerate(sorted(needed))}
    ops = tuple(replace(graph.ops[old], args=tuple(place_of[arg] for arg in graph.ops[old].args)) for old in sorted(needed))
    places = tuple(graph.places[old] for old in sorted(needed)) if graph.places else ()
    outputs = tuple(replace(output, value=place_of[output.value]) for output in graph.outputs)
    return replace(graph, ops=ops, outputs=outputs, places=places)


def misfit(original: Graph, other: Graph) -> str:
    """Which result of another graph for the same thing has an axis that the original's layout lacks, or nothing."""
    for index, (output, wanted) in enumerate(zip(other.outputs, original.outputs, strict=True)):
        extra = sorted(set(other.ops[output.value].axes) - set(layout_axes(wanted.layout)))
        if extra:
            return f"result {index} has axis '{extra[0]}', which its layout lacks"
    return ""
