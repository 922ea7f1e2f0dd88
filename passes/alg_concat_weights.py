"""
Put products with one operand in common side by side, as one more alternative.

    %y = alg.contract %x, %a over [d]          %w = alg.concat %a, %b along [n, n] into c
    %z = alg.contract %x, %b over [d]    ->    %p = alg.contract %x, %w over [d]
                                               %y = alg.slice %p c into n from 0 step 1
                                               %z = alg.slice %p c into n from 4096 step 1

Equality: exact; in the program as written, the first alternative, the product is rounded to the type of its operands where all have one
of 16 bits, which PyTorch gives it too; in others, and with `exact`, only where all that is cut from it is cast to that. The other operands
are made of inputs marked `weight`, so that putting them together is done once. The first alternative that has such products gets one more,
right after it, named after it and `beside`.

Left alone: graphs without such products, or that have the alternative. It costs what the one that it is made of does: putting weights
together is no part of a call.

Source: horizontal fusion of matrix products, which serving systems do by hand.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from cleave.beside import beside
from cleave.bridge.alg import alternatives_of, replace_graph
from cleave.dialects.alg import GraphOp


@dataclass(frozen=True)
class AlgConcatWeightsPass(ModulePass):
    """Add a program in which products with one operand in common, by several weights, are one product."""

    name = "alg-concat-weights"

    exact: bool = False
    """Round no product that is not cast: of some PyTorch keeps more bits, as with `out_dtype`."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for graph in [inner for inner in op.walk() if isinstance(inner, GraphOp)]:
            _widen(graph, self.exact)


def _widen(op: GraphOp, exact: bool) -> None:
    before = alternatives_of(op)
    graphs = [alternative.graph for alternative in before]
    taken = {entry.name for graph in graphs for entry in (*graph.axes, *graph.symbols)}
    for place, alternative in enumerate(before, 1):
        made = beside(alternative.graph, taken, written=place == 1 and not exact)
        if made is not None:
            name = f"{alternative.name} beside"
            if all(other.name != name for other in before):
                replace_graph(op, [*before[:place], replace(alternative, name=name, graph=made), *before[place:]])
            return
