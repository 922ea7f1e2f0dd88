"""
Masks of exponentials moved inside: `select(c, exp(x), 0) -> exp(select(c, x, -inf))`, and the same for `exp(x) * cast(c)`.

Equal for every x (where x is infinite or NaN under the mask the right side is 0). A shift then is the maximum over what is
not masked, so a masked maximum cannot make the rest vanish.
"""

from __future__ import annotations

from collections.abc import Collection

from ..graph import Builder, Graph, Op
from .rules import constant_of


def mask_inside(graph: Graph, leave: Collection[int] = ()) -> tuple[Graph, dict[int, int]]:
    """
    The rewritten graph, and for every operation rewritten, by its old position, the position of its new exponential.

    Operations of `leave` are left alone. What is no longer used is still in the graph.
    """
    builder = Builder(graph.name, graph.symbols, graph.axes, graph.inputs)
    new: list[int] = []
    rewritten: dict[int, int] = {}
    for position, op in enumerate(graph.ops):
        place = graph.places[position] if graph.places else ""
        found = None if position in leave else _masked_exp(graph, op)
        if found is None:
            new.append(_copied(builder, graph, position, tuple(new[arg] for arg in op.args)))
            continue
        mask, exponential, kept_if = found
        argument = new[graph.ops[exponential].args[0]]
        hidden = builder.add("constant", attr=(float("-inf"),), dtype=builder.ops[argument].dtype, place=place)
        branches = (argument, hidden) if kept_if else (hidden, argument)
        chosen = builder.add("select", new[mask], *branches, place=place)
        new.append(builder.add("exp", chosen, dtype=op.dtype, place=place))
        rewritten[position] = new[-1]
    outputs = [type(output)(new[output.value], output.layout, output.dtype) for output in graph.outputs]
    out = Graph(graph.name, graph.symbols, graph.axes, graph.inputs, tuple(builder.ops), tuple(outputs), tuple(builder.places))
    return out, rewritten


def _copied(builder: Builder, graph: Graph, position: int, args: tuple[int, ...]) -> int:
    op = graph.ops[position]
    if op.kind == "input":
        return position_of_input(builder, op)
    return builder.add(op.kind, *args, attr=op.attr, dtype=op.dtype, place=graph.places[position] if graph.places else "")


def position_of_input(builder: Builder, op: Op) -> int:
    """Where a builder put the input that `op` reads."""
    return next(i for i, known in enumerate(builder.ops) if known.kind == "input" and known.attr == op.attr)


def _masked_exp(graph: Graph, op: Op) -> tuple[int, int, bool] | None:
    """Of an operation that masks an exponential to 0: the mask, the exponential, and whether true keeps it."""

    def is_exp(position: int) -> bool:
        return graph.ops[position].kind == "exp"

    if op.kind == "select":
        mask, yes, no = op.args
        if is_exp(yes) and constant_of(graph, no) == 0:
            return mask, yes, True
        if is_exp(no) and constant_of(graph, yes) == 0:
            return mask, no, False
    if op.kind == "mul":
        for value, other in (op.args, op.args[::-1]):
            cast = graph.ops[other]
            if is_exp(value) and cast.kind == "cast" and graph.ops[cast.args[0]].dtype == "i1":
                return cast.args[0], value, True
    return None
