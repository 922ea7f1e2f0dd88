"""
Compute bfloat16 in float32, rounding explicitly: for Triton's CPU interpreter, which truncates and multiplies bf16 wrongly.

Every bf16 type becomes f32, in memory too; a value that was rounded to bf16 is rounded to the nearest of its values, ties to
even, by adding to its bits. `arith.truncf` becomes that rounding, `arith.extf` nothing. Equal to what a GPU gives up to the
order of sums. Kernels without bf16 stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    FunctionType,
    ModuleOp,
    TensorType,
    f32,
    i32,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from cleave.dialects import sched, tt
from cleave.lowering.tensors import number_op
from cleave.modules import check_single
from cleave.reference.dtypes import rounded

_BF16 = BFloat16Type()
_MOVES = (tt.SplatOp, tt.BroadcastOp, tt.ExpandDimsOp, tt.TransOp, tt.ReshapeOp, tt.SelectOp, tt.LoadOp, tt.ReduceOp)


@dataclass(frozen=True)
class TtEmulateBf16Pass(ModulePass):
    """Compute bfloat16 in float32 with explicit rounding."""

    name = "tt-emulate-bf16"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        check_single(op)
        for function in [function for function in op.ops if isinstance(function, tt.FuncOp)]:
            for inner in list(function.walk()):
                emulate(inner)
            inputs = [_wide(type_) for type_ in function.function_type.inputs]
            function.function_type = FunctionType.from_lists(inputs, [])
        for host in [host for host in op.ops if isinstance(host, sched.ProgramOp)]:
            for inner in host.walk():
                _widen(inner)


def emulate(op: Operation) -> None:
    """Widens one operation, and rounds its result where it computed in bf16."""
    computes = not op.regions and not isinstance(op, (*_MOVES, arith.ConstantOp))
    rounds = [position for position, result in enumerate(op.results) if computes and _is_bf16(result.type)]
    narrows = isinstance(op, arith.TruncFOp) and bool(rounds)
    _widen(op)
    if isinstance(op, arith.ConstantOp):
        op.properties["value"] = _constant(op.value)
    if isinstance(op, arith.ExtFOp) and op.results[0].type == op.operands[0].type:
        Rewriter.replace_op(op, [], [op.operands[0]])
        return
    if narrows and op.operands[0].type == op.results[0].type:
        ops = rounding(op.operands[0])
        _annotate(op, ops[-1])
        Rewriter.replace_op(op, ops)
        return
    for position in rounds:
        result = op.results[position]
        ops = rounding(result)
        Rewriter.insert_op(ops, InsertPoint.after(op))
        result.replace_uses_with_if(ops[-1].results[0], lambda use, made=frozenset(ops): use.operation not in made)
        _annotate(op, ops[-1])


def _annotate(source: Operation, target: Operation) -> None:
    target.attributes |= source.attributes
    target.results[0].name_hint = source.results[0].name_hint


def _is_bf16(type_: Attribute) -> bool:
    return tt.element_of(type_) == _BF16


def _wide(type_: Attribute) -> Attribute:
    """The type with f32 in place of bf16, through tensors, pointers and buffers."""
    match type_:
        case BFloat16Type():
            return f32
        case tt.PtrType(pointee=pointee):
            return tt.PtrType(_wide(pointee))
        case TensorType():
            return TensorType(_wide(type_.get_element_type()), type_.get_shape())
        case sched.BufferType():
            return sched.BufferType(type_.axes, type_.strides, _wide(type_.element), type_.divisor, type_.aligned)
        case _:
            return type_


def _widen(op: Operation) -> None:
    for region in op.regions:
        for block in region.blocks:
            for argument in block.args:
                _retype(argument)
    for result in op.results:
        _retype(result)


def _retype(value: SSAValue) -> None:
    wide = _wide(value.type)
    if wide != value.type:
        Rewriter.replace_value_with_new_type(value, wide)


def _constant(attr: Attribute) -> Attribute:
    """A constant of bf16 as the f32 of the same value, which is one of bf16's."""
    match attr:
        case FloatAttr(type=BFloat16Type()):
            return FloatAttr(nearest(attr.value.data), f32)
        case DenseIntOrFPElementsAttr() if _is_bf16(attr.type):
            number = tt.splat_value(attr)
            assert number is not None, "only constants of one number are made"
            return tt.splat_attr(nearest(number), attr.get_shape() or (), f32)
        case _:
            return attr


def nearest(value: float) -> float:
    """The nearest bfloat16, ties to even; infinite beyond the largest."""
    return float(rounded(np.asarray(value, np.float64), "bf16"))


def rounding(value: SSAValue) -> list[Operation]:
    """Operations of which the last gives the nearest bfloat16 of an f32 value; NaN stays NaN."""
    type_ = tt.like(value.type, i32)

    def number(bits: int) -> arith.ConstantOp:
        return number_op(bits - (1 << 32) if bits >= 1 << 31 else bits, type_)

    sixteen, one, half, mask = number(16), number(1), number(0x7FFF), number(0xFFFF0000)
    bits = tt.BitcastOp(value, i32)
    shifted = arith.ShRSIOp(bits.result, sixteen.result)
    odd = arith.AndIOp(shifted.result, one.result)
    up = arith.AddiOp(bits.result, half.result)
    total = arith.AddiOp(up.result, odd.result)
    kept = arith.AndIOp(total.result, mask.result)
    back = tt.BitcastOp(kept.result, f32)
    is_number = tt.CmpFOp(value, value, "oeq")
    out = tt.SelectOp(is_number.result, back.result, value)
    return [sixteen, one, half, mask, bits, shifted, odd, up, total, kept, back, is_number, out]
