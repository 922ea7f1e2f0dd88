"""
The table from PyTorch operators to the functions that lower them.

A function takes the lowering, what is known of the result, and the operator's arguments by the names of its schema; all
overloads of an operator share one function. An argument that the function does not take must have its default value.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar, cast

import torch

from ..sizes import Size
from ..values import Lowering, Value


@dataclass(frozen=True)
class Result:
    """What tracing knows of one result: its sizes and dtype. `many` holds those of an operator with several results."""

    shape: tuple[Size, ...]
    dtype: torch.dtype
    many: tuple[Result, ...] = ()


Lowered: TypeAlias = "Value | tuple[Value | None, ...]"
Lower = Callable[..., Lowered]
_Function = TypeVar("_Function", bound=Lower)

_TABLE: dict[str, Lower] = {}
# What the result already says, and what is about memory only.
_IGNORED = (
    *("dtype", "size", "device", "pin_memory", "layout", "memory_format", "non_blocking", "copy"),
    *("implicit", "cudnn_enable", "cudnn_enabled", "input_dtype"),
)


def lowers(*names: str) -> Callable[[_Function], _Function]:
    """Registers a function for `aten` operators of these names."""

    def register(function: _Function) -> _Function:
        for name in names:
            assert name not in _TABLE, f"two functions lower {name}"
            _TABLE[name] = function
        return function

    return register


def lower(cx: Lowering, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Result) -> Lowered:
    """What a call of the operator `cx.op` gives. Raises: CleaveError for an operator, or an argument, that is not supported."""
    function = _TABLE.get(cx.op)
    if function is None:
        cx.fail("this operator is not supported", "compute it outside of the compiled function")
    schema = target._schema.arguments
    given = {argument.name: value for argument, value in zip(schema, args, strict=False)} | dict(kwargs)
    accepted = inspect.signature(function).parameters
    passed: dict[str, Any] = {}
    for argument in schema:
        if argument.name not in given:
            continue
        value = given[argument.name]
        if argument.name in accepted:
            passed[argument.name] = value
        elif argument.name not in _IGNORED and not (argument.has_default_value() and value == argument.default_value):
            given_as = argument.name if _has_values(value) else f"{argument.name}={value!r}"
            cx.fail(f"argument {given_as} is not supported", "leave it at its default")
    try:
        bound = inspect.signature(function).bind(cx, result, **passed)
    except TypeError as error:
        cx.fail(f"this use of the operator is not supported ({error})")
    return function(*bound.args, **bound.kwargs)


def _has_values(value: Any) -> bool:
    """Whether an argument is, or has, what is computed."""
    return isinstance(value, Value) or (isinstance(value, list | tuple) and any(map(_has_values, cast("Sequence[Any]", value))))
