"""
Worker processes for parts of a search that do not depend on each other.

The law: `Workers.map` gives what the plain loop gives, in the same order, whatever the number of workers; a process that ends or
takes longer than `PATIENCE` costs only time, as what is missing is done in this process, and `Workers.failures` says so.

Processes start when a large program first needs them: small ones are done before a process has imported anything. They are fresh
(forking would copy the locks of other threads) and hold the reading end of a pipe that this process writes nothing to: it
closes when this process lets go of it, or dies, and then they end at once, whatever they are doing.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures import TimeoutError as Late
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, TypeVar

Given = TypeVar("Given")
Answer = TypeVar("Answer")

PATIENCE = 120.0
"""Seconds that one part may take in a worker."""
LEAST = 48
"""Operations of the programs for which workers are started."""


class Workers:
    """That many processes, of which this is one. Use it in a `with` statement: no process outlives it."""

    def __init__(self, count: int = 1) -> None:
        self.count = count
        self.failures: list[str] = []
        self._pool: Executor | None = None
        self._held: Connection[Any, Any] | None = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Ends all processes, also those at work."""
        if self._held is not None:
            self._held.close()
            self._held = None
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def map(
        self,
        function: Callable[[Given], Answer],
        items: Sequence[Given],
        size: int,
        here: Callable[[Given], Answer] | None = None,
    ) -> list[Answer]:
        """
        The function of every item. Function and items are sent to other processes if there are some and the program, of `size`
        operations, is worth it. What is done in this process is done by `here`, where given, which has the same answers.
        """
        here = here or function
        if self.count < 2 or size < LEAST or len(items) < 2:
            return [here(item) for item in items]
        out: list[Answer] = []
        try:
            pool = self._pool or self._started()
            # This process works too, from the front; what the others have not begun by the time it gets there is taken back.
            futures = [pool.submit(function, item) for item in reversed(items)][::-1]
            for item, future in zip(items, futures, strict=True):
                out.append(here(item) if future.cancel() else future.result(PATIENCE))
        except (BrokenProcessPool, Late, OSError) as failure:
            self.failures.append(f"a worker process {'took too long' if isinstance(failure, Late) else 'ended'}; its work was done without")
            self.close()
            self.count = 1
            out += [here(item) for item in items[len(out) :]]
        return out

    def _started(self) -> Executor:
        context = multiprocessing.get_context("spawn")
        reader, self._held = context.Pipe(duplex=False)
        self._pool = ProcessPoolExecutor(self.count - 1, context, _attend, (reader,))
        return self._pool


def _attend(reader: Connection[Any, Any]) -> None:
    """In a worker: end as soon as the process that started it closes its end of the pipe."""
    threading.Thread(target=_end_with, args=(reader,), daemon=True).start()


def _end_with(reader: Connection[Any, Any]) -> None:
    try:
        reader.recv()
    except (EOFError, OSError):
        os._exit(0)


ALONE = Workers()
"""No other process."""
