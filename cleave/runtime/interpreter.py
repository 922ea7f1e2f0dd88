"""
Runs Triton kernels on the CPU, in one worker process that is started when first needed.

Triton reads TRITON_INTERPRET when it is imported and cannot compile ahead of time under it, so kernels are interpreted in a
process of their own (`interpreter_worker`, whose docstring lists what the interpreter does differently from a GPU).
"""

from __future__ import annotations

import atexit
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """One kernel launch: `arguments` are buffer names and numbers in the order of the kernel's parameters."""

    kernel: str
    grid: tuple[int, ...]
    arguments: tuple[str | int | float, ...]
    constants: Mapping[str, int] = field(default_factory=dict[str, int])


class InterpreterError(RuntimeError):
    """A kernel failed in the worker; the text is the worker's, with its traceback."""


class Interpreter:
    """A worker process. Safe to use from several threads: requests take turns."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def run(
        self,
        source: str,
        calls: Sequence[Call],
        buffers: Mapping[str, Array],
        written: Sequence[str],
        dtypes: Mapping[str, str],
    ) -> dict[str, Array]:
        """
        Runs the calls in order and returns the written buffers.

        Shapes: buffers are contiguous; a bfloat16 buffer (by `dtypes`) is passed as its 16-bit patterns.
        Raises: InterpreterError.
        """
        request = {
            "source": source,
            "calls": [
                {"kernel": call.kernel, "grid": call.grid, "arguments": call.arguments, "constants": dict(call.constants)} for call in calls
            ],
            "buffers": {name: np.array(array, order="C") for name, array in buffers.items()},
            "written": list(written),
            "dtypes": dict(dtypes),
        }
        with self._lock:
            reply = self._exchange(request)
        if "error" in reply:
            raise InterpreterError(f"{reply['error']}\n{reply['traceback']}")
        return reply["buffers"]

    def _exchange(self, request: dict[str, Any]) -> dict[str, Any]:
        process = self._started()
        assert process.stdin is not None and process.stdout is not None
        try:
            pickle.dump(request, process.stdin, protocol=5)
            process.stdin.flush()
            return pickle.load(process.stdout)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError) as problem:
            code = process.wait()
            self._process = None
            raise InterpreterError(f"the interpreter's worker ended with code {code}; it is started again at the next call\n") from problem

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            environment = {**os.environ, "TRITON_INTERPRET": "1"}
            command = [sys.executable, "-m", "cleave.runtime.interpreter_worker"]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        return self._process

    def close(self) -> None:
        """Ends the worker."""
        with self._lock:
            if self._process is not None:
                assert self._process.stdin is not None
                self._process.stdin.close()
                self._process.wait(timeout=10)
                self._process = None


_shared = Interpreter()
atexit.register(_shared.close)


def interpreter() -> Interpreter:
    """The interpreter that this process shares."""
    return _shared
