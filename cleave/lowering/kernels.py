"""
One `sched.kernel` as a `tt.func`: addresses, masks and broadcasts from names.

- An index tile made by `sched.range` is kept as its start, a scalar, and its lanes 0, 1, ...: an address is the buffer's,
  plus scalars times strides in 64 bits, plus lanes times strides, in 32 bits where that is sure to fit.
- The mask of an access compares each checked index with its extent in one dimension, then broadcasts.
- All dimensions of the grid are one in the launch, as only x may have more than 65535 programs; `cleave.lowering.grid` numbers them.
- A program of a persistent kernel loops over tiles; what no tile changes is before that loop.
- Arguments: addresses, then the strides, sizes and counts that the body uses. A stride is passed divided by what is known
  to divide it, so the compiler sees the factor.
- i1 lies in memory as bytes, and index values are 32 bits: an extent may not reach 2^31.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import cast as typed

from xdsl.dialects import arith, gpu, scf
from xdsl.dialects.builtin import (
    AnyFloat,
    DictionaryAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    StringAttr,
    TensorType,
    UnitAttr,
    f32,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from cleave.assembly import names_of
from cleave.dialects import sched, tt
from cleave.errors import CleaveError
from cleave.extents import extent
from cleave.lowering.functions import Functions
from cleave.lowering.grid import Count, placed, product
from cleave.lowering.reads import Reads
from cleave.lowering.tensors import Blocks, Tensor, add, annotate, apply, cast, constant, constant_of, multiply, spread, width

i8 = IntegerType(8)
_FLOATS: Mapping[str, Callable[[SSAValue, SSAValue], Operation]] = {
    "sum": arith.AddfOp,
    "max": arith.MaxnumfOp,
    "min": arith.MinnumfOp,
    "maxnum": arith.MaxnumfOp,
}
_INTEGERS: Mapping[str, Callable[[SSAValue, SSAValue], Operation]] = {"sum": arith.AddiOp, "max": arith.MaxSIOp, "min": arith.MinSIOp}
_BINARY = frozenset(("add", "sub", "mul", "div", "max", "min", "pow", "floordiv", "mod", "and", "or"))


class LoweredKernel:
    """A function and the scalar arguments that it takes after the addresses, as `sched.launch_func` names them."""

    def __init__(self, func: tt.FuncOp, scalars: Sequence[str]) -> None:
        self.func = func
        self.scalars = tuple(scalars)


def lower_kernel(op: sched.KernelOp) -> LoweredKernel:
    """The function of a verified kernel. Raises: CleaveError for what Triton cannot express."""
    try:
        return _Lowering(op).finish()
    except CleaveError as error:
        raise error if error.place else CleaveError(op, error.found, error.advice) from error


def _element(element: Attribute) -> Attribute:
    return i32 if isinstance(element, IndexType) else element


class _Lowering:
    def __init__(self, op: sched.KernelOp) -> None:
        self.op = op
        self.block = Block()
        self.scalar_names: list[str] = []
        self.pointers: dict[SSAValue, SSAValue] = {}
        self.strides: dict[tuple[SSAValue, str], SSAValue] = {}
        self.values: dict[SSAValue, Tensor] = {}
        self.parts: dict[SSAValue, tuple[Tensor, Tensor]] = {}
        for name, buffer in zip(names_of(op.buffer_names), op.buffer_arguments, strict=True):
            self.pointers[buffer] = self.argument(sched.address_type(typed(sched.BufferType, buffer.type)), f"{name}_ptr")
        for position, (name, buffer) in enumerate(zip(names_of(op.buffer_names), op.buffer_arguments, strict=True)):
            type_ = typed(sched.BufferType, buffer.type)
            for axis, stride in type_.stride.items():
                if stride is None:
                    self.strides[buffer, axis] = self.argument(i64, f"{name}_stride_{axis}")
                    self.scalar_names.append(f"stride {position} {axis} by {type_.divisor.value.data}")
        for name, size in zip(names_of(op.sizes), op.size_arguments, strict=True):
            self.values[size] = Tensor(self.argument(i32, size.name_hint or f"{name}_size"))
            self.scalar_names.append(f"size {name}")
        counts: list[Count] = []
        for position, (dim, _, count) in enumerate(op.grid):
            known = extent(count).constant
            if known is None:
                self.scalar_names.append(f"count {position}")
            counts.append(self.argument(i32, f"{dim}_programs") if known is None else known)
        self.blocks = Blocks(self.block)
        self.functions = Functions(self.blocks)
        self.reads = Reads()
        self.tiles: scf.ForOp | None = None
        self.place_program(counts)

    def argument(self, type_: Attribute, name: str) -> SSAValue:
        out = self.block.insert_arg(type_, len(self.block.args))
        if SSAValue.is_valid_name(name):
            out.name_hint = name
        return out

    def place_program(self, counts: Sequence[Count]) -> None:
        """The starts of the program along each dimension of the grid, from its number."""
        grid = self.op.grid
        if not grid:
            return
        number = Tensor(self.blocks.value(tt.GetProgramIdOp(0)))
        if self.op.persistent:
            number = self.open_tiles(number, counts)
        elif [tile for _, tile, _ in grid] != [1]:
            number.value.name_hint = "program"
        places = placed(self.functions, number, counts, self.op.group.value.data if self.op.group else 0)
        for place, (dim, tile, _), start in zip(places, grid, self.op.grid_arguments, strict=True):
            self.values[start] = multiply(self.blocks, place, tile)
            self.name(self.values[start].value, start.name_hint or f"{dim}_start")

    def open_tiles(self, program: Tensor, counts: Sequence[Count]) -> Tensor:
        """
        A loop over the tiles that a program of a persistent kernel runs, as far apart as there are programs, and the number of one.

        Where one loop within makes all products, of what is loaded there, the two are flattened to one, in which Triton loads ahead across
        the ends of tiles.
        """
        total, step = product(self.functions, counts), self.blocks.value(tt.GetNumProgramsOp(0))
        self.tiles = scf.ForOp(program.value, total.value, step, [], Block(arg_types=[i32]))
        loops = [op for op in self.op.body.walk() if isinstance(op, sched.ForOp)]
        dots = [op for op in self.op.body.walk() if isinstance(op, sched.DotOp)]
        if len(loops) == 1 and dots and all(side.owner.parent is loops[0].body.block for dot in dots for side in (dot.a, dot.b)):
            self.tiles.attributes["tt.flatten"] = UnitAttr()
        block = self.tiles.body.block
        block.args[0].name_hint = "tile"
        self.blocks.enter(block)
        return Tensor(block.args[0])

    def finish(self) -> LoweredKernel:
        """Lowers the body, then drops arguments that nothing uses."""
        self.statements(self.op.body.block)
        if self.tiles is not None:
            self.blocks.add(scf.YieldOp())
            self.blocks.leave()
            self.blocks.add(self.tiles)
        self.block.add_op(tt.ReturnOp())
        first = len(self.pointers)
        kept: list[str] = []
        for name, argument in zip(self.scalar_names, self.block.args[first:], strict=True):
            if argument.first_use is None:
                self.block.erase_arg(argument)
            else:
                kept.append(name)
        attrs: list[DictionaryAttr] = []
        for buffer in self.pointers:
            aligned = bool(typed(sched.BufferType, buffer.type).aligned.value.data)
            attrs.append(DictionaryAttr({"tt.divisibility": IntegerAttr(16, i32)} if aligned else {}))
        attrs += [DictionaryAttr({}) for _ in kept]
        func = tt.FuncOp(self.op.sym_name.data, [argument.type for argument in self.block.args], Region(self.block), attrs)
        func.location = self.op.location
        if self.op.grid:
            func.attributes["dims"] = StringAttr(", ".join(dim for dim, _, _ in self.op.grid))
        return LoweredKernel(func, kept)

    # Values

    def get(self, value: SSAValue) -> Tensor:
        """The tensor of a tile."""
        if value in self.parts:
            start, lanes = self.parts[value]
            total = add(self.blocks, start, lanes)
            assert total is not None, "lanes are a value"
            self.name(total.value, value.name_hint)
            annotate(total.value, total.dims, _note(value))
            return total
        return self.values[value]

    def name(self, value: SSAValue, hint: str | None) -> None:
        if hint and value.name_hint is None and constant_of(value) is None:
            value.name_hint = hint

    def put(self, out: SSAValue, tensor: Tensor) -> None:
        """Binds a tile to its tensor, broadcast to exactly the dimensions of its type."""
        type_ = typed(sched.TileType, out.type)
        result = spread(self.blocks, tensor, type_.shape)
        self.name(result.value, out.name_hint)
        annotate(result.value, result.dims, _note(out))
        self.values[out] = result

    def spread_to(self, value: SSAValue, out: SSAValue) -> Tensor:
        return spread(self.blocks, self.get(value), typed(sched.TileType, out.type).shape)

    # Statements

    def statements(self, block: Block) -> None:
        for op in block.ops:
            self.blocks.location = op.location
            try:
                self.statement(op)
            except CleaveError as error:
                raise error if error.place else CleaveError(op, error.found, error.advice) from error

    def statement(self, op: Operation) -> None:
        match op:
            case sched.ConstantOp():
                type_ = op.out.type
                element, shape = _element(type_.element), tuple(type_.shape.values())
                value = constant(self.blocks, op.number, TensorType(element, shape) if shape else element)
                self.values[op.out] = Tensor(value, tuple(type_.shape))
            case sched.RangeOp():
                self.range(op)
            case sched.CompareOp():
                left, right = self.spread_to(op.lhs, op.out), self.spread_to(op.rhs, op.out)
                self.put(op.out, self.functions.compare(op.predicate.data, left, right))
            case sched.SelectOp():
                condition, on_true, on_false = (self.spread_to(operand, op.out) for operand in op.operands)
                self.put(op.out, self.functions.select(condition, on_true, on_false))
            case sched.CastOp():
                self.put(op.out, cast(self.blocks, self.get(op.arg), _element(op.out.type.element)))
            case sched.BroadcastOp():
                self.put(op.out, self.get(op.arg))
            case sched.ElementwiseOp():
                self.elementwise(op)
            case sched.LoadOp():
                self.load(op)
            case sched.StoreOp():
                self.store(op)
            case sched.ReduceOp():
                self.reduce(op)
            case sched.DotOp():
                self.dot(op)
            case sched.ForOp():
                self.loop(op)
            case sched.IfOp():
                self.branch(op)
            case sched.LastOp():
                self.last(op)
            case sched.WaitOp():
                # Before all tiles of a persistent program, as what these load may be loaded ahead.
                self.reads.forget()
                self.blocks.add(tt.InlineAsmOp(tt.WAIT), 0)
            case sched.ReleaseOp():
                self.blocks.add(tt.InlineAsmOp(tt.RELEASE), 0)
            case sched.YieldOp():
                pass
            case _:
                raise CleaveError(op, "has no Triton form")

    def range(self, op: sched.RangeOp) -> None:
        ((dim, size),) = op.out.type.shape.items()
        lanes = self.blocks.pure(("range", size, dim), (), lambda: tt.MakeRangeOp(0, size), f"{dim}_lanes")
        self.parts[op.out] = (self.get(op.start), Tensor(lanes, (dim,)))

    def elementwise(self, op: sched.ElementwiseOp) -> None:
        kind, out = op.name.removeprefix("sched."), op.results[0]
        is_index = isinstance(op.tile.element, IndexType)
        if is_index and kind == "add" and self.shifted(op):
            return
        if is_index and kind in _BINARY:
            self.put(out, self.functions.index_binary(kind, *(self.get(operand) for operand in op.operands)))
        elif kind == "add" and _is_dot_alone(op.operands[1]):
            self.put(out, self.functions.joined(*(self.spread_to(operand, out) for operand in op.operands)))
        elif kind in _BINARY:
            self.put(out, self.functions.binary(kind, *(self.spread_to(operand, out) for operand in op.operands)))
        else:
            self.put(out, self.functions.unary(kind, self.spread_to(op.operands[0], out)))

    def shifted(self, op: sched.ElementwiseOp) -> bool:
        """A scalar added to a range only moves its start."""
        for moved, by in (tuple(op.operands), tuple(reversed(op.operands))):
            if moved in self.parts and by not in self.parts and not self.values[by].dims:
                start, lanes = self.parts[moved]
                total = add(self.blocks, start, self.values[by])
                assert total is not None, "both are values"
                self.parts[op.results[0]] = (total, lanes)
                return True
        return False

    # Memory

    def stride(self, buffer: SSAValue, axis: str) -> int | SSAValue:
        """Elements between neighbours along an axis, an i64 where the run time passes it."""
        known = typed(sched.BufferType, buffer.type).stride[axis]
        if known is not None:
            return known
        divisor = typed(sched.BufferType, buffer.type).divisor.value.data
        return multiply(self.blocks, Tensor(self.strides[buffer, axis]), divisor).value

    def address(self, op: sched.AccessOp, dims: dict[str, int]) -> Tensor:
        """The address of every lane of a tile with the given dimensions."""
        scalars: dict[int, Tensor | None] = {}
        tiles: list[tuple[str, Tensor, int | SSAValue]] = []
        reach = 0
        for axis, index in op.places:
            stride = self.stride(op.memory, axis)
            if stride == 0:
                continue
            start, tile = self.parts[index] if index in self.parts else (None, self.values[index])
            if not tile.dims:
                start, tile = tile, None
            if start is not None and constant_of(start.value) != 0:
                term = multiply(self.blocks, cast(self.blocks, start, i64), stride)
                self.name(term.value, f"{axis}_offset")
                depth = self.blocks.depth(term.value)
                scalars[depth] = add(self.blocks, scalars.get(depth), term)
            if tile is not None:
                tiles.append((axis, tile, stride))
                known = max(tile.sizes.values()) if index in self.parts else 2**31
                reach += known * abs(stride) if isinstance(stride, int) else 2**31
        wide = i32 if reach < 2**31 or (len(tiles) == 1 and tiles[0][2] == 1) else i64
        sums: dict[tuple[str, ...], Tensor | None] = {}
        for axis, tile, stride in tiles:
            term = multiply(self.blocks, cast(self.blocks, tile, wide), stride)
            if stride != 1:
                self.name(term.value, f"{axis}_offsets")
            sums[tile.dims] = add(self.blocks, sums.get(tile.dims), term)
        lanes: Tensor | None = None
        for total in sums.values():
            assert total is not None, "a sum of tiles is a tile"
            lanes = add(self.blocks, lanes, spread(self.blocks, total, dims))
        pointer = Tensor(self.pointers[op.memory])
        name = names_of(self.op.buffer_names)[self.op.buffer_arguments.index(op.memory)]
        for _, total in sorted(scalars.items(), key=lambda entry: entry[0]):
            if total is not None:
                pointer = apply(self.blocks, tt.AddPtrOp, pointer, total)
                self.name(pointer.value, f"{name}_base")
        if lanes is None:
            return spread(self.blocks, pointer, dims)
        self.name(lanes.value, f"{name}_offsets")
        out = apply(self.blocks, tt.AddPtrOp, spread(self.blocks, pointer, dims), lanes)
        self.name(out.value, f"{name}_places")
        return out

    def mask(self, op: sched.AccessOp, dims: dict[str, int]) -> SSAValue | None:
        """Which lanes of a tile are within the checked extents, None where nothing is checked."""
        out: Tensor | None = None
        for axis, bound in op.bounds:
            index = dict(op.places)[axis]
            inside = self.functions.compare("lt", self.get(index), self.get(bound))
            self.name(inside.value, f"{axis}_inside")
            full = spread(self.blocks, inside, dims)
            out = full if out is None else apply(self.blocks, arith.AndIOp, out, full)
        return None if out is None else out.value

    def load(self, op: sched.LoadOp) -> None:
        if op.descriptor is not None:
            self.put(op.out, self.boxed(op))
            return
        again = self.reads.again(op, self.parts)
        if again is not None:
            self.put(op.out, again)
            return
        type_ = op.out.type
        pointer, mask = self.address(op, type_.shape).value, self.mask(op, type_.shape)
        kind = tt.pointee_of(pointer.type)
        other = None
        if op.other is not None and mask is not None:
            other = constant(self.blocks, op.other.value.data, kind)
        evict = tt.EVICTIONS[op.eviction.data if op.eviction else ""]
        loaded = self.blocks.value(tt.LoadOp(pointer, mask, other, evict, tt.CACHES["" if op.fresh is None else "cg"]))
        result = Tensor(loaded, tuple(type_.shape))
        self.reads.keep(op, self.parts, result)
        self.put(op.out, cast(self.blocks, result, i1) if type_.element == i1 else result)

    def boxed(self, op: sched.LoadOp) -> Tensor:
        """What a load by descriptor reads, with its dimensions as they lie in memory."""
        strides, bounds = typed(sched.BufferType, op.buffer.type).stride, dict(op.bounds)
        base: Tensor | None = None
        runs: list[tuple[int, str, Tensor, Tensor]] = []
        for axis, index in op.places:
            start, lanes = self.parts[index] if index in self.parts else (self.values[index], None)
            if lanes is None and start.dims:
                raise CleaveError(op, f"the index of axis '{axis}' is not one of neighbours", "use sched.range")
            if lanes is not None:
                runs.append((strides[axis] or 0, lanes.dims[0], start, self.get(bounds[axis])))
            elif constant_of(start.value) != 0:
                base = add(self.blocks, base, multiply(self.blocks, cast(self.blocks, start, i64), self.stride(op.buffer, axis)))
        runs.sort(key=lambda run: -run[0])
        pointer = Tensor(self.pointers[op.buffer])
        name = names_of(self.op.buffer_names)[self.op.buffer_arguments.index(op.buffer)]
        if base is not None:
            pointer = apply(self.blocks, tt.AddPtrOp, pointer, base)
            self.name(pointer.value, f"{name}_base")
        sizes = op.out.type.shape
        block = TensorType(op.out.type.element, [sizes[dim] for _, dim, _, _ in runs])
        shape, steps = [end.value for *_, end in runs], [constant(self.blocks, step, i64) for step, *_ in runs]
        key = ("descriptor", block, len(runs))
        described = self.blocks.pure(
            key, (pointer.value, *shape, *steps), lambda: tt.MakeTensorDescOp(pointer.value, shape, steps, block), f"{name}_boxes"
        )
        loaded = self.blocks.value(tt.DescriptorLoadOp(described, [start.value for _, _, start, _ in runs]))
        return Tensor(loaded, tuple(dim for _, dim, _, _ in runs))

    def store(self, op: sched.StoreOp) -> None:
        value = self.get(op.value)
        if value.element == i1:
            value = cast(self.blocks, value, i8)
        value = spread(self.blocks, value, op.dims)
        self.blocks.add(tt.StoreOp(self.address(op, op.dims).value, value.value, self.mask(op, op.dims)))
        self.reads.forget()

    # Compound operations

    def reduce(self, op: sched.ReduceOp) -> None:
        source = self.get(op.value)
        element = source.element
        if isinstance(element, AnyFloat) and width(element) == 16:
            source = cast(self.blocks, source, f32)
        elif element == i1:
            raise CleaveError(op, "a reduction of booleans has no Triton form", "cast to i32 first")
        kind, dim = op.kind.data, op.dim.data
        reduced = self.reduced(kind, source, dim)
        if kind in ("max", "min") and isinstance(source.element, AnyFloat):
            # Triton's reductions leave NaN out.
            unordered = cast(self.blocks, self.functions.compare("ne", source, source), i32)
            found = self.functions.compare("gt", self.reduced("max", unordered, dim), Tensor(constant(self.blocks, 0, i32)))
            reduced = self.functions.select(found, self.functions.number(math.nan, reduced), reduced)
        self.put(op.out, cast(self.blocks, reduced, element))

    def reduced(self, kind: str, source: Tensor, dim: str) -> Tensor:
        """A tensor without one of its dimensions; a maximum or minimum of floats is that of what is not NaN."""
        block = Block(arg_types=[source.element, source.element])
        combine = (_FLOATS if isinstance(source.element, AnyFloat) else _INTEGERS)[kind](block.args[0], block.args[1])
        block.add_ops([combine, tt.ReduceReturnOp(combine.results[0])])
        value = self.blocks.value(tt.ReduceOp(source.value, source.dims.index(dim), Region(block)))
        return Tensor(value, tuple(name for name in source.dims if name != dim))

    def dot(self, op: sched.DotOp) -> None:
        a, b = self.get(op.a), self.get(op.b)
        shape = op.out.type.shape
        if op.acc is None:
            acc = constant(self.blocks, 0.0, TensorType(f32, tuple(shape.values())))
        else:
            acc = self.get(op.acc).value
        self.put(op.out, Tensor(self.blocks.value(tt.DotOp(a.value, b.value, acc, op.precision.data)), tuple(shape)))

    def loop(self, op: sched.ForOp) -> None:
        inits = [self.get(init).value for init in op.inits]
        start, stop = self.get(op.start).value, self.get(op.stop).value
        step = constant(self.blocks, op.step.value.data, i32)
        block = Block(arg_types=[i32, *(init.type for init in inits)])
        for inner, argument in zip(op.body.block.args, block.args, strict=True):
            self.values[inner] = Tensor(argument, tuple(typed(sched.TileType, inner.type).shape))
            if inner.name_hint:
                argument.name_hint = inner.name_hint
        self.blocks.enter(block)
        self.statements(op.body.block)
        last = op.body.block.last_op
        assert isinstance(last, sched.YieldOp), "a sched.for ends in sched.yield"
        block.add_op(scf.YieldOp(*(self.get(value).value for value in last.values)))
        self.blocks.leave()
        loop = scf.ForOp(start, stop, step, inits, block)
        loop.attributes["dims"] = StringAttr(op.dim.data)
        self.blocks.add(loop)
        for out, result in zip(op.outs, loop.results, strict=True):
            self.values[out] = Tensor(result, tuple(out.type.shape))
            if out.name_hint:
                result.name_hint = out.name_hint

    def branch(self, op: sched.IfOp) -> None:
        """What is made for the body alone stays in it."""
        condition = self.get(op.condition).value
        others = [self.get(other).value for other in op.others]
        block = Block()
        self.blocks.enter(block, apart=True)
        self.statements(op.body.block)
        last = op.body.block.last_op
        assert isinstance(last, sched.YieldOp), "a sched.if ends in sched.yield"
        block.add_op(scf.YieldOp(*(self.get(value).value for value in last.values)))
        self.blocks.leave()
        kept = Region(Block([scf.YieldOp(*others)])) if others else None
        chosen = scf.IfOp(condition, [other.type for other in others], Region(block), kept)
        self.blocks.add(chosen)
        for out, result in zip(op.outs, chosen.results, strict=True):
            self.values[out] = Tensor(result, tuple(out.type.shape))
            if out.name_hint:
                result.name_hint = out.name_hint

    def last(self, op: sched.LastOp) -> None:
        """
        An atomic counter tells the program whether it is the last, which then sets it back.

        The barrier orders what all threads stored before the one that counts; that releases it to the programs that count later.
        """
        pointer, one, zero = self.address(op, {}).value, constant(self.blocks, 1, i32), constant(self.blocks, 0, i32)
        others = self.functions.binary("sub", self.get(op.count), Tensor(one))
        self.blocks.add(gpu.BarrierOp())
        self.reads.forget()
        before = Tensor(self.blocks.value(tt.AtomicRMWOp("add", pointer, one)))
        self.name(before.value, "before")
        is_last = self.functions.compare("eq", before, others)
        block = Block()
        self.blocks.enter(block, apart=True)
        self.blocks.add(tt.StoreOp(pointer, zero))
        self.statements(op.body.block)
        self.blocks.add(scf.YieldOp())
        self.blocks.leave()
        self.blocks.add(scf.IfOp(is_last.value, [], Region(block)))


def _is_dot_alone(value: SSAValue) -> bool:
    """Whether a value is a dot that starts from 0."""
    return isinstance(value.owner, sched.DotOp) and value.owner.acc is None


def _note(value: SSAValue) -> str:
    owner = value.owner
    note = owner.attributes.get("note") if isinstance(owner, Operation) else None
    return note.data if isinstance(note, StringAttr) else ""
