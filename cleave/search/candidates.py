"""
The programs that a closed e-graph holds, at one choice of sizes: what is worth a look by the verifier.

The law: one task reads nothing but its own fields, so tasks for different sizes may run in any order and in any process.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from ..graph import Graph
from .attributes import whole
from .closure import join, renamings
from .edges import Found, build_edges, prune
from .egraph import EGraph
from .explore import Exploration
from .extraction import Chosen, Limits, extract
from .forms import Leaf, Node, operands
from .watch import Watch, unwatched


class Task(NamedTuple):
    """Extraction from an e-graph at sizes of axes; work on the classes in `hoisted` is almost free."""

    explored: Exploration
    found: Found
    hoisted: frozenset[int]
    sizes: Mapping[str, int]
    limits: Limits


class Extracted(NamedTuple):
    """The programs of a task, cheapest first, the caps that were hit, and how many edges there were."""

    programs: list[Chosen]
    caps: list[str]
    edges: int


def extracted(task: Task, watch: Watch = unwatched) -> Extracted:
    """The programs that make the roots."""
    explored = task.explored
    edges = prune(build_edges(explored, task.found, task.hoisted, task.sizes), explored.roots)
    classes = len(explored.egraph.classes)
    programs, caps = extract(edges, explored.roots, task.limits, lambda text: watch(f"extraction from {classes} classes, {text}"))
    return Extracted(programs, caps, sum(len(made) for made in edges.of.values()))


def operations_found(explored: Exploration) -> Found:
    """What values say about the classes of an e-graph beyond its forms."""
    egraph = explored.egraph
    storable = [c for c in range(len(egraph.classes)) if explored.storable(egraph.mask(c))]
    return Found(join(egraph, storable, range(len(egraph.classes))), renamings(egraph, storable, explored.renames))


def from_weights(egraph: EGraph, graph: Graph) -> frozenset[int]:
    """The classes made of weights alone."""
    found: set[int] = set()
    grown = True
    while grown:
        grown = False
        for c, entry in enumerate(egraph.classes):
            if c not in found and any(_from(node, graph, found) for node in entry.nodes):
                found.add(c)
                grown = True
    return frozenset(found)


def _from(node: Node, graph: Graph, weights: Collection[int]) -> bool:
    if isinstance(node, Leaf):
        return node.kind != "input" or graph.inputs[whole(node.attr[0])].weight
    return all(arg in weights for arg in operands(node))
