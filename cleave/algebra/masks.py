"""
Masks of exponentials moved inside: `select(c, exp(x), 0) -> exp(select(c, x, -inf))`, and the same for a product with cast(c).

Equal for every x (where x is infinite or NaN under the mask the right side is 0). A shift then is the maximum over what is
not masked, so a masked maximum cannot make the rest vanish.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from ..graph import Builder, Graph, Op
from .rules import constant_of


def mask_inside(graph: Graph, leave: Collection[int] = ()) -> tuple[Graph, dict[int, int]]:
    """
    The rewritten graph, and for every operation rewritten, by its old position, the position of its new exponential.

    Operations of `leave` are left alone. What is no longer used is still in the graph.
    """
    return _Rewriter(graph).run(leave)


@dataclass(frozen=True, slots=True)
class _Mask:
    """A condition, by its position, and the truth value that keeps."""

    condition: int
    keeps: bool


class _Rewriter:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.builder = Builder(graph.name, graph.symbols, graph.axes, graph.inputs)
        self.new: list[int] = []
        self.exponential = -1
        self.place = ""

    def run(self, leave: Collection[int]) -> tuple[Graph, dict[int, int]]:
        rewritten: dict[int, int] = {}
        for position, op in enumerate(self.graph.ops):
            self.place = self.graph.places[position] if self.graph.places else ""
            made = None if position in leave else self.masked_op(op)
            if made is not None:
                rewritten[position] = self.exponential
            self.new.append(self.copied(op) if made is None else made)
        outputs = tuple(replace(output, value=self.new[output.value]) for output in self.graph.outputs)
        builder = self.builder
        return replace(self.graph, ops=tuple(builder.ops), outputs=outputs, places=tuple(builder.places)), rewritten

    def copied(self, op: Op) -> int:
        if op.kind == "input":
            return position_of_input(self.builder, op)
        return self.builder.add(op.kind, *(self.new[arg] for arg in op.args), attr=op.attr, dtype=op.dtype, place=self.place)

    def masked_op(self, op: Op) -> int | None:
        """An operation that masks an exponential, with the mask inside."""
        if op.kind == "select":
            condition, yes, no = op.args
            for value, other, keeps in ((yes, no, True), (no, yes, False)):
                if constant_of(self.graph, other) == 0:
                    made = self.masked(value, _Mask(condition, keeps))
                    if made is None or self.graph.ops[value].kind == "exp":
                        return made
                    branches = (made, self.new[other]) if keeps else (self.new[other], made)
                    return self.builder.add("select", self.new[condition], *branches, dtype=op.dtype, place=self.place)
        if op.kind in ("mul", "contract"):
            for index, arg in enumerate(op.args):
                cast = self.graph.ops[arg]
                if cast.kind != "cast" or self.graph.ops[cast.args[0]].dtype != "i1":
                    continue
                for other, value in enumerate(op.args):
                    made = None if other == index else self.masked(value, _Mask(cast.args[0], True))
                    if made is not None:
                        args = [made if at == other else self.new[part] for at, part in enumerate(op.args) if at != index]
                        if op.kind == "mul":
                            return args[0]
                        return self.builder.add("contract", *args, attr=op.attr, dtype=op.dtype, place=self.place)
        return None

    def masked(self, value: int, mask: _Mask) -> int | None:
        """A product with one exponential masked, None if it has none."""
        op = self.graph.ops[value]
        if op.kind == "mul":
            for index, arg in enumerate(op.args):
                made = self.masked(arg, mask)
                if made is not None:
                    args = [made if at == index else self.new[part] for at, part in enumerate(op.args)]
                    return self.builder.add("mul", *args, dtype=op.dtype, place=self.place)
        if op.kind != "exp":
            return None
        argument = self.new[op.args[0]]
        hidden = self.builder.add("constant", attr=(float("-inf"),), dtype=self.builder.ops[argument].dtype, place=self.place)
        branches = (argument, hidden) if mask.keeps else (hidden, argument)
        chosen = self.builder.add("select", self.new[mask.condition], *branches, place=self.place)
        self.exponential = self.builder.add("exp", chosen, dtype=op.dtype, place=self.place)
        return self.exponential


def position_of_input(builder: Builder, op: Op) -> int:
    """Where a builder put the input that `op` reads."""
    return next(i for i, known in enumerate(builder.ops) if known.kind == "input" and known.attr == op.attr)
