"""
The dynamic dimensions that are declared for the arguments of a call, as for torch.export.

    dynamic_shapes=({0: Dim("m")}, {0: "m", 1: Dim.DYNAMIC})    ->    for each tensor, a declaration by dimension
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch

from ..errors import CleaveError
from ..extents import NAME


def declarations(parameters: Sequence[str], dynamic_shapes: Any) -> list[Any]:
    """What is declared for each argument, None for nothing. Raises: CleaveError where that does not fit the arguments."""
    if dynamic_shapes is None:
        return [None] * len(parameters)
    if isinstance(dynamic_shapes, Mapping):
        by_name = cast("Mapping[Any, Any]", dynamic_shapes)
        unknown = [key for key in by_name if key not in parameters]
        if unknown:
            raise CleaveError(None, f"dynamic_shapes names '{unknown[0]}'", f"the arguments are {', '.join(parameters)}")
        return [by_name.get(name) for name in parameters]
    if not isinstance(dynamic_shapes, Sequence) or isinstance(dynamic_shapes, str):
        found = type(dynamic_shapes).__name__
        raise CleaveError(None, f"dynamic_shapes is of type {found}", "give a tuple with one entry for each argument, or a mapping by name")
    dynamic_shapes = cast("Sequence[Any]", dynamic_shapes)
    if len(dynamic_shapes) != len(parameters):
        raise CleaveError(None, f"dynamic_shapes has {len(dynamic_shapes)} entries for {len(parameters)} arguments", "give one for each")
    return list(dynamic_shapes)


def part_of(declared: Any, key: Any, name: str) -> Any:
    """What a declaration says of a part of an argument. Raises: CleaveError where it has another structure."""
    try:
        return declared[key]
    except (KeyError, IndexError, TypeError):
        raise CleaveError(None, f"dynamic_shapes has no entry for '{name}'", "follow the structure of the arguments") from None


def dynamic_dims(declared: Any, value: Any, name: str) -> dict[int, Any]:
    """The dynamic dimensions of one tensor: a Dim, a hint such as Dim.DYNAMIC, or a name for each."""
    if declared is None or not isinstance(value, torch.Tensor):
        return {}
    if not isinstance(declared, Mapping | Sequence) or isinstance(declared, str):
        found = f"'{declared}'" if isinstance(declared, str) else f"of type {type(declared).__name__}"
        raise CleaveError(None, f"dynamic_shapes of '{name}' is {found}", "give the sizes that vary by dimension, as in {0: Dim('m')}")
    by_dim = cast("Mapping[Any, Any] | Sequence[Any]", declared)
    items = by_dim.items() if isinstance(by_dim, Mapping) else enumerate(by_dim)
    out: dict[int, Any] = {}
    for dim, wanted in items:
        if not isinstance(dim, int) or not -value.dim() <= dim < value.dim():
            raise CleaveError(None, f"dynamic_shapes of '{name}' names dimension {dim} of {value.dim()}", "count from 0")
        if isinstance(wanted, str) and not NAME.match(wanted):
            raise CleaveError(None, f"dynamic dimension '{wanted}' of '{name}' is not a name", "use letters, digits and _")
        if wanted is None or isinstance(wanted, int) or wanted == torch.export.Dim.STATIC:
            continue
        out[dim % value.dim()] = wanted
    return out


def dim_name(declared: Any) -> str:
    """The name that the program gives to a dynamic dimension, or none."""
    if isinstance(declared, str):
        return declared
    name = getattr(declared, "__name__", "")
    return name if NAME.match(name) and not is_derived(declared) and not _is_hint(declared) else ""


def is_derived(declared: Any) -> bool:
    """Whether a dimension is an expression over another, as `2 * Dim("n")` is."""
    return hasattr(declared, "root") and hasattr(declared, "fn")


def _is_hint(declared: Any) -> bool:
    return type(declared).__name__ == "_DimHint"


def for_export(dynamic: Mapping[int, Any]) -> dict[int, Any]:
    """What torch.export is told: expressions as they are, every other dimension only that it is dynamic."""
    keep = any(is_derived(wanted) for wanted in dynamic.values())
    return {dim: wanted if keep or _is_hint(wanted) or is_derived(wanted) else torch.export.Dim.DYNAMIC for dim, wanted in dynamic.items()}
