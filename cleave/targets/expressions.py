"""
Expressions of Triton Python: text that knows how tightly it binds, and what each operation is called there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IntegerType,
)
from xdsl.ir import Attribute, Operation, SSAValue

from cleave.dialects import tt

ATOM, UNARY, TIMES, PLUS, SHIFT, BOTH, EITHER, COMPARE = 20, 14, 12, 11, 10, 9, 7, 5

INFIX: dict[type[Operation], tuple[str, int]] = {
    arith.AddiOp: ("+", PLUS),
    arith.AddfOp: ("+", PLUS),
    arith.SubiOp: ("-", PLUS),
    arith.SubfOp: ("-", PLUS),
    arith.MuliOp: ("*", TIMES),
    arith.MulfOp: ("*", TIMES),
    arith.DivfOp: ("/", TIMES),
    arith.DivSIOp: ("//", TIMES),
    arith.RemSIOp: ("%", TIMES),
    tt.RemFOp: ("%", TIMES),
    arith.AndIOp: ("&", BOTH),
    arith.OrIOp: ("|", EITHER),
    arith.XOrIOp: ("^", EITHER + 1),
    arith.ShRSIOp: (">>", SHIFT),
}

CALLS: dict[type[Operation], str] = {
    math.ExpOp: "tl.exp",
    math.Exp2Op: "tl.exp2",
    math.LogOp: "tl.log",
    math.Log2Op: "tl.log2",
    math.SqrtOp: "tl.sqrt",
    math.RsqrtOp: "tl.rsqrt",
    math.SinOp: "tl.sin",
    math.CosOp: "tl.cos",
    math.ErfOp: "tl.erf",
    math.FloorOp: "tl.floor",
    math.FmaOp: "tl.fma",
    math.AbsFOp: "tl.abs",
    arith.MaxnumfOp: "tl.maximum",
    arith.MinnumfOp: "tl.minimum",
    arith.MaximumfOp: "tl.maximum",
    arith.MinimumfOp: "tl.minimum",
    arith.MaxSIOp: "tl.maximum",
    arith.MinSIOp: "tl.minimum",
}

PREDICATES = {
    "eq": "==",
    "ne": "!=",
    "slt": "<",
    "sle": "<=",
    "sgt": ">",
    "sge": ">=",
    "oeq": "==",
    "une": "!=",
    "olt": "<",
    "ole": "<=",
    "ogt": ">",
    "oge": ">=",
}

REDUCTIONS: dict[type[Operation], str] = {
    arith.AddfOp: "tl.sum",
    arith.AddiOp: "tl.sum",
    arith.MaxnumfOp: "tl.max",
    arith.MaxSIOp: "tl.max",
    arith.MinnumfOp: "tl.min",
    arith.MinSIOp: "tl.min",
}


_LEAST_NORMAL, _LARGEST = (float(bound) for bound in (np.finfo(np.float32).smallest_normal, np.finfo(np.float32).max))


@dataclass(frozen=True, slots=True)
class Expression:
    """
    Text, how tightly it binds, its shape, the variables it reads, and its arguments where it is a call.

    A literal has no type of its own: it takes that of what it meets.
    """

    text: str
    level: int = ATOM
    shape: tuple[int, ...] = ()
    reads: frozenset[str] = frozenset()
    call: tuple[str, ...] = ()
    literal: bool = False

    def at(self, level: int) -> str:
        """The text as an operand of something that binds that tightly."""
        return self.text if self.level >= level else f"({self.text})"


def dtype_name(element: Attribute) -> str:
    """The Triton name of an element type."""
    match element:
        case Float16Type():
            return "tl.float16"
        case BFloat16Type():
            return "tl.bfloat16"
        case Float32Type():
            return "tl.float32"
        case Float64Type():
            return "tl.float64"
        case IntegerType():
            return f"tl.int{element.bitwidth}"
        case _:
            raise AssertionError(f"{element} is not an element type")


def literal(value: float, element: Attribute) -> str:
    """
    A literal: for floats of at most 32 bits the shortest text of the same float32 that Triton takes for one.

    It goes by the value: below the least normal float32 and above the largest one by itself, a number is in double precision.
    """
    if not isinstance(element, AnyFloat):
        return str(bool(value)) if element == IntegerType(1) else str(int(value))
    if value != value or value in (float("inf"), float("-inf")):
        return f'float("{value}")'
    if element.bitwidth > 32:
        return repr(value)
    held = float(np.float32(value))
    if 0 < abs(held) < _LEAST_NORMAL:
        return f"tl.cast({held!r}, tl.float32)"
    text = str(float(str(np.float32(value))))
    return text if abs(float(text)) <= _LARGEST else repr(held)


def joined(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape Triton broadcasts to, scalars aside all of one rank."""
    out: tuple[int, ...] = ()
    for shape in shapes:
        out = shape if not out else tuple(max(a, b) for a, b in zip(out, shape, strict=True)) if shape else out
    return out


def variable(name: str, value: SSAValue) -> Expression:
    """The variable that holds a value."""
    return Expression(name, ATOM, tt.shape_of(value.type), frozenset((name,)))


def call(callee: str, texts: Sequence[str], reads: Sequence[Expression] = (), shape: tuple[int, ...] | None = None) -> Expression:
    """A call of that text, which reads what its arguments do; its shape is theirs unless another is given."""
    names = frozenset[str]().union(*(entry.reads for entry in reads))
    found = joined([entry.shape for entry in reads]) if shape is None else shape
    return Expression(f"{callee}({', '.join(texts)})", ATOM, found, names, (callee, *texts))


def infix(symbol: str, level: int, left: Expression, right: Expression) -> Expression:
    """Two operands with a symbol between them."""
    text = f"{left.at(level)} {symbol} {right.at(level + 1)}"
    return Expression(text, level, joined((left.shape, right.shape)), left.reads | right.reads)
