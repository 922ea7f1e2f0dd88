"""
Emission of reductions over loops, which carry accumulators.

When a reduction over a loop is demanded, every reduction of the kernel with the same loop, the same home and the same stage
goes into that loop. A free shift becomes a running maximum there: when it moves from m to m', an accumulator of degree -k is
multiplied by alpha^k with alpha = exp(m - m') just before its update (online normalisation: Milakov & Gimelshein, 2018).
Sums and extremes that are no dots and not rescaled keep an accumulator for every lane of a step, which are combined after the loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from . import lanes
from .bounds import Segment, segments
from .emit import LOG2E, Emitter, unit_of
from .lanes import Lane
from .nodes import REDUCING, Node, neutral_of
from .program import Carried, Var
from .reductions import (
    accumulator_dtype,
    dot,
    dot_sides,
    gathered,
    guarded,
    highest,
    kind_of,
    spread_dims,
    spread_terms,
    tile_reduction,
)
from .roles import Dim
from .statements import INFINITY, InfeasibleError, Scope, Value, work_dtype


class LoopEmitter(Emitter):
    """An emitter with its reductions."""

    def elementwise(self, node: Node, home: Scope) -> Value:
        """One elementwise operation; a dot that is added to a tile starts from it, unless it is an exact one, whose chain stays short."""
        if node.kind == "add" and node.dtype == "f32":
            base, part = node.args
            sides = dot_sides(self, part) if part.kind == "contract" and part is not base and self.loop_of(part) is None else None
            chained = sides is not None and sides.dtype != "f32"
            if sides is not None and chained and self.home(part, home) is home and part not in home.memo and part.dtype == "f32":
                start = self.cast(self.value(base, home), "f32")
                dims = self.tile_dims(self.names(node.axes))
                if start.var.type.dims == dims == self.tile_dims(self.names(part.axes)) and start.scope in home.chain():
                    return dot(self, part, sides, start, home)
        return super().elementwise(node, home)

    def reduction(self, node: Node, home: Scope) -> Value:
        dim = self.loop_of(node)
        if dim is None:
            return self.cast(tile_reduction(self, node, home), node.dtype)
        _run_loop(self, dim, home, node)
        return home.memo[node]

    def level(self, shift: Node, scope: Scope) -> Value:
        home = self.home(shift, scope)
        for candidate in scope.chain():
            found = candidate.running.get(shift.id) or candidate.memo.get(("level", shift.id))
            if found is not None:
                return found
            if candidate is home:
                break
        raw = self.raw_level(shift, scope)
        out = guarded(self, shift, raw, raw.scope)
        raw.scope.memo["level", shift.id] = out
        return out

    def raw_level(self, shift: Node, scope: Scope) -> Value:
        key = ("raw", shift.id)
        home = self.home(shift, scope)
        if key in home.memo:
            return home.memo[key]
        dim = self.loop_of(shift)
        if dim is None:
            home.memo[key] = highest(self, shift, home)
        else:
            _run_loop(self, dim, home, shift)
        return home.memo[key]


def _members(emitter: Emitter, dim: Dim, home: Scope, wanted: Node) -> list[Node]:
    """
    The reductions that share the loop of `wanted`: shifts first, then diagonals, as Triton spreads warps over all dots of a loop as suits
    the last.
    """
    stage, loops = emitter.stage(wanted, dim), emitter.loops_in(wanted)
    known = home.memo
    out: list[Node] = []
    for node in emitter.problem.nodes:
        if node.kind not in REDUCING or node in known or ("raw", node.id) in known or emitter.loops_in(node) != loops:
            continue
        if emitter.loop_of(node) is dim and emitter.stage(node, dim) == stage and emitter.home(node, home) is home:
            out.append(node)
    twins = {axis for entry in emitter.plan.dims if entry.along for axis in entry.axes}
    return sorted(out, key=lambda node: (node.kind != "shift", not twins & set(node.axes), node.id))


def _run_loop(emitter: Emitter, dim: Dim, home: Scope, wanted: Node) -> None:
    """Emits the loops for a reduction and all that share them; afterwards `home` knows their values."""
    with emitter.as_in(home):
        members = _members(emitter, dim, home, wanted)
        spread = _spread(emitter, members)
        state = {node.id: _start(emitter, node, spread.get(node.id)) for node in members}
        for segment in segments(emitter, dim, members, home):
            state = _run_segment(emitter, dim, home, members, segment, state, spread)
        for node in members:
            out = gathered(emitter, node, state[node.id], home) if node.id in spread else state[node.id]
            if node.kind == "shift":
                home.memo["raw", node.id] = out
            else:
                home.memo[node] = emitter.cast(out, node.dtype)


def _spread(emitter: Emitter, members: Sequence[Node]) -> dict[int, tuple[tuple[str, int], ...]]:
    """The dimensions of the accumulators that are combined after the loop, by node: none that is rescaled within."""
    shifts = {node.op for node in members if node.kind == "shift"}
    out: dict[int, tuple[tuple[str, int], ...]] = {}
    for node in members:
        rescaled = any(shift.op in shifts and emitter.problem.degrees[node.op].get(shift.op) for shift in node.shifts)
        dims = None if rescaled else spread_dims(emitter, node)
        if dims is not None and dims != emitter.tile_dims(emitter.names(node.axes)):
            out[node.id] = dims
    return out


def _start(emitter: Emitter, node: Node, spread: tuple[tuple[str, int], ...] | None) -> Value:
    """What an accumulator starts from."""
    dims = spread or emitter.tile_dims(emitter.names(node.axes))
    if node.kind == "shift":
        return emitter.constant(-INFINITY, work_dtype(node.dtype), dims, name="level")
    dtype = accumulator_dtype(node)
    value = neutral_of(kind_of(node), dtype)
    return emitter.constant(value, dtype, dims, name="acc" if node.kind == "contract" else kind_of(node))


def _run_segment(
    emitter: Emitter,
    dim: Dim,
    home: Scope,
    members: Sequence[Node],
    segment: Segment,
    state: Mapping[int, Value],
    spread: Mapping[int, tuple[tuple[str, int], ...]],
) -> dict[int, Value]:
    """One loop over part of a dimension, from the accumulators before it to those after it."""
    scope, close = emitter.open_loop(dim, home, (segment.start, segment.stop))
    if segment.between is not None:
        scope.edge = _edge(emitter, dim, scope, *segment.between)
        scope.decided = segment.true
    inner = {node.id: _inside(emitter, state[node.id], scope) for node in members}
    new: dict[int, Value] = {}
    alphas: dict[int, Value] = {}
    with emitter.assuming(segment.true if segment.between is None else frozenset(), dim if segment.whole else None, scope):
        shifts = [node for node in members if node.kind == "shift"]
        for node in shifts:
            old = inner[node.id]
            dtype = old.var.type.dtype
            top = emitter.let(scope, "max", (old, highest(emitter, node, scope)), dtype, name="level", dims=old.var.type.dims)
            safe = guarded(emitter, node, top, scope)
            moved = emitter.times(emitter.let(scope, "sub", (old, safe), dtype), node.scale * LOG2E / unit_of(node))
            alphas[node.id] = emitter.let(scope, "exp2", (moved,), dtype, name="alpha")
            new[node.id] = top
            scope.running[node.id] = safe
        for node in members:
            if node.id in spread:
                new[node.id] = _accumulated(emitter, node, inner[node.id], spread_terms(emitter, node, spread[node.id], scope), scope)
            elif node.kind != "shift":
                new[node.id] = _update(emitter, node, inner[node.id], scope, shifts, alphas)
    out: dict[int, Value] = {}
    carried: list[Carried] = []
    for node in members:
        before = state[node.id]
        after = Var(before.var.name, before.var.type)
        carried.append(Carried(before.var, inner[node.id].var, new[node.id].var, after))
        false: dict[str, Lane] = {}
        for name, _ in after.type.dims:
            if emitter.ragged[name]:
                part = lanes.reduced(kind_of(node), new[node.id].lanes.get(name, lanes.UNKNOWN))
                false[name] = lanes.joined(part, before.lanes.get(name, lanes.UNKNOWN))
        out[node.id] = Value(after, home, false)
    close(carried)
    return out


def _edge(emitter: Emitter, dim: Dim, scope: Scope, low: Value | None, high: Value | None) -> Value:
    """Whether a step begins before one index or not before another."""
    step = emitter.first(dim, scope)
    sides = (("lt", low), ("ge", high))
    ends = [emitter.let(scope, "compare", (step, end), "i1", (kind,), name="edge") for kind, end in sides if end is not None]
    return ends[0] if len(ends) == 1 else emitter.let(scope, "or", ends, "i1", name="edge")


def _inside(emitter: Emitter, state: Value, scope: Scope) -> Value:
    false: dict[str, Lane] = {name: lanes.UNKNOWN for name, _ in state.var.type.dims if emitter.ragged[name]}
    return Value(Var(state.var.name, state.var.type), scope, false)


def _update(emitter: Emitter, node: Node, inner: Value, scope: Scope, shifts: Sequence[Node], alphas: Mapping[int, Value]) -> Value:
    """An accumulator rescaled where a shift of the loop moved, then updated with this tile's part."""
    kind, dtype = kind_of(node), accumulator_dtype(node)
    dims = inner.var.type.dims
    base = inner
    degree = emitter.problem.degrees[node.op]
    for shift in shifts:
        power = degree.get(shift.op, 0) if shift in node.shifts else 0
        if power > 0:
            raise InfeasibleError("an accumulator grows as its shift does")
        for _ in range(-power):
            scaled = emitter.let(scope, "mul", (base, emitter.cast(alphas[shift.id], dtype)), dtype, name=base.var.name, dims=dims)
            if kind != "sum":
                start = emitter.constant(neutral_of(kind, dtype), dtype)
                fresh = emitter.let(scope, "compare", (base, start), "i1", ("eq",), name="fresh", dims=dims)
                scaled = emitter.let(scope, "select", (fresh, base, scaled), dtype, name=base.var.name, dims=dims)
            base = scaled
    sides = dot_sides(emitter, node) if node.kind == "contract" else None
    if sides is not None:
        return dot(emitter, node, sides, base, scope)
    return _accumulated(emitter, node, base, tile_reduction(emitter, node, scope), scope)


def _accumulated(emitter: Emitter, node: Node, base: Value, part: Value, scope: Scope) -> Value:
    combine = {"sum": "add", "max": "max", "min": "min"}[kind_of(node)]
    dtype = accumulator_dtype(node)
    return emitter.let(scope, combine, (base, part), dtype, name=base.var.name, dims=base.var.type.dims)
