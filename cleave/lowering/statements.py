"""The statements of a kernel's body as `tt`, `arith` and `scf` operations: elementwise ones, reductions, dots, loops and branches."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from xdsl.dialects import arith, gpu, scf
from xdsl.dialects.builtin import AnyFloat, IndexType, StringAttr, TensorType, f32, i1, i32
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from cleave.dialects import sched, tt
from cleave.errors import CleaveError
from cleave.lowering.functions import Functions
from cleave.lowering.memory import Memory
from cleave.lowering.tensors import Tensor, cast, constant, width
from cleave.lowering.values import Values, name

_FLOATS: Mapping[str, Callable[[SSAValue, SSAValue], Operation]] = {
    "sum": arith.AddfOp,
    "max": arith.MaxnumfOp,
    "min": arith.MinnumfOp,
    "maxnum": arith.MaxnumfOp,
}
_INTEGERS: Mapping[str, Callable[[SSAValue, SSAValue], Operation]] = {"sum": arith.AddiOp, "max": arith.MaxSIOp, "min": arith.MinSIOp}
_BINARY = frozenset(("add", "sub", "mul", "div", "max", "min", "pow", "floordiv", "mod", "and", "or"))


class Statements:
    """Lowers bodies of one kernel into the blocks that are open."""

    def __init__(self, functions: Functions, values: Values, memory: Memory) -> None:
        self.blocks, self.functions, self.values, self.memory = values.blocks, functions, values, memory

    def block(self, block: Block) -> None:
        """Lowers what a body has. Raises: CleaveError with the place of what Triton cannot express."""
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
                self.values.tensors[op.out] = Tensor(value, tuple(type_.shape))
            case sched.RangeOp():
                self.range(op)
            case sched.CompareOp():
                left, right = self.values.spread_to(op.lhs, op.out), self.values.spread_to(op.rhs, op.out)
                self.values.put(op.out, self.functions.compare(op.predicate.data, left, right))
            case sched.SelectOp():
                condition, on_true, on_false = (self.values.spread_to(operand, op.out) for operand in op.operands)
                self.values.put(op.out, self.functions.select(condition, on_true, on_false))
            case sched.CastOp():
                self.values.put(op.out, cast(self.blocks, self.values.get(op.arg), _element(op.out.type.element)))
            case sched.BroadcastOp():
                self.values.put(op.out, self.values.get(op.arg))
            case sched.ElementwiseOp():
                self.elementwise(op)
            case sched.LoadOp():
                self.memory.load(op)
            case sched.StoreOp():
                self.memory.store(op)
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
                self.memory.forget()
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
        self.values.parts[op.out] = (self.values.get(op.start), Tensor(lanes, (dim,)))

    def elementwise(self, op: sched.ElementwiseOp) -> None:
        kind, out = op.name.removeprefix("sched."), op.results[0]
        is_index = isinstance(op.tile.element, IndexType)
        if is_index and kind == "add" and any(self.values.shift(out, *pair) for pair in (op.operands, reversed(op.operands))):
            return
        if is_index and kind in _BINARY:
            self.values.put(out, self.functions.index_binary(kind, *(self.values.get(operand) for operand in op.operands)))
        elif kind == "add" and _is_dot_alone(op.operands[1]):
            self.values.put(out, self.functions.joined(*(self.values.spread_to(operand, out) for operand in op.operands)))
        elif kind in _BINARY:
            self.values.put(out, self.functions.binary(kind, *(self.values.spread_to(operand, out) for operand in op.operands)))
        else:
            self.values.put(out, self.functions.unary(kind, self.values.spread_to(op.operands[0], out)))

    def reduce(self, op: sched.ReduceOp) -> None:
        source = self.values.get(op.value)
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
        self.values.put(op.out, cast(self.blocks, reduced, element))

    def reduced(self, kind: str, source: Tensor, dim: str) -> Tensor:
        """A tensor without one of its dimensions; a maximum or minimum of floats is that of what is not NaN."""
        block = Block(arg_types=[source.element, source.element])
        combine = (_FLOATS if isinstance(source.element, AnyFloat) else _INTEGERS)[kind](block.args[0], block.args[1])
        block.add_ops([combine, tt.ReduceReturnOp(combine.results[0])])
        value = self.blocks.value(tt.ReduceOp(source.value, source.dims.index(dim), Region(block)))
        return Tensor(value, tuple(name for name in source.dims if name != dim))

    def dot(self, op: sched.DotOp) -> None:
        a, b = self.values.get(op.a), self.values.get(op.b)
        shape = op.out.type.shape
        if op.acc is None:
            acc = constant(self.blocks, 0.0, TensorType(f32, tuple(shape.values())))
        else:
            acc = self.values.get(op.acc).value
        self.values.put(op.out, Tensor(self.blocks.value(tt.DotOp(a.value, b.value, acc, op.precision.data)), tuple(shape)))

    def loop(self, op: sched.ForOp) -> None:
        inits = [self.values.get(init).value for init in op.inits]
        start, stop = self.values.get(op.start).value, self.values.get(op.stop).value
        step = constant(self.blocks, op.step.value.data, i32)
        block = Block(arg_types=[i32, *(init.type for init in inits)])
        for inner, argument in zip(op.body.block.args, block.args, strict=True):
            self.values.bind(inner, argument)
        self.blocks.enter(block)
        self.block(op.body.block)
        last = op.body.block.last_op
        assert isinstance(last, sched.YieldOp), "a sched.for ends in sched.yield"
        block.add_op(scf.YieldOp(*(self.values.get(value).value for value in last.values)))
        self.blocks.leave()
        loop = scf.ForOp(start, stop, step, inits, block)
        loop.attributes["dims"] = StringAttr(op.dim.data)
        self.blocks.add(loop)
        for out, result in zip(op.outs, loop.results, strict=True):
            self.values.bind(out, result)

    def branch(self, op: sched.IfOp) -> None:
        """What is made for the body alone stays in it."""
        condition = self.values.get(op.condition).value
        others = [self.values.get(other).value for other in op.others]
        block = Block()
        self.blocks.enter(block, apart=True)
        self.block(op.body.block)
        last = op.body.block.last_op
        assert isinstance(last, sched.YieldOp), "a sched.if ends in sched.yield"
        block.add_op(scf.YieldOp(*(self.values.get(value).value for value in last.values)))
        self.blocks.leave()
        kept = Region(Block([scf.YieldOp(*others)])) if others else None
        chosen = scf.IfOp(condition, [other.type for other in others], Region(block), kept)
        self.blocks.add(chosen)
        for out, result in zip(op.outs, chosen.results, strict=True):
            self.values.bind(out, result)

    def last(self, op: sched.LastOp) -> None:
        """
        An atomic counter tells the program whether it is the last, which then sets it back.

        The barrier orders what all threads stored before the one that counts; that releases it to the programs that count later.
        """
        pointer, one, zero = self.memory.address(op, {}).value, constant(self.blocks, 1, i32), constant(self.blocks, 0, i32)
        others = self.functions.binary("sub", self.values.get(op.count), Tensor(one))
        self.blocks.add(gpu.BarrierOp())
        self.memory.forget()
        before = Tensor(self.blocks.value(tt.AtomicRMWOp("add", pointer, one)))
        name(before.value, "before")
        is_last = self.functions.compare("eq", before, others)
        block = Block()
        self.blocks.enter(block, apart=True)
        self.blocks.add(tt.StoreOp(pointer, zero))
        self.block(op.body.block)
        self.blocks.add(scf.YieldOp())
        self.blocks.leave()
        self.blocks.add(scf.IfOp(is_last.value, [], Region(block)))


def _element(element: Attribute) -> Attribute:
    return i32 if isinstance(element, IndexType) else element


def _is_dot_alone(value: SSAValue) -> bool:
    """Whether a value is a dot that starts from 0."""
    return isinstance(value.owner, sched.DotOp) and value.owner.acc is None
