"""
From a kernel's work and a plan to the tile statements of its values, driven by demand from those that are stored.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from math import prod

from ..graph import FLOATS
from . import lanes
from .indices import Indices
from .lanes import Lane
from .nodes import REDUCING, Index, Node, axis_index
from .problem import Problem
from .program import Buffer, Carried, Either, For, Load, TileType, Var, When
from .roles import Dim, Plan
from .statements import INFINITY, Scope, Value, widest_float, work_dtype

LOG2E = 1.4426950408889634
LARGEST = 3e38
MOST = 2**31 - 1
"""The largest index."""
LARGE = 8192
"""Elements of a tile that registers do not hold beside an accumulator without loss."""


def unit_of(shift: Node) -> float:
    """
    What a shift's level counts the logits in: scale * log2(e), so that an exponential is one multiply-add and a power of 2.

    It is 1, the difference of two logits being taken first, where that product would lose what the program keeps: where logits may be
    finite but so large that it overflows, as masks filled with the least float are (a row of such logits has equal weights), and
    where they are f32, whose product is rounded to as many bits as they have (a dot of 16-bit operands was rounded before).
    """
    return 1.0 if _needs_difference(shift.args[0], LARGEST / (LOG2E * max(1.0, shift.scale))) else shift.scale * LOG2E


def _needs_difference(node: Node, limit: float) -> bool:
    match node.kind:
        case "constant":
            return isinstance(node.attr[0], float) and limit < abs(node.attr[0]) < INFINITY
        case "load":
            return node.dtype in ("bf16", "f32", "f64")
        case "select":
            return any(_needs_difference(arg, limit) for arg in node.args[1:])
        case "add" | "sub" | "mul" | "div" | "max" | "min" | "cast" | "neg" | "abs":
            return any(_needs_difference(arg, limit) for arg in node.args)
        case "contract":
            return any(arg.dtype in ("f32", "f64") for arg in node.args)
        case "reduce":
            return node.attr[0] != "sum" and _needs_difference(node.args[0], limit)
        case _:
            return False


def _fits_index(node: Node) -> bool:
    """Whether an integer certainly has no more bits than an index."""
    match node.kind:
        case "constant":
            return isinstance(node.attr[0], int) and abs(node.attr[0]) <= MOST
        case "cast":
            return node.dtype != "i64" or (node.args[0].dtype not in FLOATS and _fits_index(node.args[0]))
        case _:
            return node.dtype != "i64"


def _is_own_sum(node: Node) -> bool:
    """
    Whether a value is a sum of exponentials, shifted by the largest of them: 0 without a live one, else the largest is 1. A shift counts
    by its own scale: exp(2*x - max(x)) may be anything.
    """
    if node.kind != "reduce" or node.attr[0] != "sum" or node.args[0].kind != "shifted_exp":
        return False
    (terms,) = node.args
    logits, shift = terms.args
    return shift.removed == node.removed and shift.args[0] is logits and shift.scale == terms.scale


class Emitter(Indices):
    """Values of one kernel. Raises: InfeasibleError where the plan does not fit the work."""

    def __init__(self, problem: Problem, plan: Plan) -> None:
        super().__init__(problem, plan)
        self.true: frozenset[int] = frozenset()
        self._assumed: list[tuple[Scope, frozenset[int], dict[str, bool]]] = []
        self._awaiting: dict[int, bool] = {}

    @abstractmethod
    def reduction(self, node: Node, home: Scope) -> Value:
        """The value of a sum, maximum, minimum or contraction, in the node's type."""

    @abstractmethod
    def level(self, shift: Node, scope: Scope) -> Value:
        """The value of a shift in its unit: the running one inside its loop, else the final one. 0 in place of -inf."""

    @abstractmethod
    def raw_level(self, shift: Node, scope: Scope) -> Value:
        """The maximum a shift stands for, in its unit; -inf where nothing is live."""

    def value(self, node: Node, scope: Scope) -> Value:
        """The tile of a node in its own type, computed at its home."""
        home = self.home(node, scope)
        found = home.memo.get(node)
        if found is not None:
            return found
        out = self._compute(node, home)
        return home.memo.setdefault(node, out)

    def _compute(self, node: Node, home: Scope) -> Value:
        match node.kind:
            case "load":
                return self.load(node, home, None)
            case "constant":
                value = node.attr[0]
                assert isinstance(value, int | float)
                return self.constant(value, node.dtype)
            case "index":
                assert node.index is not None
                return self.place(node.index, home)
            case "shift":
                return self.natural(self.level(node, home), node)
            case "reduce" | "contract":
                return self.reduction(node, home)
            case "shifted_exp":
                return self.shifted_exp(node, home)
            case _:
                return self.elementwise(node, home)

    def load(self, node: Node, home: Scope, order: Sequence[str] | None) -> Value:
        """Reads a tile, in layout order or with its dimensions in the order given."""
        buffer = self.problem.buffers[int(str(node.attr[0]))]
        index = tuple((axis, self.place(at, home).var) for axis, at in node.where)
        check = self.check_axes(node.where)
        dims = self.tile_dims({name for _, var in index for name in var.type.names})
        if order is not None:
            dims = tuple((name, self.by_name[name].tile) for name in order)
        out = Var(buffer.name, TileType(dims, buffer.dtype), f"{buffer.name} [{', '.join(axis for axis, _ in index)}]")
        home.statements.append(Load(out, buffer, index, check, 0.0 if check else None, fresh=self.is_fresh(buffer)))
        false: dict[str, Lane] = {}
        for name, _ in dims:
            if self.ragged[name]:
                false[name] = 0.0 if any(self._leaves(name, axis, at) for axis, at in node.where) else lanes.UNKNOWN
        return Value(out, home, false)

    def element(self, node: Node, where: Sequence[tuple[str, Value]], scope: Scope) -> Value:
        """One element of what a load reads, at indices that exist."""
        buffer = self.problem.buffers[int(str(node.attr[0]))]
        index = tuple((axis, value.var) for axis, value in where)
        out = Var(buffer.name, TileType((), buffer.dtype), f"{buffer.name} [{', '.join(axis for axis, _ in where)}]")
        scope.statements.append(Load(out, buffer, index, fresh=self.is_fresh(buffer)))
        return Value(out, scope)

    def is_fresh(self, buffer: Buffer) -> bool:
        """Whether other programs of the launch store what is read from a buffer."""
        return False

    def _leaves(self, dim: str, axis: str, index: Index) -> bool:
        """Whether false lanes of a dimension have an index of `axis` past its extent, so that a checked load skips them."""
        lead = self.by_name[dim].axes[0]
        if index.kind == "axis" and index.name == lead:
            return self.sizes.extents[axis] == self.sizes.extents[lead]
        if index.kind == "add" and index.args[0] == axis_index(lead) and index.args[1].kind == "number":
            offset = index.args[1].size
            before, own, whole = None if offset is None else offset.constant, self.sizes.fixed(lead), self.sizes.fixed(axis)
            return before is not None and own is not None and before + own == whole
        chunk = self.chunk_of(lead)
        if chunk is None or index.kind != "add" or index.args[1].kind != "axis" or index.args[1].name != lead:
            return False
        return self.rounds_chunk(lead) and self.sizes.extents[axis] == self.sizes.extents[chunk[0]]

    def times(self, value: Value, factor: float, name: str = "") -> Value:
        """The value times a constant."""
        if factor == 1.0:
            return value
        dtype = value.var.type.dtype
        return self.let(value.scope, "mul", (value, self.constant(factor, dtype)), dtype, name=name or value.var.name)

    def natural(self, level: Value, shift: Node) -> Value:
        """A level as the value its shift has in the graph."""
        return self.times(level, shift.scale / unit_of(shift), "shift")

    def shifted_exp(self, node: Node, home: Scope) -> Value:
        """exp(scale * x - shift) as a power of 2; see `unit_of`."""
        logits, shift = node.args
        dtype = widest_float((node.dtype, logits.dtype, shift.dtype))
        top = self.cast(self.level(shift, home), dtype)
        x = self.cast(self.value(logits, home), dtype)
        if unit_of(shift) != 1.0:
            scaled = self.let(home, "mul", (x, self.constant(node.scale * LOG2E, dtype)), dtype)
            power = self.let(home, "sub", (scaled, top), dtype)
        else:
            ratio = node.scale / shift.scale
            if ratio != 1.0:
                x = self.let(home, "mul", (x, self.constant(ratio, dtype)), dtype)
            moved = self.let(home, "sub", (x, top), dtype)
            power = self.let(home, "mul", (moved, self.constant(shift.scale * LOG2E, dtype)), dtype)
        return self.cast(self.let(home, "exp2", (power,), dtype, name="p"), node.dtype)

    @contextmanager
    def assuming(self, true: frozenset[int], whole: Dim | None, scope: Scope) -> Generator[None]:
        """Within this context some conditions hold in every lane of a loop's body, and one dimension has no false lanes there."""
        self._assumed.append((scope, self.true, self.ragged))
        self.true = self.true | true
        self.ragged = self.ragged if whole is None else {**self.ragged, whole.name: False}
        yield
        _, self.true, self.ragged = self._assumed.pop()

    @contextmanager
    def as_in(self, home: Scope) -> Generator[None]:
        """Within this context nothing is assumed but what holds in a scope: another loop may be emitted for the body of one."""
        chain = home.chain()
        kept = next((place for place, (scope, _, _) in enumerate(self._assumed) if scope not in chain), None)
        if kept is None:
            yield
            return
        now = self.true, self.ragged, self._assumed
        _, self.true, self.ragged = self._assumed[kept]
        self._assumed = self._assumed[:kept]
        yield
        self.true, self.ragged, self._assumed = now

    def elementwise(self, node: Node, home: Scope) -> Value:
        """One elementwise operation, done in f32 where its type is narrower."""
        if node.kind == "select" and node.args[0].id in self.true:
            return self.cast(self.value(node.args[1], home), node.dtype)
        if node.kind == "ordered" or (node.kind in ("and", "or") and "ranged" in node.attr):
            return self.value(node.args[0], home)
        if node.kind == "select" and home.edge is not None and node.args[0].id in home.decided:
            return self._at_edge(node, home, home.edge)
        args = self.operands(node, home)
        kind = node.kind
        attr = node.attr
        if kind == "cast":
            return self.cast(args[0], node.dtype) if args[0].var.type.dtype != node.dtype else args[0]
        dtype = work_dtype(node.dtype)
        wanted = dtype
        if kind == "compare":
            kinds = [arg.var.type.dtype for arg in args]
            whole = "index" if all(map(_fits_index, node.args)) else "i64"
            wanted = widest_float(kinds) if any(entry in FLOATS for entry in kinds) else "i1" if kinds == ["i1", "i1"] else whole
        if kind == "select":
            args = [args[0], *(self.cast(arg, dtype) for arg in args[1:])]
        else:
            args = [self.cast(arg, wanted) for arg in args]
        if kind == "div" and "guarded" in attr:
            divide = self.times_reciprocal if _is_own_sum(node.args[1]) and dtype == "f32" else self.guarded_division
            return self.cast(divide(args[0], args[1], home, dtype), node.dtype)
        return self.cast(self.let(home, kind, args, dtype, attr), node.dtype)

    def _at_edge(self, node: Node, home: Scope, edge: Value) -> Value:
        """
        A choice that is done, and its condition looked at, only in the steps of a loop at an edge; in others it is its second operand. In
        these all lanes along the loop exist: the branch also gives those that do not what is chosen where the condition is false.
        """
        dim, dtype = home.dim, work_dtype(node.dtype)
        assert dim is not None, "edges are of loops"
        kept, other = (self.cast(self.value(arg, home), dtype) for arg in node.args[1:])
        branch = home.branch()
        made = self.let(branch, "select", (self.value(node.args[0], branch), kept, other), dtype)
        fill = node.args[2].attr[0] if node.args[2].kind == "constant" else None
        if self.ragged[dim.name] and isinstance(fill, int | float) and made.lanes.get(dim.name, fill) != fill:
            made = self.masked(made, dim, fill, branch)
        if kept.var.type.dims != made.var.type.dims:
            kept = self.let(home, "broadcast", (kept,), dtype, name=kept.var.name, dims=made.var.type.dims)
        out = Var(made.var.name, made.var.type)
        home.statements.append(When(edge.var, (Either(made.var, kept.var, out),), tuple(branch.statements)))
        away = {**kept.lanes, dim.name: made.lanes.get(dim.name, lanes.FINITE)}
        false = {name: lanes.joined(lane, away.get(name, lanes.FINITE)) for name, lane in made.lanes.items()}
        return self.cast(Value(out, home, false), node.dtype)

    def operands(self, node: Node, home: Scope) -> list[Value]:
        """
        The values of a node's operands. Large ones that no loop makes come after those that one does, as registers would hold them
        throughout; small ones before, as they are loaded while the loop runs.
        """
        places = sorted(range(len(node.args)), key=lambda place: self._is_held(node.args[place]))
        found = {place: self.value(node.args[place], home) for place in places}
        return [found[place] for place in range(len(node.args))]

    def _is_held(self, node: Node) -> bool:
        dims = self.tile_dims(self.names(node.axes))
        return prod(size for _, size in dims) >= LARGE and not self._awaits_loop(node)

    def _awaits_loop(self, node: Node) -> bool:
        """Whether a loop of the kernel makes a value."""
        found = self._awaiting.get(node.id)
        if found is None:
            own = node.kind in REDUCING and self.loop_of(node) is not None
            found = self._awaiting[node.id] = own or any(map(self._awaits_loop, node.args))
        return found

    def guarded_division(self, numerator: Value, denominator: Value, home: Scope, dtype: str) -> Value:
        """A quotient that is 0 where its denominator, a sum of shifted exponentials, is 0."""
        zero = self.constant(0.0, dtype)
        where = denominator.scope
        key = ("empty", id(denominator.var))
        empty = where.memo.get(key)
        if empty is None:
            empty = where.memo[key] = self.let(where, "compare", (denominator, zero), "i1", ("eq",), name="empty")
        quotient = self.let(home, "div", (numerator, denominator), dtype)
        return self.let(home, "select", (empty, zero, quotient), dtype, name=quotient.var.name)

    def times_reciprocal(self, numerator: Value, denominator: Value, home: Scope, dtype: str) -> Value:
        """
        The same for sums that are 1 at least, where they are not 0: one division a sum in place of one for each of many numerators. What
        the further rounding adds is half a unit in the last place.
        """
        if set(numerator.var.type.dims) <= set(denominator.var.type.dims):
            return self.guarded_division(numerator, denominator, home, dtype)
        where = denominator.scope
        key = ("reciprocal", id(denominator.var))
        inverse = where.memo.get(key)
        if inverse is None:
            one = self.constant(1.0, dtype)
            inverse = where.memo[key] = self.guarded_division(one, denominator, where, dtype)
        return self.let(home, "mul", (numerator, inverse), dtype)

    def open_loop(
        self, dim: Dim, home: Scope, bounds: tuple[Value, Value] | None = None
    ) -> tuple[Scope, Callable[[Sequence[Carried]], None]]:
        """Opens a loop in `home`; the second result closes it, given what it carries."""
        scope = Scope(dim, home)
        index = Var(dim.name + "0", TileType((), "index"), f"first {', '.join(dim.axes)} of this step")
        scope.memo["index", dim.name] = Value(index, scope)
        start, stop = bounds or (self.constant(0, "index"), self.stop(dim))

        def close(carried: Sequence[Carried]) -> None:
            home.statements.append(For(dim.name, index, start.var, stop.var, dim.tile, tuple(carried), tuple(scope.statements)))

        return scope, close
