"""
Every dialect, pass and target of Cleave, by command-line name.

Modules are found by the naming rule: pass `alg-bind` is `AlgBindPass` in `cleave.passes.alg_bind`. They are imported when
first used, so looking at the lists costs nothing. Stock `xdsl-opt` finds `CLEAVE_UNIVERSE` by its entry point.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from xdsl.universe import Universe

DIALECTS = {"alg": "Alg", "sched": "Sched", "tt": "Tt"}
"""Dialect name, and the name of the `Dialect` in `cleave.dialects.<name>`."""

PASSES = (
    "alg-superoptimize",
    "alg-concat-weights",
    "alg-select",
    "alg-stabilize",
    "alg-bind",
    "alg-fold-unit-axes",
    "convert-alg-to-sched",
    "sched-overlap",
    "sched-stream",
    "convert-sched-to-tt",
    "tt-emulate-bf16",
)
"""Passes, in the order a program usually meets them."""

TARGETS = {"triton": ("triton_python", "TritonPythonTarget"), "ttir": ("ttir", "TtirTarget")}
"""Target name, its module in `cleave.targets` and its class there."""


def class_name(name: str, suffix: str) -> str:
    """The class of a command-line name: `alg-bind` with suffix `Pass` is `AlgBindPass`."""
    return "".join(part.capitalize() for part in name.split("-")) + suffix


def _lazily(module: str, name: str) -> Callable[[], Any]:
    return lambda: getattr(import_module(module), name)


CLEAVE_UNIVERSE = Universe(
    all_dialects={name: _lazily(f"cleave.dialects.{name}", dialect) for name, dialect in DIALECTS.items()},
    all_passes={name: _lazily(f"cleave.passes.{name.replace('-', '_')}", class_name(name, "Pass")) for name in PASSES},
    all_targets={name: _lazily(f"cleave.targets.{module}", target) for name, (module, target) in TARGETS.items()},
)
