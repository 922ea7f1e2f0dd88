"""Elementwise operators, casts, comparisons and selections: work is done in f32 for narrower floats."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..values import Lowering, Node, Value
from .table import Lower, Result, lowers

Operand = Any
"""A `Value`, a Python number or a size."""


def as_value(cx: Lowering, operand: Operand) -> Value:
    """An operand as a value; a number has no dimensions."""
    if isinstance(operand, Value):
        return operand
    if isinstance(operand, bool):
        return Value((), cx.constant(operand, "i1"), torch.bool)
    if isinstance(operand, float):
        return Value((), cx.constant(operand, "f32"), torch.float32)
    return Value((), cx.integer(operand), torch.int64)


def is_float(dtype: torch.dtype) -> bool:
    """Whether a dtype is a float."""
    return dtype.is_floating_point


def common_dtype(cx: Lowering, dtype: torch.dtype, nodes: Sequence[Node], kind: str = "") -> str:
    """The dtype name in which an elementwise operation, of that result dtype and perhaps of a known kind, works on its operands."""
    if dtype == torch.int64 and all(node.dtype == "index" or node.kind == "constant" for node in nodes) and cx.is_index(kind, nodes):
        return "index"
    return cx.working(dtype)


def build(cx: Lowering, dtype: torch.dtype, operands: Sequence[Operand], function: Callable[..., Node], kind: str = "") -> Value:
    """An elementwise result: `function` of the operands' nodes, bound to one iteration space and cast to the working dtype."""
    values = [as_value(cx, operand) for operand in operands]
    dims, nodes = cx.elementwise_space(values)
    work = common_dtype(cx, dtype, nodes, kind)
    return Value(dims, function(*[cx.cast(node, work) for node in nodes]), dtype)


def in_working_dtype(cx: Lowering, value: Value, dtype: torch.dtype) -> Value:
    """The value computed in the working dtype of `dtype`."""
    return build(cx, dtype, [value], _itself)


def _itself(node: Node) -> Node:
    return node


_OF_BOOLEANS = {"add": "or", "mul": "and", "max": "or", "min": "and", "or": "or", "and": "and"}
"""What arithmetic on booleans is, as PyTorch defines it."""


def apply(cx: Lowering, result: Result, kind: str, *operands: Operand) -> Value:
    """One operation of the algebra, elementwise. Raises: CleaveError for arithmetic that booleans have not."""
    if result.dtype == torch.bool:
        if kind not in _OF_BOOLEANS:
            cx.fail(f"'{kind}' of booleans is not supported", "convert the operands to a number")
        kind = _OF_BOOLEANS[kind]

    def function(*nodes: Node) -> Node:
        return cx.node(kind, nodes, nodes[0].dtype)

    return build(cx, result.dtype, operands, function, kind)


def promoted(operands: Sequence[Value]) -> torch.dtype:
    """The dtype in which operands are compared: that of the tensors with dimensions, unless a scalar is of a higher kind."""
    shaped = [value.dtype for value in operands if value.dims] or [value.dtype for value in operands]
    out = shaped[0]
    for dtype in shaped[1:]:
        out = torch.promote_types(out, dtype)
    for value in operands:
        if not value.dims and (is_float(value.dtype), value.dtype != torch.bool) > (is_float(out), out != torch.bool):
            out = value.dtype
    return out


def compare(cx: Lowering, predicate: str, left: Operand, right: Operand) -> Value:
    """A comparison of two operands. Of a boolean with True or False it is the boolean or its negation."""
    values = [as_value(cx, left), as_value(cx, right)]
    if predicate in ("eq", "ne") and values[0].dtype == torch.bool and right in (0, 1) and not isinstance(right, Value):
        held = (predicate == "eq") == bool(right)
        return Value(values[0].dims, values[0].node if held else cx.negated(values[0].node), torch.bool)
    dims, nodes = cx.elementwise_space(values)
    work = common_dtype(cx, promoted(values), nodes)
    node = cx.node("compare", [cx.cast(node, work) for node in nodes], "i1", (predicate,))
    return Value(dims, node, torch.bool)


