"""
Element types of the algebra on numpy: which array type holds one, and rounding to it.

Float types are held in one working type (float64 or float32) chosen by the caller; integers and booleans in their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..graph import FLOATS

Array: TypeAlias = NDArray[Any]

TOLERANCES: Mapping[str, float] = {"f16": 1e-3, "bf16": 8e-3, "f32": 2e-5, "f64": 2e-5}
"""The relative error (norm of the difference over that of the result) a kernel may have, by the narrowest float of the program."""
_INTEGERS: dict[str, type[np.generic]] = {"i1": np.bool_, "i32": np.int32, "i64": np.int64, "index": np.int64}


def held_in(dtype: str, working: np.dtype[Any]) -> np.dtype[Any]:
    """The numpy type that holds `dtype`. Raises: KeyError for an unknown name."""
    return working if dtype in FLOATS else np.dtype(_INTEGERS[dtype])


def rounded(array: Array, dtype: str) -> Array:
    """The array with its elements rounded to the named float type, ties to even, held in the same type; integers as they are."""
    with np.errstate(over="ignore"):
        match dtype:
            case "f16":
                return array.astype(np.float16).astype(array.dtype)
            case "f32":
                return array.astype(np.float32).astype(array.dtype)
            case "bf16":
                return _to_bf16(array)
            case _:
                return array


def _to_bf16(array: Array) -> Array:
    """
    Rounds to 8 significant bits straight from the working type: by way of float32, a value just above a tie would round twice.
    """
    wide = array.astype(np.float64)
    finite = np.isfinite(wide)
    _, exponent = np.frexp(np.where(finite, wide, 0.0))
    step = np.maximum(exponent - 8, -133)
    near = np.ldexp(np.rint(np.ldexp(np.where(finite, wide, 0.0), -step)), step)
    near = np.where(np.abs(near) >= 2.0**128, np.copysign(np.inf, near), near)
    return np.where(finite, near, wide).astype(array.dtype)


def poison(dtype: np.dtype[Any]) -> Any:
    """What stands where no element exists: NaN, or an integer far out of any range. A boolean has no such value; it is True."""
    if dtype.kind == "f":
        return np.nan
    return True if dtype.kind == "b" else np.iinfo(dtype).min // 4


def identity(kind: Literal["sum", "max", "min"], dtype: np.dtype[Any]) -> Any:
    """What a reduction over nothing gives: 0, the least or the greatest value of the type."""
    if kind == "sum":
        return 0
    if dtype.kind == "f":
        return -np.inf if kind == "max" else np.inf
    if dtype.kind == "b":
        return kind == "min"
    limits = np.iinfo(dtype)
    return limits.min if kind == "max" else limits.max
