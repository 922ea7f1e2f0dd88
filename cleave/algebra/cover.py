"""Which values hold the maximum that a shift is, so that what cancels against them is at least 1."""

from __future__ import annotations

from ..graph import Op
from .facts import Facts
from .plan import Plan


class Cover:
    """Questions about the shifts of a plan whose factors are known."""

    def __init__(self, facts: Facts, plan: Plan) -> None:
        self.facts = facts
        self.plan = plan

    def open_axes(self, leader: int, value: int) -> list[str]:
        """The axes of a value that the maximum of a shift goes over."""
        return sorted(self.plan.removed[leader] & set(self.facts.graph.ops[value].axes))

    def missing(self, leader: int, cover: dict[int, frozenset[int]]) -> set[int]:
        """The arguments of exponentials of a shift, by signature, that a value does not hold."""
        members = {self.facts.signatures[self.facts.graph.ops[member].args[0]] for member in self.plan.members[leader]}
        return members - cover.get(leader, frozenset())

    def shortfall(self, leader: int, value: int, cover: dict[int, frozenset[int]]) -> bool:
        """Whether a value may be far below the maximum that a shift is."""
        return bool(self.open_axes(leader, value) or self.missing(leader, cover))

    def covers(self) -> list[dict[int, frozenset[int]]]:
        """For every value and shift it carries, the arguments of exponentials (by signature) whose maximum it holds."""
        out: list[dict[int, frozenset[int]]] = []
        for position, op in enumerate(self.facts.graph.ops):
            cover: dict[int, frozenset[int]] = {}
            for leader in self.plan.factors[position]:
                if op.kind == "exp":
                    cover[leader] = frozenset((self.facts.signatures[op.args[0]],))
                else:
                    cover[leader] = frozenset() if self.loses(position, leader, out) else self.joint_cover(op, leader, out)
            out.append(cover)
        return out

    def holds(self) -> list[frozenset[int]]:
        """The shifts whose maximum each value holds in every element. An element that is masked does not, until a sum."""
        out: list[frozenset[int]] = []
        masked: list[bool] = []
        for position, cover in enumerate(self.covers()):
            op, rule = self.facts.graph.ops[position], self.facts.rules[position]
            summed = op.kind in ("reduce", "contract")
            masked.append(any(self.facts.free[arg] for arg in rule.equal) or (not summed and any(masked[arg] for arg in op.args)))
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
        op, rule = self.facts.graph.ops[position], self.facts.rules[position]
        if op.kind == "select" and any(self.facts.free[arg] for arg in op.args[1:]):
            return bool(self.open_axes(leader, op.args[0]))
        if op.kind == "contract" and self.rivals(position, leader):
            return True
        divisors = [arg for arg, exponent in rule.powers if exponent < 0 and leader in covers[arg]]
        return any(self.shortfall(leader, arg, covers[arg]) for arg in divisors)

    def rivals(self, position: int, leader: int) -> bool:
        """Whether a contraction sums products of this shift's exponentials with another's over an axis that both vary along."""
        op = self.facts.graph.ops[position]
        over = set(self.facts.rules[position].touched)
        factors = self.plan.factors
        own = {axis for arg in op.args if leader in factors[arg] for axis in self.facts.graph.ops[arg].axes} & over
        rest = {axis for arg in op.args if factors[arg] and leader not in factors[arg] for axis in self.facts.graph.ops[arg].axes}
        return bool(own & rest)
