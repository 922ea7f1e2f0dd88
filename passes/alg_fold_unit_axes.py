"""
Fold axes of size 1, as `linalg-fold-unit-extent-dims` does: tensors lose them, memory keeps them.

    alg.graph axes [m = 1, n = 64]                              alg.graph axes [n = 64]
        (%x: !alg.tensor<[m, n], f32> layout "n m")      ->         (%x: !alg.tensor<[n], f32> layout "n 1")
      %i = alg.iota m                                             %i = alg.constant 0 : index
      %s = alg.reduce sum %x over [m]                             %s is %x

Equality: exact but for a contraction over such axes alone, which becomes a product in its element type; that is what it computes.
Left alone: axes that operations rearrange (rename, split, merge, slice, index, pad, concat, gather) in any of the alternatives, which
share arguments and results, and those of a split.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from cleave.algebra import without_unit_axes
from cleave.bridge.alg import alternatives_of, replace_graph
from cleave.dialects.alg import AlternativesOp, GraphOp


@dataclass(frozen=True)
class AlgFoldUnitAxesPass(ModulePass):
    """Fold axes of size 1 away, as `alg-bind` makes them, where no operation rearranges them. Memory keeps them, as `1` in layouts."""

    name = "alg-fold-unit-axes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for graph in [inner for inner in op.walk() if isinstance(inner, GraphOp)]:
            before = alternatives_of(graph)
            folded = without_unit_axes([alternative.graph for alternative in before])
            after = [replace(alternative, graph=body) for alternative, body in zip(before, folded, strict=True)]
            if folded[0] is not before[0].graph:
                replace_graph(graph, after, isinstance(graph.body.block.last_op, AlternativesOp))
