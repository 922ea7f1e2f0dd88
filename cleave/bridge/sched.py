"""
Scheduled programs between plain values (`cleave.schedule.program`) and IR (`cleave.dialects.sched`), both ways.

Names survive as hints and as buffer names, notes as attributes. A kernel's table of extents becomes an operand of each
access that checks it, so an entry that nothing checks is lost; `written` is what the body stores to. A module has one
table of symbols: a kernel called as its program gets `_kernel` added.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    ModuleOp,
    StringAttr,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.traits import SymbolTable

from cleave.assembly import names_of
from cleave.dialects import sched
from cleave.errors import CleaveError
from cleave.extents import extent
from cleave.schedule.program import (
    Allocate,
    Buffer,
    Carried,
    Dot,
    Either,
    For,
    GridDim,
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
    Step,
    Store,
    TileType,
    Var,
    Wait,
    When,
    walk,
)

ELEMENTS: Mapping[str, Attribute] = {
    "f16": Float16Type(),
    "bf16": BFloat16Type(),
    "f32": Float32Type(),
    "f64": Float64Type(),
    "i1": IntegerType(1),
    "i32": IntegerType(32),
    "i64": IntegerType(64),
    "index": IndexType(),
}
"""The MLIR type of each element type."""

_DTYPES: Mapping[Attribute, str] = {element: dtype for dtype, element in ELEMENTS.items()}
_ELEMENTWISE = {op.name.removeprefix("sched."): op for op in sched.ELEMENTWISE}
_HINT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def tile_type(type_: TileType) -> sched.TileType:
    """The IR type of a tile."""
    return sched.TileType.of(type_.dims, ELEMENTS[type_.dtype])


def buffer_type(buffer: Buffer) -> sched.BufferType:
    """The IR type of a buffer."""
    return sched.BufferType.of(buffer.axes, buffer.strides, ELEMENTS[buffer.dtype], buffer.divisor, buffer.aligned)


def _hint(value: SSAValue, name: str) -> None:
    if _HINT.match(name):
        value.name_hint = name


class _KernelWriter:
    """Builds the body of one `sched.kernel`."""

    def __init__(self, kernel: Kernel) -> None:
        starts = [dim.start for dim in kernel.grid]
        arguments: list[Attribute] = [buffer_type(buffer) for buffer in kernel.buffers]
        arguments += [sched.INDEX for _ in (*kernel.sizes, *starts)]
        self.block = Block(arg_types=arguments)
        self.extents = dict(kernel.extents)
        self.buffers: dict[str, SSAValue] = {}
        self.values: dict[Var, SSAValue] = {}
        for buffer, argument in zip(kernel.buffers, self.block.args, strict=False):
            self.buffers[buffer.name] = argument
            _hint(argument, buffer.name)
        scalars = self.block.args[len(kernel.buffers) :]
        for var, argument in zip((*(var for _, var in kernel.sizes), *starts), scalars, strict=True):
            self.bind(var, argument)
        self.write(kernel.body, self.block)

    def bind(self, var: Var, value: SSAValue) -> None:
        self.values[var] = value
        _hint(value, var.name)

    def places(self, index: Iterable[tuple[str, Var]]) -> list[tuple[str, SSAValue]]:
        return [(axis, self.values[var]) for axis, var in index]

    def bounds(self, check: Iterable[str]) -> list[tuple[str, SSAValue]]:
        return [(axis, self.values[self.extents[axis]]) for axis in check]

    def write(self, body: Sequence[Statement], block: Block) -> None:
        """Appends statements. Raises: KeyError for a value that is not defined."""
        for statement in body:
            op = self.statement(statement)
            block.add_op(op)
            match statement:
                case For(carried=carried):
                    for entry, out in zip(carried, op.results, strict=True):
                        self.bind(entry.out, out)
                case When(results=chosen):
                    for entry, out in zip(chosen, op.results, strict=True):
                        self.bind(entry.out, out)
                case Store() | Last() | Wait() | Release():
                    continue
                case _:
                    self.bind(statement.out, op.results[0])
                    if statement.out.note:
                        op.attributes["note"] = StringAttr(statement.out.note)

    def statement(self, statement: Statement) -> Operation:
        match statement:
            case Let(out=out, kind="constant", attr=(value,)):
                typed = (
                    bool(value) if out.type.dtype == "i1" else float(value) if out.type.dtype in ("f16", "bf16", "f32", "f64") else value
                )
                assert not isinstance(typed, str)
                return sched.ConstantOp(typed, tile_type(out.type))
            case Let(out=out, kind="compare", args=(left, right), attr=(predicate,)):
                return sched.CompareOp(str(predicate), self.values[left], self.values[right], tile_type(out.type))
            case Let(out=out, kind=kind, args=args):
                return _ELEMENTWISE[kind].create(operands=[self.values[arg] for arg in args], result_types=[tile_type(out.type)])
            case Range(out=out, start=start):
                return sched.RangeOp(self.values[start], tile_type(out.type))
            case Load(out=out, buffer=buffer, index=index, check=check, other=other, eviction=eviction, fresh=fresh, descriptor=boxed):
                places, bounds = self.places(index), self.bounds(check)
                return sched.LoadOp(self.buffers[buffer.name], places, bounds, tile_type(out.type), other, eviction, fresh, boxed)
            case Store(buffer=buffer, index=index, value=value, check=check):
                return sched.StoreOp(self.values[value], self.buffers[buffer.name], self.places(index), self.bounds(check))
            case Reduce(out=out, kind=kind, value=value, dim=dim):
                return sched.ReduceOp(kind, self.values[value], dim, tile_type(out.type))
            case Dot(out=out, a=a, b=b, over=over, acc=acc, precision=precision):
                held = None if acc is None else self.values[acc]
                return sched.DotOp(self.values[a], self.values[b], over, held, tile_type(out.type), precision)
            case For(dim=dim, index=index, start=start, stop=stop, step=step, carried=carried, body=body):
                block = Block(arg_types=[sched.INDEX, *(tile_type(entry.inner.type) for entry in carried)])
                for var, argument in zip((index, *(entry.inner for entry in carried)), block.args, strict=True):
                    self.bind(var, argument)
                self.write(body, block)
                block.add_op(sched.YieldOp([self.values[entry.next] for entry in carried]))
                inits = [self.values[entry.init] for entry in carried]
                return sched.ForOp(dim, self.values[start], self.values[stop], step, inits, Region(block))
            case When(condition=condition, results=chosen, body=body):
                block = Block()
                self.write(body, block)
                block.add_op(sched.YieldOp([self.values[entry.value] for entry in chosen]))
                return sched.IfOp(self.values[condition], [self.values[entry.other] for entry in chosen], Region(block))
            case Last(counter=counter, index=index, count=count, body=body):
                block = Block()
                self.write(body, block)
                return sched.LastOp(self.buffers[counter.name], self.places(index), self.values[count], Region(block))
            case Wait():
                return sched.WaitOp()
            case Release():
                return sched.ReleaseOp()


def kernel_op(kernel: Kernel, name: str = "") -> sched.KernelOp:
    """The `sched.kernel` of a kernel, under another name where one is given."""
    return sched.KernelOp(
        name or kernel.name,
        [buffer.name for buffer in kernel.buffers],
        [name for name, _ in kernel.sizes],
        [(dim.dim, dim.tile, str(dim.count)) for dim in kernel.grid],
        Region(_KernelWriter(kernel).block),
        kernel.num_warps,
        kernel.num_stages,
        kernel.group or None,
        kernel.persistent or None,
        kernel.max_registers or None,
    )


def module_of(program: Program) -> ModuleOp:
    """A module of the program's kernels and its `sched.program`."""
    everything = (*program.inputs, *program.outputs)
    block = Block(arg_types=[buffer_type(buffer) for buffer in everything])
    symbols = {kernel.name: f"{kernel.name}_kernel" if kernel.name == program.name else kernel.name for kernel in program.kernels}
    values: dict[str, SSAValue] = {}
    for buffer, argument in zip(everything, block.args, strict=True):
        values[buffer.name] = argument
        _hint(argument, buffer.name)
    for step in program.steps:
        match step:
            case Allocate(buffer=buffer, zeroed=zeroed):
                op = sched.AllocateOp(buffer.name, buffer_type(buffer), zeroed)
                values[buffer.name] = op.out
                _hint(op.out, buffer.name)
            case Launch(kernel=name, buffers=names, early=early, streaming=streaming):
                stream = names.index(streaming) if streaming else None
                op = sched.LaunchOp(symbols[name], [values[buffer] for buffer in names], early, stream)
            case LibraryCall(callee=callee, out=out, args=args, over=over):
                op = sched.LibraryCallOp(callee, values[out], [values[arg] for arg in args], over)
        block.add_op(op)
    host = sched.ProgramOp(
        program.name,
        [buffer.name for buffer in everything],
        program.layouts,
        len(program.inputs),
        [(axis, str(size)) for axis, size in program.sizes],
        Region(block),
        program.notes,
    )
    return ModuleOp([*(kernel_op(kernel, symbols[kernel.name]) for kernel in program.kernels), host])


