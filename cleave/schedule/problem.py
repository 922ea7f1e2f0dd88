"""
One kernel's work: a graph whose inputs are buffers and whose outputs are stored to buffers, resolved to nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..graph import Graph
from .nodes import REDUCING, Node, Resolver
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

    `nodes` are in topological order; `stores[i]` is the node of `results[i]`.
    """

    name: str
    graph: Graph
    sizes: Sizes
    buffers: tuple[Buffer, ...]
    results: tuple[Result, ...]
    degrees: tuple[Mapping[int, int], ...]
    nodes: tuple[Node, ...] = field(init=False)
    stores: tuple[Node, ...] = field(init=False)

    def __post_init__(self) -> None:
        resolver = Resolver(self.graph, self.sizes)
        stores = tuple(resolver.output(result.op) for result in self.results)
        object.__setattr__(self, "stores", stores)
        object.__setattr__(self, "nodes", _reachable(resolver.nodes, stores))

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
