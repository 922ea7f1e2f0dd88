"""What values of a graph are made from, and where they lead: as far as the planning of shifts asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..graph import Graph
from .rules import Rule


def ancestors(graph: Graph) -> list[int]:
    """For every operation, the set of operations it is made from, itself among them, as bits."""
    out: list[int] = []
    for position, op in enumerate(graph.ops):
        bits = 1 << position
        for arg in op.args:
            bits |= out[arg]
        out.append(bits)
    return out


def signatures(graph: Graph) -> list[int]:
    """A number for every value, equal for values that only differ by a split of an axis."""
    known: dict[object, int] = {}
    out: list[int] = []
    for op in graph.ops:
        if op.kind == "split":
            out.append(out[op.args[0]])
        else:
            out.append(known.setdefault((op.kind, op.attr, tuple(out[arg] for arg in op.args)), len(known)))
    return out


def wanted(graph: Graph, rules: Sequence[Rule]) -> list[bool]:
    """For every operation, whether a factor of its value may cancel somewhere: in a log, or against the same exponential."""
    flows: list[frozenset[tuple[int, bool]]] = []
    for position, op in enumerate(graph.ops):
        flow: set[tuple[int, bool]] = {(position, True)} if op.kind == "exp" else set()
        for arg, exponent in rules[position].powers:
            flow |= {(source, sign == (exponent > 0)) for source, sign in flows[arg]}
        for arg in () if rules[position].forgets else rules[position].equal:
            flow |= flows[arg]
        flows.append(frozenset(flow))
    out = [False] * len(graph.ops)
    for position in range(len(graph.ops) - 1, -1, -1):
        op, rule = graph.ops[position], rules[position]
        here = {(source, sign == (exponent > 0)) for arg, exponent in rule.powers for source, sign in flows[arg]}
        cancels = any((source, not sign) in here for source, sign in here)
        if op.kind == "log" or cancels or (out[position] and not rule.forgets):
            for arg in dict.fromkeys((*(arg for arg, _ in rule.powers), *rule.equal, *(op.args if op.kind == "log" else ()))):
                out[arg] = True
    return out


def in_order(roots: Sequence[int], needs: Callable[[int], Sequence[int]]) -> list[int]:
    """The roots, in the order given, and all that they need, each operation after what it needs."""
    out: list[int] = []
    seen: set[int] = set()
    pending = [(position, False) for position in reversed(roots)]
    while pending:
        position, ready = pending.pop()
        if ready:
            out.append(position)
        elif position not in seen:
            seen.add(position)
            pending.append((position, True))
            pending.extend((needed, False) for needed in reversed(needs(position)))
    return out
