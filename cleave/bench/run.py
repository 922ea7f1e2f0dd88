"""
Measures cases on the current GPU: every contender is checked against float64 first, then all are timed in the same run.

A contender that cannot run or is wrong is kept as such, with the reason; nothing is left out in silence.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Protocol, cast

import torch
import triton
from torch import Tensor

from ..api import Compiled
from .accuracy import Error, error_of, exact, problem
from .baselines import eager
from .cases import Call, Case, Contender, floor_seconds
from .code import code
from .compiling import Compilation, compiled
from .results import GRAPH, OURS, PLAIN, Row
from .timing import BEHIND, FLUSHES, Replay, captured, interleaved, processor_microseconds

OVERHEAD_MS = 0.1
"""More than a plain call takes longer than a replay, so that times of replays tell which contenders cannot be the best."""


class Ours(Protocol):
    """How Cleave comes to run a case: compiled for it, or once for many."""

    def __call__(self, case: Case, inputs: Sequence[Tensor]) -> tuple[Compiled, Compilation]:
        """What to call, and what compiling it took. Raises: CleaveError."""
        ...


class Note(Protocol):
    """Facts that follow from what Cleave chose for a case."""

    def __call__(self, case: Case, inputs: Sequence[Tensor], ready: Compiled) -> Mapping[str, Any]:
        """Plain values."""
        ...


def nothing(case: Case, inputs: Sequence[Tensor], ready: Compiled) -> Mapping[str, Any]:
    """No facts."""
    return {}


class Clock(Protocol):
    """How calls are timed: `GpuClock`, or in tests something without a GPU."""

    def captured(self, call: Call) -> Replay:
        """The call, captured."""
        ...

    def interleaved(self, calls: Mapping[str, Callable[[], object]], flush: str, existing: Collection[str] = ()) -> dict[str, float]:
        """Milliseconds of each, of the existing ones most exactly of the fastest."""
        ...

    def processor(self, call: Call) -> float:
        """Microseconds of the processor in a call."""
        ...

    def settle(self) -> None:
        """Waits for all work and gives back memory. Raises: RuntimeError where the device is lost."""
        ...


@dataclass(frozen=True)
class GpuClock:
    """The current CUDA device."""

    def captured(self, call: Call) -> Replay:
        """As a CUDA graph."""
        return captured(call)

    def interleaved(self, calls: Mapping[str, Callable[[], object]], flush: str, existing: Collection[str] = ()) -> dict[str, float]:
        """As `timing.interleaved`."""
        return interleaved(calls, flush, existing)

    def processor(self, call: Call) -> float:
        """As `timing.processor_microseconds`."""
        return processor_microseconds(call)

    def settle(self) -> None:
        """Waits, and empties the cache of freed memory."""
        torch.cuda.synchronize()
        gc.collect()
        torch.cuda.empty_cache()


def machine() -> str:
    """The GPU, and the versions that times depend on."""
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    return f"{name}, torch {torch.__version__}, triton {triton.__version__}, python {'.'.join(map(str, sys.version_info[:3]))}"


def empty_row(command: str, case: Case) -> Row:
    """A row of which nothing is known yet."""
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    facts = {**case.facts, "floor_ms": floor_seconds(case) * 1e3}
    return Row(command, case.name, case.type_name, facts, at, machine(), code=code())


@dataclass(frozen=True)
class _Able:
    """A contender that runs, what its result should be, and the error of eager execution."""

    name: str
    call: Call
    right: Tensor
    limit: Error


@dataclass
class Measurement:
    """One case being measured, on a device."""

    case: Case
    row: Row
    clock: Clock
    device: str = "cuda"

    def run(self, ours: Ours = compiled, note: Note = nothing) -> Row:
        """
        The row, filled.

        Raises: RuntimeError where the device is lost.
        """
        # torch.compile gives up on a function that was compiled for many sizes.
        cast(Any, torch).compiler.reset()
        started = time.perf_counter()

        def lap(name: str) -> None:
            nonlocal started
            now = time.perf_counter()
            self.row.seconds[name] = self.row.seconds.get(name, 0.0) + now - started
            started = now

        inputs = self.case.inputs(self.device)
        right = exact(self.case, inputs)
        plain = eager(self.case.program)
        limit = error_of(plain.make(inputs)(), right)
        # What this took would be missing where another process times candidates.
        self.clock.settle()
        lap("reference")

        def make_ours(inputs: Sequence[Tensor]) -> Call:
            ready, compilation = ours(self.case, inputs)
            self.row.compilation = asdict(compilation)
            self.row.facts.update(note(self.case, inputs, ready))
            return lambda: ready(*inputs)

        able: list[_Able] = []
        for contender in (Contender(OURS, make_ours, existing=False), plain, *self.case.contenders):
            if contender.existing:
                self.row.existing.append(contender.name)
            found = self._checked(contender, inputs, right, limit)
            if found is not None:
                able.append(found)
            lap(contender.name)
        self.clock.settle()
        self._time(able, lap)
        able.clear()
        self.clock.settle()
        return self.row

    def _checked(self, contender: Contender, inputs: Sequence[Tensor], right: Tensor, limit: Error) -> _Able | None:
        """The contender, once its result has been compared; None where there is none."""
        try:
            if contender.program is not None:
                right = exact(self.case, inputs, contender.program)
                limit = error_of(contender.program(*inputs), right)
            call = contender.make(inputs)
            # What is not written would hold what lay there before: most likely this.
            call().fill_(torch.nan)
            able = _Able(contender.name, call, right, limit)
            self._compare(able, call())
        except Exception as found:
            self._missing(contender.name, found)
            return None
        return able

    def _compare(self, able: _Able, result: Tensor) -> None:
        """Keeps the error, and that the result is wrong where it is. Raises: ValueError for another shape."""
        error = error_of(result, able.right)
        self.row.errors[able.name] = max(error.relative, self.row.errors.get(able.name, 0.0))
        wrong = "" if able.name == "eager" else problem(error, able.limit, self.case.dtype)
        if wrong:
            self.row.failed[able.name] = wrong

    def _missing(self, name: str, found: Exception) -> None:
        """Keeps why; what was lost with the device is not the contender's alone, and goes on up."""
        lines = str(found).strip().splitlines()
        self.row.failed[name] = f"{type(found).__name__}: {lines[0] if lines else ''}"[:300]
        # Frames of the traceback hold on to tensors.
        found.__traceback__ = None
        self.clock.settle()

    def _time(self, contenders: Sequence[_Able], lap: Callable[[str], None]) -> None:
        replays: dict[str, Callable[[], object]] = {}
        calls: dict[str, Call] = {}
        for able in contenders:
            try:
                self.row.processor_microseconds[able.name] = self.clock.processor(able.call)
                replay = self.clock.captured(able.call)
                replay.result.fill_(torch.nan)
                replay.run()
                self._compare(able, replay.result)
            except Exception as found:
                self._missing(able.name, found)
            else:
                replays[able.name], calls[able.name] = replay.run, able.call
        lap("processor and capture")
        for flush in FLUSHES:
            self.row.milliseconds[f"{GRAPH}, {flush}"] = self.clock.interleaved(replays, flush, self._right())
        lap("graph")
        for flush in FLUSHES:
            self.row.milliseconds[f"{PLAIN}, {flush}"] = self._plain(calls, flush)
        lap("plain")

    def _plain(self, calls: Mapping[str, Call], flush: str) -> dict[str, float]:
        """
        Milliseconds of plain calls of all but the existing contenders that no overhead of the best could bring near it: a plain call takes
        as long as a replay at least.
        """
        replays = self.row.milliseconds[f"{GRAPH}, {flush}"]
        best = self.row.best(GRAPH, flush)
        limit = float("inf") if best is None else BEHIND * best[1] + OVERHEAD_MS
        few = {name: call for name, call in calls.items() if name not in self.row.existing or replays[name] <= limit}
        found = self.clock.interleaved(few, flush, self._right())
        least = min((found[name] for name in self._right() if name in few), default=0.0)
        if any(replays[name] < least for name in self._right() if name in calls and name not in few):
            found = self.clock.interleaved(calls, flush, self._right())
        return found

    def _right(self) -> list[str]:
        """The existing contenders that are not wrong."""
        return [name for name in self.row.existing if name not in self.row.failed]
