"""
The programs of a module as things to run, whatever their level.

A program takes and gives arrays as they lie in memory, so that one set of inputs serves every level: `alg` runs by the
numpy meaning of its graph, `sched` tile by tile with its predicates, `tt` as the Triton Python printed from it, under
Triton's interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cleave.errors import CleaveError
from cleave.extents import Extent, open_symbols, sizes_of
from cleave.graph import Graph, Symbol
from cleave.layouts import layout_axes, memory_shape, parse_layout

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from cleave.dialects.sched import ProgramOp
    from cleave.runtime.plan import Plan
    from cleave.schedule.program import Program

Array: TypeAlias = NDArray[Any]
Precision: TypeAlias = Literal["f64", "f32", "declared"]
"""How floats are held: all in float64, all in float32, or rounded to the declared types when made."""


@dataclass(frozen=True, slots=True)
class Slot:
    """An argument or a result: its name, its dtype and how its dimensions map to axes."""

    name: str
    dtype: str
    layout: str


@dataclass(frozen=True)
class Runnable:
    """
    A program to run. `symbols` are what it leaves open, `extents` the extent of every axis.

    `call(inputs, sizes, precision)` takes and gives arrays shaped as the layouts say.
    """

    name: str
    level: str
    symbols: tuple[Symbol, ...]
    extents: tuple[tuple[str, Extent], ...]
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    call: Callable[[Sequence[Array], Mapping[str, int], Precision], tuple[Array, ...]]

    def sizes(self, given: Mapping[str, int]) -> dict[str, int]:
        """
        A value for every symbol: as given, else its first hint.

        Raises: CleaveError for a symbol without either, a value its facts exclude, a name that is not a symbol, and values at which an
        axis has no size.
        """
        names = [symbol.name for symbol in self.symbols]
        fixed = {name: extent.constant for name, extent in self.extents}
        for name, value in given.items():
            if name not in names and fixed.get(name) != value:
                found = f"axis '{name}' is {self.axis(name)}, not {value}" if name in fixed else f"'{name}' is not a symbol"
                raise CleaveError(None, f"{found} of @{self.name}", f"its symbols: {', '.join(names) or 'none'}")
        sizes: dict[str, int] = {}
        for symbol in self.symbols:
            value = given.get(symbol.name, symbol.hints[0] if symbol.hints else None)
            if value is None:
                raise CleaveError(None, f"symbol '{symbol.name}' of @{self.name} has no size", f"give --dims {symbol.name}=...")
            if value % symbol.multiple_of or value < int(symbol.positive):
                fact = f"a multiple of {symbol.multiple_of}" if value % symbol.multiple_of else "positive"
                raise CleaveError(None, f"symbol '{symbol.name}' of @{self.name} is {fact}, {value} is not")
            sizes[symbol.name] = value
        self._check_extents(sizes)
        return sizes

    def _check_extents(self, sizes: Mapping[str, int]) -> None:
        given = ", ".join(f"{name} = {value}" for name, value in sizes.items()) or "no sizes"
        try:
            found = sizes_of(self.extents, sizes)
        except ValueError as error:
            raise CleaveError(None, f"@{self.name} at {given}: {error}", "give other --dims") from error
        for axis, extent in self.extents:
            if found[axis] < 0:
                raise CleaveError(None, f"@{self.name} at {given}: axis '{axis}' is {extent}, {found[axis]}", "give other --dims")

    def takes(self, name: str) -> bool:
        """Whether a size may be given by that name: to a symbol, or to an axis whose size is fixed, which it has to be."""
        fixed = {axis for axis, extent in self.extents if extent.constant is not None}
        return name in fixed or any(symbol.name == name for symbol in self.symbols)

    def axis(self, name: str) -> Extent:
        """The extent of an axis. Raises: KeyError."""
        return dict(self.extents)[name]

    def shape(self, slot: Slot, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The shape of an argument or result in memory."""
        return memory_shape(slot.layout, sizes_of(self.extents, sizes))


def of_graph(graph: Graph) -> Runnable:
    """The numpy meaning of a graph, on arrays in memory order."""
    from cleave.reference import evaluate

    def call(inputs: Sequence[Array], sizes: Mapping[str, int], precision: Precision) -> tuple[Array, ...]:
        extents = graph.sizes(sizes)
        held = np.float32 if precision == "f32" else np.float64
        arranged = [over_axes(array, slot.layout, slot.axes, extents) for array, slot in zip(inputs, graph.inputs, strict=True)]
        values = evaluate(graph, arranged, sizes, held, respect_dtypes=precision == "declared")
        return tuple(
            in_memory(value, graph.ops[output.value].axes, output.layout, extents)
            for value, output in zip(values, graph.outputs, strict=True)
        )

    return Runnable(
        graph.name,
        "alg",
        graph.symbols,
        tuple((axis.name, axis.extent) for axis in graph.axes),
        tuple(Slot(entry.name, entry.dtype, entry.layout) for entry in graph.inputs),
        tuple(Slot(f"result {position}", output.dtype, output.layout) for position, output in enumerate(graph.outputs)),
        call,
    )


