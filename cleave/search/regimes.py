"""
The sizes at which programs are compared.

The law: an extent that is a symbol is not known yet, so one size does not tell which program is best. A *regime* gives every
symbol a size: the hinted one first, then one symbol at a time at its other hints, at a few elements and at many, then all at few
and all at many. A list of programs *covers* the regimes when in each of them one of its first programs costs at most `NEAR` more
than the cheapest that was found; what merely repeats such a program with other elementwise work does not crowd out one that wins
elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..graph import DEFAULT_HINT, Graph
from .cost import axis_sizes

FEW = 16
"""Elements of an axis that is short: fewer would make it look as if it were not there."""
MANY = 64
"""Times the first hint, for an axis that is long."""
NEAR = 0.1
"""A program is worth a place of its own where it is cheaper by a tenth."""


def regimes(graph: Graph) -> list[dict[str, int]]:
    """The sizes of the axes in every regime, the hinted ones first; one regime where no extent is a symbol."""
    hinted = {entry.name: entry.hints[0] if entry.hints else DEFAULT_HINT for entry in graph.symbols}
    few = {entry.name: min(-(-FEW // entry.multiple_of) * entry.multiple_of, hinted[entry.name]) for entry in graph.symbols}
    many = {name: size * MANY for name, size in hinted.items()}
    changes: list[dict[str, int]] = []
    for entry in graph.symbols:
        changes += [{entry.name: size} for size in (*entry.hints[1:], few[entry.name], many[entry.name])]
    out: list[dict[str, int]] = []
    for change in ({}, *changes, few, many):
        sizes = axis_sizes(graph, {**hinted, **change})
        if sizes not in out:
            out.append(sizes)
    return out


def cover(scores: Sequence[Sequence[float]], given: Sequence[float]) -> tuple[list[int], list[int]]:
    """
    The programs that cover the regimes, and the others; the best at the hinted sizes first in either list.

    `scores[i][r]` is the cost of program i in regime r, `given` those of the program as written.
    """
    order = sorted(range(len(scores)), key=lambda i: scores[i][0])
    first: list[int] = order[:1]
    for regime in range(1, len(given)):
        best = min(order, key=lambda i: scores[i][regime], default=None)
        known = min([given[regime], *(scores[i][regime] for i in first)])
        if best is not None and known > (1 + NEAR) * scores[best][regime]:
            first.append(best)
    return first, [i for i in order if i not in first]
