"""
Which exponentials of a graph get a shift, which of them share one, and what that changes elsewhere.

Every exponential starts with a shift of its own. Walking the graph, each operation is made to obey its `Rule`:

- operands of a sum that carry different shifts make those one (a plain operand is c*exp(0), and 0 joins the maximum);
- an axis that is removed while a value carries a shift is one the shift may not have: the maximum goes over it;
- log gives its shift back as a term; a function gets its operand back in plain form, as do results.

A shift is worth having where it cancels: in a quotient, or in a log. It is *safe* where what it cancels against holds the
maximum, for then that is at least 1. Sums over a wider set of axes, exponentials that only join elsewhere, products of
exponentials summed together: there the maximum may lie where this value is not, and what is right without a shift could
vanish with it. Such an exponential stays plain. So no value gets worse by a shift.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from ..graph import Graph, Op
from .degrees import Powers, combined
from .flow import ancestors, signatures, wanted
from .rules import Rule, factor_free, rule_of

_MOVES = ("rename", "split", "merge", "slice", "pad", "gather", "concat")


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


def plan_shifts(graph: Graph, avoid: Iterable[int] = ()) -> Plan:
    """The shifts of a graph that has none yet. The exponentials of `avoid` stay plain."""
    return _Planner(graph, set(avoid)).run()


class _Planner:
    """
    The fixed point described above. Everything only grows between two `restart`s, and plain, blocked and apart never shrink.

    Exponentials of one value, whole and split, start with one shift; where that is not safe they are taken `apart`.
    """

    def __init__(self, graph: Graph, plain: set[int]) -> None:
        self.graph = graph
        self.plain = plain
        self.blocked: set[int] = set()
        self.apart: set[int] = set()
        self.free = factor_free(graph)
        self.rules = [rule_of(graph, position) for position in range(len(graph.ops))]
        self.ancestors = ancestors(graph)
        self.signatures = signatures(graph)
        self.wanted = wanted(graph, self.rules)
        self.notes: list[str] = []
        self.restart()

    def restart(self) -> None:
        self.plan = Plan(self.graph)
        by_signature: dict[int, int] = {}
        for position, op in enumerate(self.graph.ops):
            if op.kind == "exp" and position not in self.plain:
                signature = self.signatures[op.args[0]]
                leader = position if signature in self.apart else by_signature.setdefault(signature, position)
                self.plan.members.setdefault(leader, []).append(position)
                self.plan.removed.setdefault(leader, set())

    def run(self) -> Plan:
        while True:
            while self.infer():
                pass
            if not (self.drop_useless() or self.drop_cyclic() or self.drop_unsafe()):
                self.plan.notes = self.notes
                self.plan.holds = self.holds()
                return self.plan
            self.restart()

    # The walk.

    def infer(self) -> bool:
        """One walk over the graph; whether it merged shifts or took away axes, so that another is due."""
        plan = self.plan
        plan.scaled, plan.terms, plan.results, plan.factors = {}, {}, {}, []
        self.changed = False
        self.cancels: list[tuple[int, int, int]] = []
        self.touches: dict[tuple[int, str], list[int]] = {}
        leaders = {member: leader for leader, members in plan.members.items() for member in members}
        for position, op in enumerate(self.graph.ops):
            plan.factors.append(self.factor(position, op, leaders))
            if self.changed:
                return True
        for index, output in enumerate(self.graph.outputs):
            if plan.factors[output.value]:
                plan.results[index] = self.give_back(output.value)
        return self.changed

    def factor(self, position: int, op: Op, leaders: dict[int, int]) -> Powers:
        factors = self.plan.factors
        if not any(factors[arg] for arg in op.args):
            return {leaders[position]: Fraction(-1)} if position in leaders else {}
        if op.kind == "log":
            factor = factors[op.args[0]]
            self.plan.terms[position] = combined([(factor, Fraction(-1))])
            for leader in factor:
                self.cancel(leader, position, op.args[0], set(op.axes))
            return {}
        rule = self.rules[position]
        if position in self.blocked:
            rule = Rule(plain=op.args)
        if position in leaders:
            self.plainly(position, op.args)
            return {leaders[position]: Fraction(-1)}
        self.plainly(position, rule.plain)
        factor = combined([*((factors[arg], exponent) for arg, exponent in rule.powers)])
        if any(power.denominator != 1 for power in factor.values()):
            self.plainly(position, op.args)
            return {}
        if rule.equal:
            factor = self.joined(position, op, rule)
            if self.changed:
                return {}
        self.settle(position, op, rule, factor)
        return {} if rule.forgets else factor

    def settle(self, position: int, op: Op, rule: Rule, factor: Powers) -> None:
        """Takes the axes away from shifts that the operation removes, and notes which shifts it cancels."""
        own = {axis for arg in op.args for axis in self.graph.ops[arg].axes}
        touched = {*rule.touched, *(set(op.axes) - own if op.kind in _MOVES else ())}
        for leader in factor:
            for axis in sorted(touched & self.plan.axes(leader)):
                self.take_axis(leader, axis)
            for axis in rule.touched:
                self.touches.setdefault((leader, axis), []).append(position)
        for leader in sorted({leader for arg, _ in rule.powers for leader in self.plan.factors[arg]} - set(factor)):
            for arg, exponent in rule.powers:
                if self.plan.factors[arg].get(leader, 0) * exponent > 0:
                    self.cancel(leader, position, arg, {*op.axes, *rule.touched})

    def cancel(self, leader: int, position: int, against: int, axes: set[str]) -> None:
        self.cancels.append((leader, position, against))
        for axis in sorted(self.plan.axes(leader) - axes):
            self.take_axis(leader, axis)

    def take_axis(self, leader: int, axis: str) -> None:
        self.plan.removed[leader].add(axis)
        self.changed = True

    def give_back(self, value: int) -> Powers:
        """The powers that make a value plain. A plain exponential needs none of the axes its shift may have gained."""
        if self.graph.ops[value].kind != "exp":
            for leader in self.plan.factors[value]:
                for axis in sorted(self.plan.axes(leader) - set(self.graph.ops[value].axes)):
                    self.take_axis(leader, axis)
        return combined([(self.plan.factors[value], Fraction(-1))])

    def plainly(self, position: int, args: Iterable[int]) -> None:
        """Has the operation read these operands in plain form."""
        wanted = set(args)
        for index, arg in enumerate(self.graph.ops[position].args):
            if arg in wanted and self.plan.factors[arg]:
                self.plan.scaled[position, index] = self.give_back(arg)

    def joined(self, position: int, op: Op, rule: Rule) -> Powers:
        """The one factor of operands that must carry the same, after merging shifts or scaling operands."""
        factors = self.plan.factors
        bound = [arg for arg in dict.fromkeys(rule.equal) if not self.free[arg]]
        target = min((factors[arg] for arg in bound), key=lambda powers: sum(powers.values()), default=dict[int, Fraction]())
        if all(factors[arg] == target for arg in bound):
            return target
        if self.wanted[position] and all(power < 0 for power in target.values()):
            gaps = {arg: combined([(target, Fraction(1)), (factors[arg], Fraction(-1))]) for arg in bound}
            for gap in gaps.values():
                for one, power in gap.items():
                    other = next((other for other in gap if other > one and gap[other] == -power), None)
                    if other is not None and self.merge(one, other):
                        return target
            if all(power < 0 for gap in gaps.values() for power in gap.values()):
                for index, arg in enumerate(op.args):
                    if gaps.get(arg):
                        self.plan.scaled[position, index] = gaps[arg]
                        self.plan.constant.update(gaps[arg])
                return target
        self.plainly(position, rule.equal)
        return {}

    def merge(self, one: int, other: int) -> bool:
        """Makes two shifts one, unless the exponentials of one enter those of the other."""
        members = [*self.plan.members[one], *self.plan.members[other]]
        if any(self.ancestors[self.graph.ops[late].args[0]] >> early & 1 for late in members for early in members):
            return False
        self.plan.members[one] = sorted(members)
        self.plan.removed[one] |= self.plan.removed.pop(other)
        del self.plan.members[other]
        if other in self.plan.constant:
            self.plan.constant.add(one)
            self.plan.constant.discard(other)
        self.changed = True
        return True

    # What is dropped after a walk that changed nothing.

    def drop(self, leader: int, reason: str) -> None:
        self.plain.update(self.plan.members[leader])
        if reason:
            self.notes += [note(self.graph, member, reason) for member in self.plan.members[leader]]

    def drop_useless(self) -> bool:
        used = {leader for leader, _, _ in self.cancels}
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
                if any(self.ancestors[self.graph.ops[a].args[0]] >> b & 1 for a in members[leader] for b in members[other])
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
        covers = self.covers()
        dropped: set[int] = set()
        again = False
        for leader, _, against in self.cancels:
            if leader in dropped:
                continue
            open_axes, missing = self.open_axes(leader, against), self.missing(leader, covers[against])
            blockable = {op for axis in open_axes for op in self.touches.get((leader, axis), ())} - self.blocked
            blockable -= {op for op in blockable if self.ancestors[against] >> op & 1}
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
        members = [self.signatures[self.graph.ops[member].args[0]] for member in self.plan.members[leader]]
        return {signature for signature in members if members.count(signature) > 1} - self.apart

    def open_axes(self, leader: int, value: int) -> list[str]:
        """The axes of a value that the maximum of a shift goes over."""
        return sorted(self.plan.removed[leader] & set(self.graph.ops[value].axes))

    def missing(self, leader: int, cover: dict[int, frozenset[int]]) -> set[int]:
        """The arguments of exponentials of a shift, by signature, that a value does not hold."""
        members = {self.signatures[self.graph.ops[member].args[0]] for member in self.plan.members[leader]}
        return members - cover.get(leader, frozenset())

    def shortfall(self, leader: int, value: int, cover: dict[int, frozenset[int]]) -> bool:
        """Whether a value may be far below the maximum that a shift is."""
        return bool(self.open_axes(leader, value) or self.missing(leader, cover))

    def covers(self) -> list[dict[int, frozenset[int]]]:
        """For every value and shift it carries, the arguments of exponentials (by signature) whose maximum it holds."""
        out: list[dict[int, frozenset[int]]] = []
        for position, op in enumerate(self.graph.ops):
            cover: dict[int, frozenset[int]] = {}
            for leader in self.plan.factors[position]:
                if op.kind == "exp":
                    cover[leader] = frozenset((self.signatures[op.args[0]],))
                else:
                    cover[leader] = frozenset() if self.loses(position, leader, out) else self.joint_cover(op, leader, out)
            out.append(cover)
        return out

    def holds(self) -> list[frozenset[int]]:
        """The shifts whose maximum each value holds in every element. An element that is masked does not, until a sum."""
        out: list[frozenset[int]] = []
        masked: list[bool] = []
        for position, cover in enumerate(self.covers()):
            op, rule = self.graph.ops[position], self.rules[position]
            summed = op.kind in ("reduce", "contract")
            masked.append(any(self.free[arg] for arg in rule.equal) or (not summed and any(masked[arg] for arg in op.args)))
            held = [leader for leader in cover if not self.shortfall(leader, position, cover)]
            out.append(frozenset(() if masked[position] else held))
        return out

    def joint_cover(self, op: Op, leader: int, covers: list[dict[int, frozenset[int]]]) -> frozenset[int]:
        parts = [covers[arg][leader] for arg in dict.fromkeys(op.args) if leader in covers[arg]]
        if op.kind in ("min", "select"):
            return parts[0].intersection(*parts[1:])
        if op.kind in ("add", "sub", "max", "concat") or all(part == parts[0] for part in parts):
            return frozenset[int]().union(*parts)
        return frozenset()

    def loses(self, position: int, leader: int, covers: list[dict[int, frozenset[int]]]) -> bool:
        """
        Whether the maximum of a shift may get lost in an operation.

        Masked by 0, in a product summed over an axis along which another exponential varies too, or as a divisor that is
        far below it somewhere.
        """
        op, rule = self.graph.ops[position], self.rules[position]
        if op.kind == "select" and any(self.free[arg] for arg in op.args[1:]):
            return bool(self.open_axes(leader, op.args[0]))
        if op.kind == "contract" and self.rivals(position, leader):
            return True
        divisors = [arg for arg, exponent in rule.powers if exponent < 0 and leader in covers[arg]]
        return any(self.shortfall(leader, arg, covers[arg]) for arg in divisors)

    def rivals(self, position: int, leader: int) -> bool:
        """Whether a contraction sums products of this shift's exponentials with another's over an axis that both vary along."""
        op = self.graph.ops[position]
        over = set(self.rules[position].touched)
        factors = self.plan.factors
        own = {axis for arg in op.args if leader in factors[arg] for axis in self.graph.ops[arg].axes} & over
        rest = {axis for arg in op.args if factors[arg] and leader not in factors[arg] for axis in self.graph.ops[arg].axes}
        return bool(own & rest)


def note(graph: Graph, position: int, reason: str) -> str:
    """One line that says why an exponential stays plain, `file:line:col: note: exp: ...` where its place is known."""
    place = graph.places[position] if graph.places else ""
    return f"{place + ': ' if place else ''}note: exp: stays plain: {reason}"
