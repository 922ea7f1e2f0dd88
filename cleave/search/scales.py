"""
Where a coefficient is applied: at the operand where that costs least.

The law: c (a b) = (c a) b, and a sum over axes is linear, so a coefficient on a result may as well be on any one factor of any
one operand that nothing else reads. A program of k linear operations has 2^k such forms; classes keep the one with all
coefficients outside (`rules`), and `placed` gives the cheapest one of a finished program. With `hoist`, weights are where it costs
nothing.

Left where they are: coefficients that an exponential takes in, which multiplies by log2 e in any case; and all of them where the
whole gain is below `LEAST` of the program's work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..graph import FLOATS, Builder, Graph
from .attributes import whole
from .cost import volume
from .work import SIMPLE, work

LEAST = 1e-3
LINEAR = ("cast", "neg", "rename", "split", "merge", "slice", "index")
"""Operations of one operand that commute with a coefficient."""
THROUGH = ("select", "add", "sub", "max", "cast", "neg", "rename", "shift")
"""Operations behind which a coefficient can still be one of an exponential's argument."""


@dataclass(frozen=True, slots=True)
class _Move:
    """Operation `at` applies a coefficient to operand `scaled`; it goes to operand `slot` of operation `user`, and saves work."""

    at: int
    scaled: int
    user: int
    slot: int
    saved: float


def placed(graph: Graph, sizes: Mapping[str, int], hoist: bool = False) -> Graph | None:
    """The program with coefficients where they cost least at these sizes of axes; None where none is worth a move."""
    total = 0.0
    least = LEAST * work(graph, sizes, hoist)
    found, current = graph, _best_move(graph, sizes, hoist)
    while current is not None:
        total += current.saved
        found = _moved(found, current)
        current = _best_move(found, sizes, hoist)
    return found if total > least else None


def _best_move(graph: Graph, sizes: Mapping[str, int], hoist: bool) -> _Move | None:
    finder = _Finder(graph, sizes, hoist)
    moves = [move for at in range(len(graph.ops)) if (move := finder.move(at)) is not None]
    return max(moves, key=lambda move: move.saved, default=None)


class _Finder:
    """The best places for the coefficients of one program."""

    def __init__(self, graph: Graph, sizes: Mapping[str, int], hoist: bool) -> None:
        self.graph = graph
        self.sizes = sizes
        self.users = graph.users()
        self.results = {output.value for output in graph.outputs}
        self.constant: list[bool] = []
        self.early: list[bool] = []
        """Whether an operation is made of constants and sizes alone, and whether it costs nothing when the program runs."""
        for op in graph.ops:
            inner = [self.constant[arg] for arg in op.args]
            leaf = op.kind == "size" or (op.kind == "constant" and op.attr[0] not in (float("inf"), float("-inf")))
            self.constant.append(leaf or (bool(inner) and all(inner)))
            given = graph.inputs[whole(op.attr[0])].weight if op.kind == "input" else all(self.early[arg] for arg in op.args)
            self.early.append(hoist and given)

    def cost(self, position: int) -> float:
        """The work of scaling a value."""
        return 0.0 if self.early[position] else SIMPLE * volume(self.sizes, self.graph.ops[position].axes)

    def coefficient_of(self, at: int) -> int | None:
        """Which operand an operation does nothing with but scale it by a coefficient."""
        op = self.graph.ops[at]
        if op.kind not in ("mul", "div") or op.attr or op.dtype not in FLOATS:
            return None
        for scaled, other in ((0, 1), (1, 0)) if op.kind == "mul" else ((0, 1),):
            if self.constant[op.args[other]] and not self.constant[op.args[scaled]]:
                return scaled
        return None

    def move(self, at: int) -> _Move | None:
        """The best move of the coefficient that an operation applies, if there is one."""
        scaled = self.coefficient_of(at)
        if scaled is None or self.into_exponential(at):
            return None
        best = min(self.places(at, scaled), key=lambda place: place[0], default=None)
        if best is None or best[0] >= self.cost(at):
            return None
        return _Move(at, scaled, best[1], best[2], self.cost(at) - best[0])

    def places(self, user: int, slot: int) -> list[tuple[float, int, int]]:
        """Operands further up that may be scaled in place of this one: the work that takes, the operation that reads it, and which."""
        at = self.graph.ops[user].args[slot]
        op = self.graph.ops[at]
        if len(self.users[at]) > 1 or at in self.results or op.dtype not in FLOATS:
            return []
        if op.kind in ("mul", "contract"):
            slots = range(len(op.args))
        elif op.kind in LINEAR or (op.kind == "div" and not op.attr) or (op.kind == "reduce" and op.attr[0] == "sum"):
            slots = range(1)
        else:
            return []
        out: list[tuple[float, int, int]] = []
        for inner in slots:
            if op.args.count(op.args[inner]) == 1 and not self.constant[op.args[inner]]:
                out += [(self.cost(op.args[inner]), at, inner), *self.places(at, inner)]
        return out

    def into_exponential(self, at: int) -> bool:
        """Whether a value is, up to sums and choices, the argument of an exponential."""
        kinds = [(user, self.graph.ops[user].kind) for user in self.users[at]]
        return any(kind == "exp" or (kind in THROUGH and self.into_exponential(user)) for user, kind in kinds)


def _moved(graph: Graph, move: _Move) -> Graph:
    """The program with a coefficient moved."""
    builder = Builder(graph.name, graph.symbols, graph.axes, graph.inputs)
    place: list[int] = []
    scale = graph.ops[move.at]
    coefficient = _copied(graph, builder, scale.args[1 - move.scaled], {})
    for position, op in enumerate(graph.ops):
        args = [place[arg] for arg in op.args]
        spot = graph.places[position] if graph.places else ""
        if op.kind == "input":
            place.append(whole(op.attr[0]))
        elif position == move.at:
            found = builder.ops[args[move.scaled]].dtype
            place.append(args[move.scaled] if found == op.dtype else builder.add("cast", args[move.scaled], dtype=op.dtype, place=spot))
        else:
            if position == move.user:
                args[move.slot] = _scaled(builder, scale.kind, args[move.slot], coefficient, spot)
            place.append(builder.add(op.kind, *args, attr=op.attr, dtype=op.dtype, place=spot))
    made = builder.finish([replace(output, value=place[output.value]) for output in graph.outputs])
    return made if graph.places else replace(made, places=())


def _scaled(builder: Builder, kind: str, value: int, coefficient: int, spot: str) -> int:
    """A value times or over a coefficient, in its own type."""
    made = builder.add(kind, value, coefficient, dtype="f32", place=spot)
    dtype = builder.ops[value].dtype
    return made if dtype == "f32" else builder.add("cast", made, dtype=dtype, place=spot)


def _copied(graph: Graph, builder: Builder, at: int, known: dict[int, int]) -> int:
    """An operation with all it needs."""
    op = graph.ops[at]
    if at not in known:
        args: Sequence[int] = [_copied(graph, builder, arg, known) for arg in op.args]
        known[at] = builder.add(op.kind, *args, attr=op.attr, dtype=op.dtype)
    return known[at]
