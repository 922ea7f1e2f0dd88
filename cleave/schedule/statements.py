"""
Building blocks of emission: scopes, emitted values, and statements on them.

Emission is memoised by scope: the root, and one scope for each open loop. Statements are appended to a scope while it is
open, and a loop is appended to the scope around it when it closes, so definitions always come first.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy

from ..extents import Extent, ratio_of
from ..graph import Attr
from . import lanes
from .lanes import Lane
from .problem import Problem
from .program import Let, Statement, TileType, Var
from .roles import Dim, Plan

INFINITY = float("inf")


class InfeasibleError(Exception):
    """A plan cannot hold this kernel: the reason."""


@dataclass(eq=False, slots=True)
class Scope:
    """
    An open block of statements: the root, the body of a loop over `dim`, or a branch in one. `running` are shifts that change in this
    loop. The conditions `decided`, by node, hold in all of its steps but where the scalar `edge` is true.
    """

    dim: Dim | None = None
    parent: Scope | None = None
    statements: list[Statement] = field(default_factory=lambda: [])
    memo: MutableMapping[Any, Value] = field(default_factory=lambda: {})
    running: dict[int, Value] = field(default_factory=lambda: {})
    decided: frozenset[int] = frozenset()
    edge: Value | None = None

    def chain(self) -> list[Scope]:
        """This scope and those around it, innermost first."""
        out: list[Scope] = [self]
        while out[-1].parent is not None:
            out.append(out[-1].parent)
        return out

    def branch(self) -> Scope:
        """A part of this loop's body that is not always run: it knows what the body made so far, which knows nothing of the branch."""
        assert self.dim is not None, "branches are in loops"
        out = Scope(self.dim, self, memo=ChainMap({}, self.memo), running=self.running)
        out.memo["index", self.dim.name] = Value(self.memo["index", self.dim.name].var, out)
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


def widest_float(dtypes: Iterable[str]) -> str:
    """The type that floats of several types are computed in: f64 where one is, else f32."""
    return "f64" if "f64" in dtypes else "f32"


class Statements:
    """What every part of emission shares: the plan, constants, sizes and elementwise statements."""

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self.problem = problem
        self.plan = plan
        self.sizes = problem.sizes
        self.dim_of = {axis: dim for dim in plan.dims for axis in dim.axes}
        self.order = {dim.name: place for place, dim in enumerate(plan.dims)}
        self.by_name = {dim.name: dim for dim in plan.dims}
        self.root = Scope()
        self.arguments: dict[str, Var] = {}
        self.ragged = {dim.name: self._is_ragged(dim) for dim in plan.dims}

    def _is_ragged(self, dim: Dim) -> bool:
        axes = dim.axes
        chunk = self.chunk_of(axes[0])
        if chunk is not None and len(axes) == 1:
            # A chunk may be empty: its loop then has no steps, but a tile that holds it whole has only false lanes.
            whole = self.sizes.multiple((chunk[0],)) % dim.tile == 0
            return not ((dim.role == "loop" or self.is_full(axes[0])) and whole and self.rounds_chunk(axes[0]))
        return dim.tile > 1 and self.sizes.multiple(axes) % dim.tile != 0

    def chunk_of(self, axis: str) -> tuple[str, str] | None:
        """The (whole, outer) axes of an axis that is walked chunk by chunk."""
        return self.sizes.axes[axis].chunk_of if axis in self.problem.walked else None

    def is_full(self, axis: str) -> bool:
        """Whether all chunks of an axis that is walked chunk by chunk are surely of one length, none of them short."""
        chunk = self.chunk_of(axis)
        if chunk is None or not self.rounds_chunk(axis):
            return False
        total, count, tile = self.sizes.fixed(chunk[0]), self.sizes.fixed(chunk[1]), self.dim_of[axis].tile
        return bool(total and count) and (total or 0) % ((count or 1) * tile) == 0

    def rounds_chunk(self, axis: str) -> bool:
        """Whether chunks of a split may be made a multiple of the tile: nothing but the reduction over them sees their size."""
        if axis in self.sizes.exact:
            return False
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
            if not dims:
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
            # Another part of the kernel may have taken it already.
            var = self.arguments.setdefault(name, Var(name, TileType((), "index")))
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
        if isinstance(value, sympy.floor | sympy.ceiling):
            numerator, denominator = (self._arithmetic(part) for part in ratio_of(value.args[0]))
            if isinstance(value, sympy.ceiling):
                room = self.let(self.root, "sub", (denominator, self.constant(1, "index")), "index")
                numerator = self.let(self.root, "add", (numerator, room), "index")
            return self.let(self.root, "floordiv", (numerator, denominator), "index")
        kinds = ((sympy.Add, "add"), (sympy.Mul, "mul"), (sympy.Min, "min"), (sympy.Max, "max"), (sympy.Mod, "mod"))
        for cls, kind in kinds:
            if isinstance(value, cls):
                out, *parts = (self._arithmetic(part) for part in value.args)
                for part in parts:
                    out = self.let(self.root, kind, (out, part), "index")
                return out
        if value.is_Pow and value.exp.is_Integer and value.exp > 0:
            base = out = self._arithmetic(value.base)
            for _ in range(int(value.exp) - 1):
                out = self.let(self.root, "mul", (out, base), "index")
            return out
        raise InfeasibleError(f"the extent {value} has no scalar form")

    def size(self, axis: str) -> Value:
        """The scalar extent of an axis; of a chunk whose length is free, rounded up to its tile."""
        chunk = self.chunk_of(axis)
        if chunk is not None and self.rounds_chunk(axis):
            return self._chunk(axis, *chunk)
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
