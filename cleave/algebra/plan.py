"""What is decided about the shifts of a graph."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..graph import Graph
from .degrees import Powers


@dataclass(slots=True)
class Plan:
    """
    What `stabilize` is to emit. A shift is named by one of its exponentials, its leader.

    `members`: the exponentials of each shift, `removed`: the axes its maximum goes over, `constant`: shifts that 0 takes
    part in. `scaled[op, i]`: multiply the i-th operand by exp(sum of power * shift), `terms[op]`: add the sum to the result
    (a log), `results[i]`: multiply the i-th output. `factors`: the degree of each value, `holds`: the shifts whose maximum it
    holds, so that multiplying by e^m overflows only where the plain value does. `notes` says what stayed plain, why.
    """

    graph: Graph
    members: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    removed: dict[int, set[str]] = field(default_factory=dict[int, set[str]])
    constant: set[int] = field(default_factory=set[int])
    scaled: dict[tuple[int, int], Powers] = field(default_factory=dict[tuple[int, int], Powers])
    terms: dict[int, Powers] = field(default_factory=dict[int, Powers])
    results: dict[int, Powers] = field(default_factory=dict[int, Powers])
    factors: list[Powers] = field(default_factory=list[Powers])
    holds: list[frozenset[int]] = field(default_factory=list[frozenset[int]])
    notes: list[str] = field(default_factory=list[str])

    def axes(self, leader: int) -> set[str]:
        """The axes of a shift."""
        own = {axis for member in self.members[leader] for axis in self.graph.ops[self.graph.ops[member].args[0]].axes}
        return own - self.removed[leader]
