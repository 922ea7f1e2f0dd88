"""
Where values live, and the indices at which they are read.

A node's home is the innermost open loop whose dimension it has, or in which a shift that it uses still moves; so what a loop
does not change is computed before it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from . import lanes
from .nodes import REDUCING, Index, Node, axis_index
from .problem import Problem
from .program import Range, TileType, Var
from .roles import Dim, Plan
from .statements import InfeasibleError, Scope, Statements, Value


class Indices(Statements, ABC):
    """Homes, stages, index tiles, and the checks of accesses."""

    def __init__(self, problem: Problem, plan: Plan) -> None:
        super().__init__(problem, plan)
        self.checked: dict[str, Var] = {}
        self.starts: dict[str, Var] = {}
        self._stages: dict[str, dict[int, int]] = {}

    @abstractmethod
    def value(self, node: Node, scope: Scope) -> Value:
        """The tile of a node in its own type, computed at its home."""

    def stop(self, dim: Dim) -> Value:
        """One past the last element of a dimension."""
        key = ("stop", dim.name)
        found = self.root.memo.get(key)
        if found is not None:
            return found
        chunk = self.chunk_of(dim.axes[0])
        if len(dim.axes) == 1 and chunk is not None and self.is_full(dim.axes[0]):
            found = self.size(dim.axes[0])
        elif len(dim.axes) == 1 and chunk is not None:
            base = self.let(self.root, "mul", (self.place(axis_index(chunk[1]), self.root), self.size(dim.axes[0])), "index")
            left = self.let(self.root, "sub", (self.size(chunk[0]), base), "index", name="left")
            found = self.let(self.root, "min", (left, self.size(dim.axes[0])), "index", name=dim.name + "_stop")
        elif all(self.sizes.fixed(axis) is not None for axis in dim.axes):
            found = self.constant(self.sizes.hint_product(dim.axes), "index")
        else:
            found = self.size(dim.axes[0])
            for axis in dim.axes[1:]:
                found = self.let(self.root, "mul", (found, self.size(axis)), "index", name=dim.name + "_size")
        self.root.memo["stop", dim.name] = found
        return found

    def home(self, node: Node, scope: Scope) -> Scope:
        """The scope a node is computed in when demanded from `scope`."""
        wanted = {self.dim_of[axis].name for axis in node.axes}
        for candidate in scope.chain():
            if candidate.dim is not None and candidate.dim.name in wanted:
                return candidate
            if any(shift.id in candidate.running for shift in node.shifts):
                return candidate
        return self.root

    def loop_of(self, node: Node) -> Dim | None:
        """The loop dimension a reducing node removes, if any. Raises: InfeasibleError where there are two."""
        found = {dim.name: dim for dim in (self.dim_of[axis] for axis in node.removed) if dim.role == "loop"}
        if len(found) > 1:
            raise InfeasibleError(f"one reduction over two loops, {' and '.join(sorted(found))}")
        return next(iter(found.values()), None)

    def loops_in(self, node: Node) -> frozenset[str]:
        """The loop dimensions a node's value depends on."""
        return frozenset(self.dim_of[axis].name for axis in node.axes if self.dim_of[axis].role == "loop")

    def stage(self, node: Node, dim: Dim) -> int:
        """How many dependent passes over a loop a node needs: a shift and the exponentials that use it share one."""
        stages = self._stages.get(dim.name)
        if stages is None:
            stages = self._stages[dim.name] = {}
            for entry in self.problem.nodes:
                deepest = 0
                for place, arg in enumerate(entry.args):
                    free = entry.kind == "shifted_exp" and place == 1 and any(axis in dim.axes for axis in arg.removed)
                    deepest = max(deepest, stages[arg.id] - free)
                removes = entry.kind in REDUCING and any(axis in dim.axes for axis in entry.removed)
                stages[entry.id] = deepest + removes
        return stages[node.id]

    def place(self, index: Index, scope: Scope) -> Value:
        """The index tile or scalar of an index expression."""
        wanted = {self.dim_of[axis].name for axis in index.axes}
        chain = scope.chain()
        home = next((candidate for candidate in chain if candidate.dim is not None and candidate.dim.name in wanted), self.root)
        if index.kind == "data" and index.node is not None:
            home = self.home(index.node, scope)
        found = home.memo.get(index)
        if found is not None:
            return found
        out = self._index(index, home)
        home.memo[index] = out
        return out

    def _index(self, index: Index, home: Scope) -> Value:
        match index.kind:
            case "axis":
                return self._axis(self.dim_of[index.name], index.name, home)
            case "number":
                assert index.size is not None
                return self.expression(self.sizes.bind(index.size))
            case "length":
                return self.size(index.name)
            case "clamp":
                zero = self.constant(0, "index")
                return self._unknown(self.let(home, "max", (self.place(index.args[0], home), zero), "index"))
            case "data":
                assert index.node is not None
                return self.cast(self.value(index.node, home), "index")
            case kind:
                args = [self.place(arg, home) for arg in index.args]
                return self._unknown(self.let(home, kind, args, "index"))

    def _unknown(self, value: Value) -> Value:
        value.lanes = dict.fromkeys(value.lanes, lanes.UNKNOWN)
        return value

    def span(self, dim: Dim, home: Scope) -> Value:
        """The element numbers of a dimension: a tile, or a scalar where its size is 1."""
        first = self.first(dim, home)
        if dim.tile == 1:
            return first
        key = ("span", dim.name)
        found = first.scope.memo.get(key)
        if found is None:
            var = Var(dim.name, TileType(((dim.name, dim.tile),), "index"), ", ".join(dim.axes) if len(dim.axes) > 1 else "")
            first.scope.statements.append(Range(var, first.var))
            found = Value(var, first.scope, {dim.name: lanes.UNKNOWN} if self.ragged[dim.name] else {})
            first.scope.memo[key] = found
        return found

    def first(self, dim: Dim, home: Scope) -> Value:
        """The scalar number of a dimension's first element in this program and step."""
        if dim.along:
            return self.first(self.by_name[dim.along], home)
        if dim.role == "full":
            return self.constant(0, "index")
        if dim.role == "grid":
            return Value(self.starts[dim.name], self.root)
        for scope in home.chain():
            if scope.dim is dim:
                return scope.memo["index", dim.name]
        raise InfeasibleError(f"axis of {dim.name} is used outside its loop")

    def _axis(self, dim: Dim, axis: str, home: Scope) -> Value:
        whole = self.span(dim, home)
        if len(dim.axes) == 1:
            return whole
        at = dim.axes.index(axis)
        out = whole
        inner = dim.axes[at + 1 :]
        if inner:
            unit = self.size(inner[0])
            for other in inner[1:]:
                unit = self.let(self.root, "mul", (unit, self.size(other)), "index")
            out = self.let(whole.scope, "floordiv", (out, unit), "index", name=axis)
        if at > 0:
            out = self.let(whole.scope, "mod", (out, self.size(axis)), "index", name=axis)
        return self._unknown(Value(out.var, whole.scope, out.lanes))

    def valid(self, dim: Dim, scope: Scope) -> Value:
        """Which lanes of a dimension exist."""
        whole = self.span(dim, scope)
        # In a branch of a loop's body the index tile may be that of the body.
        where = next((candidate for candidate in scope.chain() if candidate.dim is dim), whole.scope)
        key = ("valid", dim.name)
        found = where.memo.get(key)
        if found is None:
            found = where.memo[key] = self.let(where, "compare", (whole, self.stop(dim)), "i1", ("lt",), name=dim.name + "_in")
        return found

    def masked(self, value: Value, dim: Dim, neutral: float, scope: Scope) -> Value:
        """The value with its false lanes along a dimension replaced."""
        fill = self.constant(neutral, value.var.type.dtype)
        inside = self.valid(dim, scope)
        where = next(candidate for candidate in scope.chain() if candidate in (value.scope, inside.scope))
        out = self.let(where, "select", (inside, value, fill), value.var.type.dtype, name=value.var.name)
        out.lanes = {**value.lanes, dim.name: neutral}
        return out

    def needs_check(self, index: Index) -> bool:
        """Whether an index may reach the extent of the axis it indexes."""
        if index.kind == "add" and index.args[1].kind == "axis" and self.chunk_of(index.args[1].name) is not None:
            # The loop over a chunk ends where what is split does, and tiles of it are whole unless it is ragged.
            dim = self.dim_of[index.args[1].name]
            return self.ragged[dim.name] or len(dim.axes) > 1
        return index.loose or any(self.ragged[self.dim_of[axis].name] and self.dim_of[axis].axes[0] == axis for axis in index.axes)

    def check_axes(self, where: Sequence[tuple[str, Index]]) -> tuple[str, ...]:
        """The axes of an access that must be checked against their extents."""
        out = tuple(axis for axis, index in where if self.needs_check(index))
        for axis in out:
            self.checked.setdefault(axis, self.expression(self.sizes.extents[axis]).var)
        return out
