"""A traced program: what tracing gives, and what its operators and guards say of themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import sympy

from ..errors import CleaveError
from .parameters import Parameters
from .spelling import spelled
from .user_code import is_user_file

PLACE = "cleave_place"
"""Where an operator keeps the user's line that called it, among what is its own."""


@dataclass(frozen=True)
class Leaf:
    """An argument of the call: its name, its tensor or fixed value, and the dynamic dimensions declared for it."""

    name: str
    value: Any
    dynamic: Mapping[int, Any] = field(default_factory=dict[int, Any])


@dataclass(frozen=True)
class Traced:
    """
    What tracing gives.

    `leaves` are the flat arguments and `tensors` the positions of those that are tensors, in the order of the program's user
    inputs. `outputs` are the flat results: the position among the program's results, or a fixed value as a one-tuple.
    """

    program: Any
    name: str
    place: str
    leaves: tuple[Leaf, ...]
    tensors: tuple[int, ...]
    parameters: Parameters
    in_spec: Any
    out_spec: Any
    outputs: tuple[int | tuple[Any], ...]


def place_of(node: Any) -> str:
    """The user's `file:line` of a traced operator, empty where unknown."""
    found: Mapping[str, Any] = node.meta.get("custom") or {}
    return str(found.get(PLACE, ""))


def module_of(node: Any) -> str:
    """
    The module of PyTorch's own that calls an operator, as `the ReLU 'layers.1'`; nothing for one of the user's, whose line says enough.
    """
    entries: Mapping[str, Any] = node.meta.get("nn_module_stack") or {}
    path, kind = list(entries.values())[-1] if entries else ("", "")
    name = str(kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}")
    return described(str(path), name.rpartition(".")[2]) if name.startswith("torch.") else ""


def described(path: str, kind: str) -> str:
    """A module of some kind by its path in the user's, as `the ReLU 'layers.1'`."""
    path = path.removeprefix("owner").removeprefix(".")
    return f"the {kind} '{path}'" if path else f"the {kind}"


def operator_name(target: Any) -> str:
    """The name of an operator, without namespace and overload."""
    schema = getattr(target, "_schema", None)
    return str(schema.name).partition("::")[2] if schema is not None else str(getattr(target, "__name__", target))


def guards(traced: Traced) -> list[tuple[Any, Any]]:
    """What tracing assumed of sizes, each with its expression after all that is known to be equal."""
    for node in traced.program.graph.nodes:
        mode = getattr(node.meta.get("val"), "fake_mode", None)
        environment: Any = getattr(mode, "shape_env", None)
        if environment is not None:
            return [(guard, environment.simplify(guard.expr)) for guard in environment.guards]
    return []


def guard_place(guard: Any) -> str:
    """The line of the user's code that asked for a relation of sizes, empty where torch did."""
    location: Any = getattr(getattr(guard, "sloc", None), "framework_loc", None)
    filename = str(getattr(location, "filename", ""))
    return f"{filename}:{location.lineno}" if filename and is_user_file(filename) else ""


def unsupported_branch(place: str, expr: Any, names: Mapping[str, str]) -> CleaveError:
    """The error for something assumed of sizes that is no comparison of two; `names` are those of the program for symbols."""
    if isinstance(expr, sympy.Eq):
        found = f"needs {spelled(expr.args[0], names)} to be {spelled(expr.args[1], names)}"
        return CleaveError(place, found, "compute sizes by + - * // % only")
    return CleaveError(place, f"branches on sizes by {spelled(expr, names)}", "branch on a comparison of two sizes")
