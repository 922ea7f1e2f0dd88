"""Cleave's part of a measurement: compiling a case, first and again from the cache, and what is worth telling of it."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

import cleave

from ..api import Compiled, Report
from ..runtime.races import FAVOURITES
from ..schedule.program import Launch, LibraryCall
from .cases import Case


@dataclass(frozen=True)
class Compilation:
    """
    What compiling a case took and gave.

    `seconds` is the first time, None where it came from the cache; `again` the second time, in the same process; `stages` are those of
    the first. `kernels` and `calls` count launches and library calls. `regret` is how much longer the best of the model's
    favourites takes than the best of all, as a part; None where nothing was timed. `timed` counts candidates.
    """

    seconds: float | None
    again: float | None
    stages: Mapping[str, float]
    kernels: int
    calls: int
    plan: str
    estimated: float | None
    timed: int
    dropped: int
    regret: float | None
    notes: tuple[str, ...]


def compiled(case: Case, inputs: Sequence[Tensor], **options: Any) -> tuple[Compiled, Compilation]:
    """The case compiled for its inputs, twice. Raises: CleaveError."""
    first, seconds = _timed(case, inputs, options)
    report = first.report()
    again, more = _timed(case, inputs, options) if options.get("cache", True) else (None, None)
    notes = list(report.remarks)
    if again is not None and not again.report().cached:
        notes.append("compiled a second time, it did not come from the cache")
    return first, compilation(first, report, None if report.cached else seconds, more, notes)


def compilation(ready: Compiled, report: Report, seconds: float | None, again: float | None, notes: Sequence[str]) -> Compilation:
    """What there is to tell of a compiled case."""
    steps = ready.program.steps
    chosen = report.candidates[0] if report.candidates else None
    return Compilation(
        seconds,
        again,
        dict(report.seconds),
        sum(isinstance(step, Launch) for step in steps),
        sum(isinstance(step, LibraryCall) for step in steps),
        chosen.text if chosen is not None else "; ".join(ready.program.notes),
        chosen.estimated if chosen is not None else None,
        sum(entry.measured is not None for entry in report.candidates),
        report.dropped,
        regret(report),
        tuple(notes),
    )


def regret(report: Report) -> float | None:
    """
    How much longer the best of the model's favourites takes than the best of all, as a part; None where none was timed. Of what was in the
    race that decided the times in it count alone. What streams an input is left out: any of them may, which the model does not rank.
    """
    timed = [entry for entry in report.candidates if entry.measured is not None and not entry.dropped and not entry.streaming]
    favourites = sorted((entry for entry in timed if entry.rank is not None), key=lambda entry: entry.rank or 0)[:FAVOURITES]
    if not favourites:
        return None
    least, best = (
        min(entry.measured or 0.0 for entry in ([entry for entry in some if entry.last] or some)) for some in (favourites, timed)
    )
    return max(0.0, least / best - 1) if best else 0.0


def _timed(case: Case, inputs: Sequence[Tensor], options: Mapping[str, Any]) -> tuple[Compiled, float]:
    started = time.perf_counter()
    # The other contenders get the weights as they are, too.
    ready = cleave.compile(case.program, *inputs, weights=case.weights, prepare=False, **options)
    return ready, time.perf_counter() - started


@contextlib.contextmanager
def empty_cache() -> Generator[None]:
    """Compiling with a cache that starts empty, and is gone afterwards."""
    before = os.environ.get("CLEAVE_CACHE_DIR")
    with tempfile.TemporaryDirectory(prefix="cleave-bench-", ignore_cleanup_errors=True) as folder:
        os.environ["CLEAVE_CACHE_DIR"] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ["CLEAVE_CACHE_DIR"]
            else:
                os.environ["CLEAVE_CACHE_DIR"] = before