def of_program(program: Program) -> Runnable:
    """The tile-by-tile meaning of a scheduled program."""
    from cleave.reference.sched import run_program

    def call(inputs: Sequence[Array], sizes: Mapping[str, int], precision: Precision) -> tuple[Array, ...]:
        if precision == "f32":
            raise CleaveError(None, "a scheduled program runs in f64 or in its declared types", "choose another --precision")
        return run_program(program, inputs, sizes, rounding=precision == "declared")

    return _of_tiles(program, "sched", call)


def of_lowered(module: ModuleOp) -> Runnable:
    """The emitted Triton of a `tt` module with one program, in Triton's interpreter. It has one precision, the declared one."""
    from cleave.bridge.plan import plans_of

    (plan,) = plans_of(module)

    def call(inputs: Sequence[Array], sizes: Mapping[str, int], precision: Precision) -> tuple[Array, ...]:
        from cleave.runtime.execute import execute

        if precision != "declared":
            raise CleaveError(None, "a tt module runs in its declared types only", "give --precision declared")
        return tuple(np.asarray(result) for result in execute(module, inputs, sizes))

    return _of_tiles(plan, "tt", call)


def _of_tiles(
    program: Program | Plan, level: str, call: Callable[[Sequence[Array], Mapping[str, int], Precision], tuple[Array, ...]]
) -> Runnable:
    names = open_symbols(program.sizes)
    layouts = program.layouts
    return Runnable(
        program.name,
        level,
        tuple(Symbol(name) for name in names),
        program.sizes,
        tuple(Slot(buffer.name, buffer.dtype, layout) for buffer, layout in zip(program.inputs, layouts, strict=False)),
        tuple(
            Slot(f"result {position}", buffer.dtype, layout)
            for position, (buffer, layout) in enumerate(zip(program.outputs, layouts[len(program.inputs) :], strict=True))
        ),
        call,
    )


def over_axes(array: Array, layout: str, axes: Sequence[str], sizes: Mapping[str, int]) -> Array:
    """
    An array in memory order, laid out over the given axes, one dimension each.

    Raises: ValueError for an array of another shape than layout and sizes give.
    """
    shape = memory_shape(layout, sizes)
    if array.shape != shape:
        raise ValueError(f"layout '{layout}' makes the array {list(shape)}, it is {list(array.shape)}")
    memory = layout_axes(layout)
    return array.reshape([sizes[axis] for axis in memory]).transpose([memory.index(axis) for axis in axes])


def in_memory(value: Array, axes: Sequence[str], layout: str, sizes: Mapping[str, int]) -> Array:
    """A value over axes as it lies in memory; an axis of the layout that the value lacks is broadcast."""
    memory = [axis for group in parse_layout(layout) for axis in group]
    present = [axis for axis in memory if axis in axes]
    arranged = value.transpose([list(axes).index(axis) for axis in present])
    arranged = arranged.reshape([sizes[axis] if axis in axes else 1 for axis in memory])
    return np.broadcast_to(arranged, [sizes[axis] for axis in memory]).reshape(memory_shape(layout, sizes))


def runnables(module: ModuleOp, alternative: int = 0) -> tuple[Runnable, ...]:
    """
    The programs of a verified module, in order; of alternatives, the one at that position.

    Raises: CleaveError where there is no program, no such alternative, or a module inside of the module.
    """
    from cleave.bridge.alg import alternatives_of
    from cleave.bridge.sched import program_of
    from cleave.dialects.alg import GraphOp
    from cleave.dialects.sched import LaunchFuncOp, ProgramOp
    from cleave.modules import check_single

    check_single(module)
    found: list[Runnable] = []
    for op in module.walk():
        match op:
            case GraphOp():
                choices = alternatives_of(op)
                if alternative >= len(choices):
                    raise CleaveError(op, f"there is no alternative {alternative}", f"the last is {len(choices) - 1}")
                found.append(of_graph(choices[alternative].graph))
            case ProgramOp() if any(isinstance(step, LaunchFuncOp) for step in op.body.block.ops):
                found.append(of_lowered(_alone(module, op)))
            case ProgramOp():
                found.append(of_program(program_of(op)))
            case _:
                pass
    if not found:
        raise CleaveError(module, "there is nothing to run", "an alg.graph or a sched.program is")
    return tuple(found)


def _alone(module: ModuleOp, program: ProgramOp) -> ModuleOp:
    """A copy of the module without its other programs."""
    from cleave.dialects.sched import ProgramOp

    copy = module.clone()
    for op in list(copy.body.block.ops):
        if isinstance(op, ProgramOp) and op.sym_name != program.sym_name:
            op.detach()
            op.erase()
    return copy
