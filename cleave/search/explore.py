"""
The e-graph of a program, closed under the rules, to look at or to compare with: what `superoptimize` searches.

The law: what the classes hold is all that the rules can say about the program, unless a cap was hit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..graph import FLOATS, Graph
from .attributes import axis_pairs
from .closure import Budget, close
from .convert import Converted, convert, copies, degenerate
from .cost import volume
from .egraph import EGraph
from .freedom import without_free_maxima
from .options import SEARCH_ROUND, SearchOptions
from .pieces import pieces
from .regimes import regimes
from .rules import Rules
from .split import lone_chunk
from .values import Space
from .verify import SAMPLES, points_of, tower_for, unspoiled
from .watch import Watch, unwatched

MOST_AXES = 56
"""Values are arrays with a dimension for every axis, of which numpy allows 64."""
ATTEMPTS = 8
"""Draws tried until every maximum and selection takes either of its operands somewhere."""


@dataclass(frozen=True, slots=True)
class Exploration:
    """
    The classes of a program.

    `graph` is the program without maxima that nothing depends on, `roots[i]` the class of output i. `room` says what may be stored,
    `caps` what was cut short.
    """

    graph: Graph
    egraph: EGraph
    converted: Converted
    roots: tuple[int, ...]
    room: Room
    caps: tuple[str, ...]

    @property
    def renames(self) -> tuple[tuple[tuple[str, str], ...], ...]:
        """The pairs of axes that each rename of the program has."""
        return tuple(dict.fromkeys(axis_pairs(op.attr[0]) for op in self.graph.ops if op.kind == "rename"))

    def storable(self, mask: int) -> bool:
        """Whether a tensor over the axes of a mask may be stored."""
        return self.room.fits(mask)


class Room:
    """
    Which tensors may be stored: those no larger than the largest of the program, in one of the given regimes.

    What is large where an axis is long may be small where it is short, and the other way round.
    """

    def __init__(self, graph: Graph, egraph: EGraph, given: Sequence[Mapping[str, int]]) -> None:
        self.egraph = egraph
        self.regimes = [(sizes, max((volume(sizes, op.axes) for op in graph.ops), default=1.0)) for sizes in given]
        self._known: dict[int, bool] = {}

    def fits(self, mask: int) -> bool:
        """Whether a tensor over the axes of a mask may be stored."""
        known = self._known.get(mask)
        if known is None:
            names = self.egraph.names(mask)
            known = self._known[mask] = any(volume(sizes, names) <= largest * 1.0001 for sizes, largest in self.regimes)
        return known


def unsearchable(graph: Graph) -> str | None:
    """Why a program has no values that could be told apart, or None."""
    alone = lone_chunk(graph)
    if alone is not None:
        return f"axis '{alone}' is reduced without the axis that counts its chunks"
    if len(graph.axes) > MOST_AXES:
        return f"{len(graph.axes)} axes are more than the {MOST_AXES} a search can tell apart"
    given = {entry.dtype for entry in graph.inputs if entry.dtype in FLOATS}
    if given - {"f64"} and any(op.dtype == "f64" for op in graph.ops):
        return "f64 is asked for between inputs of other types, and values do not tell where"
    return None


def explore(graph: Graph, options: SearchOptions, watch: Watch = unwatched) -> Exploration | str:
    """The closed e-graph, or why there is none."""
    reason = unsearchable(graph)
    if reason is not None:
        return reason
    drawn = _drawn(graph, options)
    if drawn is None:
        return "no sample point without a division by zero was found"
    smaller, egraph, converted = drawn
    room = Room(graph, egraph, regimes(graph)[: None if len(graph.ops) <= options.wide else 1])
    rules = Rules(egraph, room.fits)
    most = options.classes + options.classes_each * len(graph.ops)
    caps = close(egraph, rules, Budget(most, options.applications, options.seconds), watch)
    if egraph.dropped:
        caps.append(f"{egraph.dropped} flat forms beyond the most a class keeps were dropped")
    for name, count in sorted(rules.limits.hits.items()):
        caps.append(f"{count} times a flat form was too long for all its {name}")
    if converted.opaque:
        caps.append(f"{converted.opaque} exps or logs nest too deep to be seen through")
    roots = tuple(converted.classes[output.value] for output in smaller.outputs)
    return Exploration(smaller, egraph, converted, roots, room, tuple(caps))


def _drawn(graph: Graph, options: SearchOptions) -> tuple[Graph, EGraph, Converted] | None:
    """The program without free maxima and its classes, at the first draw in which every choice goes both ways, or the best of some."""
    shared = copies(graph)
    runs = pieces((graph,), shared)
    best: tuple[int, Graph, EGraph, Converted] | None = None
    for attempt in range(ATTEMPTS):
        seed = options.seed * ATTEMPTS + attempt
        points = points_of(graph.axes, SEARCH_ROUND, shared, runs)
        space = Space(graph.axes, points, SAMPLES, seed, tower_for(graph), shared, pieces=runs)
        if unspoiled(graph, space) is None:
            break
        smaller = without_free_maxima(graph, space)
        egraph = EGraph(space)
        converted = convert(smaller, egraph)
        bad = degenerate(smaller, egraph, converted)
        if best is None or bad < best[0]:
            best = (bad, smaller, egraph, converted)
        if not bad:
            break
    return None if best is None else best[1:]
