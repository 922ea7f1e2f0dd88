"""
Clocks that wait for the next who needs one: to start a process that has torch and reaches the GPU takes seconds.

The process of one that waits has given the GPU's memory back, but for what CUDA and its libraries take there.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager

from cleave.runtime.clock import GpuClock

IDLE = 20.0


class Clocks:
    """Lends clocks that `make` makes; the last that came back waits for so many seconds."""

    def __init__(self, make: Callable[[], GpuClock] = GpuClock, idle: float = IDLE) -> None:
        self._make = make
        self._idle = idle
        self._lock = threading.Lock()
        self._resting: GpuClock | None = None
        self._returns = 0

    @contextmanager
    def lent(self) -> Generator[GpuClock]:
        """A clock that is the caller's alone, without a workload."""
        clock = self._taken() or self._make()
        try:
            yield clock
            able = clock.rest()
        except BaseException:
            # An answer may be on its way, which the next who asks would take for theirs.
            clock.close()
            raise
        if able:
            self._keep(clock)
        else:
            clock.close()

    def close(self) -> None:
        """Ends what waits."""
        clock = self._taken()
        if clock is not None:
            clock.close()

    def forget(self) -> None:
        """Leaves what waits alone: after a fork it is the other process'."""
        self._lock = threading.Lock()
        clock, self._resting = self._resting, None
        if clock is not None:
            clock.abandon()

    def _taken(self) -> GpuClock | None:
        with self._lock:
            clock, self._resting = self._resting, None
            return clock

    def _keep(self, clock: GpuClock) -> None:
        with self._lock:
            before, self._resting = self._resting, clock
            self._returns += 1
            # It knows the number alone: a fork that copies it would keep the clock.
            end = threading.Timer(self._idle, self._expire, (self._returns,))
        if before is not None:
            before.close()
        end.daemon = True
        try:
            end.start()
        except RuntimeError:
            # No thread can be started, as when Python ends.
            self.close()

    def _expire(self, returns: int) -> None:
        """Ends what waits, if it is what came back then."""
        with self._lock:
            if self._returns != returns:
                return
            clock, self._resting = self._resting, None
        if clock is not None:
            clock.close()


CLOCKS = Clocks()
"""What all callers share."""

atexit.register(CLOCKS.close)
os.register_at_fork(after_in_child=CLOCKS.forget)
