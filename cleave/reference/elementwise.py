"""
The scalar functions of the algebra, as IEEE 754 has them.

Each works on numpy arrays of one type and broadcasts. Infinities and NaN go through; nothing warns.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .dtypes import Array

_erf = np.vectorize(math.erf, otypes=[np.float64])
_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def _sigmoid(x: Array) -> Array:
    """Without overflow: exp is only taken of what is not positive."""
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


def _erf_of(x: Array) -> Array:
    return _erf(x).astype(x.dtype)


def _erfc_of(x: Array) -> Array:
    return _erfc(x).astype(x.dtype)


def _gelu(x: Array) -> Array:
    """x Phi(x) by erfc, which does not cancel for negative x."""
    return (0.5 * x * _erfc(-x.astype(np.float64) / math.sqrt(2))).astype(x.dtype)


def _gelu_tanh(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def _not(x: Array) -> Array:
    return np.logical_not(x) if x.dtype.kind == "b" else np.invert(x)


def _relu(x: Array) -> Array:
    return np.maximum(x, x.dtype.type(0))


def _rsqrt(x: Array) -> Array:
    return 1 / np.sqrt(x)


def _silu(x: Array) -> Array:
    return x * _sigmoid(x)


UNARY: dict[str, Callable[[Array], Array]] = {
    "neg": np.negative,
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": _rsqrt,
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "silu": _silu,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "relu": _relu,
    "sin": np.sin,
    "cos": np.cos,
    "abs": np.abs,
    "erf": _erf_of,
    "erfc": _erfc_of,
    "not": _not,
}


def _div(a: Array, b: Array) -> Array:
    return np.divide(a, b) if a.dtype.kind == "f" else np.floor_divide(a, b)


def guarded_div(a: Array, b: Array) -> Array:
    """
    A quotient by a sum of shifted exponentials: 0 where the denominator is 0.

    Such a sum holds exp(0) unless everything in it is masked, so 0 says that there is nothing to average over.
    """
    return np.where(b == 0, b.dtype.type(0), np.divide(a, np.where(b == 0, b.dtype.type(1), b)))


def _and(a: Array, b: Array) -> Array:
    return np.logical_and(a, b) if a.dtype.kind == "b" else np.bitwise_and(a, b)


def _or(a: Array, b: Array) -> Array:
    return np.logical_or(a, b) if a.dtype.kind == "b" else np.bitwise_or(a, b)


BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _div,
    "max": np.maximum,
    "min": np.minimum,
    "pow": np.power,
    "floordiv": np.floor_divide,
    "mod": np.mod,
    "and": _and,
    "or": _or,
}

COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
