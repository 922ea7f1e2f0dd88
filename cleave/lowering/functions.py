"""
Elementwise functions of `sched` on `tt` tensors.

Triton has exp, exp2, log, log2, sqrt, rsqrt, sin, cos, erf, floor and abs, for f32 and f64; 16-bit operands are computed in
f32 and rounded once. The others are made of these: sigmoid without overflow to NaN, tanh by its series near 0, where the
quotient cancels, expm1, log1p and erfc likewise, pow by exp2 and log2 with the sign of an odd power.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from xdsl.dialects import arith
from xdsl.dialects import math as math_dialect
from xdsl.dialects.builtin import AnyFloat, f32, i1, i32
from xdsl.ir import Operation

from cleave.dialects import tt
from cleave.errors import CleaveError
from cleave.lowering.tensors import Blocks, Tensor, apply, cast, compare, constant, constant_of, width

_DIRECT: Mapping[str, Callable[..., Operation]] = {
    "exp": math_dialect.ExpOp,
    "exp2": math_dialect.Exp2Op,
    "log": math_dialect.LogOp,
    "log2": math_dialect.Log2Op,
    "sqrt": math_dialect.SqrtOp,
    "rsqrt": math_dialect.RsqrtOp,
    "sin": math_dialect.SinOp,
    "cos": math_dialect.CosOp,
    "erf": math_dialect.ErfOp,
    "floor": math_dialect.FloorOp,
}

_FLOAT_BINARY: Mapping[str, Callable[..., Operation]] = {
    "add": arith.AddfOp,
    "sub": arith.SubfOp,
    "mul": arith.MulfOp,
    "div": arith.DivfOp,
    "max": arith.MaximumfOp,
    "min": arith.MinimumfOp,
}

_ERFC = (
    *(-1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806),
    *(0.27886807, -1.13520398, 1.48851587, -0.82215223, 0.17087277),
)

_INTEGER_BINARY: Mapping[str, Callable[..., Operation]] = {
    "add": arith.AddiOp,
    "sub": arith.SubiOp,
    "mul": arith.MuliOp,
    "max": arith.MaxSIOp,
    "min": arith.MinSIOp,
    "and": arith.AndIOp,
    "or": arith.OrIOp,
}


def _tanh_series(terms: int) -> list[float]:
    """The factors of x, x^3, x^5, ... in tanh(x); its derivative is 1 - tanh(x)^2."""
    out = [Fraction(1)]
    for place in range(1, terms):
        square = sum((out[left] * out[place - 1 - left] for left in range(place)), Fraction(0))
        out.append(-square / (2 * place + 1))
    return [float(value) for value in out]


class Functions:
    """Makes elementwise operations in the given bodies."""

    def __init__(self, blocks: Blocks) -> None:
        self.blocks = blocks

    def number(self, value: float, like: Tensor) -> Tensor:
        """A constant of the same type."""
        return Tensor(constant(self.blocks, value, like.value.type), like.dims)

    def unary(self, kind: str, x: Tensor) -> Tensor:
        """`kind(x)`. Raises: CleaveError for a function Triton has no form of."""
        element = x.element
        if not isinstance(element, AnyFloat):
            return self.integer_unary(kind, x)
        match kind:
            case "neg":
                return apply(self.blocks, arith.NegfOp, x)
            case "abs":
                return apply(self.blocks, math_dialect.AbsFOp, x)
            case "relu":
                return self.binary("max", x, self.number(0.0, x))
            case _:
                pass
        if width(element) == 16:
            return cast(self.blocks, self.unary(kind, cast(self.blocks, x, f32)), element)
        if kind in _DIRECT:
            return apply(self.blocks, _DIRECT[kind], x)
        one = self.number(1.0, x)
        match kind:
            case "sigmoid":
                return self.binary("div", one, self.binary("add", one, self.unary("exp", self.unary("neg", x))))
            case "silu":
                return self.binary("div", x, self.binary("add", one, self.unary("exp", self.unary("neg", x))))
            case "gelu":
                scaled = self.unary("erf", self.binary("mul", x, self.number(math.sqrt(0.5), x)))
                return self.binary("mul", self.binary("mul", self.number(0.5, x), x), self.binary("add", one, scaled))
            case "gelu_tanh":
                cubic = self.binary("mul", self.binary("mul", self.binary("mul", x, x), x), self.number(0.044715, x))
                inner = self.binary("mul", self.binary("add", x, cubic), self.number(2 * math.sqrt(2 / math.pi), x))
                return self.binary("mul", x, self.unary("sigmoid", inner))
            case "tanh":
                return self.tanh(x)
            case "expm1" | "log1p":
                return self.near_zero(kind, x)
            case "erfc":
                return self.erfc(x)
            case _:
                raise CleaveError(None, f"sched.{kind} has no Triton form")

    def tanh(self, x: Tensor) -> Tensor:
        """
        (1 - e) / (1 + e) with e = exp(-2 |x|), and below 1/4 the series up to x^11, of f64 to x^21: each within 3 units in the last place.
        """
        one = self.number(1.0, x)
        size = self.unary("abs", x)
        e = self.unary("exp", self.binary("mul", size, self.number(-2.0, x)))
        far = self.binary("div", self.binary("sub", one, e), self.binary("add", one, e))
        far = self.select(self.compare("lt", x, self.number(0.0, x)), self.unary("neg", far), far)
        square = self.binary("mul", x, x)
        near = self.series(_tanh_series(11 if width(x.element) == 64 else 6), square)
        return self.select(self.compare("lt", size, self.number(0.25, x)), self.binary("mul", near, x), far)

    def near_zero(self, kind: str, x: Tensor) -> Tensor:
        """exp(x) - 1 and log(1 + x), below 0.35 by series that round little: of exp without its first term, and 2 artanh(x / (2 + x))."""
        one, wide = self.number(1.0, x), width(x.element) == 64
        if kind == "expm1":
            far = self.binary("sub", self.unary("exp", x), one)
            near = self.binary("mul", self.series([1 / math.factorial(n) for n in range(1, 16 if wide else 10)], x), x)
        else:
            far = self.unary("log", self.binary("add", x, one))
            ratio = self.binary("div", x, self.binary("add", x, self.number(2.0, x)))
            near = self.series([2 / (2 * n + 1) for n in range(12 if wide else 6)], self.binary("mul", ratio, ratio))
            near = self.binary("mul", near, ratio)
        return self.select(self.compare("lt", self.unary("abs", x), self.number(0.35, x)), near, far)

    def erfc(self, x: Tensor) -> Tensor:
        """
        1 - erf(x); of f32 from 1/2 up exp(-x^2) t exp(p(t)) with t = 1 / (1 + x / 2), x^2 by a part that is squared exactly and the rest.

        In f64 the digits that the difference loses stay lost. Source: Press et al., Numerical Recipes in C, 1992, 6.2.
        """
        one = self.number(1.0, x)
        near = self.binary("sub", one, self.unary("erf", x))
        if width(x.element) == 64:
            return near
        size = self.binary("min", x, self.number(30.0, x))
        t = self.binary("div", one, self.binary("add", one, self.binary("mul", size, self.number(0.5, x))))
        part = self.binary("mul", self.unary("floor", self.binary("mul", size, self.number(16.0, x))), self.number(1 / 16, x))
        rest = self.binary("mul", self.binary("sub", part, size), self.binary("add", part, size))
        rest = self.unary("exp", self.binary("add", rest, self.series(_ERFC, t)))
        far = self.binary("mul", self.unary("exp", self.unary("neg", self.binary("mul", part, part))), self.binary("mul", t, rest))
        return self.select(self.compare("lt", x, self.number(0.5, x)), near, far)

    def series(self, coefficients: Sequence[float], x: Tensor) -> Tensor:
        """The polynomial of these coefficients, that of x^0 first."""
        out = self.number(coefficients[-1], x)
        for coefficient in coefficients[-2::-1]:
            out = self.binary("add", self.binary("mul", out, x), self.number(coefficient, x))
        return out

    def integer_unary(self, kind: str, x: Tensor) -> Tensor:
        """`kind(x)` on integers or booleans. Raises: CleaveError."""
        match kind:
            case "neg":
                return self.binary("sub", self.number(0, x), x)
            case "abs":
                return self.binary("max", x, self.integer_unary("neg", x))
            case "relu":
                return self.binary("max", x, self.number(0, x))
            case "not":
                return apply(self.blocks, arith.XOrIOp, x, self.number(1 if x.element == i1 else -1, x))
            case _:
                raise CleaveError(None, f"sched.{kind} has no Triton form on integers; cast to f32 first")

    def binary(self, kind: str, a: Tensor, b: Tensor) -> Tensor:
        """`kind(a, b)`, broadcasting by name. Raises: CleaveError."""
        if isinstance(a.element, AnyFloat):
            match kind:
                case "floordiv" | "mod":
                    return self.divide_floats(kind, a, b)
                case "pow":
                    return self.power(a, b)
                case _:
                    return apply(self.blocks, _FLOAT_BINARY[kind], a, b)
        match kind:
            case "floordiv" | "mod":
                return self.divide(kind, a, b)
            case _ if kind in _INTEGER_BINARY:
                return apply(self.blocks, _INTEGER_BINARY[kind], a, b)
            case _:
                raise CleaveError(None, f"sched.{kind} has no Triton form on integers; cast to f32 first")

    def joined(self, a: Tensor, b: Tensor) -> Tensor:
        """a + b where `b` is a dot of its own: as an addition, Triton would make it the start of the other's chain of sums."""
        return apply(self.blocks, math_dialect.FmaOp, b, self.number(1.0, b), a)

    def index_binary(self, kind: str, a: Tensor, b: Tensor) -> Tensor:
        """`kind(a, b)` on indices, which are not negative: division truncates."""
        left, right = constant_of(a.value), constant_of(b.value)
        match kind:
            case "floordiv" if right == 1:
                return a
            case "floordiv":
                return apply(self.blocks, arith.DivSIOp, a, b)
            case "mod":
                return apply(self.blocks, arith.RemSIOp, a, b)
            case "add" if left == 0 and set(a.dims) <= set(b.dims):
                return b
            case "add" | "sub" if right == 0 and set(b.dims) <= set(a.dims):
                return a
            case "mul" if right == 1 and set(b.dims) <= set(a.dims):
                return a
            case _:
                return self.binary(kind, a, b)

    def divide(self, kind: str, a: Tensor, b: Tensor) -> Tensor:
        """Floor division and remainder from the truncating ones of the hardware."""
        quotient, remainder = apply(self.blocks, arith.DivSIOp, a, b), apply(self.blocks, arith.RemSIOp, a, b)
        zero = self.number(0, remainder)
        opposite = self.compare("lt", apply(self.blocks, arith.XOrIOp, remainder, b), zero)
        low = self.binary("and", self.compare("ne", remainder, zero), opposite)
        if kind == "floordiv":
            return self.select(low, self.binary("sub", quotient, self.number(1, quotient)), quotient)
        return self.select(low, self.binary("add", remainder, b), remainder)

    def divide_floats(self, kind: str, a: Tensor, b: Tensor) -> Tensor:
        """
        Floor division and remainder of floats from the exact remainder of the truncating quotient.

        A GPU takes the remainder as fma(-trunc(a / b), b, a), which is exact but leaves 24 bits of the quotient out; the second of two
        makes them 48. Where it is on the wrong side of 0, the divisor is added, as where its sign is not that of the divisor.
        """
        if width(a.element) == 16:
            return cast(self.blocks, self.divide_floats(kind, cast(self.blocks, a, f32), cast(self.blocks, b, f32)), a.element)
        rest = apply(self.blocks, tt.RemFOp, apply(self.blocks, tt.RemFOp, a, b), b)
        zero = self.number(0.0, rest)
        opposite = apply(self.blocks, arith.XOrIOp, self.compare("lt", rest, zero), self.compare("lt", b, self.number(0.0, b)))
        low = self.binary("and", self.compare("ne", rest, zero), opposite)
        if kind == "mod":
            return self.select(low, self.binary("add", rest, b), rest)
        quotient = self.binary("div", self.binary("sub", a, rest), b)
        quotient = self.select(low, self.binary("sub", quotient, self.number(1.0, quotient)), quotient)
        whole = self.unary("floor", quotient)
        above = self.compare("gt", self.binary("sub", quotient, whole), self.number(0.5, quotient))
        whole = self.select(above, self.binary("add", whole, self.number(1.0, whole)), whole)
        return self.select(self.compare("eq", b, self.number(0.0, b)), self.binary("div", a, b), whole)

    def power(self, x: Tensor, y: Tensor) -> Tensor:
        """
        x^y: by multiplication, root or division for 2, 1, 0.5, -0.5 and -1, else exp2(y log2 |x|).

        The sign is that of an odd power; where x < 0 and y is no integer the result is NaN.
        """
        if isinstance(x.element, AnyFloat) and width(x.element) == 16:
            return cast(self.blocks, self.power(cast(self.blocks, x, f32), cast(self.blocks, y, f32)), x.element)
        one = self.number(1.0, x)
        match constant_of(y.value):
            case 2.0:
                return self.binary("mul", x, x)
            case 1.0:
                return x
            case 0.5:
                return self.unary("sqrt", x)
            case -0.5:
                return self.unary("rsqrt", x)
            case -1.0:
                return self.binary("div", one, x)
            case _:
                pass
        size = self.unary("exp2", self.binary("mul", y, self.unary("log2", self.unary("abs", x))))
        half = self.binary("mul", y, self.number(0.5, y))
        odd = self.compare("ne", self.unary("floor", half), half)
        negative = self.compare("lt", x, self.number(0.0, x))
        signed = self.select(self.binary("and", negative, odd), self.unary("neg", size), size)
        broken = self.binary("and", negative, self.compare("ne", self.unary("floor", y), y))
        signed = self.select(broken, self.number(math.nan, signed), signed)
        return self.select(self.compare("eq", y, self.number(0.0, y)), self.number(1.0, signed), signed)

    def compare(self, predicate: str, a: Tensor, b: Tensor) -> Tensor:
        """`a predicate b`."""
        if isinstance(a.element, AnyFloat):
            return compare(self.blocks, "une" if predicate == "ne" else f"o{predicate}", a, b)
        if a.element == i1 and predicate not in ("eq", "ne"):
            return self.compare(predicate, cast(self.blocks, a, i32), cast(self.blocks, b, i32))
        return compare(self.blocks, predicate if predicate in ("eq", "ne") else f"s{predicate}", a, b)

    def select(self, condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
        """`condition ? a : b`."""
        return apply(self.blocks, tt.SelectOp, condition, a, b)
