"""
Building `tt` operations on tensors whose dimensions have names.

Helpers are pure, so equal ones are made once, in the outermost loop body where their operands exist: what does not depend
on a loop lands before it. Only what is not always done stays where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    AnyFloat,
    FixedBitwidthType,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    StringAttr,
    TensorType,
    f32,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from cleave.dialects import tt
from cleave.errors import CleaveError


@dataclass(frozen=True, slots=True)
class Tensor:
    """A value and the names of its dimensions; a scalar has none."""

    value: SSAValue
    dims: tuple[str, ...] = ()

    @property
    def element(self) -> Attribute:
        """The element type."""
        return tt.element_of(self.value.type)

    @property
    def sizes(self) -> dict[str, int]:
        """Size by dimension."""
        return dict(zip(self.dims, tt.shape_of(self.value.type), strict=True))


class Blocks:
    """The bodies being built, outermost first, and where each value was made."""

    def __init__(self, outer: Block) -> None:
        self.stack = [outer]
        self._depth: dict[SSAValue, int] = dict.fromkeys(outer.args, 0)
        self._made: dict[tuple[object, ...], SSAValue] = {}
        self._floors = [0]
        self.location: LocationAttr | None = None
        """The source location that new operations get."""

    def enter(self, block: Block, apart: bool = False) -> None:
        """Starts a body. Operations stay within one that is `apart`, as it is not always run."""
        self.stack.append(block)
        self._floors.append(len(self.stack) - 1 if apart else self._floors[-1])
        for argument in block.args:
            self._depth[argument] = len(self.stack) - 1

    def leave(self) -> None:
        """Ends the innermost body; what was made in it cannot be used again."""
        depth = len(self.stack) - 1
        self.stack.pop()
        self._floors.pop()
        self._made = {key: value for key, value in self._made.items() if self._depth[value] < depth}

    def depth(self, value: SSAValue) -> int:
        """The nesting of the block that makes a value, 0 for the function's."""
        return self._depth[value]

    def add(self, op: Operation, depth: int | None = None) -> None:
        """Appends an operation to a body, the innermost by default."""
        at = len(self.stack) - 1 if depth is None else depth
        self.stack[at].add_op(op)
        if self.location is not None:
            op.location = self.location
        for result in op.results:
            self._depth[result] = at

    def value(self, op: Operation, depth: int | None = None) -> SSAValue:
        """Appends an operation and returns its first result."""
        self.add(op, depth)
        return op.results[0]

    def pure(self, key: tuple[object, ...], args: Sequence[SSAValue], make: Callable[[], Operation], hint: str = "") -> SSAValue:
        """
        The result of a pure operation on `args`, made once, as far out as these allow.

        `key` says what the operation is beside its operands.
        """
        identity = (*key, *args)
        if identity not in self._made:
            op = make()
            self._made[identity] = self.value(op, max((self._floors[-1], *(self._depth[arg] for arg in args))))
            if hint:
                op.results[0].name_hint = hint
        return self._made[identity]


def constant(blocks: Blocks, value: float, type_: Attribute) -> SSAValue:
    """A number in every element of a type."""
    return blocks.pure(("constant", repr(value), type_), (), lambda: number_op(value, type_))


def number_op(value: float, type_: Attribute) -> arith.ConstantOp:
    """The constant operation of a number in every element of a type. Raises: CleaveError for a number that does not fit."""
    element = tt.element_of(type_)
    held: float | int = float(value) if isinstance(element, AnyFloat) else int(value)
    if isinstance(element, AnyFloat):
        try:
            element.pack([held])
        except OverflowError:
            raise CleaveError(None, f"{value} does not fit {element}", "use a constant within its range") from None
    bits = 0 if isinstance(element, AnyFloat) else width(element)
    if bits and not -(1 << bits - 1) <= held < 1 << max(bits - 1, 1):
        raise CleaveError(None, f"{value} does not fit i{bits}", "index values have 32 bits" if bits == 32 else "")
    if isinstance(type_, TensorType):
        return arith.ConstantOp(tt.splat_attr(held, type_.get_shape(), element))
    if isinstance(element, AnyFloat):
        return arith.ConstantOp(FloatAttr(held, element))
    assert isinstance(element, IntegerType), f"{element} is not a type of numbers"
    return arith.ConstantOp(IntegerAttr(int(held), IntegerType(element.bitwidth)))


def constant_of(value: SSAValue) -> float | int | None:
    """The number that a constant holds in every element, None for what is not such a constant."""
    if not isinstance(value.owner, arith.ConstantOp):
        return None
    number = tt.splat_value(value.owner.value)
    # A bit that is set is -1 as a signed number.
    return int(number != 0) if number is not None and tt.element_of(value.type) == i1 else number


_T = TypeVar("_T")


def _made(blocks: Blocks, value: SSAValue, what: str, how: _T, make: Callable[[SSAValue, _T], Operation], hint: str = "") -> SSAValue:
    return blocks.pure((what, how), (value,), lambda: make(value, how), hint)


def expanded(blocks: Blocks, tensor: Tensor, dims: Sequence[str]) -> Tensor:
    """The tensor with all the given dimensions in that order, of size 1 where it had none. Scalars stay scalars."""
    if not tensor.dims:
        return tensor
    value = tensor.value
    order = [tensor.dims.index(name) for name in dims if name in tensor.dims]
    if order != sorted(order):
        value = _made(blocks, value, "trans", tuple(order), tt.TransOp)
    for position, name in enumerate(dims):
        if name not in tensor.dims:
            value = _made(blocks, value, "expand", position, tt.ExpandDimsOp)
    return Tensor(value, tuple(dims))


