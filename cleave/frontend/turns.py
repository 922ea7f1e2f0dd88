"""Whose turn it is to be traced: torch.export traces one function at a time, and inside of it nothing is compiled or run."""

from __future__ import annotations

import inspect
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from threading import Lock, local
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor

from ..errors import CleaveError
from .user_code import user_line

_LOCK = Lock()
_HERE = local()
_torch: Any = torch


@contextmanager
def turn() -> Generator[None]:
    """Waits until no other thread traces. Raises: CleaveError, at the user's line, where this one does, which would wait for itself."""
    if _tracing():
        raise _refused("cleave.compile", "is called in a function that is being compiled", "compile it outside, or call the plain function")
    with _LOCK:
        _HERE.tracing = True
        try:
            yield
        finally:
            _HERE.tracing = False


def refuse_traced(name: str, values: Iterable[object]) -> None:
    """Raises: CleaveError, at the user's line, for a call of a compiled function while this thread traces, or with tensors of a trace."""
    if _tracing() or any(map(_of_a_trace, values)):
        raise _refused(name, "this compiled function is called in a function that is traced", "call the function that it was compiled from")


def _tracing() -> bool:
    return getattr(_HERE, "tracing", False)


def _of_a_trace(value: object) -> bool:
    """Whether a value is a tensor without numbers of its own, as tracing and transforms of functions pass."""
    if isinstance(value, FakeTensor | FunctionalTensor):
        return True
    # What torch.compile runs around a call is broken off there, and passes tensors as they are.
    wrapped = not torch.compiler.is_compiling() and isinstance(value, torch.Tensor)
    return wrapped and bool(_torch._C._functorch.is_functorch_wrapped_tensor(value))


def _refused(op: str, found: str, advice: str) -> CleaveError:
    return CleaveError(user_line(inspect.currentframe()) or None, found, advice, op=op)