def choose(cx: Lowering, dtype: torch.dtype, condition: Operand, then: Operand, other: Operand) -> Value:
    """`then` where the condition holds, else `other`. The branches set the iteration space."""
    values = [as_value(cx, operand) for operand in (then, other, condition)]
    dims, nodes = cx.elementwise_space(values)
    work = common_dtype(cx, dtype, nodes[:2])
    a, b = (cx.cast(node, work) for node in nodes[:2])
    return Value(dims, cx.select(cx.cast(nodes[2], "i1"), a, b), dtype)


_UNARY = {
    "neg": "neg",
    "exp": "exp",
    "expm1": "expm1",
    "log": "log",
    "log1p": "log1p",
    "sqrt": "sqrt",
    "rsqrt": "rsqrt",
    "tanh": "tanh",
    "sigmoid": "sigmoid",
    "silu": "silu",
    "relu": "relu",
    "sin": "sin",
    "cos": "cos",
    "abs": "abs",
    "erf": "erf",
    "erfc": "erfc",
}


def _unary(kind: str) -> Lower:
    def function(cx: Lowering, result: Result, self: Value) -> Value:
        return apply(cx, result, kind, self)

    return function


for _name, _kind in _UNARY.items():
    lowers(_name)(_unary(_kind))


def _comparison(predicate: str) -> Lower:
    def function(cx: Lowering, result: Result, self: Value, other: Operand) -> Value:
        return compare(cx, predicate, self, other)

    return function


for _predicate in ("eq", "ne", "lt", "le", "gt", "ge"):
    lowers(_predicate)(_comparison(_predicate))


@lowers("add")
def add(cx: Lowering, result: Result, self: Operand, other: Operand, alpha: Operand = 1) -> Value:
    """self + alpha * other; `or` of booleans."""
    return apply(cx, result, "add", self, _times(cx, result, other, alpha))


@lowers("sub", "subtract")
def sub(cx: Lowering, result: Result, self: Operand, other: Operand, alpha: Operand = 1) -> Value:
    """self - alpha * other. Raises: CleaveError for booleans, as PyTorch does."""
    return _difference(cx, result, self, other, alpha)


@lowers("rsub")
def rsub(cx: Lowering, result: Result, self: Operand, other: Operand, alpha: Operand = 1) -> Value:
    """other - alpha * self. Raises: CleaveError for booleans, as PyTorch does."""
    return _difference(cx, result, other, self, alpha)


def _difference(cx: Lowering, result: Result, left: Operand, right: Operand, alpha: Operand) -> Value:
    if any(isinstance(operand, bool) or (isinstance(operand, Value) and operand.dtype == torch.bool) for operand in (left, right)):
        cx.fail("booleans cannot be subtracted", "use ^ or ~ for masks, or convert them to a number")
    return apply(cx, result, "sub", left, _times(cx, result, right, alpha))


def _times(cx: Lowering, result: Result, operand: Operand, factor: Operand) -> Operand:
    return operand if isinstance(factor, int | float) and factor == 1 else apply(cx, result, "mul", operand, factor)


@lowers("mul", "multiply")
def mul(cx: Lowering, result: Result, self: Operand, other: Operand) -> Value:
    """self * other; `and` of booleans."""
    return apply(cx, result, "mul", self, other)


@lowers("div", "true_divide", "divide")
def div(cx: Lowering, result: Result, self: Operand, other: Operand, rounding_mode: str | None = None) -> Value:
    """self / other, or its floor."""
    if rounding_mode == "trunc":
        cx.fail("rounding_mode='trunc' is not supported", "use rounding_mode='floor'")
    return apply(cx, result, "floordiv" if rounding_mode == "floor" else "div", self, other)


@lowers("floor_divide")
def floor_divide(cx: Lowering, result: Result, self: Operand, other: Operand) -> Value:
    """The floor of self / other."""
    return apply(cx, result, "floordiv", self, other)


@lowers("remainder")
def remainder(cx: Lowering, result: Result, self: Operand, other: Operand) -> Value:
    """The remainder with the sign of the divisor."""
    return apply(cx, result, "mod", self, other)


