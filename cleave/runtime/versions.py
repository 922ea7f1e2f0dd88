"""
Differences between the versions of Triton and PyTorch that Cleave runs with: Triton 3.6 to 3.9, torch 2.11 to 2.13.

Nothing else asks for a version.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


def triton_version() -> tuple[int, int]:
    """Major and minor version of the installed Triton."""
    major, minor = triton.__version__.split(".")[:2]
    return int(major), int(minor)


def gpu_target(architecture: str) -> GPUTarget:
    """
    Triton's target of an architecture name: `sm_90`, `gfx942`.

    Raises: ValueError for a name of another form.
    """
    if architecture.startswith("sm_") and architecture[3:].isdigit():
        return GPUTarget("cuda", int(architecture[3:]), 32)
    if architecture.startswith("gfx"):
        return GPUTarget("hip", architecture, 64)
    raise ValueError(f"'{architecture}' is not an architecture (sm_80, sm_90, sm_100, gfx942, ...)")


def ast_source(kernel: Any, signature: Mapping[str, str], constants: Mapping[str, int], divisible: Mapping[str, int]) -> ASTSource:
    """
    The compiler's input for a kernel.

    `signature` gives every parameter its type (`*fp16`, `i32`, `constexpr`), `constants` the compile-time ones, `divisible` a
    number that divides an argument or address.
    """
    names = list(kernel.arg_names)
    attributes = {(names.index(name),): [["tt.divisibility", number]] for name, number in divisible.items()}
    values = {(names.index(name),): value for name, value in constants.items()}
    return ASTSource(fn=kernel, signature=dict(signature), constexprs=values, attrs=attributes)


def ptxas(architecture: int) -> Path:
    """The assembler Triton uses for a compute capability (90 for 9.0)."""
    chooser: Any = import_module("triton.backends.nvidia.compiler")
    return Path(str(chooser.get_ptxas(architecture).path))
