"""
Several schedules of one program behind one call: each is made for its own sizes, and a call takes the one predicted fastest for its.

The prediction is the cost model's at the sizes of the call, scaled by what the schedule took at its own sizes where that was
measured. Calls ask once for each combination of sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .runtime import tuner
from .runtime.binary import Binary
from .schedule import Prediction
from .schedule.program import Program
from .targets.triton_python import TritonFile


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

    def seconds(self, symbols: Mapping[str, int]) -> float:
        """What a call at these sizes is predicted to take."""
        measured = self.candidates[0].measured if self.candidates else None
        scale = measured / self.prediction.seconds(self.point) if measured is not None else 1.0
        return scale * self.prediction.seconds(symbols)


def distinct(variants: Sequence[Variant]) -> tuple[Variant, ...]:
    """The variants without those whose program an earlier one has."""
    first: dict[str, Variant] = {}
    for variant in variants:
        first.setdefault(variant.texts["sched"], variant)
    return tuple(first.values())


def fastest(variants: Sequence[Variant], symbols: Mapping[str, int]) -> int:
    """The position of the variant predicted fastest at these sizes, the first of equals."""
    if len(variants) == 1:
        return 0
    seconds = [variant.seconds(symbols) for variant in variants]
    return seconds.index(min(seconds))
