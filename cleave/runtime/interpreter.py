"""
Generated kernels on the CPU: one worker process, started with TRITON_INTERPRET=1, which Triton reads when it is imported.

The worker starts on first use, stays, is started again when it dies, and ends with this process. Arrays cross a socket.
bfloat16 is emulated by the caller (`tt-emulate-bf16`): the worker only sees the other types.

Where the interpreter differs from a GPU:

- Its own bf16 is wrong (f32 to bf16 truncates, a bf16 dot multiplies bit patterns), hence the emulation.
- f32 dots are always exact: `input_precision="tf32"` and `"tf32x3"` mean ieee.
- A dot of f32 (or of emulated bf16) is summed in float64 and rounded once a tile; a GPU gives the error of its order of sums.
- Other sums and dots add in numpy's order; exp, log and the like are numpy's, correct to half a unit or so in the last place.
- `tl.max` and `tl.min` keep NaN; a GPU leaves it out, which the code that is emitted for `sched.reduce` makes up for.
- Programs run one after another: races, and the overwriting of a buffer that is still read, cannot show.
- Reading out of bounds reads what is there or crashes the worker; lanes that a mask switches off read 0 where no other value
  is given.
- Loop variables are Python integers, so integer overflow in 32 bits does not show in what is computed from them alone.
- Pipelining, cache hints, `num_warps` and `num_stages` mean nothing.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from cleave.errors import CleaveError
from cleave.runtime.connection import started
from cleave.runtime.plan import Plan


class InterpreterError(RuntimeError):
    """A generated kernel failed under the interpreter; the message is one line, a note has the worker's traceback."""


_ALL: WeakSet[Interpreter] = WeakSet()


class Interpreter:
    """A worker process and the connection to it. Calls from several threads take turns."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection[Any, Any] | None = None
        self._lock = threading.Lock()
        _ALL.add(self)

    def run(
        self,
        plan: Plan,
        source: str,
        kernels: Mapping[str, str],
        arrays: Sequence[NDArray[Any]],
        symbols: Mapping[str, int] | None = None,
    ) -> list[NDArray[Any]]:
        """
        The outputs of a plan for arrays in memory layout.

        Raises: CleaveError for inputs that do not fit; InterpreterError where a kernel fails or the worker dies.
        """
        return self._ask(("plan", plan, source, dict(kernels), [np.asarray(array, order="C") for array in arrays], dict(symbols or {})))

    def launch(self, source: str, arrays: Sequence[NDArray[Any]], symbols: Mapping[str, int] | None = None) -> list[NDArray[Any]]:
        """What the `launch` function of a generated file returns. Raises: InterpreterError."""
        return self._ask(("launch", source, [np.asarray(array, order="C") for array in arrays], dict(symbols or {})))

    def close(self) -> None:
        """Ends the worker; the next call starts another."""
        with self._lock:
            self._stop()

    def forget(self) -> None:
        """Leaves the worker alone: after a fork it is the other process', and so is whoever waits for its answer."""
        self._lock = threading.Lock()
        if self._connection is not None:
            self._connection.close()
        self._connection = self._process = None

    def _ask(self, request: tuple[Any, ...]) -> list[NDArray[Any]]:
        with self._lock:
            connection = self._started()
            try:
                connection.send(request)
                reply = connection.recv()
            except (EOFError, OSError) as error:
                raise InterpreterError(f"the interpreter's process ended with code {self._stop()}") from error
            except BaseException:
                self._stop(at_once=True)
                raise
        if reply[0]:
            return reply[1]
        if isinstance(reply[1], CleaveError):
            raise reply[1]
        failed = InterpreterError(reply[1])
        failed.add_note(reply[2])
        raise failed

    def _started(self) -> Connection[Any, Any]:
        """The connection to a worker that is alive."""
        if self._connection is None or self._process is None or self._process.poll() is not None:
            self._stop()
            # Without a GPU in sight, what has no inputs runs on the CPU like everything else.
            environment = {"TRITON_INTERPRET": "1", "TRITON_DEFAULT_FP_FUSION": "1", "CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}
            self._process, ours = started("cleave.runtime.worker", environment)
            self._connection = Connection(ours.detach())
        return self._connection

    def _stop(self, at_once: bool = False) -> int | None:
        """Ends the worker, which ends by itself when its connection does unless it is busy; its exit code."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        code = None
        if self._process is not None:
            try:
                code = self._process.wait(0 if at_once else 5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                code = self._process.wait()
            self._process = None
        return code


def _forget() -> None:
    for interpreter in tuple(_ALL):
        interpreter.forget()


INTERPRETER = Interpreter()
"""The worker that all callers share."""

atexit.register(INTERPRETER.close)
os.register_at_fork(after_in_child=_forget)
