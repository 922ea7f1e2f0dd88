"""
Which exponentials of a graph get a shift, which of them share one, and what that changes elsewhere.

Every exponential starts with a shift of its own. Walking the graph, each operation is made to obey its `Rule` (`carried`):

- operands of a sum that carry different shifts make those one (a plain operand is c*exp(0), and 0 joins the maximum);
- an axis that is removed while a value carries a shift is one the shift may not have: the maximum goes over it;
- log gives its shift back as a term; a function gets its operand back in plain form, as do results.

A shift is worth having where it cancels: in a quotient, or in a log. It is *safe* where what it cancels against holds the
maximum (`cover`), for then that is at least 1. Sums over a wider set of axes, exponentials that only join elsewhere, products of
exponentials summed together: there the maximum may lie where this value is not, and what is right without a shift could
vanish with it. Such an exponential stays plain. So no value gets worse by a shift.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..graph import Graph
from .carried import Walk
from .cover import Cover
from .facts import Facts
from .plan import Plan


def plan_shifts(graph: Graph, avoid: Iterable[int] = ()) -> Plan:
    """The shifts of a graph that has none yet. The exponentials of `avoid` stay plain."""
    return _Planner(graph, set(avoid)).run()


class _Planner:
    """
    The fixed point described above. Everything only grows between two `restart`s, and plain, blocked and apart never shrink.

    Exponentials of one value, whole and split, start with one shift; where that is not safe they are taken `apart`.
    """

    def __init__(self, graph: Graph, plain: set[int]) -> None:
        self.facts = Facts(graph)
        self.plain = plain
        self.blocked: set[int] = set()
        self.apart: set[int] = set()
        self.notes: list[str] = []
        self.restart()

    def restart(self) -> None:
        self.plan = Plan(self.facts.graph)
        by_signature: dict[int, int] = {}
        for position, op in enumerate(self.facts.graph.ops):
            if op.kind == "exp" and position not in self.plain:
                signature = self.facts.signatures[op.args[0]]
                leader = position if signature in self.apart else by_signature.setdefault(signature, position)
                self.plan.members.setdefault(leader, []).append(position)
                self.plan.removed.setdefault(leader, set())
        self.walk = Walk(self.facts, self.plan, self.blocked)
        self.cover = Cover(self.facts, self.plan)

    def run(self) -> Plan:
        while True:
            while self.walk.infer():
                pass
            if not (self.drop_useless() or self.drop_cyclic() or self.drop_unsafe()):
                self.plan.notes = self.notes
                self.plan.holds = self.cover.holds()
                return self.plan
            self.restart()

    def drop(self, leader: int, reason: str) -> None:
        self.plain.update(self.plan.members[leader])
        if reason:
            self.notes += [note(self.facts.graph, member, reason) for member in self.plan.members[leader]]

    def drop_useless(self) -> bool:
        used = {leader for leader, _, _ in self.walk.cancels}
        useless = [leader for leader in self.plan.members if leader not in used]
        for leader in useless:
            self.drop(leader, "")
        return bool(useless)

    def drop_cyclic(self) -> bool:
        """A shift whose maximum needs, by way of other shifts, an exponential that it shifts."""
        members = self.plan.members
        needs = {
            leader: [
                other
                for other in members
                if any(self.facts.ancestors[self.facts.graph.ops[a].args[0]] >> b & 1 for a in members[leader] for b in members[other])
            ]
            for leader in members
        }
        settled: set[int] = set()
        while found := [leader for leader in members if leader not in settled and settled.issuperset(needs[leader])]:
            settled.update(found)
        cyclic = [leader for leader in members if leader not in settled]
        for leader in cyclic:
            self.drop(leader, "its shift would depend on itself")
        return bool(cyclic)

    def drop_unsafe(self) -> bool:
        """Shifts that cancel against something that need not hold their maximum."""
        covers = self.cover.covers()
        dropped: set[int] = set()
        again = False
        for leader, _, against in self.walk.cancels:
            if leader in dropped:
                continue
            open_axes, missing = self.cover.open_axes(leader, against), self.cover.missing(leader, covers[against])
            blockable = {op for axis in open_axes for op in self.walk.touches.get((leader, axis), ())} - self.blocked
            blockable -= {op for op in blockable if self.facts.ancestors[against] >> op & 1}
            if blockable:
                self.blocked |= blockable
                again = True
            elif (open_axes or missing) and (alike := self.alike(leader)):
                self.apart |= alike
                again = True
            elif open_axes or missing:
                reason = f"another value needs its shift to be the maximum over axis '{open_axes[0]}' too" if open_axes else ""
                self.drop(leader, reason or "it meets other exponentials, whose maximum may lie far above it")
                dropped.add(leader)
        return again or bool(dropped)

    def alike(self, leader: int) -> set[int]:
        """The signatures that several exponentials of a shift have: they started with one shift, and may do with one each."""
        members = [self.facts.signatures[self.facts.graph.ops[member].args[0]] for member in self.plan.members[leader]]
        return {signature for signature in members if members.count(signature) > 1} - self.apart


def note(graph: Graph, position: int, reason: str) -> str:
    """One line that says why an exponential stays plain, `file:line:col: note: exp: ...` where its place is known."""
    place = graph.places[position] if graph.places else ""
    return f"{place + ': ' if place else ''}note: exp: stays plain: {reason}"
