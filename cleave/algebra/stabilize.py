"""
Safe exponentials: `exp(x) -> exp(x - m)` with `m = shift x over axes`, wherever the results do not depend on m.

Masks go inside first (`masks`, `factors`), so that the maximum is over what counts. Which exponentials, and what else must
change, is planned by `shifts`; this module writes the new graph, checks it by `degrees`, and confirms numerically that the
results keep their value under two unrelated random shifts.

A quotient by a sum of shifted exponentials is marked `guarded`: such a sum is 0 only where all it sums is masked by -inf, and
the quotient is 0 there. A logarithm of it is -inf. Every other quotient is left as it is, so a program's own 0/0 stays NaN,
and a finite fill such as -1e9 keeps the value it gives.

Where the argument of an exponential is x - c with a c that lacks the removed axes, c is absorbed: m takes any value, so
m + c does too. A program that subtracts its own maximum then computes it only if something else reads it.

A function of a value that carries a shift reads it in plain form, made from exp(x) itself or multiplied by e^m; the
exponential keeps its shift for the uses where it cancels.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from ..graph import Attr, Builder, Graph, Op, Output
from .confirm import independence_error
from .degrees import Powers, combined, degrees
from .factors import hidden_exponentials, mask_by_factors
from .flow import in_order, signatures
from .masks import mask_inside, position_of_input
from .plan import Plan
from .rules import constant_of
from .shifts import note, plan_shifts

_UNCONFIRMED = "note: exp: shifted as its powers cancel, not confirmed by numbers: the program is too large, or its sizes belong together"


@dataclass(frozen=True, slots=True)
class Stabilized:
    """
    A graph with safe exponentials, and one line for each exponential that meets others but had to stay plain. Another line tells where
    results with shifts could not be evaluated, so that `degrees` alone says that they do not depend on them.
    """

    graph: Graph
    notes: tuple[str, ...]


def stabilize(graph: Graph) -> Graph:
    """The graph with safe exponentials; unchanged where none needs a shift or the graph has shifts already."""
    return stabilized(graph).graph


def stabilized(graph: Graph) -> Stabilized:
    """As `stabilize`, with what stayed plain and why."""
    if any(op.kind == "shift" for op in graph.ops) or not any(op.kind == "exp" for op in graph.ops):
        return Stabilized(graph, ())
    masked, plan = _planned(graph)
    if not plan.members:
        return Stabilized(graph, tuple(plan.notes))
    out = _Emitter(masked, plan).run()
    failure = _failure(graph, out)
    if not failure:
        return Stabilized(out, (*plan.notes, *([] if failure is not None else [_UNCONFIRMED])))
    for leader, members in plan.members.items():
        fewer = plan_shifts(masked, members)
        out = _Emitter(masked, fewer).run()
        if not _failure(graph, out):
            return Stabilized(out if fewer.members else graph, (*plan.notes, note(masked, leader, failure)))
    notes = [note(masked, member, failure) for members in plan.members.values() for member in members]
    return Stabilized(graph, (*plan.notes, *notes))


def _failure(graph: Graph, out: Graph) -> str | None:
    """
    Why shifts must not be as they are in a result: a value is not scaled by a power of them, or a result depends on them. "" for
    nothing, None where the results could not be evaluated to see that.
    """
    try:
        degrees(out)
    except ValueError as error:
        return str(error)
    return independence_error(graph, out)


def _planned(graph: Graph) -> tuple[Graph, Plan]:
    """The plan, and the graph it is for: masks are inside those exponentials that get a shift."""
    leave: set[int] = set()
    while True:
        masked, rewritten = mask_inside(graph, leave)
        plan = plan_shifts(masked)
        shifted = {member for members in plan.members.values() for member in members}
        plain = {old for old, new in rewritten.items() if new not in shifted}
        if not plain:
            return _hidden_by_factors(masked, plan)
        leave |= plain


def _hidden_by_factors(graph: Graph, plan: Plan) -> tuple[Graph, Plan]:
    """The same where factors hide exponentials too; as it was for those that would lose their shift by it."""
    hidden = hidden_exponentials(graph, plan)
    while hidden:
        masked, new = mask_by_factors(graph, hidden)
        out = plan_shifts(masked)
        kept = {member for members in out.members.values() for member in members}
        lost = [members for members in plan.members.values() if any(new[member] not in kept for member in members if member in new)]
        if not lost:
            return masked, out
        dropped = {member for members in lost for member in members}
        hidden = {position: found for position, found in hidden.items() if position not in dropped} if dropped & set(hidden) else {}
    return graph, plan


class _Emitter:
    """Writes the graph of a plan, each operation after what it needs: a shift needs the arguments of all its exponentials."""

    def __init__(self, graph: Graph, plan: Plan) -> None:
        self.graph = graph
        self.plan = plan
        self.builder = Builder(graph.name, graph.symbols, graph.axes, graph.inputs)
        self.signatures = signatures(graph)
        self.leaders = {member: leader for leader, members in plan.members.items() for member in members}
        self.offset = {leader: _common_offset(graph, plan, leader) for leader in plan.members}
        self.given_back = {graph.ops[op].args[index] for op, index in plan.scaled} | {graph.outputs[i].value for i in plan.results}
        self.positive = _sums_of_exponentials(graph, set(self.leaders))
        self.new: dict[int, int] = {}
        self.shifts: dict[int, int] = {}
        self.plains: dict[int, int] = {}
        self.without_offset: dict[int, tuple[int, int]] = {}

    def run(self) -> Graph:
        for position in in_order(range(len(self.graph.ops)), self.needs):
            self.place = self.graph.places[position] if self.graph.places else ""
            self.new[position] = self.emit(position)
        outputs: list[Output] = []
        for index, output in enumerate(self.graph.outputs):
            powers = self.plan.results.get(index)
            value = self.plain(output.value) if powers else self.new[output.value]
            outputs.append(Output(value, output.layout, output.dtype))
        return self.builder.finish(outputs)

    def needs(self, position: int) -> list[int]:
        op = self.graph.ops[position]
        leaders = [self.leaders[position]] if position in self.leaders else []
        leaders += self.plan.terms.get(position, {})
        for index in range(len(op.args)):
            leaders += self.plan.scaled.get((position, index), {})
        out = list(op.args)
        for leader in dict.fromkeys(leaders):
            out += [self.graph.ops[member].args[0] for member in self.plan.members[leader]]
            offset = self.offset[leader]
            out += [] if offset is None else [offset]
        return list(dict.fromkeys(out))

    def add(self, kind: str, *args: int, attr: tuple[Attr, ...] = (), dtype: str = "f32") -> int:
        return self.builder.add(kind, *args, attr=attr, dtype=dtype, place=self.place)

    def emit(self, position: int) -> int:
        op = self.graph.ops[position]
        if op.kind == "input":
            return position_of_input(self.builder, op)
        args = [self.new[arg] for arg in op.args]
        for index, arg in enumerate(op.args):
            powers = self.plan.scaled.get((position, index))
            if powers:
                args[index] = self.scaled(arg, powers)
        if position in self.leaders:
            leader = self.leaders[position]
            argument = args[0] if self.offset[leader] is None else self.new[self.graph.ops[op.args[0]].args[0]]
            return self.add("exp", self.add("sub", argument, self.shift(leader), dtype=op.dtype), dtype=op.dtype)
        if position in self.plan.terms:
            return self.log(position, self.add("log", *args, dtype=op.dtype), op.dtype)
        if op.kind in ("add", "sub"):
            shorter = self.cancelled_offset(op)
            if shorter is not None:
                return shorter
        attr = op.attr
        if op.kind == "div" and "guarded" not in attr and self.is_guarded(position, op):
            attr = (*attr, "guarded")
        return self.add(op.kind, *args, attr=attr, dtype=op.dtype)

    def is_guarded(self, position: int, op: Op) -> bool:
        carries = bool(self.plan.factors[op.args[1]]) and (position, 1) not in self.plan.scaled
        return carries and op.args[1] in self.positive and position not in self.given_back

    def shift(self, leader: int) -> int:
        """The shift operation: the maximum of the arguments of its exponentials, without their common offset."""
        if leader in self.shifts:
            return self.shifts[leader]
        offset = self.offset[leader]
        arguments: dict[int, int] = {}
        for member in self.plan.members[leader]:
            arg = self.graph.ops[member].args[0]
            arguments.setdefault(self.signatures[arg], arg if offset is None else self.graph.ops[arg].args[0])
        values = [self.new[arg] for arg in arguments.values()]
        removed = self.plan.removed[leader]
        widest = max(values, key=lambda value: len(self.builder.ops[value].axes))
        total, dtype = widest, self.builder.ops[widest].dtype
        for value in values:
            extra = [axis for axis in self.builder.ops[value].axes if axis in removed - set(self.builder.ops[widest].axes)]
            if extra:
                value = self.add("reduce", value, attr=("max", tuple(extra)), dtype=dtype)
            if value != widest:
                total = self.add("max", total, value, dtype=dtype)
        if leader in self.plan.constant:
            zero = self.new[offset] if offset is not None else self.add("constant", attr=(0.0,), dtype=dtype)
            total = self.add("max", total, zero, dtype=dtype)
        over = tuple(axis for axis in self.builder.ops[total].axes if axis in removed)
        self.shifts[leader] = self.add("shift", total, attr=(over,), dtype=dtype)
        return self.shifts[leader]

    def multiple(self, value: int, power: Fraction, dtype: str) -> int:
        if power == 1:
            return value
        if power == -1:
            return self.add("neg", value, dtype=dtype)
        return self.add("mul", value, self.add("constant", attr=(float(power),), dtype=dtype), dtype=dtype)

    def scaled(self, position: int, powers: Powers) -> int:
        """A value times exp(sum of power * shift): in plain form, or as a term of a sum of exponentials."""
        if powers == combined([(self.plan.factors[position], Fraction(-1))]):
            return self.plain(position)
        op = self.graph.ops[position]
        factor = self.exponential(powers, op.dtype)
        return factor if constant_of(self.graph, position) == 1 else self.add("mul", self.new[position], factor, dtype=op.dtype)

    def plain(self, position: int) -> int:
        """
        The value as it was: times e^m where it holds the maximum, else by its own operations on plain values.

        What does not hold the maximum may have vanished, and e^m may be infinite.
        """
        factor = self.plan.factors[position]
        if not factor:
            return self.new[position]
        if position not in self.plains:
            op = self.graph.ops[position]
            if op.kind != "exp" and self.plan.holds[position].issuperset(factor):
                powers = combined([(factor, Fraction(-1))])
                self.plains[position] = self.add("mul", self.new[position], self.exponential(powers, op.dtype), dtype=op.dtype)
            else:
                args = [self.plain(arg) for arg in op.args]
                self.plains[position] = self.add(op.kind, *args, attr=op.attr, dtype=op.dtype)
        return self.plains[position]

    def exponential(self, powers: Powers, dtype: str) -> int:
        """exp(sum of power * shift)."""
        exponent: int | None = None
        for leader, power in powers.items():
            shift = self.shift(leader)
            offset = self.offset[leader]
            if offset is not None:
                shift = self.add("sub", shift, self.new[offset], dtype=dtype)
            term = self.multiple(shift, power, dtype)
            exponent = term if exponent is None else self.add("add", exponent, term, dtype=dtype)
        assert exponent is not None, "a value scaled by no shift"
        return self.add("exp", exponent, dtype=dtype)

    def log(self, position: int, value: int, dtype: str) -> int:
        """A logarithm with its shifts put back."""
        powers = self.plan.terms[position]
        for leader, power in powers.items():
            value = self.add("add", value, self.multiple(self.shift(leader), power, dtype), dtype=dtype)
        offsets = [(offset, power) for leader, power in powers.items() if (offset := self.offset[leader]) is not None]
        if len(offsets) == 1 and offsets[0][1] == 1:
            self.without_offset[position] = (value, offsets[0][0])
        for offset, power in offsets:
            value = self.add("sub", value, self.multiple(self.new[offset], power, dtype), dtype=dtype)
        return value

    def cancelled_offset(self, op: Op) -> int | None:
        """`c + (y - c)` as y, and `(x - c) - (y - c)` as x - y, where y - c is a logarithm whose offset c was absorbed."""
        left, right = op.args
        if op.kind == "add":
            for value, other in ((left, right), (right, left)):
                if value in self.without_offset and self.without_offset[value][1] == other:
                    return self.without_offset[value][0]
            return None
        subtraction = self.graph.ops[left]
        if right in self.without_offset and subtraction.kind == "sub" and self.without_offset[right][1] == subtraction.args[1]:
            return self.add("sub", self.new[subtraction.args[0]], self.without_offset[right][0], dtype=op.dtype)
        return None


def _common_offset(graph: Graph, plan: Plan, leader: int) -> int | None:
    """The c of arguments x - c that all exponentials of a shift subtract, if it lacks the axes that the maximum goes over."""
    arguments = [graph.ops[graph.ops[member].args[0]] for member in plan.members[leader]]
    if not all(argument.kind == "sub" for argument in arguments):
        return None
    offsets = {argument.args[1] for argument in arguments}
    if len(offsets) != 1:
        return None
    offset = offsets.pop()
    axes = set(graph.ops[offset].axes)
    fits = all(axes <= set(graph.ops[argument.args[0]].axes) for argument in arguments)
    return offset if fits and not axes & plan.removed[leader] else None


def _sums_of_exponentials(graph: Graph, shifted: set[int]) -> set[int]:
    """Values that are built from shifted exponentials by sums, products and maxima alone, so that 0 says all is masked."""
    out: set[int] = set()
    for position, op in enumerate(graph.ops):
        match op.kind:
            case "exp":
                holds = position in shifted
            case "add" | "mul" | "contract" | "max" | "concat" if op.args:
                parts = [arg for arg in op.args if constant_of(graph, arg) is None or (constant_of(graph, arg) or 0) < 0]
                holds = bool(parts) and all(arg in out for arg in parts)
            case "select":
                holds = all(arg in out or constant_of(graph, arg) == 0 for arg in op.args[1:]) and any(arg in out for arg in op.args)
            case "reduce" | "sqrt" | "pow" | "cast" | "rename" | "split" | "merge" | "slice" | "index" | "pad":
                holds = op.args[0] in out
            case _:
                holds = False
        if holds:
            out.add(position)
    return out
