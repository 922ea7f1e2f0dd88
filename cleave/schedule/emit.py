"""
From a kernel's work and a plan to its tile statements.

Emission is driven by demand and memoised by scope: the root, and one scope for each open loop. A node's home is the innermost
loop whose dimension it has, so what a loop does not change is computed before it. Statements are appended to a scope while
it is open, and a loop is appended to the scope around it when it closes, so definitions always come first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..extents import Extent
from ..graph import Attr
from . import lanes
from .lanes import Lane
from .nodes import REDUCING, Index, Node, axis_index
from .problem import Problem
from .program import For, GridDim, Kernel, Let, Load, Range, Statement, Store, TileType, Var
from .roles import Dim, Plan
from .sizes import ceildiv

FLOATS = ("f16", "bf16", "f32", "f64")
INTEGERS = ("i32", "i64", "index")
INFINITY = float("inf")


class InfeasibleError(Exception):
    """A plan cannot hold this kernel: the reason."""


@dataclass(eq=False, slots=True)
class Scope:
    """An open block of statements: the root, or the body of a loop over `dim`. `running` are shifts that change in this loop."""

    dim: Dim | None = None
    parent: Scope | None = None
    statements: list[Statement] = field(default_factory=lambda: [])
    memo: dict[Any, Value] = field(default_factory=lambda: {})
    running: dict[int, Value] = field(default_factory=lambda: {})

    def chain(self) -> list[Scope]:
        """This scope and those around it, innermost first."""
        out = [self]
        while out[-1].parent is not None:
            out.append(out[-1].parent)
        return out


@dataclass(eq=False, slots=True)
class Value:
    """An emitted tile: its variable, the scope it lives in, and what its false lanes hold, by dimension."""

    var: Var
    scope: Scope
    lanes: dict[str, Lane] = field(default_factory=lambda: {})


def work_dtype(dtype: str) -> str:
    """The type elementwise work is done in."""
    return "f32" if dtype in ("f16", "bf16") else dtype


class Emitter:
    """Builds one kernel. Raises: InfeasibleError where the plan does not fit the work."""

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self.problem = problem
        self.plan = plan
        self.sizes = problem.sizes
        self.dim_of = {axis: dim for dim in plan.dims for axis in dim.axes}
        self.order = {dim.name: place for place, dim in enumerate(plan.dims)}
        self.by_name = {dim.name: dim for dim in plan.dims}
        self.root = Scope()
        self.arguments: dict[str, Var] = {}
        self.checked: dict[str, Var] = {}
        self.starts: dict[str, Var] = {}
        self._stages: dict[str, dict[int, int]] = {}
        self.ragged = {dim.name: self._is_ragged(dim) for dim in plan.dims}

    # Small pieces: dimensions, statements, constants and sizes.

    def _is_ragged(self, dim: Dim) -> bool:
        axes = dim.axes
        chunk = self.sizes.axes[axes[0]].chunk_of
        if chunk is not None and len(axes) == 1:
            return not self.rounds_chunk(axes[0]) or self.sizes.multiple((chunk[0],)) % dim.tile != 0
        return dim.tile > 1 and self.sizes.multiple(axes) % dim.tile != 0

    def rounds_chunk(self, axis: str) -> bool:
        """Whether chunks of a split may be made a multiple of the tile: nothing but the reduction over them sees their size."""
        visible = any(axis in result.buffer.axes for result in self.problem.results)
        sized = any(op.kind == "size" and op.attr == (axis,) for op in self.problem.graph.ops)
        return not visible and not sized and all(axis not in entry.axes for entry in self.problem.buffers)

    def tile_dims(self, names: set[str]) -> tuple[tuple[str, int], ...]:
        """Dimensions of these names in layout order, with their sizes."""
        return tuple((name, self.by_name[name].tile) for name in sorted(names, key=self.order.__getitem__))

    def names(self, axes: Sequence[str]) -> set[str]:
        """The names of the tile dimensions (those larger than 1) of these axes."""
        return {self.dim_of[axis].name for axis in axes if self.dim_of[axis].tile > 1}

    def let(
        self,
        scope: Scope,
        kind: str,
        args: Sequence[Value],
        dtype: str,
        attr: tuple[Attr, ...] = (),
        name: str = "",
        dims: tuple[tuple[str, int], ...] | None = None,
    ) -> Value:
        """Appends an elementwise statement. Its dimensions are those of its operands unless given."""
        if dims is None:
            dims = self.tile_dims({dim for arg in args for dim in arg.var.type.names})
        out = Var(name or kind, TileType(dims, dtype))
        scope.statements.append(Let(out, kind, tuple(arg.var for arg in args), attr))  # type: ignore[arg-type]
        false: dict[str, Lane] = {}
        for dim, _ in dims:
            if self.ragged[dim]:
                false[dim] = lanes.lane_of(kind, attr, [arg.lanes.get(dim, lanes.FINITE) for arg in args])
        if kind == "constant" and isinstance(attr[0], int | float):
            false = {dim: float(attr[0]) for dim, _ in dims if self.ragged[dim]}
        return Value(out, scope, false)

    def constant(self, value: float | int | bool, dtype: str, dims: tuple[tuple[str, int], ...] = (), name: str = "") -> Value:
        """A constant tile at the root."""
        key = ("constant", repr(value), dtype, dims)
        found = self.root.memo.get(key)
        if found is None:
            found = self.let(self.root, "constant", (), dtype, (value,), name or "c", dims)
            if not dims and isinstance(value, int | float):
                found.lanes = {dim.name: float(value) for dim in self.plan.dims if self.ragged[dim.name]}
            self.root.memo[key] = found
        return found

    def cast(self, value: Value, dtype: str) -> Value:
        """The value in another type; casts are shared and live where their operand does."""
        if value.var.type.dtype == dtype:
            return value
        key = ("cast", id(value.var), dtype)
        found = value.scope.memo.get(key)
        if found is None:
            found = self.let(value.scope, "cast", (value,), dtype, name=value.var.name)
            found.lanes = dict(value.lanes)
            value.scope.memo[key] = found
        return found

    def expression(self, size: Extent) -> Value:
        """The scalar of an extent: a constant, a run-time argument, or arithmetic on arguments."""
        if size.constant is not None:
            return self.constant(size.constant, "index")
        key = ("size", size.text)
        found = self.root.memo.get(key)
        if found is None:
            found = self._arithmetic(size.sympy())
            self.root.memo[key] = found
        return found

    def _argument(self, name: str) -> Value:
        key = ("argument", name)
        found = self.root.memo.get(key)
        if found is None:
            var = Var(name, TileType((), "index"))
            self.arguments[name] = var
            found = self.root.memo[key] = Value(var, self.root)
        return found

    def _arithmetic(self, value: Any) -> Value:
        """Index arithmetic of a sympy expression over symbols."""
        if value.is_Integer:
            return self.constant(int(value), "index")
        if value.is_Symbol:
            return self._argument(str(value))
        for axis, bound in self.sizes.extents.items():
            if bound.sympy() == value:
                return self._argument(axis)
        if value.is_Add or value.is_Mul:
            parts = [self._arithmetic(part) for part in value.args]
            out = parts[0]
            for part in parts[1:]:
                out = self.let(self.root, "add" if value.is_Add else "mul", (out, part), "index")
            return out
        raise InfeasibleError(f"the extent {value} has no scalar form")

    def size(self, axis: str) -> Value:
        """The scalar extent of an axis; of a chunk whose length is free, rounded up to its tile."""
        declared = self.sizes.axes[axis]
        if declared.chunk_of is not None and axis in self.dim_of and self.rounds_chunk(axis):
            return self._chunk(axis, declared.chunk_of[0], declared.chunk_of[1])
        return self.expression(self.sizes.extents[axis])

    def _chunk(self, axis: str, whole: str, outer: str) -> Value:
        key = ("chunk", axis)
        found = self.root.memo.get(key)
        if found is None:
            tile = self.dim_of[axis].tile
            total, count = self.sizes.extents[whole].constant, self.sizes.extents[outer].constant
            if total is not None and count is not None:
                found = self.constant(-(-total // (count * tile)) * tile, "index")
            else:
                step = self.constant(tile, "index")
                block = self.let(self.root, "mul", (self.size(outer), step), "index", name="block")
                room = self.let(self.root, "sub", (block, self.constant(1, "index")), "index")
                padded = self.let(self.root, "add", (self.size(whole), room), "index")
                tiles = self.let(self.root, "floordiv", (padded, block), "index", name="tiles")
                found = self.let(self.root, "mul", (tiles, step), "index", name=axis + "_size")
            self.root.memo[key] = found
        return found

    def stop(self, dim: Dim) -> Value:
        """One past the last element of a dimension."""
        key = ("stop", dim.name)
        found = self.root.memo.get(key)
        if found is not None:
            return found
        chunk = self.sizes.axes[dim.axes[0]].chunk_of
        if len(dim.axes) == 1 and chunk is not None:
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

    # Where things live.

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

    # Indices.

    def place(self, index: Index, scope: Scope) -> Value:
        """The index tile or scalar of an index expression."""
        wanted = {self.dim_of[axis].name for axis in index.axes}
        chain = scope.chain()
        for candidate in chain:
            found = candidate.memo.get(index)
            if found is not None:
                return found
        home = next((candidate for candidate in chain if candidate.dim is not None and candidate.dim.name in wanted), self.root)
        if index.kind == "data" and index.node is not None:
            home = self.home(index.node, scope)
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
        value.lanes = {dim: lanes.UNKNOWN for dim in value.lanes}
        return value

    def span(self, dim: Dim, home: Scope) -> Value:
        """The element numbers of a dimension: a tile, or a scalar where its size is 1."""
        if dim.role == "loop":
            home = next((scope for scope in home.chain() if scope.dim is dim), home)
            if home.dim is not dim:
                raise InfeasibleError(f"axis of {dim.name} is used outside its loop")
        else:
            home = self.root
        key = ("span", dim.name)
        found = home.memo.get(key)
        if found is None:
            start = home.memo["index", dim.name] if dim.role == "loop" else self._start(dim)
            found = start
            if dim.tile > 1:
                var = Var(dim.name, TileType(((dim.name, dim.tile),), "index"), f"{dim.name}: {', '.join(dim.axes)}")
                home.statements.append(Range(var, start.var))
                found = Value(var, home, {dim.name: lanes.UNKNOWN} if self.ragged[dim.name] else {})
            home.memo[key] = found
        return found

    def _start(self, dim: Dim) -> Value:
        if dim.role == "full":
            return self.constant(0, "index")
        return Value(self.starts[dim.name], self.root)

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
        key = ("valid", dim.name)
        found = whole.scope.memo.get(key)
        if found is None:
            found = self.let(whole.scope, "compare", (whole, self.stop(dim)), "i1", ("lt",), name=dim.name + "_in")
            whole.scope.memo[key] = found
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
        return index.loose or any(self.ragged[self.dim_of[axis].name] and self.dim_of[axis].axes[0] == axis for axis in index.axes)

    def check_axes(self, where: Sequence[tuple[str, Index]]) -> tuple[str, ...]:
        """The axes of an access that must be checked against their extents."""
        out = tuple(axis for axis, index in where if self.needs_check(index))
        for axis in out:
            self.checked.setdefault(axis, self.expression(self.sizes.extents[axis]).var)
        return out

    # Values.

    def value(self, node: Node, scope: Scope) -> Value:
        """The tile of a node in its own type, computed at its home."""
        for candidate in scope.chain():
            found = candidate.memo.get(node)
            if found is not None:
                return found
        home = self.home(node, scope)
        out = self._compute(node, home)
        return home.memo.setdefault(node, out)

    def _compute(self, node: Node, home: Scope) -> Value:
        from .reductions import level, reduction

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
                top = level(self, node, home)
                return self.let(top.scope, "mul", (top, self.constant(0.6931471805599453, "f32")), "f32", name="shift")
            case "reduce" | "contract":
                return reduction(self, node, home)
            case "shifted_exp":
                return self.shifted_exp(node, home)
            case _:
                return self.elementwise(node, home)

    def load(self, node: Node, home: Scope, order: Sequence[str] | None, eviction: str = "") -> Value:
        """Reads a tile, in layout order or with its dimensions in the order given."""
        buffer = self.problem.buffers[int(str(node.attr[0]))]
        index = tuple((axis, self.place(at, home).var) for axis, at in node.where)
        check = self.check_axes(node.where)
        dims = self.tile_dims({name for _, var in index for name in var.type.names})
        if order is not None:
            dims = tuple((name, self.by_name[name].tile) for name in order)
        out = Var(buffer.name, TileType(dims, buffer.dtype), f"{buffer.name} [{', '.join(axis for axis, _ in index)}]")
        home.statements.append(Load(out, buffer, index, check, 0.0 if check else None, eviction))
        false: dict[str, Lane] = {}
        for name, _ in dims:
            if self.ragged[name]:
                false[name] = 0.0 if any(self._leaves(name, axis, at) for axis, at in node.where) else lanes.UNKNOWN
        return Value(out, home, false)

    def _leaves(self, dim: str, axis: str, index: Index) -> bool:
        """Whether false lanes of a dimension have an index of `axis` past its extent, so that a checked load skips them."""
        lead = self.by_name[dim].axes[0]
        if index.kind == "axis" and index.name == lead:
            return self.sizes.extents[axis] == self.sizes.extents[lead]
        chunk = self.sizes.axes[lead].chunk_of
        if chunk is None or index.kind != "add" or index.args[1].kind != "axis" or index.args[1].name != lead:
            return False
        return self.rounds_chunk(lead) and self.sizes.extents[axis] == self.sizes.extents[chunk[0]]

    def shifted_exp(self, node: Node, home: Scope) -> Value:
        """exp2(scale * log2(e) * x - level), the level being the shift in units of log2."""
        from .reductions import LOG2E, level

        logits, shift = node.args
        top = level(self, shift, home)
        x = self.cast(self.value(logits, home), "f32")
        scaled = self.let(home, "mul", (x, self.constant(node.scale * LOG2E, "f32")), "f32")
        moved = self.let(home, "sub", (scaled, top), "f32")
        out = self.let(home, "exp2", (moved,), "f32", name="p")
        return self.cast(out, node.dtype)

    def elementwise(self, node: Node, home: Scope) -> Value:
        """One elementwise operation, done in f32 where its type is narrower."""
        args = [self.value(arg, home) for arg in node.args]
        kind = node.kind
        attr = node.attr
        if kind == "cast":
            return self.cast(args[0], node.dtype) if args[0].var.type.dtype != node.dtype else args[0]
        dtype = work_dtype(node.dtype)
        wanted = dtype
        if kind == "compare":
            kinds = [arg.var.type.dtype for arg in args]
            wanted = "f32" if any(entry in FLOATS for entry in kinds) else "i1" if kinds == ["i1", "i1"] else "index"
        if kind == "select":
            args = [args[0], *(self.cast(arg, dtype) for arg in args[1:])]
        else:
            args = [self.cast(arg, wanted) for arg in args]
        if kind == "div" and "guarded" in attr:
            return self.cast(self.guarded_division(args[0], args[1], home, dtype), node.dtype)
        return self.cast(self.let(home, kind, args, dtype, attr), node.dtype)

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

    # The kernel.

    def kernel(self) -> Kernel:
        """The kernel of the plan. Raises: InfeasibleError."""
        grid: list[GridDim] = []
        for name in self.plan.raster:
            dim = self.by_name[name]
            start = Var(name + "0", TileType((), "index"), f"first {', '.join(dim.axes)} of this program")
            self.starts[name] = start
            grid.append(GridDim(name, ceildiv(self.sizes.product(dim.axes), dim.tile), dim.tile, start))
        missing = [dim.name for dim in self.plan.dims if dim.role == "grid" and dim.name not in self.starts]
        if missing:
            raise InfeasibleError(f"grid dimension {missing[0]} is not in the raster order")
        self._store_all()
        written = tuple(result.buffer.name for result in self.problem.results)
        used = {node.attr[0] for node in self.problem.nodes if node.kind == "load"}
        read = tuple(buffer for place, buffer in enumerate(self.problem.buffers) if place in used)
        buffers = (*read, *(result.buffer for result in self.problem.results))
        return Kernel(
            self.problem.name,
            buffers,
            written,
            tuple(self.arguments.items()),
            tuple(self.checked.items()),
            tuple(grid),
            tuple(self.root.statements),
            self.plan.num_warps,
            self.plan.num_stages,
        )

    def _store_all(self) -> None:
        groups: dict[tuple[str, ...], list[int]] = {}
        for place, result in enumerate(self.problem.results):
            dims = {self.dim_of[axis].name for axis in result.buffer.axes}
            for dim in self.plan.dims:
                if dim.role == "grid" and dim.name not in dims:
                    raise InfeasibleError(f"result {result.buffer.name} lacks the grid dimension {dim.name}")
            loops = tuple(dim.name for dim in self.plan.dims if dim.role == "loop" and dim.name in dims)
            groups.setdefault(loops, []).append(place)
        for loops in sorted(groups, key=len):
            self._store_in(loops, groups[loops], self.root)

    def _store_in(self, loops: tuple[str, ...], places: Sequence[int], scope: Scope) -> None:
        if not loops:
            for place in places:
                self._store(place, scope)
            return
        inner, close = self.open_loop(self.by_name[loops[0]], scope)
        self._store_in(loops[1:], places, inner)
        close(())

    def _store(self, place: int, scope: Scope) -> None:
        from .reductions import raw_level

        node, result = self.problem.stores[place], self.problem.results[place]
        if result.raw and node.kind == "shift":
            top = raw_level(self, node, scope)
            value = self.let(top.scope, "mul", (top, self.constant(0.6931471805599453, "f32")), "f32", name="shift")
        else:
            value = self.value(node, scope)
        value = self.cast(value, result.buffer.dtype)
        where = [(axis, axis_index(axis)) for axis in result.buffer.axes]
        index = tuple((axis, self.place(at, scope).var) for axis, at in where)
        scope.statements.append(Store(result.buffer, index, value.var, self.check_axes(where)))

    def open_loop(self, dim: Dim, home: Scope) -> tuple[Scope, Any]:
        """Opens a loop in `home`; the second result closes it, given what it carries."""
        scope = Scope(dim, home)
        index = Var(dim.name + "0", TileType((), "index"), f"first {', '.join(dim.axes)} of this step")
        scope.memo["index", dim.name] = Value(index, scope)
        start, stop = self.constant(0, "index"), self.stop(dim)

        def close(carried: tuple[Any, ...]) -> None:
            home.statements.append(
                For(dim.name, index, start.var, stop.var, dim.tile, tuple(carried), tuple(scope.statements))
            )

        return scope, close

