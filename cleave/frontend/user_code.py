"""Which code is the user's: errors of tracing, and traced operators, are placed at its lines."""

from __future__ import annotations

import inspect
import os
from types import FrameType
from typing import Any

import torch

_FRONTEND = os.path.dirname(os.path.abspath(__file__))
_LIBRARIES = (
    os.path.dirname(torch.__file__) + os.sep,
    _FRONTEND + os.sep,
    *(os.path.join(os.path.dirname(_FRONTEND), name) for name in ("api.py", "compiled.py")),
    "<eval_with_key>",
    "<string>",
    "<frozen",
)


def is_user_file(filename: str) -> bool:
    """Whether a file is the user's: not torch's, nor of this package."""
    return not filename.startswith(_LIBRARIES) and not filename.endswith(os.sep + "contextlib.py")


def user_line(frame: FrameType | None) -> str:
    """The `file:line` of the innermost code of the user's at a frame or around it, empty where there is none."""
    while frame is not None:
        if is_user_file(frame.f_code.co_filename):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def definition(function: Any) -> str:
    """Where a function, or a module's forward, begins; of one that is not the user's, the line that compiles it."""
    target = inspect.unwrap(type(function).forward if isinstance(function, torch.nn.Module) else function)
    code = getattr(target, "__code__", None)
    if code is not None and is_user_file(code.co_filename):
        return f"{code.co_filename}:{code.co_firstlineno}"
    return user_line(inspect.currentframe())