@lowers("maximum")
def maximum(cx: Lowering, result: Result, self: Operand, other: Operand) -> Value:
    """The greater of two."""
    return apply(cx, result, "max", self, other)


@lowers("minimum")
def minimum(cx: Lowering, result: Result, self: Operand, other: Operand) -> Value:
    """The lesser of two."""
    return apply(cx, result, "min", self, other)


@lowers("clamp", "clamp_min", "clamp_max", "clip", "hardtanh")
def clamp(
    cx: Lowering, result: Result, self: Value, min: Operand = None, max: Operand = None, min_val: Operand = None, max_val: Operand = None
) -> Value:
    """self held between bounds."""
    out: Operand = self
    low = min_val if min is None else min
    high = max_val if max is None else max
    if low is not None:
        out = apply(cx, result, "max", out, low)
    if high is not None:
        out = apply(cx, result, "min", out, high)
    return out


@lowers("reciprocal")
def reciprocal(cx: Lowering, result: Result, self: Value) -> Value:
    """1 / self."""
    return apply(cx, result, "div", 1, self)


@lowers("square")
def square(cx: Lowering, result: Result, self: Value) -> Value:
    """self * self."""
    return apply(cx, result, "mul", self, self)


@lowers("pow")
def power(cx: Lowering, result: Result, self: Operand, exponent: Operand) -> Value:
    """self ** exponent; small whole exponents and roots by multiplication, sqrt and rsqrt."""
    if not isinstance(exponent, int | float):
        return apply(cx, result, "pow", self, exponent)
    match float(exponent):
        case 1.0:
            return build(cx, result.dtype, [self], _itself)
        case 2.0:
            return apply(cx, result, "mul", self, self)
        case 3.0:
            return apply(cx, result, "mul", apply(cx, result, "mul", self, self), self)
        case 4.0:
            squared = apply(cx, result, "mul", self, self)
            return apply(cx, result, "mul", squared, squared)
        case 0.5:
            return apply(cx, result, "sqrt", self)
        case -0.5:
            return apply(cx, result, "rsqrt", self)
        case -1.0:
            return apply(cx, result, "div", 1, self)
        case -2.0:
            return apply(cx, result, "div", 1, apply(cx, result, "mul", self, self))
        case _:
            return apply(cx, result, "pow", self, exponent)


def _scaled(kind: str, before: float, after: float) -> Lower:
    def function(cx: Lowering, result: Result, self: Value) -> Value:
        inner = self if before == 1 else apply(cx, result, "mul", self, before)
        out = apply(cx, result, kind, inner)
        return out if after == 1 else apply(cx, result, "mul", out, after)

    return function


lowers("exp2")(_scaled("exp", math.log(2), 1))
lowers("log2")(_scaled("log", 1, 1 / math.log(2)))
lowers("log10")(_scaled("log", 1, 1 / math.log(10)))


@lowers("logical_not", "bitwise_not")
def invert(cx: Lowering, result: Result, self: Value) -> Value:
    """The negation of a boolean. Raises: CleaveError for the bits of integers."""
    if result.dtype != torch.bool:
        cx.fail("bits of integers are not supported", "use a bool tensor")
    return build(cx, torch.bool, [self], cx.negated)


def _logical(kind: str) -> Lower:
    def function(cx: Lowering, result: Result, self: Operand, other: Operand) -> Value:
        if result.dtype != torch.bool:
            cx.fail("bits of integers are not supported", "use bool tensors")
        return apply(cx, result, kind, self, other)

    return function


for _name, _kind in {
    "logical_and": "and",
    "bitwise_and": "and",
    "logical_or": "or",
    "bitwise_or": "or",
    "__and__": "and",
    "__or__": "or",
}.items():
    lowers(_name)(_logical(_kind))


@lowers("logical_xor", "bitwise_xor", "__xor__")
def exclusive_or(cx: Lowering, result: Result, self: Operand, other: Operand) -> Value:
    """Whether exactly one of two booleans holds. Raises: CleaveError for the bits of integers."""
    if result.dtype != torch.bool:
        cx.fail("bits of integers are not supported", "use bool tensors")
    one, both = apply(cx, result, "or", self, other), apply(cx, result, "and", self, other)
    return apply(cx, result, "and", one, build(cx, torch.bool, [both], cx.negated))


