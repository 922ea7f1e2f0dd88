"""
Dividing programs by what they depend on: what is made of weights alone is computed once, the rest reads it as inputs.

    y = x @ (w1 @ w2)     ->     first: p = w1 @ w2          rest: y = x @ p

A value is taken out where a value that depends on other inputs reads it, before it is renamed, cut or put together. It must involve
arithmetic or put weights together, have sizes known when compiling, and be worth its memory: with a sum over an axis in it, or not larger
than the weights it is made of; else what it is made of is looked at instead. Results that are made of weights alone stay where they are.
Of weights that are cut into chunks the whole is computed, and cut afterwards.

All the bodies of a program share one first part, so that they stay alternatives of each other: each reads what it needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import cast

from .extents import Extent
from .graph import BINARY, FLOATS, UNARY, Attr, Axis, Builder, Graph, Input, Op, Output, without_dead_code
from .layouts import layout_axes
from .schedule.measure import BYTES

MOVES = ("rename", "split", "merge", "slice", "index", "pad")
LEAVES = ("input", "constant", "size", "iota")
UNTOUCHED = (*MOVES, *LEAVES, "cast", "gather")
POINTWISE = (*UNARY, *BINARY, "compare", "select", "cast", "reduce", "contract")
"""What does the same to a whole as to its chunks; sums over other axes do."""


@dataclass(frozen=True, slots=True)
class Divided:
    """
    A program in two parts. `first` computes one result for each of the inputs that every graph of `rest` has after its own;
    `inputs` says which of the program's inputs `first` has.
    """

    first: Graph
    inputs: tuple[int, ...]
    rest: tuple[Graph, ...]


def divided(bodies: Sequence[Graph]) -> Divided | None:
    """The alternatives of a program without what can be computed from inputs that are weights; None where that is nothing."""
    whole = [_cut_late(body) for body in bodies]
    bodies = [late if len(_taken(late)) > len(_taken(body)) else body for body, late in zip(bodies, whole, strict=True)]
    found = [_taken(body) for body in bodies]
    inputs = tuple(sorted({place for body, taken in zip(bodies, found, strict=True) for v in taken for place in _weights(body, v)}))
    if not inputs:
        return None
    shared = _First(bodies, inputs)
    made = [{v: shared.value(body, v) for v in taken} for body, taken in zip(bodies, found, strict=True)]
    values = sorted({value for of in made for value in of.values()})
    extra = [shared.input(value, number) for number, value in enumerate(values)]
    outputs = [Output(value, entry.layout, entry.dtype) for value, entry in zip(values, extra, strict=True)]
    rest = [
        _rest(body, {v: values.index(value) for v, value in of.items()}, extra, shared.axes) for body, of in zip(bodies, made, strict=True)
    ]
    return Divided(shared.builder.finish(outputs), inputs, tuple(rest))


def restricted(first: Graph, kept: Sequence[int]) -> Graph:
    """The first part with some of its results only, and all its inputs."""
    return without_dead_code(replace(first, outputs=tuple(first.outputs[number] for number in kept)))


def _taken(graph: Graph) -> list[int]:
    """The operations whose values are to be inputs."""
    ready = _ready(graph)
    known = frozenset(i for i, op in enumerate(graph.ops) if op.kind not in UNTOUCHED)
    out: dict[int, None] = {}
    for i, op in enumerate(graph.ops):
        if not ready[i]:
            for arg in op.args:
                if ready[arg]:
                    out.update(dict.fromkeys(_worthwhile(graph, arg, known)))
    return sorted(out)


def _ready(graph: Graph) -> list[bool]:
    """Which operations depend on weights and constants alone, with known sizes. A shift stays with everything that undoes it."""
    chunks = {name for axis in graph.axes if axis.chunk_of is not None for name in (axis.name, axis.chunk_of[1])}
    fixed = {axis.name for axis in graph.axes if not axis.extent.symbols and axis.name not in chunks}
    out: list[bool] = []
    for op in graph.ops:
        match op.kind, op.attr:
            case "input", (int(place),):
                here = graph.inputs[place].weight
            case "size", (str(axis),):
                here = axis in fixed
            case _:
                here = op.kind != "shift" and not any(extent.symbols for extent in _extents(op.attr))
        out.append(here and fixed.issuperset(op.axes) and all(out[arg] for arg in op.args))
    return out


def _cut_late(graph: Graph) -> Graph:
    """The same graph, with arithmetic on weights before they are cut into chunks, as far as it does not sum over those."""
    chunks = {(axis.chunk_of[0], axis.chunk_of[1], axis.name): axis.name for axis in graph.axes if axis.chunk_of is not None}
    ops: list[Op] = []
    places: list[str] = []
    at: list[int] = []
    cut: dict[int, tuple[int, tuple[Attr, ...]]] = {}
    weights: list[bool] = []

    def put(op: Op, place: str) -> int:
        ops.append(op)
        places.append(place)
        return len(ops) - 1

    for i, op in enumerate(graph.ops):
        place = graph.places[i] if graph.places else ""
        weights.append(graph.inputs[int(str(op.attr[0]))].weight if op.kind == "input" else all(weights[arg] for arg in op.args))
        now = replace(op, args=tuple(at[arg] for arg in op.args))
        ways = {cut[arg][1] for arg in op.args if arg in cut}
        if op.kind == "split" and weights[i] and op.args[0] not in cut and op.attr in chunks:
            at.append(put(now, place))
            cut[i] = at[op.args[0]], op.attr
            continue
        if len(ways) == 1 and weights[i] and op.kind in POINTWISE:
            ((whole, outer, inner),) = ways
            uncut = [graph.ops[arg] for arg in op.args if arg not in cut]
            removed = op.attr[-1] if op.kind in ("reduce", "contract") else ()
            if not any({whole, outer, inner} & set(arg.axes) for arg in uncut) and not {outer, inner} & set(cast(tuple[str, ...], removed)):
                args = tuple(cut[arg][0] if arg in cut else at[arg] for arg in op.args)
                made = put(replace(op, args=args, axes=graph.ordered({*op.axes, str(whole)} - {outer, inner})), place)
                at.append(put(Op("split", (made,), op.axes, op.dtype, (whole, outer, inner)), place))
                cut[i] = made, (whole, outer, inner)
                continue
        at.append(put(now, place))
    outputs = tuple(replace(output, value=at[output.value]) for output in graph.outputs)
    return without_dead_code(replace(graph, ops=tuple(ops), outputs=outputs, places=tuple(places) if graph.places else ()))


def _extents(attr: tuple[Attr, ...]) -> Iterator[Extent]:
    for entry in attr:
        if isinstance(entry, Extent):
            yield entry
        elif isinstance(entry, tuple):
            yield from _extents(entry)


def _worthwhile(graph: Graph, v: int, known: frozenset[int]) -> Iterator[int]:
    """The value, or what it is made of, as far as it is worth its memory."""
    op = graph.ops[v]
    if not _cone(graph, v) & known or not _weights(graph, v):
        return
    if op.kind in MOVES or not _worth_memory(graph, [v]):
        for arg in dict.fromkeys(op.args):
            yield from _worthwhile(graph, arg, known)
        return
    yield v


def _cone(graph: Graph, v: int) -> frozenset[int]:
    """The operation and everything it is made of."""
    out, waiting = set[int](), [v]
    while waiting:
        i = waiting.pop()
        if i not in out:
            out.add(i)
            waiting += graph.ops[i].args
    return frozenset(out)


def _weights(graph: Graph, v: int) -> list[int]:
    """The inputs that an operation's value is made of."""
    return sorted(int(str(graph.ops[i].attr[0])) for i in _cone(graph, v) if graph.ops[i].kind == "input")


