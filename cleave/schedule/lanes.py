"""
What the lanes past the end of a tile hold, as far as that is known.

A tile whose extent is not a multiple of its size has *false lanes*. A lane value is a number every false lane holds, FINITE
(some number, no infinity or NaN) or UNKNOWN. A reduction needs a select only where the value is not neutral for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..graph import Attr
from ..reference.elementwise import BINARY, UNARY

FINITE = "finite"
UNKNOWN = "unknown"
Lane: TypeAlias = "float | str"
_FUNCTIONS: dict[str, Callable[..., Any]] = {**UNARY, **BINARY, "exp2": np.exp2, "log2": np.log2}
_KEEPS_FINITE = (
    "add",
    "sub",
    "mul",
    "max",
    "min",
    "neg",
    "abs",
    "relu",
    "tanh",
    "sigmoid",
    "silu",
    "gelu",
    "gelu_tanh",
    "sin",
    "cos",
    "erf",
    "erfc",
)


def finite(lane: Lane) -> bool:
    """Whether a lane certainly holds no infinity and no NaN."""
    return bool(np.isfinite(lane)) if isinstance(lane, float) else lane == FINITE


def lane_of(kind: str, attr: tuple[Attr, ...], args: Sequence[Lane]) -> Lane:
    """The lane value of an elementwise operation."""
    numbers = [arg for arg in args if isinstance(arg, float)]
    if kind in ("cast", "broadcast"):
        return args[0]
    if kind == "select":
        return args[1] if args[1] == args[2] else FINITE if finite(args[1]) and finite(args[2]) else UNKNOWN
    if len(numbers) == len(args):
        return _computed(kind, numbers)
    if kind in ("mul", "div") and args[0] == 0.0 and kind == "div" and args[1] == FINITE:
        return UNKNOWN
    if kind == "mul" and 0.0 in numbers and all(finite(arg) for arg in args):
        return 0.0
    if kind in ("add", "sub") and args[0] == float("-inf") and finite(args[1]):
        return float("-inf")
    if kind in _KEEPS_FINITE and all(finite(arg) for arg in args):
        return FINITE
    return UNKNOWN


def _computed(kind: str, args: Sequence[float]) -> Lane:
    """On numbers. Logic on 0 and 1 is that on bits, but a negation depends on the type, which is not known here."""
    function = _FUNCTIONS.get(kind)
    if function is None or kind == "not":
        return UNKNOWN
    if kind in ("and", "or"):
        return float(function(*(np.int64(arg) for arg in args))) if all(arg.is_integer() for arg in args) else UNKNOWN
    with np.errstate(all="ignore"):
        value = float(function(*(np.float64(arg) for arg in args)))
    return UNKNOWN if value != value else value


def joined(a: Lane, b: Lane) -> Lane:
    """What is known of a lane that holds one of two values."""
    if a == b:
        return a
    return FINITE if finite(a) and finite(b) else UNKNOWN


def reduced(kind: str, lane: Lane) -> Lane:
    """The lane value, along another dimension, of a reduction whose operand holds `lane` there."""
    if lane == 0.0 or kind in ("max", "min", "maxnum"):
        return lane
    return FINITE if finite(lane) else UNKNOWN


def product(lanes: Sequence[Lane]) -> Lane:
    """The lane value of a product."""
    if all(finite(lane) for lane in lanes):
        return 0.0 if 0.0 in lanes else FINITE
    return UNKNOWN
