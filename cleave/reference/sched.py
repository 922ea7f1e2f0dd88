"""
The meaning of scheduled programs: tile by tile in numpy, strict where a GPU would be silent.

Programs of a grid run one after another. What a kernel may not do raises `TileFault`: touching an element outside a
buffer where the axis is not checked, reading or overwriting what another program of the same launch wrote, leaving an
element of a result unwritten or a counter other than zero, or assuming a stride that the memory does not have. The last
program to arrive at a counter may read what the others that arrived there wrote, by loads that say so. Workspaces and
results start as NaN, and lanes that a predicate switches off read NaN unless the load says otherwise.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from cleave.extents import sizes_of
from cleave.graph import FLOATS
from cleave.layouts import axis_strides, contiguous_strides, memory_shape
from cleave.reference.dtypes import Array, held_in, poison, rounded
from cleave.reference.elementwise import BINARY, COMPARE, UNARY
from cleave.schedule.program import (
    Allocate,
    Buffer,
    Dot,
    For,
    Kernel,
    Last,
    Launch,
    Let,
    LibraryCall,
    Load,
    Program,
    Range,
    Reduce,
    Release,
    Statement,
    Store,
    TileType,
    Var,
    Wait,
    When,
)
from cleave.schedule.raster import places

_UNARY = UNARY | {"exp2": np.exp2, "log2": np.log2}


class TileFault(RuntimeError):
    """A scheduled program did what no schedule may: the message names the kernel, the statement and the element."""


@dataclass(frozen=True, slots=True)
class Precision:
    """Floats are held in float64; with `rounding`, each value is rounded to its element type when it is made."""

    rounding: bool

    def hold(self, x: Any, dtype: str) -> Array:
        """The value as one of an element type."""
        value = np.asarray(x).astype(held_in(dtype, np.dtype(np.float64)))
        return rounded(value, dtype) if self.rounding else value

    def poison(self, shape: tuple[int, ...], dtype: str) -> Array:
        """NaN, or a value that no index may have."""
        kind = held_in(dtype, np.dtype(np.float64))
        return np.full(shape, poison(kind), kind)


@dataclass(slots=True)
class Memory:
    """
    One buffer's storage: flat elements, strides and extents by axis, and which program last wrote each element; `agreed` are all that did,
    where they are several and wrote the same.
    """

    flat: Array
    strides: dict[str, int]
    extents: dict[str, int]
    dtype: str
    read_only: bool
    written: Array
    writer: Array
    agreed: dict[int, set[int]] = field(default_factory=dict[int, set[int]])

    def offsets(self, index: Mapping[str, Array]) -> Array:
        """The element offset of every lane."""
        total: Any = np.zeros((), np.int64)
        for axis, where in index.items():
            total = total + where * self.strides[axis]
        return total


@dataclass(slots=True)
class Machine:
    """
    One program of a grid: the values made so far and what it may touch.

    `arrived` are the programs of the launch that came to each element of each counter so far; `seen` are those whose stores the statement
    that runs may read. `unsettled` are buffers that launches which may not have ended read, True for those that they also store to.
    """

    kernel: Kernel
    memory: Mapping[str, Memory]
    precision: Precision
    program: int
    arrived: dict[tuple[str, int], set[int]] = field(default_factory=dict[tuple[str, int], set[int]])
    seen: frozenset[int] = frozenset()
    unsettled: Mapping[str, bool] = field(default_factory=dict[str, bool])
    values: dict[Var, Array] = field(default_factory=dict[Var, Array])

    def fault(self, what: str) -> TileFault:
        """The error to raise for `what`."""
        return TileFault(f"kernel {self.kernel.name}, program {self.program}: {what}")

    def get(self, var: Var) -> Array:
        """A value made before. Raises: TileFault."""
        if var not in self.values:
            raise self.fault(f"'{var.name}' is used before it is made")
        return self.values[var]

    def put(self, var: Var, value: Any) -> None:
        """Binds a value, which must have the shape of the type. Raises: TileFault."""
        held = self.precision.hold(value, var.type.dtype)
        expected = tuple(size for _, size in var.type.dims)
        if held.shape != expected:
            raise self.fault(f"'{var.name}' has shape {held.shape} where its type says {expected}")
        self.values[var] = held

    def spread(self, var: Var, dims: tuple[tuple[str, int], ...], full: bool = False) -> Array:
        """A value with its dimensions where `dims` has them, size 1 (or with `full`, repeated) elsewhere."""
        value = self.get(var)
        table = dict(dims)
        for name, size in var.type.dims:
            if table.get(name) != size:
                raise self.fault(f"'{var.name}' has dimension {name} = {size}, which is not one of {_spelled(dims)}")
        order = [var.type.names.index(name) for name, _ in dims if name in var.type.names]
        shape = tuple(size if name in var.type.names else 1 for name, size in dims)
        out = np.transpose(value, order).reshape(shape)
        return np.broadcast_to(out, tuple(size for _, size in dims)) if full else out

    def run(self, body: Sequence[Statement]) -> None:
        """Executes statements in order. Raises: TileFault."""
        for statement in body:
            match statement:
                case Let():
                    self.put(statement.out, self.let(statement))
                case Range(out=out, start=start):
                    if len(out.type.dims) != 1:
                        raise self.fault(f"range '{out.name}' has {len(out.type.dims)} dimensions")
                    self.put(out, self.get(start) + np.arange(out.type.dims[0][1]))
                case Load():
                    self.put(statement.out, self.load(statement))
                case Store():
                    self.store(statement)
                case Reduce(out=out, kind=kind, value=value, dim=dim):
                    function = {"sum": np.add, "max": np.maximum, "min": np.minimum, "maxnum": np.fmax}[kind]
                    if out.type.names != tuple(name for name in value.type.names if name != dim):
                        raise self.fault(
                            f"reduction of {_spelled(value.type.dims)} over {dim} gives '{out.name}' {_spelled(out.type.dims)}"
                        )
                    position = value.type.names.index(dim)
                    self.put(out, function.reduce(self.get(value), axis=position))
                case Dot():
                    self.put(statement.out, self.dot(statement))
                case For():
                    self.loop(statement)
                case When():
                    self.when(statement)
                case Last():
                    self.last(statement)
                case Wait():
                    self.unsettled = {}
                case Release():
                    pass

    def let(self, op: Let) -> Any:
        """The value of an elementwise statement."""
        dims = op.out.type.dims
        args = [self.spread(arg, dims) for arg in op.args]
        shape = tuple(size for _, size in dims)
        with np.errstate(all="ignore"):
            match op.kind:
                case "constant":
                    value: Any = np.asarray(op.attr[0])
                case "compare":
                    value = COMPARE[str(op.attr[0])](args[0], args[1])
                case "select":
                    value = np.where(args[0], args[1], args[2])
                case "cast" | "broadcast":
                    value = args[0] if op.out.type.dtype in FLOATS else np.nan_to_num(args[0])
                case kind if kind in _UNARY:
                    value = _UNARY[kind](args[0])
                case kind if kind in BINARY:
                    value = BINARY[kind](args[0], args[1])
                case kind:
                    raise self.fault(f"'{kind}' is not an elementwise operation")
        return np.broadcast_to(value, shape)

    def place(
        self, buffer: Buffer, index: tuple[tuple[str, Var], ...], check: tuple[str, ...], dims: tuple[tuple[str, int], ...], verb: str
    ) -> tuple[Array, Array]:
        """The element offset of every lane of an access, and which lanes are live. Raises: TileFault for a lane outside."""
        memory = self.memory[buffer.name]
        if sorted(axis for axis, _ in index) != sorted(buffer.axes):
            raise self.fault(f"{verb} of {buffer.name} [{', '.join(buffer.axes)}] names axes {', '.join(axis for axis, _ in index)}")
        if any(var.type.dtype != "index" for _, var in index):
            raise self.fault(f"{verb} of {buffer.name} uses an index tile that is not of type index")
        shape = tuple(size for _, size in dims)
        where = {axis: self.spread(var, dims) for axis, var in index}
        live = np.ones(shape, bool)
        bounds = dict(self.kernel.extents)
        for axis in check:
            if axis not in where or axis not in bounds:
                raise self.fault(f"{verb} of {buffer.name} checks axis '{axis}', which has no index or no extent")
            live = live & (where[axis] < self.get(bounds[axis]))
        for axis, at in where.items():
            seen = np.broadcast_to(at, shape)[live]
            outside = seen[(seen < 0) | (seen >= memory.extents[axis])]
            if outside.size:
                checked = "checked" if axis in check else "not checked"
                raise self.fault(f"{verb} of {buffer.name} reaches {axis} = {outside[0]} of {memory.extents[axis]} ({checked})")
        return np.broadcast_to(memory.offsets(where), shape), live

    def load(self, op: Load) -> Array:
        """The tile a load reads."""
        dims = op.out.type.dims
        used = {name for _, var in op.index for name in var.type.names}
        if used != set(op.out.type.names) or op.out.type.dtype != op.buffer.dtype:
            raise self.fault(f"load of {op.buffer.name} gives '{op.out.name}' {_spelled(dims)} {op.out.type.dtype}")
        offsets, live = self.place(op.buffer, op.index, op.check, dims, "load")
        if self.unsettled.get(op.buffer.name):
            raise self.fault(f"load of {op.buffer.name} reads what a launch before stores, without waiting for it")
        memory = self.memory[op.buffer.name]
        writers = self.writers(memory, offsets[live])
        others = set(writers[(writers >= 0) & (writers != self.program)].tolist())
        if others and not (op.fresh and others <= self.seen):
            how = ", by a load that is not fresh" if others <= self.seen else ""
            raise self.fault(f"load of {op.buffer.name} reads what another program of the launch wrote{how}")
        shape = offsets.shape
        dead = self.precision.poison(shape, op.buffer.dtype) if op.other is None else np.full(shape, op.other, memory.flat.dtype)
        return np.where(live, memory.flat[np.where(live, offsets, 0)], dead) if live.any() else dead

    def writers(self, memory: Memory, at: Array) -> Array:
        """The program that wrote each element, of several that wrote the same this one or one whose stores it may read."""
        writers = memory.writer[at]
        for place, offset in enumerate(at.tolist() if memory.agreed else ()):
            known = memory.agreed.get(offset, set[int]())
            writers[place] = self.program if self.program in known else next(iter(sorted(known & self.seen)), writers[place])
        return writers

    def store(self, op: Store) -> None:
        """Writes a tile."""
        sizes: dict[str, int] = {}
        for _, var in op.index:
            sizes.update(var.type.dims)
        dims = tuple(sizes.items())
        memory = self.memory[op.buffer.name]
        if memory.read_only or op.buffer.name not in self.kernel.written:
            raise self.fault(f"store to {op.buffer.name}, which is not listed as written")
        if op.buffer.name in self.unsettled:
            raise self.fault(f"store to {op.buffer.name}, which a launch before uses, without waiting for it")
        offsets, live = self.place(op.buffer, op.index, op.check, dims, "store")
        value = np.broadcast_to(self.precision.hold(self.spread(op.value, dims), op.buffer.dtype), offsets.shape)[live]
        at = offsets[live]
        before = memory.writer[at]
        clash = (before >= 0) & (before != self.program) & ~_same(memory.flat[at], value)
        if clash.any():
            raise self.fault(f"store to {op.buffer.name} overwrites what another program of the launch wrote")
        for offset, other in zip(at.tolist(), before.tolist(), strict=True):
            if other not in (-1, self.program):
                memory.agreed.setdefault(offset, {other}).add(self.program)
        memory.flat[at] = value
        if not _same(memory.flat[at], value).all():
            raise self.fault(f"store to {op.buffer.name} writes two values to one element")
        memory.written[at] = True
        memory.writer[at] = self.program

    def dot(self, op: Dot) -> Array:
        """The tile a matrix product gives, accumulated in at least float32."""
        a, b, out = op.a.type.names, op.b.type.names, op.out.type.names
        rank = len(a)
        shaped = len(b) == rank and len(out) == rank and a[:-2] == b[:-2] == out[:-2] and rank in (2, 3)
        if not shaped or a[-1] != op.over or b[-2] != op.over or out[-2:] != (a[-2], b[-1]) or op.out.type.dtype != "f32":
            raise self.fault(f"dot of [{', '.join(a)}] and [{', '.join(b)}] over {op.over} gives [{', '.join(out)}] {op.out.type.dtype}")
        if op.a.type.dtype != op.b.type.dtype:
            raise self.fault(f"dot of '{op.a.name}' {op.a.type.dtype} and '{op.b.name}' {op.b.type.dtype}")
        with np.errstate(all="ignore"):
            product = np.matmul(self.get(op.a), self.get(op.b))
            return product if op.acc is None else product + self.spread(op.acc, op.out.type.dims)

    def loop(self, op: For) -> None:
        """Runs a loop, carrying tiles."""
        for carried in op.carried:
            if not carried.init.type == carried.inner.type == carried.next.type == carried.out.type:
                raise self.fault(f"carried tile '{carried.inner.name}' changes its type")
        state = [self.get(carried.init) for carried in op.carried]
        for index in range(int(self.get(op.start)), int(self.get(op.stop)), op.step):
            self.put(op.index, index)
            for carried, value in zip(op.carried, state, strict=True):
                self.put(carried.inner, value)
            self.run(op.body)
            state = [self.get(carried.next) for carried in op.carried]
        for carried, value in zip(op.carried, state, strict=True):
            self.put(carried.out, value)

    def when(self, op: When) -> None:
        """Runs a body where its condition is true; what is made in it is not seen after it."""
        if op.condition.type != TileType((), "i1"):
            raise self.fault(f"condition '{op.condition.name}' has type {_spelled(op.condition.type.dims)} {op.condition.type.dtype}")
        for entry in op.results:
            if not entry.value.type == entry.other.type == entry.out.type:
                raise self.fault(f"'{entry.out.name}' is one of two tiles that differ in type")
        outside = self.values
        held = bool(self.get(op.condition))
        if held:
            self.values = dict(outside)
            self.run(op.body)
        chosen = [self.get(entry.value if held else entry.other) for entry in op.results]
        self.values = outside
        for entry, value in zip(op.results, chosen, strict=True):
            self.put(entry.out, value)

    def last(self, op: Last) -> None:
        """Counts this program; the last one runs the body."""
        offset, _ = self.place(op.counter, op.index, (), (), "arrival")
        memory, at, count = self.memory[op.counter.name], int(offset), int(self.get(op.count))
        if op.counter.name not in self.kernel.written or memory.dtype != "i32":
            raise self.fault(f"arrival at {op.counter.name}, which is not listed as written or not of type i32")
        before = int(memory.flat[at])
        if not 0 <= before < count:
            raise self.fault(f"arrival at {op.counter.name} finds {before} of {count}")
        here = self.arrived.setdefault((op.counter.name, at), set())
        here.add(self.program)
        memory.flat[at] = before + 1
        if before + 1 < count:
            return
        memory.flat[at] = 0
        outside, self.seen = self.seen, self.seen | here
        self.run(op.body)
        self.seen = outside


def _same(a: Array, b: Array) -> Array:
    return (a == b) | ((a != a) & (b != b))


def _spelled(dims: tuple[tuple[str, int], ...]) -> str:
    return "[" + ", ".join(f"{name} = {size}" for name, size in dims) + "]"


def _memory(buffer: Buffer, extents: dict[str, int], strides: dict[str, int], flat: Array, read_only: bool) -> Memory:
    """The storage of a buffer. Raises: TileFault where it lacks an axis or has another stride than the buffer promises."""
    for axis, stride in zip(buffer.axes, buffer.strides, strict=True):
        if axis not in strides:
            raise TileFault(f"buffer {buffer.name} has axis '{axis}', which its layout lacks")
        if stride is not None and stride != strides[axis] and extents[axis] > 1:
            raise TileFault(f"buffer {buffer.name} promises stride {stride} for {axis}; it is {strides[axis]}")
        if stride is None and strides[axis] % buffer.divisor and extents[axis] > 1:
            raise TileFault(f"buffer {buffer.name} promises a stride divisible by {buffer.divisor} for {axis}; it is {strides[axis]}")
    if sorted(strides) != sorted(buffer.axes):
        raise TileFault(f"the layout of buffer {buffer.name} has axes {', '.join(strides)}; the buffer has {', '.join(buffer.axes)}")
    own = {axis: extents[axis] for axis in buffer.axes}
    return Memory(flat, strides, own, buffer.dtype, read_only, np.full(flat.shape, read_only), np.full(flat.shape, -1))


def _launch(
    kernel: Kernel,
    memory: Mapping[str, Memory],
    sizes: Mapping[str, int],
    precision: Precision,
    order: random.Random | None,
    unsettled: Mapping[str, bool],
) -> None:
    for entry in memory.values():
        entry.writer[:] = -1
        entry.agreed.clear()
    counts = [dim.count.evaluate(sizes) for dim in kernel.grid]
    programs = list(enumerate(places(counts, kernel.group)))
    if order is not None:
        order.shuffle(programs)
    arrived: dict[tuple[str, int], set[int]] = {}
    for number, place in programs:
        machine = Machine(kernel, memory, precision, number, arrived, unsettled=unsettled)
        for name, var in kernel.sizes:
            machine.put(var, sizes[name])
        for dim, at in zip(kernel.grid, place, strict=True):
            machine.put(dim.start, at * dim.tile)
        machine.run(kernel.body)
        if machine.unsettled:
            raise machine.fault("it begins early and ends without waiting for the launches before")


def _library(call: LibraryCall, memory: Mapping[str, Memory], precision: Precision) -> None:
    """`out = sum over call.over of the product of the arguments`."""
    names = [*call.args, call.out]
    letters: dict[str, str] = {}
    for name in names:
        for axis in memory[name].strides:
            letters.setdefault(axis, chr(ord("a") + len(letters)))
    terms = ["".join(letters[axis] for axis in memory[name].strides) for name in names]
    missing = {letters[axis] for name in call.args for axis in memory[name].strides} - set(terms[-1])
    if call.callee != "matmul" or missing != {letters[axis] for axis in call.over}:
        raise TileFault(f"library call {call.callee} over {', '.join(call.over)} does not remove those axes")
    views = [np.lib.stride_tricks.as_strided(memory[name].flat, *_geometry(memory[name])) for name in call.args]
    value = np.einsum(",".join(terms[:-1]) + "->" + terms[-1], *views)
    out = memory[call.out]
    target = np.lib.stride_tricks.as_strided(out.flat, *_geometry(out))
    target[...] = precision.hold(value, out.dtype)
    np.lib.stride_tricks.as_strided(out.written, target.shape, tuple(out.strides.values()))[...] = True


def _geometry(memory: Memory) -> tuple[tuple[int, ...], tuple[int, ...]]:
    item = memory.flat.itemsize
    return tuple(memory.extents[axis] for axis in memory.strides), tuple(stride * item for stride in memory.strides.values())


def run_program(
    program: Program,
    inputs: Sequence[Array],
    symbols: Mapping[str, int],
    rounding: bool = False,
    seed: int | None = None,
) -> tuple[Array, ...]:
    """
    Runs a program on arrays laid out as `program.layouts` says, and returns its outputs likewise.

    Floats are float64 throughout; with `rounding`, every value is rounded to its element type when it is made. The programs of a grid
    run in the order of their numbers, or with a `seed` in a random one.
    Shapes: inputs[i] has one dimension for each dimension of layouts[i].
    Raises: TileFault for what a schedule may not do; ValueError for an array of another shape than sizes and layout give.
    """
    precision = Precision(rounding)
    order = None if seed is None else random.Random(seed)
    sizes = sizes_of(program.sizes, symbols)
    extents = {axis: sizes[axis] for axis, _ in program.sizes}
    memory: dict[str, Memory] = {}
    shapes: list[tuple[int, ...]] = []
    for position, (buffer, layout) in enumerate(zip((*program.inputs, *program.outputs), program.layouts, strict=True)):
        shape = memory_shape(layout, extents)
        strides = axis_strides(layout, extents, contiguous_strides(shape))
        is_input = position < len(program.inputs)
        if is_input:
            if inputs[position].shape != shape:
                raise ValueError(f"input {buffer.name} has shape {inputs[position].shape}; layout '{layout}' makes it {shape}")
            flat = precision.hold(inputs[position], buffer.dtype).reshape(-1).copy()
        else:
            flat = precision.poison((prod(shape),), buffer.dtype)
            shapes.append(shape)
        memory[buffer.name] = _memory(buffer, extents, strides, flat, is_input)
    kernels = {kernel.name: kernel for kernel in program.kernels}
    running: dict[str, bool] = {}
    for step in program.steps:
        match step:
            case Allocate(buffer=buffer, zeroed=zeroed):
                shape = tuple(extents[axis] for axis in buffer.axes)
                strides = dict(zip(buffer.axes, contiguous_strides(shape), strict=True))
                flat = precision.poison((prod(shape),), buffer.dtype)
                memory[buffer.name] = _memory(buffer, extents, strides, np.zeros_like(flat) if zeroed else flat, False)
                memory[buffer.name].written[:] = zeroed
            case Launch(kernel=name, buffers=names, early=early):
                kernel = kernels[name]
                given = {own.name: name for own, name in zip(kernel.buffers, names, strict=True)}
                running = running if early else {}
                unsettled = {own: running[name] for own, name in given.items() if name in running}
                _launch(kernel, {own: memory[name] for own, name in given.items()}, sizes, precision, order, unsettled)
                running = running | {name: running.get(name, False) or own in kernel.written for own, name in given.items()}
            case LibraryCall():
                _library(step, memory, precision)
    for step in program.steps:
        if isinstance(step, Allocate) and step.zeroed and memory[step.buffer.name].flat.any():
            raise TileFault(f"workspace {step.buffer.name} is not left zero")
    for buffer in program.outputs:
        if not memory[buffer.name].written.all():
            raise TileFault(f"output {buffer.name}: {int((~memory[buffer.name].written).sum())} elements are never written")
    return tuple(memory[buffer.name].flat.reshape(shape) for buffer, shape in zip(program.outputs, shapes, strict=True))