@lowers("where")
def where(cx: Lowering, result: Result, condition: Value, self: Operand, other: Operand) -> Value:
    """torch.where with three arguments."""
    return choose(cx, result.dtype, condition, self, other)


@lowers("masked_fill")
def masked_fill(cx: Lowering, result: Result, self: Value, mask: Value, value: Operand) -> Value:
    """`value` where the mask holds."""
    values = [as_value(cx, operand) for operand in (self, value, mask)]
    dims, nodes = cx.elementwise_space(values)
    work = common_dtype(cx, result.dtype, nodes[:2])
    own, fill = (cx.cast(node, work) for node in nodes[:2])
    return Value(dims, cx.select(cx.cast(nodes[2], "i1"), fill, own), result.dtype)


@lowers("isnan")
def isnan(cx: Lowering, result: Result, self: Value) -> Value:
    """self != self."""
    return compare(cx, "ne", self, self)


@lowers("isinf")
def isinf(cx: Lowering, result: Result, self: Value) -> Value:
    """|self| == inf; nothing but a float is."""
    if not is_float(self.dtype):
        return compare(cx, "ne", self, self)
    return compare(cx, "eq", apply(cx, Result(result.shape, self.dtype), "abs", self), math.inf)


@lowers("isfinite")
def isfinite(cx: Lowering, result: Result, self: Value) -> Value:
    """|self| < inf; whatever is no float is."""
    if not is_float(self.dtype):
        return compare(cx, "eq", self, self)
    return compare(cx, "lt", apply(cx, Result(result.shape, self.dtype), "abs", self), math.inf)


@lowers("nan_to_num")
def nan_to_num(
    cx: Lowering, result: Result, self: Value, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Value:
    """NaN and the infinities replaced; by default by 0 and the extremes of the dtype."""
    limits = torch.finfo(result.dtype)
    out = choose(cx, result.dtype, compare(cx, "ne", self, self), nan or 0.0, self)
    out = choose(cx, result.dtype, compare(cx, "eq", self, math.inf), limits.max if posinf is None else posinf, out)
    return choose(cx, result.dtype, compare(cx, "eq", self, -math.inf), limits.min if neginf is None else neginf, out)


@lowers("sign", "sgn")
def sign(cx: Lowering, result: Result, self: Value) -> Value:
    """-1, 0 or 1; NaN stays NaN."""
    down = choose(cx, result.dtype, compare(cx, "lt", self, 0), -1, self)
    return choose(cx, result.dtype, compare(cx, "gt", self, 0), 1, down)


def converted(cx: Lowering, value: Value, dtype: torch.dtype) -> Value:
    """A cast that the program asks for."""
    if dtype == value.dtype:
        return value
    name = cx.name(dtype)
    node = value.node
    if is_float(dtype) and is_float(value.dtype) and node.dtype == name:
        return Value(value.dims, node, dtype)
    if dtype == torch.int64 and node.dtype == "index":
        return Value(value.dims, node, dtype)
    return Value(value.dims, cx.cast(node, name), dtype)


@lowers("to", "_to_copy", "type_as", "to_dtype")
def to(cx: Lowering, result: Result, self: Value, dtype: Any = None, other: Any = None) -> Value:
    """Any cast: the result's dtype says which."""
    return converted(cx, self, result.dtype)


@lowers("contiguous", "clone", "detach", "alias", "lift_fresh", "lift_fresh_copy", "detach_copy", "lift")
def same(cx: Lowering, result: Result, self: Value) -> Value:
    """What changes memory or gradients only."""
    return self


@lowers("dropout", "feature_dropout", "native_dropout", "alpha_dropout")
def dropout(cx: Lowering, result: Result, input: Value, p: float, train: bool | None = False) -> Value:
    """Nothing outside of training. Raises: CleaveError for one that is active."""
    if train and p:
        cx.fail("an active dropout draws random numbers, which is not supported", "call .eval() or set p=0")
    return input