def _plain_type(type_: Attribute) -> TileType:
    assert isinstance(type_, sched.TileType), f"{type_} is not a tile"
    return TileType(tuple(type_.shape.items()), _DTYPES[type_.element])


def plain_buffer(name: str, type_: Attribute) -> Buffer:
    """The buffer of that type."""
    assert isinstance(type_, sched.BufferType), f"{type_} is not a buffer"
    strides = tuple(type_.stride.values())
    return Buffer(name, names_of(type_.axes), _DTYPES[type_.element], strides, type_.divisor.value.data, bool(type_.aligned.value.data))


class _KernelReader:
    """Reads the body of one `sched.kernel`."""

    def __init__(self, op: sched.KernelOp) -> None:
        self.values: dict[SSAValue, Var] = {}
        self.buffers = {
            value: plain_buffer(name, value.type) for name, value in zip(names_of(op.buffer_names), op.buffer_arguments, strict=True)
        }
        sizes = tuple((name, self.var(value)) for name, value in zip(names_of(op.sizes), op.size_arguments, strict=True))
        grid = tuple(
            GridDim(dim, extent(count), tile, self.var(value)) for (dim, tile, count), value in zip(op.grid, op.grid_arguments, strict=True)
        )
        body = self.statements(op.body.block)
        written = {statement.buffer.name for statement in walk(body) if isinstance(statement, Store)}
        written |= {statement.counter.name for statement in walk(body) if isinstance(statement, Last)}
        self.kernel = Kernel(
            op.sym_name.data,
            tuple(self.buffers.values()),
            tuple(buffer.name for buffer in self.buffers.values() if buffer.name in written),
            sizes,
            tuple((axis, self.values[value]) for axis, value in op.extents().items()),
            grid,
            body,
            op.num_warps.value.data,
            op.num_stages.value.data,
            op.group.value.data if op.group else 0,
            op.persistent.value.data if op.persistent else 0,
            op.max_registers.value.data if op.max_registers else 0,
        )

    def var(self, value: SSAValue, note: str = "") -> Var:
        out = Var(value.name_hint or "v", _plain_type(value.type), note)
        self.values[value] = out
        return out

    def statements(self, block: Block) -> tuple[Statement, ...]:
        return tuple(self.statement(op) for op in block.ops if not isinstance(op, sched.YieldOp))

    def index(self, places: Iterable[tuple[str, SSAValue]]) -> tuple[tuple[str, Var], ...]:
        return tuple((axis, self.values[value]) for axis, value in places)

    def statement(self, op: Operation) -> Statement:
        note = op.attributes.get("note")
        says = note.data if isinstance(note, StringAttr) else ""
        match op:
            case sched.ConstantOp():
                return Let(self.var(op.out, says), "constant", (), (op.number,))
            case sched.CompareOp():
                args = (self.values[op.lhs], self.values[op.rhs])
                return Let(self.var(op.out, says), "compare", args, (op.predicate.data,))
            case sched.ElementwiseOp():
                args = tuple(self.values[operand] for operand in op.operands)
                return Let(self.var(op.results[0], says), op.name.removeprefix("sched."), args)
            case sched.RangeOp():
                start = self.values[op.start]
                return Range(self.var(op.out, says), start)
            case sched.LoadOp():
                index, check = self.index(op.places), names_of(op.checked)
                other = None if op.other is None else op.other.value.data
                eviction = op.eviction.data if op.eviction else ""
                fresh, boxed = op.fresh is not None, op.descriptor is not None
                return Load(self.var(op.out, says), self.buffers[op.buffer], index, check, other, eviction, fresh, boxed)
            case sched.StoreOp():
                return Store(self.buffers[op.buffer], self.index(op.places), self.values[op.value], names_of(op.checked))
            case sched.ReduceOp():
                value = self.values[op.value]
                return Reduce(self.var(op.out, says), op.kind.data, value, op.dim.data)
            case sched.DotOp():
                acc = None if op.acc is None else self.values[op.acc]
                a, b = self.values[op.a], self.values[op.b]
                return Dot(self.var(op.out, says), a, b, op.over.data, acc, op.precision.data)
            case sched.ForOp():
                return self.loop(op)
            case sched.IfOp():
                return self.branch(op)
            case sched.LastOp():
                index, count = self.index(op.places), self.values[op.count]
                return Last(self.buffers[op.counter], index, count, self.statements(op.body.block))
            case sched.WaitOp():
                return Wait()
            case sched.ReleaseOp():
                return Release()
            case _:
                raise CleaveError(op, "is not a statement of a kernel")

    def loop(self, op: sched.ForOp) -> For:
        inits = [self.values[value] for value in op.inits]
        index, *inner = (self.var(argument) for argument in op.body.block.args)
        body = self.statements(op.body.block)
        last = op.body.block.last_op
        assert isinstance(last, sched.YieldOp), "a sched.for ends in sched.yield"
        nexts = [self.values[value] for value in last.values]
        outs = [self.var(value) for value in op.outs]
        carried = tuple(Carried(*entry) for entry in zip(inits, inner, nexts, outs, strict=True))
        return For(op.dim.data, index, self.values[op.start], self.values[op.stop], op.step.value.data, carried, body)

    def branch(self, op: sched.IfOp) -> When:
        body = self.statements(op.body.block)
        last = op.body.block.last_op
        assert isinstance(last, sched.YieldOp), "a sched.if ends in sched.yield"
        made = [self.values[value] for value in last.values]
        others = [self.values[value] for value in op.others]
        outs = [self.var(value) for value in op.outs]
        return When(self.values[op.condition], tuple(Either(*entry) for entry in zip(made, others, outs, strict=True)), body)


