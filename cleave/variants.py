"""
Several schedules of one program behind one call: each is made for its own sizes, and a call takes the one predicted fastest for its.

The prediction is the cost model's at the sizes of the call, corrected by what the schedule took at its own sizes where that was
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

FARTHEST = 1.5
"""How much slower than the fastest a variant may be predicted and yet be tried with fewer chunks."""


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

    def corrected(self, seconds: float) -> float:
        """
        An estimate for other sizes, by how much that for its own was off, where that was measured.

        This is taken for a factor as far as the time there was work, and for a constant as far as it was launches: what was measured at a
        tiny size says nothing of how fast work is done.
        """
        measured = self.candidates[0].measured if self.candidates else None
        if measured is None:
            return seconds
        own = self.prediction.seconds(self.point)
        work = max(0.0, 1.0 - self.prediction.floor / measured)
        return seconds + (measured - own) * (work * seconds / own + 1.0 - work)


def distinct(variants: Sequence[Variant]) -> tuple[Variant, ...]:
    """The variants without those whose program an earlier one has."""
    first: dict[str, Variant] = {}
    for variant in variants:
        first.setdefault(variant.texts["sched"], variant)
    return tuple(first.values())


def fastest(variants: Sequence[Variant], symbols: Mapping[str, int]) -> tuple[int, dict[str, int]]:
    """
    The position of the variant predicted fastest at these sizes, the first of equals, and the numbers of chunks to call it with.

    Fewer chunks than the program would have are tried where that may change which is fastest.
    """
    if len(variants) == 1 and not variants[0].prediction.counts:
        return 0, {}
    rough = [variant.corrected(variant.prediction.seconds(symbols)) for variant in variants]
    found: list[tuple[float, int, dict[str, int]]] = []
    for place, (variant, seconds) in enumerate(zip(variants, rough, strict=True)):
        counts: dict[str, int] = {}
        if variant.prediction.counts and seconds <= FARTHEST * min(rough):
            estimate, counts = variant.prediction.fewer(symbols)
            seconds = variant.corrected(estimate)
        found.append((seconds, place, counts))
    _, place, counts = min(found, key=lambda entry: entry[:2])
    return place, counts
