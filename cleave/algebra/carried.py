"""Which shifts the values of a graph carry: one walk over it, in which every operation is made to obey its `Rule`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from fractions import Fraction

from ..graph import Op
from .degrees import Powers, combined
from .facts import Facts
from .plan import Plan
from .rules import Rule

_MOVES = ("rename", "split", "merge", "slice", "pad", "gather", "concat")


class Walk:
    """
    Fills in a plan, and merges shifts and takes axes away from them where rules ask for it. Operations that are `blocked` read plain
    values. `cancels` are (shift, operation, value) where a shift cancels against a value, `touches` the operations that remove an axis
    from a value with a shift.
    """

    def __init__(self, facts: Facts, plan: Plan, blocked: Collection[int]) -> None:
        self.facts = facts
        self.plan = plan
        self.blocked = blocked
        self.changed = False
        self.cancels: list[tuple[int, int, int]] = []
        self.touches: dict[tuple[int, str], list[int]] = {}

    def infer(self) -> bool:
        """One walk over the graph; whether it merged shifts or took away axes, so that another is due."""
        plan = self.plan
        plan.scaled, plan.terms, plan.results, plan.factors = {}, {}, {}, []
        self.changed = False
        self.cancels, self.touches = [], {}
        leaders = {member: leader for leader, members in plan.members.items() for member in members}
        for position, op in enumerate(self.facts.graph.ops):
            plan.factors.append(self.factor(position, op, leaders))
            if self.changed:
                return True
        for index, output in enumerate(self.facts.graph.outputs):
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
        rule = self.facts.rules[position]
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
        own = {axis for arg in op.args for axis in self.facts.graph.ops[arg].axes}
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
        if self.facts.graph.ops[value].kind != "exp":
            for leader in self.plan.factors[value]:
                for axis in sorted(self.plan.axes(leader) - set(self.facts.graph.ops[value].axes)):
                    self.take_axis(leader, axis)
        return combined([(self.plan.factors[value], Fraction(-1))])

    def plainly(self, position: int, args: Iterable[int]) -> None:
        """Has the operation read these operands in plain form."""
        wanted = set(args)
        for index, arg in enumerate(self.facts.graph.ops[position].args):
            if arg in wanted and self.plan.factors[arg]:
                self.plan.scaled[position, index] = self.give_back(arg)

    def joined(self, position: int, op: Op, rule: Rule) -> Powers:
        """The one factor of operands that must carry the same, after merging shifts or scaling operands."""
        factors = self.plan.factors
        bound = [arg for arg in dict.fromkeys(rule.equal) if not self.facts.free[arg]]
        target = min((factors[arg] for arg in bound), key=lambda powers: sum(powers.values()), default=dict[int, Fraction]())
        if all(factors[arg] == target for arg in bound):
            return target
        if self.facts.wanted[position] and all(power < 0 for power in target.values()):
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
        if any(self.facts.ancestors[self.facts.graph.ops[late].args[0]] >> early & 1 for late in members for early in members):
            return False
        self.plan.members[one] = sorted(members)
        self.plan.removed[one] |= self.plan.removed.pop(other)
        del self.plan.members[other]
        if other in self.plan.constant:
            self.plan.constant.add(one)
            self.plan.constant.discard(other)
        self.changed = True
        return True