def kept(graph: Graph, values: Sequence[int]) -> bool:
    """Whether values of one type would be computed once if they were put together: of weights alone, and worth their memory."""
    ready = _ready(graph)
    return all(ready[v] and _weights(graph, v) for v in values) and _worth_memory(graph, values)


def _worth_memory(graph: Graph, values: Sequence[int]) -> bool:
    """Whether floats of one type sum over an axis, or are not larger together than the weights that they are made of."""
    cone = [graph.ops[i] for i in frozenset[int]().union(*(_cone(graph, v) for v in values))]
    sums = any(op.kind in ("reduce", "contract") for op in cone)
    entries = [graph.inputs[int(str(op.attr[0]))] for op in cone if op.kind == "input"]
    read = sum(_elements(graph, entry.axes) * BYTES[entry.dtype] for entry in entries)
    return graph.ops[values[0]].dtype in FLOATS and (sums or sum(_bytes(graph, graph.ops[v]) for v in values) <= read)


def _elements(graph: Graph, axes: Sequence[str]) -> int:
    return prod(graph.axis(name).extent.evaluate({}) for name in axes)


def _bytes(graph: Graph, op: Op) -> int:
    return _elements(graph, op.axes) * BYTES[op.dtype]


class _First:
    """The part that all bodies share, as far as it was asked for."""

    def __init__(self, bodies: Sequence[Graph], inputs: Sequence[int]) -> None:
        axes: dict[str, Axis] = {}
        for body in bodies:
            for axis in body.axes:
                if axis.chunk_of is None and not axis.extent.symbols:
                    axes.setdefault(axis.name, axis)
        self.axes = axes
        self.places = {place: number for number, place in enumerate(inputs)}
        first = bodies[0]
        self.names = {entry.name for entry in first.inputs}
        self.builder = Builder(f"{first.name}_weights", (), list(axes.values()), [first.inputs[place] for place in inputs])
        self._known: dict[tuple[int, int], int] = {}

    def value(self, body: Graph, v: int) -> int:
        """The operation that makes the value of one of a body."""
        key = id(body), v
        if key not in self._known:
            op = body.ops[v]
            if op.kind == "input":
                self._known[key] = self.places[int(str(op.attr[0]))]
            else:
                args = [self.value(body, arg) for arg in op.args]
                place = body.places[v] if body.places else ""
                self._known[key] = self.builder.add(op.kind, *args, attr=op.attr, dtype=op.dtype, place=place)
        return self._known[key]

    def input(self, value: int, number: int) -> Input:
        """
        The input that stands for a value: axes in memory as in the largest weight it is made of, others before them. What weights are put
        together along takes the place of the axis there.
        """
        op, graph = self.builder.ops[value], self.builder.finish([Output(value, " ".join(self.builder.ops[value].axes), "f32")])
        entries = [graph.inputs[place] for place in _weights(graph, graph.outputs[0].value)]
        largest = max(entries, key=lambda entry: _elements(graph, entry.axes))
        joined = {str(axis): str(op.attr[1]) for axis in cast(tuple[str, ...], op.attr[0])} if op.kind == "concat" else {}
        # The largest may have several of the axes that something is put together along; the innermost of them counts.
        named = [joined.get(axis, axis) for axis in layout_axes(largest.layout)]
        inner = [name for at, name in enumerate(named) if name in op.axes and name not in named[at + 1 :]]
        name = f"prepared_{number}"
        while name in self.names:
            name += "_"
        return Input(name, op.axes, op.dtype, " ".join([*(axis for axis in op.axes if axis not in inner), *inner]), True)


