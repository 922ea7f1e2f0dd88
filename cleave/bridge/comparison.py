"""
Whether the graphs of two modules compute the same.

Graphs are paired by name, or as the only one of each module. Every alternative is compared with the other's program as written.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from ..dialects.alg import GraphOp
from ..errors import CleaveError, place_of
from ..search.equivalence import Verdict, equivalence
from ..search.matching import Mismatch
from .alg import Alternative, alternatives_of


@dataclass(frozen=True, slots=True)
class Comparison:
    """What was found: lines to print, and whether all graphs are equivalent (None where undecided, False where one is not)."""

    lines: tuple[str, ...]
    equivalent: bool | None


def compared(first: ModuleOp, second: ModuleOp, seed: int = 0) -> Comparison:
    """
    Compares all graphs of two modules.

    Raises: CleaveError where a module has no graph, a graph no partner, or partners take or give different tensors.
    """
    lines: list[str] = []
    answers: list[bool | None] = []
    for left, right in _paired(first, second):
        name = f"@{left.sym_name.data}"
        for label, one, other in _programs(alternatives_of(left), alternatives_of(right)):
            try:
                verdict = equivalence(one.graph, other.graph, seed)
            except Mismatch as error:
                raise CleaveError(left, f"{name} cannot be compared: {error}", f"the other graph is at {place_of(right)}") from error
            answers.append(verdict.equivalent)
            lines.append(f"{name}{label}: {_text(verdict)}")
    return Comparison(tuple(lines), False if False in answers else None if None in answers else True)


def _text(verdict: Verdict) -> str:
    if verdict.equivalent:
        return "equivalent"
    if verdict.counterexample is None:
        return f"undecided: {verdict.reason}"
    return f"not equivalent\n{verdict.counterexample.text()}"


def _programs(first: tuple[Alternative, ...], second: tuple[Alternative, ...]) -> list[tuple[str, Alternative, Alternative]]:
    """What to compare, with a label for each."""
    pairs = [("", first[0], second[0])]
    pairs += [(f" alternative '{entry.name}'", entry, second[0]) for entry in first[1:]]
    pairs += [(f" alternative '{entry.name}' of the other", first[0], entry) for entry in second[1:]]
    return pairs


def _paired(first: ModuleOp, second: ModuleOp) -> list[tuple[GraphOp, GraphOp]]:
    ours, theirs = ([op for op in module.walk() if isinstance(op, GraphOp)] for module in (first, second))
    for module, graphs in ((first, ours), (second, theirs)):
        if not graphs:
            raise CleaveError(module, "there is no alg.graph to compare", "equivalence is a question about graphs")
    if len(ours) == len(theirs) == 1:
        return [(ours[0], theirs[0])]
    named = {graph.sym_name.data: graph for graph in theirs}
    for graph in ours:
        if graph.sym_name.data not in named:
            raise CleaveError(graph, f"the other module has no graph @{graph.sym_name.data}", "give both the same name")
    mine = {graph.sym_name.data for graph in ours}
    for graph in theirs:
        if graph.sym_name.data not in mine:
            raise CleaveError(graph, f"this module has no graph @{graph.sym_name.data}", "give both the same name")
    return [(graph, named[graph.sym_name.data]) for graph in ours]
