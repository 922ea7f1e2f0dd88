"""What planning shifts asks of a graph, which does not change meanwhile."""

from __future__ import annotations

from ..graph import Graph
from .flow import ancestors, signatures, wanted
from .rules import factor_free, rule_of


class Facts:
    """A graph, and of each operation its rule, what it depends on, a signature of its value, and whether a shift is wanted there."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.free = factor_free(graph)
        self.rules = [rule_of(graph, position) for position in range(len(graph.ops))]
        self.ancestors = ancestors(graph)
        self.signatures = signatures(graph)
        self.wanted = wanted(graph, self.rules)
