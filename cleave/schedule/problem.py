"""
One kernel's work: a graph whose inputs are buffers and whose outputs are stored to buffers, resolved to nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..graph import Graph
from .nodes import REDUCING, Index, Node, Resolver, Where, removed_axes
from .program import Buffer
from .sizes import Sizes


@dataclass(frozen=True, slots=True)
class Result:
    """
    A value a kernel stores: the operation, and its buffer. `raw` keeps a shift of nothing at -inf instead of 0. A `repeated` one may lack
    axes of the others: all programs along these store it, each the same.
    """

    op: int
    buffer: Buffer
    raw: bool = False
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Stored:
    """A value at the indices of its result's buffer where it is stored. A result with an axis in pieces is stored in as many."""

    node: Node
    buffer: Buffer
    where: Where
    raw: bool
    repeated: bool = False

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes of the indices, in the order of the buffer's."""
        return tuple(name for _, index in self.where for name in index.axes)


@dataclass(frozen=True, slots=True)
class Problem:
    """
    What one kernel computes. `buffers` are by input position, `degrees` by operation (see `cleave.algebra.degrees`).

    `walked` are the inner axes of splits whose chunks are programs: every result has the outer axis and nothing removes it.
    `pieces` gives the indices of an axis that is in pieces (see `cleave.schedule.pieces`). `nodes` are in topological order.
    """

    name: str
    graph: Graph
    sizes: Sizes
    buffers: tuple[Buffer, ...]
    results: tuple[Result, ...]
    degrees: tuple[Mapping[int, int], ...]
    pieces: Mapping[str, tuple[Index, ...]] = field(default_factory=lambda: {})
    walked: frozenset[str] = field(init=False)
    nodes: tuple[Node, ...] = field(init=False)
    stores: tuple[Stored, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "walked", self._walked())
        resolver = Resolver(self.graph, self.sizes, self.walked, self.pieces)
        stores: list[Stored] = []
        for result in self.results:
            for where in resolver.places(result.buffer.axes):
                table = dict(where)
                node = resolver.value(result.op, tuple((axis, table[axis]) for axis in self.graph.ops[result.op].axes))
                stores.append(Stored(node, result.buffer, where, result.raw, result.repeated))
        object.__setattr__(self, "stores", tuple(stores))
        object.__setattr__(self, "nodes", _reachable(resolver.nodes, [stored.node for stored in stores]))

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
    def piece_axes(self) -> frozenset[str]:
        """The axes that are pieces of others."""
        return frozenset(name for indices in self.pieces.values() for index in indices for name in index.axes) - self.tile_axes

    @property
    def tile_axes(self) -> frozenset[str]:
        """The axes that count tiles which are in pieces: those that all pieces of an axis share."""
        shared = [frozenset[str].intersection(*(frozenset(index.axes) for index in indices)) for indices in self.pieces.values()]
        return frozenset[str]().union(*shared)

    @property
    def reductions(self) -> tuple[Node, ...]:
        """The nodes that remove axes."""
        return tuple(node for node in self.nodes if node.kind in REDUCING)

    def used_axes(self) -> tuple[str, ...]:
        """The axes that need a tile dimension: those of the results and those that are reduced, in declared order."""
        used = {axis for stored in self.stores for axis in stored.axes}
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
