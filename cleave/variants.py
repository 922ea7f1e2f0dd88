"""
Several schedules of one program behind one call: each is made for its own sizes, and a call takes the one predicted fastest for its.

The prediction is the cost model's at the sizes of the call, scaled by what the schedule took at its own sizes where that was
measured. Numbers of chunks are chosen with it. Calls ask once for each combination of sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .runtime import tuner
from .runtime.binary import Binary
from .schedule import Prediction
from .schedule.program import Program
from .targets.triton_python import TritonFile


LEAST_SCALE = 0.2
"""The least that a measured time may be of the estimate, both without launches, for other estimates to be scaled by it."""


@dataclass(frozen=True, slots=True)
class Variant:
    """
    One schedule: the program with its code, the run-time sizes it was made for, and what became of the candidates. `texts` are those of
    the levels below the algebra.
    """

    program: Program
    file: TritonFile
    binaries: Mapping[str, Binary]
    texts: Mapping[str, str]
    point: Mapping[str, int]
    prediction: Prediction
    candidates: tuple[tuner.Entry, ...]
    remarks: tuple[str, ...]

    @property
    def spelled(self) -> str:
        """The sizes it was made for, for people."""
        return ", ".join(f"{name} = {value}" for name, value in self.point.items())

    def predicted(self, symbols: Mapping[str, int]) -> tuple[float, dict[str, int]]:
        """What a call at these sizes is predicted to take, and the numbers of chunks that it should be made with."""
        seconds, counts = self.prediction.best(symbols)
        measured = self.candidates[0].measured if self.candidates else None
        if measured is not None:
            # What launches cost is known well, and is most of the time of small sizes: only the rest may be off by a factor.
            floor = self.prediction.floor
            scale = max(LEAST_SCALE, (measured - floor) / (self.prediction.seconds(self.point) - floor))
            seconds = floor + scale * (seconds - floor)
        return seconds, counts


def distinct(variants: Sequence[Variant]) -> tuple[Variant, ...]:
    """The variants without those whose program an earlier one has."""
    first: dict[str, Variant] = {}
    for variant in variants:
        first.setdefault(variant.texts["sched"], variant)
    return tuple(first.values())


def fastest(variants: Sequence[Variant], symbols: Mapping[str, int]) -> tuple[int, dict[str, int]]:
    """The position of the variant predicted fastest at these sizes, the first of equals, and the numbers of chunks to call it with."""
    if len(variants) == 1 and not variants[0].prediction.counts:
        return 0, {}
    predicted = [variant.predicted(symbols) for variant in variants]
    place = min(range(len(variants)), key=lambda at: predicted[at][0])
    return place, predicted[place][1]
