"""
Loads and stores of a kernel: the address of every lane, and masks.

- An address is the buffer's, plus scalars times strides in 64 bits, plus lanes times strides, in 32 bits where that is sure to fit.
- A mask compares each checked index with its extent in one dimension, then broadcasts.
- A load by descriptor reads a box of neighbours along every dimension of the tile.
- i1 lies in memory as bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast as typed

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, TensorType, i1, i32, i64
from xdsl.ir import SSAValue

from cleave.assembly import names_of
from cleave.dialects import sched, tt
from cleave.errors import CleaveError
from cleave.lowering.functions import Functions
from cleave.lowering.reads import Reads
from cleave.lowering.tensors import Tensor, add, apply, cast, constant, constant_of, multiply, spread
from cleave.lowering.values import Values, name

i8 = IntegerType(8)


class Memory:
    """
    The accesses of one kernel, whose buffers are at `pointers`. `strides` are those that the run time passes, by buffer and axis, in
    elements divided by the divisor of the buffer.
    """

    def __init__(
        self,
        kernel: sched.KernelOp,
        pointers: Mapping[SSAValue, SSAValue],
        strides: Mapping[tuple[SSAValue, str], SSAValue],
        functions: Functions,
        values: Values,
    ) -> None:
        self.names = dict(zip(kernel.buffer_arguments, names_of(kernel.buffer_names), strict=True))
        self.pointers, self.strides = pointers, strides
        self.blocks, self.functions, self.values = values.blocks, functions, values
        self._reads = Reads()

    def forget(self) -> None:
        """Tells that memory may have changed: what was read before is read again."""
        self._reads.forget()

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
            start, tile = self.values.parts[index] if index in self.values.parts else (None, self.values.tensors[index])
            if not tile.dims:
                start, tile = tile, None
            if start is not None and constant_of(start.value) != 0:
                term = multiply(self.blocks, cast(self.blocks, start, i64), stride)
                name(term.value, f"{axis}_offset")
                depth = self.blocks.depth(term.value)
                scalars[depth] = add(self.blocks, scalars.get(depth), term)
            if tile is not None:
                tiles.append((axis, tile, stride))
                known = max(tile.sizes.values()) if index in self.values.parts else 2**31
                reach += known * abs(stride) if isinstance(stride, int) else 2**31
        wide = i32 if reach < 2**31 or (len(tiles) == 1 and tiles[0][2] == 1) else i64
        sums: dict[tuple[str, ...], Tensor | None] = {}
        for axis, tile, stride in tiles:
            term = multiply(self.blocks, cast(self.blocks, tile, wide), stride)
            if stride != 1:
                name(term.value, f"{axis}_offsets")
            sums[tile.dims] = add(self.blocks, sums.get(tile.dims), term)
        lanes: Tensor | None = None
        for total in sums.values():
            assert total is not None, "a sum of tiles is a tile"
            lanes = add(self.blocks, lanes, spread(self.blocks, total, dims))
        pointer = Tensor(self.pointers[op.memory])
        buffer = self.names[op.memory]
        for _, total in sorted(scalars.items(), key=lambda entry: entry[0]):
            if total is not None:
                pointer = apply(self.blocks, tt.AddPtrOp, pointer, total)
                name(pointer.value, f"{buffer}_base")
        if lanes is None:
            return spread(self.blocks, pointer, dims)
        name(lanes.value, f"{buffer}_offsets")
        out = apply(self.blocks, tt.AddPtrOp, spread(self.blocks, pointer, dims), lanes)
        name(out.value, f"{buffer}_places")
        return out

    def mask(self, op: sched.AccessOp, dims: dict[str, int]) -> SSAValue | None:
        """Which lanes of a tile are within the checked extents, None where nothing is checked."""
        out: Tensor | None = None
        for axis, bound in op.bounds:
            index = dict(op.places)[axis]
            inside = self.functions.compare("lt", self.values.get(index), self.values.get(bound))
            name(inside.value, f"{axis}_inside")
            full = spread(self.blocks, inside, dims)
            out = full if out is None else apply(self.blocks, arith.AndIOp, out, full)
        return None if out is None else out.value

    def load(self, op: sched.LoadOp) -> None:
        if op.descriptor is not None:
            self.values.put(op.out, self.boxed(op))
            return
        again = self._reads.again(op, self.values.parts)
        if again is not None:
            self.values.put(op.out, again)
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
        self._reads.keep(op, self.values.parts, result)
        self.values.put(op.out, cast(self.blocks, result, i1) if type_.element == i1 else result)

    def boxed(self, op: sched.LoadOp) -> Tensor:
        """What a load by descriptor reads, with its dimensions as they lie in memory."""
        strides, bounds = typed(sched.BufferType, op.buffer.type).stride, dict(op.bounds)
        base: Tensor | None = None
        runs: list[tuple[int, str, Tensor, Tensor]] = []
        for axis, index in op.places:
            start, lanes = self.values.parts[index] if index in self.values.parts else (self.values.tensors[index], None)
            if lanes is None and start.dims:
                raise CleaveError(op, f"the index of axis '{axis}' is not one of neighbours", "use sched.range")
            if lanes is not None:
                runs.append((strides[axis] or 0, lanes.dims[0], start, self.values.get(bounds[axis])))
            elif constant_of(start.value) != 0:
                base = add(self.blocks, base, multiply(self.blocks, cast(self.blocks, start, i64), self.stride(op.buffer, axis)))
        runs.sort(key=lambda run: -run[0])
        pointer = Tensor(self.pointers[op.buffer])
        buffer = self.names[op.buffer]
        if base is not None:
            pointer = apply(self.blocks, tt.AddPtrOp, pointer, base)
            name(pointer.value, f"{buffer}_base")
        sizes = op.out.type.shape
        block = TensorType(op.out.type.element, [sizes[dim] for _, dim, _, _ in runs])
        shape, steps = [end.value for *_, end in runs], [constant(self.blocks, step, i64) for step, *_ in runs]
        key = ("descriptor", block, len(runs))
        described = self.blocks.pure(
            key, (pointer.value, *shape, *steps), lambda: tt.MakeTensorDescOp(pointer.value, shape, steps, block), f"{buffer}_boxes"
        )
        loaded = self.blocks.value(tt.DescriptorLoadOp(described, [start.value for _, _, start, _ in runs]))
        return Tensor(loaded, tuple(dim for _, dim, _, _ in runs))

    def store(self, op: sched.StoreOp) -> None:
        value = self.values.get(op.value)
        if value.element == i1:
            value = cast(self.blocks, value, i8)
        value = spread(self.blocks, value, op.dims)
        self.blocks.add(tt.StoreOp(self.address(op, op.dims).value, value.value, self.mask(op, op.dims)))
        self._reads.forget()
