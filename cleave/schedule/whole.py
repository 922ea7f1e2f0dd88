"""
The whole of a kernel: its grid, where each program starts in it, the results that are stored, and with them all that they need.
"""

from __future__ import annotations

from collections.abc import Sequence

from .hazards import separated
from .longest import row_orders
from .loops import LoopEmitter
from .problem import Problem
from .program import Buffer, GridDim, Kernel, Store, TileType, Var
from .roles import Dim, Plan
from .sizes import ceildiv
from .statements import InfeasibleError, Scope, Value


class KernelEmitter(LoopEmitter):
    """Builds one kernel. Raises: InfeasibleError where the plan does not fit the work."""

    def __init__(self, problem: Problem, plan: Plan) -> None:
        super().__init__(problem, plan)
        self.grid: list[GridDim] = []

    def kernel(self) -> Kernel:
        """The kernel of the plan. Raises: InfeasibleError."""
        self.place_grid()
        self.store_all()
        return self.built((*self.read(), *self.written()), self.written())

    def place_grid(self) -> None:
        """The grid, and where the program starts in it. Raises: InfeasibleError."""
        for name in self.plan.raster:
            dim = self.by_name[name]
            start = Var(name + "0", TileType((), "index"), f"first {', '.join(dim.axes)} of this program")
            self.starts[name] = start
            count = ceildiv(self.sizes.product(dim.axes), dim.tile)
            self.grid.append(GridDim(name, count, dim.tile, start))
            if name == self.plan.descending:
                if count.constant is None:
                    raise InfeasibleError(f"the last program along {name} is not known")
                last = self.constant(max(0, count.constant - 1) * dim.tile, "index")
                self.starts[name] = self.let(self.root, "sub", (last, Value(start, self.root)), "index", name=name + "_first").var
        missing = [dim.name for dim in self.plan.dims if dim.role == "grid" and dim.name not in self.starts]
        if missing:
            raise InfeasibleError(f"grid dimension {missing[0]} is not in the raster order")
        if self.plan.ordered:
            self.starts[self.plan.ordered] = self._in_order(self.by_name[self.plan.ordered]).var

    def _in_order(self, dim: Dim) -> Value:
        """Where the program starts in a dimension whose tiles run in the order that is stored for their rows. Raises: InfeasibleError."""
        order = next(order for order in row_orders(self.problem) if order.row in dim.axes)
        load = next(node for node in self.problem.nodes if node.kind == "load" and node.attr == (order.source,))
        tile = self.constant(dim.tile, "index")
        place = self.let(self.root, "floordiv", (self.first(dim, self.root), tile), "index", name=order.place)
        where = [(axis, place if axis == order.place else self.place(at, self.root)) for axis, at in load.where]
        if any(at.var.type.dims for _, at in where):
            raise InfeasibleError(f"the order of {dim.name} differs within a program")
        chunk = self.cast(self.element(load, where, self.root), "index")
        return self.let(self.root, "mul", (chunk, tile), "index", name=dim.name + "_first")

    def read(self) -> tuple[Buffer, ...]:
        """The buffers that are read."""
        used = {node.attr[0] for node in self.problem.nodes if node.kind == "load"}
        return tuple(buffer for place, buffer in enumerate(self.problem.buffers) if place in used)

    def written(self) -> tuple[Buffer, ...]:
        """The buffers that are written."""
        return tuple(result.buffer for result in self.problem.results)

    def built(self, buffers: Sequence[Buffer], written: Sequence[Buffer]) -> Kernel:
        """What was emitted as a kernel."""
        return Kernel(
            self.problem.name,
            tuple(buffers),
            tuple(buffer.name for buffer in written),
            tuple(self.arguments.items()),
            tuple(self.checked.items()),
            tuple(self.grid),
            separated(self.root.statements),
            self.plan.num_warps,
            self.plan.num_stages,
            self.plan.group,
            self.plan.persistent,
            self.plan.max_registers,
        )

    def store_all(self) -> None:
        """Emits what the results need, and stores them. Raises: InfeasibleError."""
        groups: dict[tuple[str, ...], list[int]] = {}
        for place, stored in enumerate(self.problem.stores):
            dims = {self.dim_of[axis].name for axis in stored.axes}
            for dim in self.plan.dims:
                if dim.role == "grid" and dim.name not in dims and not stored.repeated:
                    raise InfeasibleError(f"result {stored.buffer.name} lacks the grid dimension {dim.name}")
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
        stored = self.problem.stores[place]
        node = stored.node
        while stored.raw and node.kind == "cast":
            node = node.args[0]
        if stored.raw and node.kind == "shift":
            value = self.natural(self.raw_level(node, scope), node)
        else:
            value = self.value(node, scope)
        value = self.cast(value, stored.buffer.dtype)
        index = tuple((axis, self.place(at, scope).var) for axis, at in stored.where)
        scope.statements.append(Store(stored.buffer, index, value.var, self.check_axes(stored.where)))
