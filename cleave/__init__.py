"""
Cleave: a tensor compiler that searches the algebra of a program, schedules the best equivalents and emits Triton kernels.

`compile` is the way in from PyTorch; importing the package imports neither torch nor Triton.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import CleaveError

if TYPE_CHECKING:
    from .api import Compiled, Kernel, Report, compile

__version__ = "0.1.0"

__all__ = ["CleaveError", "Compiled", "Kernel", "Report", "compile"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from . import api

        return getattr(api, name)
    raise AttributeError(f"module 'cleave' has no attribute '{name}'")