def spread(blocks: Blocks, tensor: Tensor, sizes: dict[str, int]) -> Tensor:
    """The tensor broadcast to exactly the given dimensions."""
    shape = tuple(sizes.values())
    out = expanded(blocks, tensor, tuple(sizes))
    if not sizes or tt.shape_of(out.value.type) == shape:
        return Tensor(out.value, tuple(sizes))
    if out.dims:
        return Tensor(_made(blocks, out.value, "broadcast", shape, tt.BroadcastOp), tuple(sizes))
    number = constant_of(out.value)
    if number is not None:
        return Tensor(constant(blocks, number, TensorType(out.element, shape)), tuple(sizes))
    return Tensor(_made(blocks, out.value, "splat", shape, tt.SplatOp), tuple(sizes))


def union(*tensors: Tensor) -> dict[str, int]:
    """The dimensions of the tensors with their sizes, in order of appearance."""
    out: dict[str, int] = {}
    for tensor in tensors:
        for name, size in tensor.sizes.items():
            out.setdefault(name, size)
    return out


def together(blocks: Blocks, *tensors: Tensor, sizes: dict[str, int] | None = None) -> list[Tensor]:
    """The tensors broadcast to common dimensions."""
    wanted = union(*tensors) if sizes is None else sizes
    return [spread(blocks, tensor, wanted) for tensor in tensors]


def apply(blocks: Blocks, make: Callable[..., Operation], *tensors: Tensor, key: object = None) -> Tensor:
    """An elementwise operation on tensors broadcast together."""
    operands = together(blocks, *tensors)
    values = [operand.value for operand in operands]
    return Tensor(blocks.pure((make, key) if key is None else (key,), values, lambda: make(*values)), operands[0].dims)


def width(element: Attribute) -> int:
    """Bits of an element type."""
    assert isinstance(element, FixedBitwidthType)
    return element.bitwidth


def cast(blocks: Blocks, tensor: Tensor, to: Attribute) -> Tensor:
    """
    The tensor in another element type: floats round to nearest even, float to integer truncates, i1 is 0 or 1.
    """
    source, value = tensor.element, tensor.value
    if source == to:
        return tensor
    if isinstance(source, AnyFloat) and isinstance(to, AnyFloat):
        if {width(source), width(to)} == {16}:
            return cast(blocks, cast(blocks, tensor, f32), to)
        resize = arith.ExtFOp if width(to) > width(source) else arith.TruncFOp
        return Tensor(_made(blocks, value, "cast", tt.like(value.type, to), resize), tensor.dims)
    if to == i1:
        zero = Tensor(constant(blocks, 0, value.type), tensor.dims)
        return compare(blocks, "une" if isinstance(source, AnyFloat) else "ne", tensor, zero)
    if isinstance(source, AnyFloat):
        return Tensor(_made(blocks, value, "cast", to, tt.FPToSIOp), tensor.dims)
    if isinstance(to, AnyFloat):
        return Tensor(_made(blocks, value, "cast", to, tt.UIToFPOp if source == i1 else tt.SIToFPOp), tensor.dims)
    number = constant_of(value)
    if number is not None:
        return Tensor(constant(blocks, _wrapped(int(number), width(to)), tt.like(value.type, to)), tensor.dims)
    change = tt.ExtUIOp if source == i1 else tt.ExtSIOp if width(to) > width(source) else tt.TruncIOp
    hint = f"{value.name_hint}_i{width(to)}" if value.name_hint else ""
    return Tensor(_made(blocks, value, "cast", to, change, hint), tensor.dims)


def _wrapped(number: int, bits: int) -> int:
    """A number in so many bits, signed."""
    half = 1 << (bits - 1)
    return (number + half) % (2 * half) - half


def compare(blocks: Blocks, predicate: str, a: Tensor, b: Tensor) -> Tensor:
    """A comparison by the predicate of `tt.cmpf` for floats, of `tt.cmpi` for integers."""
    kind = tt.CmpFOp if isinstance(a.element, AnyFloat) else tt.CmpIOp

    def make(x: SSAValue, y: SSAValue) -> Operation:
        return kind(x, y, predicate)

    return apply(blocks, make, a, b, key=("compare", predicate))


def add(blocks: Blocks, a: Tensor | None, b: Tensor | None) -> Tensor | None:
    """The sum of two integers or tensors of them, in the wider type; None stands for 0."""
    if a is None or b is None:
        return a if b is None else b
    if constant_of(a.value) == 0 and not a.dims:
        return b
    if constant_of(b.value) == 0 and not b.dims:
        return a
    wide = i64 if i64 in (a.element, b.element) else i32
    return apply(blocks, arith.AddiOp, cast(blocks, a, wide), cast(blocks, b, wide))


def multiply(blocks: Blocks, a: Tensor, factor: int | SSAValue) -> Tensor:
    """A tensor of integers times a number or a scalar of the same type."""
    if factor == 1:
        return a
    scalar = constant(blocks, factor, a.element) if isinstance(factor, int) else factor
    known = constant_of(a.value)
    if isinstance(factor, int) and known is not None:
        return Tensor(constant(blocks, int(known) * factor, a.value.type), a.dims)
    return apply(blocks, arith.MuliOp, a, Tensor(scalar))


def annotate(value: SSAValue, dims: Sequence[str], note: str = "") -> None:
    """Says on the operation that makes a value which dimensions it has, for readers."""
    owner = value.owner
    if isinstance(owner, Operation) and dims:
        owner.attributes["dims"] = StringAttr(", ".join(dims))
    if isinstance(owner, Operation) and note:
        owner.attributes["note"] = StringAttr(note)
