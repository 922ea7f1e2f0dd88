"""
One kernel's work: a graph whose inputs are buffers and whose outputs are stored to buffers, resolved to nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..graph import Graph
from .nodes import REDUCING, Node, Resolver, removed_axes
from .program import Buffer
from .sizes import Sizes


@dataclass(frozen=True, slots=True)
class Result:
    """A value a kernel stores: the operation, and its buffer. `raw` keeps a shift of nothing at -inf instead of 0."""

    op: int
    buffer: Buffer
    raw: bool = False


@dataclass(frozen=True, slots=True)
class Problem:
    """
    What one kernel computes. `buffers` are by input position, `degrees` by operation (see `cleave.algebra.degrees`).

    `walked` are the inner axes of splits whose chunks are programs: every result has the outer axis and nothing removes it.
    `nodes` are in topological order; `stores[i]` is the node of `results[i]`.
    """

    name: str
    graph: Graph
    sizes: Sizes
    buffers: tuple[Buffer, ...]
    results: tuple[Result, ...]
    degrees: tuple[Mapping[int, int], ...]
    walked: frozenset[str] = field(init=False)
    nodes: tuple[Node, ...] = field(init=False)
    stores: tuple[Node, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "walked", self._walked())
        resolver = Resolver(self.graph, self.sizes, self.walked)
        stores = tuple(resolver.output(result.op) for result in self.results)
        object.__setattr__(self, "stores", stores)
        object.__setattr__(self, "nodes", _reachable(resolver.nodes, stores))

    def _walked(self) -> frozenset[str]:
        removed = {axis for op in self.graph.ops for axis in removed_axes(op)}
        out: set[str] = set()
        for axis in self.graph.axes:
            if axis.chunk_of is not None and axis.name in removed and axis.chunk_of[1] not in removed:
                outer = axis.chunk_of[1]
                if all(outer in result.buffer.axes and axis.name not in result.buffer.axes for result in self.results):
                    out.add(axis.name)
        return frozenset(out)

    @property
    def reductions(self) -> tuple[Node, ...]:
        """The nodes that remove axes."""
        return tuple(node for node in self.nodes if node.kind in REDUCING)

    def used_axes(self) -> tuple[str, ...]:
        """The axes that need a tile dimension: those of the results and those that are reduced, in declared order."""
        used = {axis for result in self.results for axis in result.buffer.axes}
        used |= {axis for node in self.reductions for axis in node.removed}
        return self.graph.ordered(used)


def _reachable(nodes: Sequence[Node], roots: Sequence[Node]) -> tuple[Node, ...]:
    wanted: set[int] = set()
    pending = list(roots)
    while pending:
        node = pending.pop()
        if node.id not in wanted:
            wanted.add(node.id)
            pending.extend(node.args)
    return tuple(node for node in nodes if node.id in wanted)
