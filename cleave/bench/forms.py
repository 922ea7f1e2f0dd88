"""Questions about the form of a program, for telling whether the search found what it should."""

from __future__ import annotations

from collections.abc import Iterable

from ..graph import Graph

SUMS = ("reduce", "contract")
NORMALISING = ("rsqrt", "sqrt", "pow", "div")


def ops_of(graph: Graph, kind: str) -> list[int]:
    """The positions of the operations of a kind."""
    return [position for position, op in enumerate(graph.ops) if op.kind == kind]


def maxima(graph: Graph) -> list[int]:
    """The positions of maxima over axes."""
    return [position for position in ops_of(graph, "reduce") if graph.ops[position].attr[0] == "max"]


def summed_axes(graph: Graph, position: int) -> tuple[str, ...]:
    """The axes that an operation sums over."""
    op = graph.ops[position]
    last = op.attr[-1] if op.kind in SUMS and op.attr[0] not in ("max", "min") else ()
    return tuple(str(axis) for axis in last) if isinstance(last, tuple) else ()


def phases(graph: Graph) -> int:
    """The most sums on one path."""
    depth: list[int] = []
    for position, op in enumerate(graph.ops):
        depth.append(max((depth[arg] for arg in op.args), default=0) + bool(summed_axes(graph, position)))
    return max(depth[output.value] for output in graph.outputs)


def terms(graph: Graph, roots: Iterable[int]) -> set[int]:
    """What values are made of, themselves included, down to sums, exponentials and arguments."""
    found: set[int] = set()
    stack = list(roots)
    while stack:
        at = stack.pop()
        if at not in found:
            found.add(at)
            if graph.ops[at].kind not in (*SUMS, "exp", "shift"):
                stack.extend(graph.ops[at].args)
    return found


def normaliser(graph: Graph, position: int, axis: str) -> bool:
    """Whether an operation divides by, or takes the root of, what comes from a sum over the axis."""
    op = graph.ops[position]
    if op.kind not in NORMALISING:
        return False
    below = terms(graph, op.args[1:] if op.kind == "div" else op.args)
    return any(axis in summed_axes(graph, at) for at in below)


def deferred(graph: Graph, axes: str) -> bool:
    """Whether no contraction over one of the axes has an operand that is normalised by a sum over the same axis."""
    for axis in axes.split():
        for position in ops_of(graph, "contract"):
            if axis in summed_axes(graph, position) and any(normaliser(graph, at, axis) for at in terms(graph, graph.ops[position].args)):
                return False
    return True


def over_all(graph: Graph, axes: str) -> list[int]:
    """The operations, arguments left out, whose result has all of the axes."""
    return [position for position, op in enumerate(graph.ops) if op.kind != "input" and set(axes.split()) <= set(op.axes)]


def chunked(graph: Graph, axis: str) -> bool:
    """Whether the axis is summed over in chunks, with one sum at most over chunks on any path."""
    found = {entry.chunk_of[1]: entry.name for entry in graph.axes if entry.chunk_of is not None and entry.chunk_of[0] == axis}
    summed = {name for position in range(len(graph.ops)) for name in summed_axes(graph, position)}
    return any({outer, inner} <= summed and _longest(graph, outer) == 1 for outer, inner in found.items())


def _longest(graph: Graph, axis: str) -> int:
    depth: list[int] = []
    for position, op in enumerate(graph.ops):
        depth.append(max((depth[arg] for arg in op.args), default=0) + (axis in summed_axes(graph, position)))
    return max(depth, default=0)
