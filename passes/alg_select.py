"""
Keep one alternative: an `alg.alternatives` is replaced by the operations of one of its regions.

    alg.alternatives                                  alg-select{alternative=split}
      alternative "as written" { ... }
      alternative "split" { A; alg.yield %x }    ->   A; alg.yield %x

Without options the alternative of least FLOPs is kept, at the first hint of each symbol; of equals the one of fewer bytes, then
the first. Axes and symbols that only other alternatives use are dropped. A graph without alternatives is left alone; where no graph
has any, each is its own first one, "as written", and no other can be chosen. All alternatives have the same value, so any choice is right.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.passes import ModulePass

from cleave.bridge.alg import Alternative, alternatives_of
from cleave.dialects.alg import AlternativesOp, AxisAttr, GraphOp, SymbolAttr
from cleave.errors import CleaveError
from cleave.extents import extent
from cleave.graph import Graph
from cleave.passes.alg_bind import parse_sizes


@dataclass(frozen=True)
class AlgSelectPass(ModulePass):
    """Keep one alternative of each graph."""

    name = "alg-select"

    index: int | None = None
    """Position of the alternative to keep, from 0."""

    alternative: str = ""
    """Name of the alternative to keep."""

    sizes: str = ""
    """Sizes to compare costs at, as "m=64,n=4096"; the first hint where a symbol is not named."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.index is not None and self.alternative:
            raise CleaveError(op, "both an index and a name are given", "give one of them")
        graphs = [(inner, inner.body.block.last_op) for inner in op.walk() if isinstance(inner, GraphOp)]
        asked = self.index is not None or bool(self.alternative)
        declared = {symbol.data.name for graph, _ in graphs for symbol in graph.symbols}
        for name in parse_sizes(self.sizes, self.name):
            if name not in declared:
                known = ", ".join(sorted(declared)) or "none"
                raise CleaveError(
                    graphs[0][0] if graphs else op, f"no graph declares symbol '{name}' (there are {known})", "correct the name"
                )
        plain = not any(isinstance(last, AlternativesOp) for _, last in graphs)
        for graph, last in graphs:
            if isinstance(last, AlternativesOp):
                found = alternatives_of(graph)
                keep(graph, last, self._chosen(graph, found), found)
            elif asked and plain:
                self._chosen(graph, alternatives_of(graph))

    def _chosen(self, graph: GraphOp, found: tuple[Alternative, ...]) -> int:
        if self.index is not None:
            if not 0 <= self.index < len(found):
                advice = f"choose one of 0 to {len(found) - 1}" if len(found) > 1 else "the graph is alternative 0, and has no others"
                raise CleaveError(graph, f"there is no alternative {self.index}", advice)
            return self.index
        if self.alternative:
            names = [alternative.name for alternative in found]
            if self.alternative not in names:
                raise CleaveError(graph, f"there is no alternative '{self.alternative}'", f"choose one of {', '.join(names)}")
            return names.index(self.alternative)
        given = {name: values[-1] for name, values in parse_sizes(self.sizes, self.name).items()}
        costs = [_cost(graph, alternative, given) for alternative in found]
        return min(range(len(found)), key=lambda index: costs[index])


def _cost(op: GraphOp, alternative: Alternative, given: Mapping[str, int]) -> tuple[int, int]:
    if not alternative.flops:
        raise CleaveError(op, f"alternative '{alternative.name}' has no FLOPs to compare", "choose by index or by name")
    sizes = {**_hinted(alternative.graph), **given}
    try:
        return (extent(alternative.flops).evaluate(sizes), extent(alternative.bytes or "0").evaluate(sizes))
    except KeyError as missing:
        advice = "give it in sizes, or choose by index or by name"
        raise CleaveError(op, f"symbol '{missing.args[0]}' has no hint to compare costs at", advice) from missing
    except ValueError as error:
        raise CleaveError(op, f"the cost of alternative '{alternative.name}': {error}", "choose by index or by name") from error


def _hinted(graph: Graph) -> dict[str, int]:
    return {symbol.name: symbol.hints[0] for symbol in graph.symbols if symbol.hints}


def keep(graph: GraphOp, alternatives: AlternativesOp, index: int, found: tuple[Alternative, ...]) -> None:
    """Replaces the alternatives of a graph by one of them; `found` are those of `alternatives_of`."""
    body = alternatives.bodies[index].block
    for op in list(body.ops):
        op.detach()
        graph.body.block.insert_op_before(op, alternatives)
    alternatives.detach()
    alternatives.erase()
    chosen = found[index].graph
    graph.properties["axes"] = ArrayAttr([AxisAttr(axis) for axis in chosen.axes])
    graph.properties["symbols"] = ArrayAttr([SymbolAttr(symbol) for symbol in chosen.symbols])
