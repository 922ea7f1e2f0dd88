"""
What every variant of a program takes at the sizes that any of them was made for and between these, so that calls choose between them by
measured times.

The model mistakes some schedules more than others. A schedule is tuned at its own sizes alone; how it compares with others elsewhere is
measured here, which takes a moment beside tuning. Variants that take different calls, as one for one row and one for one key, are
compared where both may be called.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import isfinite, prod, sqrt
from typing import Protocol

from .remarks import remark
from .runtime.build import Built
from .runtime.clock import Clock, Hung, Workload
from .runtime.connection import Gone
from .runtime.progress import Progress
from .variants import Timing, Variant, spelled

ROUNDS = 7
"""How often each variant is run at each point."""

SECONDS = 15.0
"""The time after which no further point is measured, nor a further round of one."""

MOST_POINTS = 81
"""How many combinations of sizes are compared at most beside those that variants were made for."""


def crossed(points: Sequence[Mapping[str, int]], multiples: Mapping[str, int]) -> list[dict[str, int]]:
    """
    Combinations of the least, the middle and the largest value that points give a symbol, those of the points left out; without the middle
    ones, or none, where there would be more than `MOST_POINTS`.

    The middle is the geometric one, as a multiple of the number that divides all values of the symbol.
    """
    given: dict[str, list[int]] = {}
    for point in points:
        for name, value in point.items():
            given.setdefault(name, []).append(value)
    ends = [(min(values), max(values)) for values in given.values()]
    levels = [
        sorted({least, max(least, round(sqrt(least * most) / step) * step), most})
        for (least, most), step in zip(ends, (multiples.get(name, 1) for name in given), strict=True)
    ]
    fewer = [sorted(set(pair)) for pair in ends]
    chosen = next((tried for tried in (levels, fewer) if prod(map(len, tried)) <= MOST_POINTS), None)
    combined = [dict(zip(given, values, strict=True)) for values in product(*chosen)] if chosen else []
    return [point for point in combined if point not in points]


class Clocks(Clock, Protocol):
    """A clock whose programs may be run on other sizes: `cleave.runtime.clock.GpuClock`."""

    @property
    def workload(self) -> Workload | None:
        """What programs run on."""
        ...

    @workload.setter
    def workload(self, workload: Workload) -> None: ...


def timed(
    variants: Sequence[Variant],
    workloads: Sequence[Workload],
    clock: Clocks,
    seconds: float = SECONDS,
    now: Callable[[], float] = time.monotonic,
) -> list[Variant]:
    """
    The variants with their times on each of the workloads that they take, equal ones once.

    One that fails, hangs, or does not fit by the model has no time there; the former is remarked, as are workloads for which no time is
    left. All that run on a workload run in turn.
    """
    start = now()
    progress = Progress()
    found: list[list[Timing]] = [[] for _ in variants]
    points = list({tuple(sorted(workload.symbols.items())): workload for workload in workloads}.values())
    for number, workload in enumerate(points):
        if now() - start > seconds:
            remark(f"variants were compared at {number} of {len(points)} sizes: that took {seconds:.0f} s")
            break
        symbols = workload.symbols
        clock.workload = workload
        progress.show(f"comparing {len(variants)} variants at {spelled(symbols)}", seconds - (now() - start))
        samples: dict[int, list[float]] = {}
        unknown = ""
        for place, variant in enumerate(variants):
            if variant.takes(symbols) and isfinite(variant.prediction.seconds(symbols)):
                checked = clock.prepare(place, Built(variant.file, variant.binaries))
                unknown = unknown or checked.unknown
                if checked.failure:
                    _failed(variant, workload, str(checked.failure))
                else:
                    samples[place] = []
        if unknown:
            remark(f"what is right is not known at {spelled(symbols)}, variants were compared with the first that ran: {unknown}")
        for _ in range(ROUNDS):
            _sample(clock, samples, variants, workload)
            if now() - start > seconds:
                break
        for place, measured in samples.items():
            estimated = variants[place].prediction.seconds(symbols)
            found[place].append(Timing(dict(symbols), statistics.median(measured), estimated))
    progress.done()
    return [replace(variant, times=tuple(times)) for variant, times in zip(variants, found, strict=True)]


def _sample(clock: Clocks, samples: dict[int, list[float]], variants: Sequence[Variant], workload: Workload) -> None:
    """Runs each once more; one that hangs is left out."""
    while samples:
        try:
            for place, seconds in zip(samples, clock.sample(list(samples)), strict=True):
                samples[place].append(seconds)
            return
        except Hung as error:
            _failed(variants[error.number], workload, str(error))
            del samples[error.number]
        except Gone as error:
            for place in samples:
                _failed(variants[place], workload, str(error))
            samples.clear()


def _failed(variant: Variant, workload: Workload, why: str) -> None:
    remark(f"the variant for {variant.spelled} was not timed at {spelled(workload.symbols)}: {why}")
