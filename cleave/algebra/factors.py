"""
Factors that mask exponentials: where every use of `exp(x)` is multiplied by f, it becomes `exp(select(f != 0, x, -inf))`.

Equal for every finite exp(x): where f is 0 the product is. A shift then is the maximum over the positions that count, so what
f hides cannot make the rest vanish. A factor that is not 0 hides nothing: f * exp(x) of a normal f is no smaller than
what vanishes beside exp(x).

Which factors a use has follows from the graph. A product has its other operands as factors, and all that is linear in the
exponential passes on those of its own uses; a sum passes on those without the axes it removes, for they come after it. Only what
varies along the axes of the maximum can hide it, and only a factor whose axes are some or all of the exponential's, or the
other way round: to mask by another one would take apart a product of matrices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..graph import FLOATS, Builder, Graph, Op
from .flow import ancestors, in_order, signatures
from .masks import position_of_input
from .plan import Plan
from .rules import constant_of, names


@dataclass(frozen=True, slots=True)
class Hidden:
    """Factors, by position, that every use of an exponential has, and the axes that the maximum of its shift goes over."""

    factors: tuple[int, ...]
    removed: frozenset[str]


def hidden_exponentials(graph: Graph, plan: Plan) -> dict[int, Hidden]:
    """
    The exponentials of a plan that factors may hide, by position.

    Those of one value, whole and split, have the same factors. No factor is made from the exponential, nor from one that is
    masked by what is.
    """
    removed = {member: plan.removed[leader] for leader, members in plan.members.items() for member in members}
    carried = _carried(graph)
    signature = signatures(graph)
    common: dict[int, frozenset[int]] = {}
    for position in removed:
        if carried[position] is None:
            continue
        varying = {f for f in carried[position] or () if removed[position] & set(graph.ops[f].axes)}
        own = frozenset(signature[f] for f in varying)
        argument = signature[graph.ops[position].args[0]]
        common[argument] = common.get(argument, own) & own
    out: dict[int, Hidden] = {}
    if not any(common.values()):
        return out
    made_from = ancestors(graph)
    for position in sorted(removed):
        op = graph.ops[position]
        shared = {f for f in carried[position] or () if signature[f] in common[signature[op.args[0]]]}
        within = {part for f in shared for part in _parts(graph, f) if part != f}
        axes = set(op.axes)
        chosen: list[int] = []
        for factor in sorted(shared - within, key=lambda f: (len(graph.ops[f].axes), f)):
            own_axes = set(graph.ops[factor].axes)
            if not made_from[factor] >> position & 1 and (own_axes <= axes or axes <= own_axes):
                axes |= own_axes
                chosen.append(factor)
                for later, bits in enumerate(made_from):
                    made_from[later] = bits | made_from[factor] if bits >> position & 1 else bits
        if chosen:
            out[position] = Hidden(tuple(chosen), frozenset(removed[position]))
    return out


def mask_by_factors(graph: Graph, hidden: Mapping[int, Hidden]) -> tuple[Graph, dict[int, int]]:
    """The graph with those exponentials masked, and where every operation that is used is in it."""
    return _Rewriter(graph, hidden).run()


def _carried(graph: Graph) -> list[frozenset[int] | None]:
    """For every value, the factors that all its uses have; None for what no output needs."""
    out: list[frozenset[int] | None] = [None] * len(graph.ops)
    for output in graph.outputs:
        out[output.value] = frozenset()
    for position in range(len(graph.ops) - 1, -1, -1):
        later = out[position]
        if later is None:
            continue
        op = graph.ops[position]
        for index, arg in enumerate(op.args):
            factors = _passed_on(graph, op, index, later)
            before = out[arg]
            out[arg] = factors if before is None else before & factors
    return out


def _passed_on(graph: Graph, op: Op, index: int, later: frozenset[int]) -> frozenset[int]:
    """The factors of one operand of an operation, the result of which has the factors `later`."""
    match op.kind:
        case "mul":
            return later.union(*_others(graph, op, index))
        case "contract":
            return _without(graph, later, names(op.attr[0])).union(*_others(graph, op, index))
        case "reduce" if op.attr[0] == "sum":
            return _without(graph, later, names(op.attr[1]))
        case "add" | "sub" | "neg":
            return later
        case "cast" if op.dtype in FLOATS:
            return later
        case "div" if index == 0:
            return later
        case "select" if index > 0:
            return later
        case _:
            return frozenset()


def _others(graph: Graph, op: Op, index: int) -> list[frozenset[int]]:
    return [_parts(graph, arg) for at, arg in enumerate(op.args) if at != index]


def _without(graph: Graph, factors: frozenset[int], axes: Sequence[str]) -> frozenset[int]:
    return frozenset(f for f in factors if not set(axes) & set(graph.ops[f].axes))


def _parts(graph: Graph, factor: int) -> frozenset[int]:
    """A factor and the factors it is a product of, as far as they may be 0."""
    op = graph.ops[factor]
    if _never_zero(graph, factor):
        return frozenset()
    own = frozenset((factor,) if op.dtype in (*FLOATS, "i1") else ())
    return own.union(*(_parts(graph, part) for part in _product_of(op)))


def _never_zero(graph: Graph, factor: int) -> bool:
    op = graph.ops[factor]
    parts = _product_of(op)
    return op.kind in ("exp", "constant") or (bool(parts) and all(_never_zero(graph, part) for part in parts))


def _product_of(op: Op) -> tuple[int, ...]:
    """The values one of which is 0 where a product, or what only changes the type or sign, is."""
    return op.args if op.kind in ("mul", "neg") or (op.kind == "cast" and op.dtype != "i1") else ()


class _Rewriter:
    """Writes the masked graph, each operation after what it needs: an exponential needs its factors."""

    def __init__(self, graph: Graph, hidden: Mapping[int, Hidden]) -> None:
        self.graph = graph
        self.hidden = hidden
        self.builder = Builder(graph.name, graph.symbols, graph.axes, graph.inputs)
        self.new: dict[int, int] = {}
        self.place = ""

    def run(self) -> tuple[Graph, dict[int, int]]:
        for position in in_order([output.value for output in self.graph.outputs], self.needs):
            self.place = self.graph.places[position] if self.graph.places else ""
            self.new[position] = self.emit(position)
        outputs = [replace(output, value=self.new[output.value]) for output in self.graph.outputs]
        builder = self.builder
        return replace(self.graph, ops=tuple(builder.ops), outputs=tuple(outputs), places=tuple(builder.places)), self.new

    def needs(self, position: int) -> list[int]:
        factors = self.hidden[position].factors if position in self.hidden else ()
        return [*self.graph.ops[position].args, *factors]

    def add(self, kind: str, *args: int, dtype: str | None = None) -> int:
        return self.builder.add(kind, *args, dtype=dtype, place=self.place)

    def number(self, value: float, dtype: str) -> int:
        return self.builder.add("constant", attr=(value,), dtype=dtype, place=self.place)

    def emit(self, position: int) -> int:
        op = self.graph.ops[position]
        if op.kind == "input":
            return position_of_input(self.builder, op)
        if position in self.hidden:
            return self.add("exp", self.argument(op.args[0], self.hidden[position]), dtype=op.dtype)
        return self.builder.add(op.kind, *(self.new[arg] for arg in op.args), attr=op.attr, dtype=op.dtype, place=self.place)

    def argument(self, position: int, hidden: Hidden) -> int:
        """The argument of an exponential, masked; one that subtracts what its shift can absorb still does."""
        op = self.graph.ops[position]
        if op.kind == "sub":
            value, offset = (self.graph.ops[arg] for arg in op.args)
            if set(offset.axes) <= set(value.axes) - hidden.removed:
                return self.add("sub", self.masked(op.args[0], hidden), self.new[op.args[1]], dtype=op.dtype)
        return self.masked(position, hidden)

    def masked(self, position: int, hidden: Hidden) -> int:
        """A value, -inf where a factor is 0. Conditions of the program, the mask it has among them, are around those on values."""
        masks: list[tuple[int, bool]] = []
        op = self.graph.ops[position]
        while op.kind == "select" and (keeps := self.hides(op)) is not None:
            masks.append((self.new[op.args[0]], keeps))
            position = op.args[1 if keeps else 2]
            op = self.graph.ops[position]
        tests: list[int] = []
        for factor in hidden.factors:
            self.conditions(factor, masks, tests)
        out = self.new[position]
        nothing = self.number(float("-inf"), op.dtype)
        for condition, keeps in [*((test, True) for test in tests), *reversed(dict.fromkeys(masks))]:
            out = self.add("select", condition, *((out, nothing) if keeps else (nothing, out)), dtype=op.dtype)
        return out

    def hides(self, op: Op) -> bool | None:
        """Which truth value keeps the value of a selection that is -inf where it has the other; None for other selections."""
        first, second = (constant_of(self.graph, arg) == float("-inf") for arg in op.args[1:])
        return None if first == second else second

    def conditions(self, factor: int, masks: list[tuple[int, bool]], tests: list[int]) -> None:
        """Adds what holds where a factor is not 0: conditions of the program where it is made from them, else a test."""
        source = factor
        while self.graph.ops[source].kind in ("cast", "neg") and self.graph.ops[source].dtype != "i1":
            source = self.graph.ops[source].args[0]
        if self.graph.ops[source].dtype == "i1":
            masks.append((self.new[source], True))
            return
        op = self.graph.ops[factor]
        if op.kind == "select":
            first, second = (constant_of(self.graph, arg) for arg in op.args[1:])
            if (first == 0) != (second == 0):
                masks.append((self.new[op.args[0]], second == 0))
                kept = op.args[1 if second == 0 else 2]
                if constant_of(self.graph, kept) is None:
                    self.conditions(kept, masks, tests)
                return
        zero = self.number(0.0, op.dtype)
        tests.append(self.builder.add("compare", self.new[factor], zero, attr=("ne",), place=self.place))
