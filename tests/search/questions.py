"""Questions about a graph."""

from __future__ import annotations

from cleave.graph import Graph, Op
from cleave.search.attributes import reduced_axes


def ops_of(graph: Graph, kind: str) -> list[int]:
    """The positions of the operations of a kind."""
    return [i for i, op in enumerate(graph.ops) if op.kind == kind]


def needs(graph: Graph, position: int) -> set[int]:
    """The operations that one depends on, itself included."""
    found = {position}
    for i in range(position, -1, -1):
        if i in found:
            found.update(graph.ops[i].args)
    return found


def without_casts(graph: Graph, position: int) -> int:
    """The operation under casts."""
    while graph.ops[position].kind == "cast":
        position = graph.ops[position].args[0]
    return position


def result(graph: Graph, output: int = 0) -> Op:
    """The operation that makes an output, under casts."""
    return graph.ops[without_casts(graph, graph.outputs[output].value)]


def contractions(graph: Graph) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """The axes that each contraction sums and has left."""
    return [(reduced_axes(op), op.axes) for op in graph.ops if op.kind == "contract"]


def phases(graph: Graph) -> int:
    """The most sums on one path."""
    depth: list[int] = []
    for op in graph.ops:
        depth.append(max((depth[arg] for arg in op.args), default=0) + (op.kind in ("reduce", "contract")))
    return max(depth[out.value] for out in graph.outputs)
