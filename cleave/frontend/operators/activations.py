"""Activation functions and other elementwise functions that are made of simpler ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..cuts import sliced
from ..sizes import quotient
from ..values import Lowering, Value
from ..views import wrapped
from .elementwise import Operand, apply, choose, compare
from .table import Lower, Result, lowers


class Formula:
    """Elementwise arithmetic on values in the dtype of one result."""

    def __init__(self, cx: Lowering, result: Result) -> None:
        self.cx = cx
        self.result = result

    def __call__(self, kind: str, *operands: Operand) -> Value:
        """An operation of the algebra."""
        return apply(self.cx, self.result, kind, *operands)

    def where_positive(self, x: Value, then: Operand, other: Operand) -> Value:
        """`then` where x > 0, else `other`."""
        return choose(self.cx, self.result.dtype, compare(self.cx, "gt", x, 0.0), then, other)

    def clamped(self, x: Operand, low: float, high: float) -> Value:
        """x held between bounds."""
        return self("min", self("max", x, low), high)

    def softplus(self, x: Operand) -> Value:
        """log(1 + exp(x)) as max(x, 0) + log(1 + exp(-|x|))."""
        tail = self("log1p", self("exp", self("neg", self("abs", x))))
        return self("add", self("relu", x), tail)


def _formula(function: Callable[[Formula, Value], Value]) -> Lower:
    def lower(cx: Lowering, result: Result, self: Value) -> Value:
        return function(Formula(cx, result), self)

    return lower


_FORMULAS: dict[str, Callable[[Formula, Value], Value]] = {
    "relu6": lambda f, x: f.clamped(x, 0.0, 6.0),
    "mish": lambda f, x: f("mul", x, f("tanh", f.softplus(x))),
    "hardsigmoid": lambda f, x: f("div", f.clamped(f("add", x, 3.0), 0.0, 6.0), 6.0),
    "hardswish": lambda f, x: f("mul", x, f("div", f.clamped(f("add", x, 3.0), 0.0, 6.0), 6.0)),
    "log_sigmoid": lambda f, x: f("neg", f.softplus(f("neg", x))),
    "softsign": lambda f, x: f("div", x, f("add", f("abs", x), 1.0)),
    "tan": lambda f, x: f("div", f("sin", x), f("cos", x)),
    "sinh": lambda f, x: f("mul", f("sub", f("expm1", x), f("expm1", f("neg", x))), 0.5),
    "cosh": lambda f, x: f("mul", f("add", f("exp", x), f("exp", f("neg", x))), 0.5),
    "special_expit": lambda f, x: f("sigmoid", x),
    "special_erf": lambda f, x: f("erf", x),
    "special_erfc": lambda f, x: f("erfc", x),
    "special_expm1": lambda f, x: f("expm1", x),
    "special_log1p": lambda f, x: f("log1p", x),
}

for _name, _function in _FORMULAS.items():
    lowers(_name)(_formula(_function))


@lowers("gelu")
def gelu(cx: Lowering, result: Result, self: Value, approximate: str = "none") -> Value:
    """GELU, exact or by tanh."""
    return apply(cx, result, "gelu" if approximate == "none" else "gelu_tanh", self)


@lowers("softplus")
def softplus(cx: Lowering, result: Result, self: Value, beta: float = 1, threshold: float = 20) -> Value:
    """log(1 + exp(beta x)) / beta; x itself above the threshold, as in PyTorch."""
    f = Formula(cx, result)
    x = self if beta == 1 else f("mul", self, beta)
    out = f.softplus(x) if beta == 1 else f("div", f.softplus(x), beta)
    return choose(cx, result.dtype, compare(cx, "gt", x, float(threshold)), self, out)


@lowers("leaky_relu")
def leaky_relu(cx: Lowering, result: Result, self: Value, negative_slope: float = 0.01) -> Value:
    """self where positive, else a multiple of it."""
    return Formula(cx, result).where_positive(self, self, apply(cx, result, "mul", self, negative_slope))


@lowers("elu")
def elu(cx: Lowering, result: Result, self: Value, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Value:
    """scale * x where positive, else scale * alpha * (exp(input_scale x) - 1)."""
    f = Formula(cx, result)
    below = f("mul", f("expm1", f("mul", self, input_scale)), alpha)
    return f("mul", f.where_positive(self, self, below), scale)


@lowers("celu")
def celu(cx: Lowering, result: Result, self: Value, alpha: float = 1.0) -> Value:
    """x where positive, else alpha * (exp(x / alpha) - 1)."""
    return elu(cx, result, self, alpha, 1.0, 1.0 / alpha)


@lowers("selu")
def selu(cx: Lowering, result: Result, self: Value) -> Value:
    """elu with the constants of Klambauer et al., 2017."""
    return elu(cx, result, self, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946)


@lowers("glu")
def glu(cx: Lowering, result: Result, self: Value, dim: int = -1) -> Value:
    """The first half of a dimension times the sigmoid of the second."""
    at = wrapped(dim, len(self.dims))
    half = quotient(cx.size(self.dims[at]), 2)
    if half is None:
        cx.fail("the size of the halved dimension is not known to be even")
    f = Formula(cx, result)
    return f("mul", sliced(cx, self, at, 0, half), f("sigmoid", sliced(cx, self, at, half, half)))


@lowers("addcmul")
def addcmul(cx: Lowering, result: Result, self: Value, tensor1: Value, tensor2: Value, value: Operand = 1) -> Value:
    """self + value * tensor1 * tensor2."""
    f = Formula(cx, result)
    return f("add", self, f("mul", f("mul", tensor1, tensor2), value))


@lowers("addcdiv")
def addcdiv(cx: Lowering, result: Result, self: Value, tensor1: Value, tensor2: Value, value: Operand = 1) -> Value:
    """self + value * tensor1 / tensor2."""
    f = Formula(cx, result)
    return f("add", self, f("mul", f("div", tensor1, tensor2), value))


@lowers("lerp")
def lerp(cx: Lowering, result: Result, self: Value, end: Value, weight: Any) -> Value:
    """self + weight * (end - self)."""
    f = Formula(cx, result)
    return f("add", self, f("mul", f("sub", end, self), weight))