def kernel_of(op: sched.KernelOp) -> Kernel:
    """The kernel that a verified `sched.kernel` holds. Raises: CleaveError for other operations."""
    return _KernelReader(op).kernel


def program_of(op: sched.ProgramOp) -> Program:
    """The program that a verified `sched.program` holds, with the kernels that it launches. Raises: CleaveError for other operations."""
    values: dict[SSAValue, str] = {}
    buffers: list[Buffer] = []
    for name, argument in zip(names_of(op.buffer_names), op.body.block.args, strict=True):
        values[argument] = name
        buffers.append(plain_buffer(name, argument.type))
    steps: list[Step] = []
    kernels: dict[str, Kernel] = {}
    for step in op.body.block.ops:
        match step:
            case sched.AllocateOp():
                values[step.out] = step.buffer_name.data
                steps.append(Allocate(plain_buffer(step.buffer_name.data, step.out.type), step.zeroed is not None))
            case sched.LaunchOp():
                if step.kernel not in kernels:
                    found = SymbolTable.lookup_symbol(op, step.callee)
                    assert isinstance(found, sched.KernelOp), f"@{step.kernel} is not a kernel"
                    kernels[step.kernel] = kernel_of(found)
                names = tuple(values[buffer] for buffer in step.buffers)
                streaming = "" if step.streaming is None else names[step.streaming.value.data]
                steps.append(Launch(step.kernel, names, step.early is not None, streaming))
            case sched.LibraryCallOp():
                args = tuple(values[arg] for arg in step.args)
                steps.append(LibraryCall(step.callee.data, values[step.out], args, names_of(step.over)))
            case _:
                raise CleaveError(step, "is not a step of a program of tiles")
    count = op.input_count.value.data
    return Program(
        op.sym_name.data,
        tuple(buffers[:count]),
        tuple(buffers[count:]),
        names_of(op.layouts),
        tuple((axis, extent(size)) for axis, size in op.sizes),
        tuple(kernels.values()),
        tuple(steps),
        names_of(op.notes) if op.notes else (),
    )