def _rest(graph: Graph, values: dict[int, int], extra: Sequence[Input], axes: dict[str, Axis]) -> Graph:
    """A body that reads the values at these positions among the extra inputs."""
    declared = {axis.name for axis in graph.axes}
    every = (*graph.axes, *(axis for name, axis in axes.items() if name not in declared))
    order = [axis.name for axis in every]
    count = len(graph.inputs)
    ops: list[Op] = []
    places: list[str] = []
    at: dict[int, int] = {}

    def put(op: Op, place: str) -> int:
        ops.append(op)
        places.append(place)
        return len(ops) - 1

    for i, op in enumerate(graph.ops):
        if op.kind == "input":
            at[i] = put(op, graph.places[i] if graph.places else "")
    read = [
        put(Op("input", (), tuple(name for name in order if name in entry.axes), entry.dtype, (count + number,)), "")
        for number, entry in enumerate(extra)
    ]
    for i, op in enumerate(graph.ops):
        if i in values:
            at[i] = read[values[i]]
        elif op.kind != "input":
            at[i] = put(replace(op, args=tuple(at[arg] for arg in op.args)), graph.places[i] if graph.places else "")
    outputs = tuple(replace(output, value=at[output.value]) for output in graph.outputs)
    made = Graph(graph.name, graph.symbols, every, (*graph.inputs, *extra), tuple(ops), outputs, tuple(places))
    return without_dead_code(made)
