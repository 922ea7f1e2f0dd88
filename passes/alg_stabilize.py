"""
Safe exponentials: `exp(x) -> exp(x - m)` with `m = alg.shift x over [axes]`.

    %p = alg.exp %x                                    %m = alg.shift %x over [n]
    %z = alg.reduce sum %p over [n]                    %y = alg.sub %x, %m
    %o = alg.contract %p, %v over [n]       ->         %p = alg.exp %y
    %r = alg.div %o, %z                                %z, %o as before
                                                       %r = alg.div %o, %z guarded

Equality: the results are the same for every value of m; the degrees of all values in m are inferred and the results
confirmed at random shifts (`cleave.algebra.stabilize`). Beyond what the program gave, large arguments do not overflow, and a
row that -inf masks throughout gives 0 where a quotient by a sum of exponentials would be 0/0, and -inf under a log.

Left alone: exponentials that never meet a quotient or a log in which e^m cancels, and graphs that have shifts already. Every
alternative is treated. An exponential that would want a shift but must stay plain is reported, as a note on standard error.

Source: online normalisation, Milakov & Gimelshein, arXiv 1805.02867, with the running maximum as a free symbol.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from cleave.algebra import stabilized
from cleave.bridge.alg import Alternative, alternatives_of, replace_graph
from cleave.dialects.alg import AlternativesOp, GraphOp
from cleave.remarks import remark


@dataclass(frozen=True)
class AlgStabilizePass(ModulePass):
    """Subtract a free shift from the argument of every exponential whose results do not depend on it."""

    name = "alg-stabilize"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for graph in [inner for inner in op.walk() if isinstance(inner, GraphOp)]:
            _stabilize(graph)


def _stabilize(op: GraphOp) -> None:
    before = alternatives_of(op)
    after: list[Alternative] = []
    notes: Counter[str] = Counter()
    for alternative in before:
        result = stabilized(alternative.graph)
        after.append(replace(alternative, graph=result.graph))
        notes.update(dict.fromkeys(result.notes, 1))
    for note, count in notes.items():
        remark(note if len(before) == 1 else f"{note} ({count} of {len(before)} alternatives)")
    if all(new.graph is old.graph for new, old in zip(after, before, strict=True)):
        return
    replace_graph(op, after, isinstance(op.body.block.last_op, AlternativesOp))
