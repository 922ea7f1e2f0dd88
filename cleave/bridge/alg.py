"""
The `alg` dialect and graphs as plain values, both ways.

`graph_of(graph_op(g)) == g`, and the other way round up to names of values. A source location is a text `file:line:col` on
the side of plain values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FileLineColLoc,
    IntAttr,
    IntegerAttr,
    LocationAttr,
    StringAttr,
    UnitAttr,
    UnknownLoc,
    i64,
)
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.rewriter import Rewriter

from ..dialects.alg import OPERATIONS, AlgOp, AlternativesOp, GraphOp, TensorType, YieldOp, tensor
from ..errors import CleaveError, place_of
from ..extents import Extent
from ..graph import Axis, Graph, Input, Op, Output, Symbol
from ..layouts import layout_axes


@dataclass(frozen=True, slots=True)
class Alternative:
    """A body of an `alg.alternatives`: `flops` and `bytes` are texts of extents, empty where not known."""

    name: str
    graph: Graph
    flops: str = ""
    bytes: str = ""
    phases: int | None = None


def graph_of(op: GraphOp) -> Graph:
    """
    The graph of an `alg.graph`.

    Raises: CleaveError for a body of alternatives (see `alternatives_of`) and for operations of other dialects.
    """
    if isinstance(op.body.block.last_op, AlternativesOp):
        raise CleaveError(op, "the graph has alternatives", "run alg-select first")
    return _graph_of_block(op, op.body.block)


def alternatives_of(op: GraphOp) -> tuple[Alternative, ...]:
    """
    Every alternative of an `alg.graph`, the program as written first; a plain body is its only alternative.

    An axis or symbol that only other alternatives use is left out. Raises: CleaveError for operations of other dialects.
    """
    last = op.body.block.last_op
    if not isinstance(last, AlternativesOp):
        return (Alternative("as written", _graph_of_block(op, op.body.block)),)
    graphs = [_graph_of_block(op, body.block) for body in last.bodies]
    used = [_used_axes(graph) for graph in graphs]
    out: list[Alternative] = []
    for index, (facts, graph) in enumerate(zip(last.facts, graphs, strict=True)):
        others = {axis for at, axes in enumerate(used) if at != index for axis in axes}
        entries = facts.data
        phases = entries.get("phases")
        out.append(
            Alternative(
                cast(StringAttr, entries["name"]).data,
                _without_axes(graph, others - used[index]),
                _text(entries.get("flops")),
                _text(entries.get("bytes")),
                phases.value.data if isinstance(phases, IntegerAttr) else None,
            )
        )
    return tuple(out)


def graphs_of(op: GraphOp) -> tuple[Graph, ...]:
    """The graphs of `alternatives_of`."""
    return tuple(alternative.graph for alternative in alternatives_of(op))


def graph_op(graph: Graph) -> GraphOp:
    """The `alg.graph` of a graph, with locations."""
    block = Block(arg_types=[tensor(entry.axes, entry.dtype) for entry in graph.inputs])
    _add_body(graph, block, block.args)
    return _graph_op(graph, block)


def replace_graph(op: GraphOp, alternatives: Sequence[Alternative], several: bool = True) -> None:
    """
    Puts alternatives in the place of a graph, with its location and attributes; the only one as a plain body where there are not `several`.

    Raises: ValueError as `alternatives_op`.
    """
    made = alternatives_op(alternatives) if several else graph_op(alternatives[0].graph)
    made.location = op.location
    made.attributes |= op.attributes
    Rewriter.replace_op(op, made)


def alternatives_op(alternatives: Sequence[Alternative]) -> GraphOp:
    """
    One `alg.graph` with an `alg.alternatives`; the first graph is the program as written and gives arguments and results.

    Axes and symbols of the others that it lacks are added. Raises: ValueError where graphs declare one differently.
    """
    written = alternatives[0].graph
    axes = _united([alternative.graph.axes for alternative in alternatives])
    symbols = _united([alternative.graph.symbols for alternative in alternatives])
    block = Block(arg_types=[tensor(entry.axes, entry.dtype) for entry in written.inputs])
    bodies: list[Region] = []
    facts: list[DictionaryAttr] = []
    for alternative in alternatives:
        body = Block()
        _add_body(alternative.graph, body, block.args)
        bodies.append(Region(body))
        entries: dict[str, Attribute] = {"name": StringAttr(alternative.name)}
        if alternative.flops:
            entries["flops"] = StringAttr(alternative.flops)
        if alternative.bytes:
            entries["bytes"] = StringAttr(alternative.bytes)
        if alternative.phases is not None:
            entries["phases"] = IntegerAttr(alternative.phases, i64)
        facts.append(DictionaryAttr(entries))
    block.add_op(AlternativesOp(properties={"facts": ArrayAttr(facts)}, regions=[bodies]))
    return _graph_op(replace(written, axes=axes, symbols=symbols), block)


_Declared = TypeVar("_Declared", Axis, Symbol)


def _united(declarations: Iterable[tuple[_Declared, ...]]) -> tuple[_Declared, ...]:
    out: dict[str, _Declared] = {}
    for group in declarations:
        for entry in group:
            if out.setdefault(entry.name, entry) != entry:
                raise ValueError(f"'{entry.name}' is declared differently by two alternatives")
    return tuple(out.values())


def _graph_op(graph: Graph, block: Block) -> GraphOp:
    inputs: list[tuple[TensorType, dict[str, Attribute]]] = []
    for entry, argument in zip(graph.inputs, block.args, strict=True):
        argument.name_hint = entry.name
        facts: dict[str, Attribute] = {"layout": StringAttr(entry.layout), "name": StringAttr(entry.name)}
        if entry.weight:
            facts["weight"] = UnitAttr()
        inputs.append((tensor(entry.axes, entry.dtype), facts))
    outputs: list[tuple[TensorType, dict[str, Attribute]]] = []
    for output in graph.outputs:
        axes = graph.ordered(layout_axes(output.layout))
        outputs.append((tensor(axes, output.dtype), {"layout": StringAttr(output.layout)}))
    op = GraphOp(graph.name, graph.symbols, graph.axes, inputs, outputs, Region(block))
    op.location = next((_location(place) for place in graph.places if place), UnknownLoc())
    return op


def _add_body(graph: Graph, block: Block, arguments: Sequence[SSAValue]) -> None:
    """Appends the operations of a graph to a block, and the yield of its results."""
    values: list[SSAValue] = []
    for index, op in enumerate(graph.ops):
        if op.kind == "input":
            values.append(arguments[cast(int, op.attr[0])])
            continue
        made = alg_op(op, [values[arg] for arg in op.args])
        made.location = _location(graph.places[index]) if graph.places else UnknownLoc()
        block.add_op(made)
        values.append(made.results[0])
    block.add_op(YieldOp(operands=[[values[output.value] for output in graph.outputs]]))


def alg_op(op: Op, operands: Sequence[SSAValue]) -> AlgOp:
    """One operation on values that are there already; its result is named for what it does."""
    made = OPERATIONS[op.kind].create(
        operands=operands, result_types=[tensor(op.axes, op.dtype)], properties=OPERATIONS[op.kind].properties_from(op.attr)
    )
    made.results[0].name_hint = str(op.attr[0]) if op.kind in ("reduce", "iota") else op.kind
    return made


def _graph_of_block(op: GraphOp, block: Block) -> Graph:
    axes = op.declared()
    declared = [axis.name for axis in axes]

    def ordered(found: TensorType) -> tuple[str, ...]:
        return tuple(sorted(found.axes, key=declared.index))

    inputs: list[Input] = []
    ops: list[Op] = []
    places: list[str] = []
    position: dict[SSAValue, int] = {}
    for index, (argument, facts) in enumerate(zip(op.body.block.args, op.arg_attrs, strict=True)):
        found = cast(TensorType, argument.type)
        inputs.append(Input(_text(facts.data["name"]), found.axes, found.dtype, op.layout(facts), "weight" in facts.data))
        position[argument] = len(ops)
        ops.append(Op("input", (), ordered(found), found.dtype, (index,)))
        places.append(place_of(op))
    outputs: tuple[Output, ...] = ()
    for inner in block.ops:
        if isinstance(inner, YieldOp):
            results = zip(inner.values, op.res_attrs, op.output_types, strict=True)
            outputs = tuple(Output(position[value], op.layout(facts), found.dtype) for value, facts, found in results)
        elif isinstance(inner, AlgOp):
            position[inner.results[0]] = len(ops)
            args = tuple(position[operand] for operand in inner.operands)
            ops.append(Op(inner.kind, args, ordered(inner.out_type), inner.out_type.dtype, inner.attr()))
            places.append(place_of(inner))
        else:
            raise CleaveError(inner, "is no operation of the algebra", "lower it or move it out of the graph")
    return Graph(op.sym_name.data, tuple(attr.data for attr in op.symbols), axes, tuple(inputs), tuple(ops), outputs, tuple(places))


def _used_axes(graph: Graph) -> frozenset[str]:
    """The axes that a graph needs: those of its values and layouts, and those that extents of chunks refer to."""
    used = {axis for op in graph.ops for axis in op.axes} | {axis for output in graph.outputs for axis in layout_axes(output.layout)}
    used |= {str(op.attr[0]) for op in graph.ops if op.kind == "size"}
    waiting = list(used)
    while waiting:
        for axis in graph.axis(waiting.pop()).chunk_of or ():
            if axis not in used:
                used.add(axis)
                waiting.append(axis)
    return frozenset(used)


def _without_axes(graph: Graph, unused: Iterable[str]) -> Graph:
    """The graph without those axes, and without the symbols that only their extents use."""
    dropped = set(unused)
    waiting = [axis for axis in graph.axes if axis.name not in dropped]
    while waiting:
        # What a chunk that stays is part of stays as well.
        found = dropped.intersection(waiting.pop().chunk_of or ())
        dropped -= found
        waiting += [graph.axis(name) for name in found]
    kept = tuple(axis for axis in graph.axes if axis.name not in dropped)
    needed = {name for axis in kept for name in axis.extent.symbols}
    needed |= {name for op in graph.ops for value in op.attr if isinstance(value, Extent) for name in value.symbols}
    gone = {name for axis in graph.axes if axis.name in dropped for name in axis.extent.symbols} - needed
    return replace(graph, axes=kept, symbols=tuple(symbol for symbol in graph.symbols if symbol.name not in gone))


def _text(attr: Attribute | None) -> str:
    return attr.data if isinstance(attr, StringAttr) else ""


_PLACE = re.compile(r"(.*?):(\d+)(?::(\d+))?")


def _location(place: str) -> LocationAttr:
    found = _PLACE.fullmatch(place)
    if found is None:
        return UnknownLoc()
    file, line, column = found.groups()
    return FileLineColLoc(StringAttr(file), IntAttr(int(line)), IntAttr(int(column or 1)))
