"""
Several schedules of one program behind one call: each is made for its own sizes, and a call takes the one predicted fastest for its.

The prediction is the cost model's at the sizes of the call, corrected by what the schedules took where that was measured: all of them
at and between the sizes that any was made for (`cleave.timings`). Numbers of chunks are chosen with it. Calls ask once for each
combination of sizes.

A symbol that was 1 where a schedule was made is a constant in it, unless it counts what is computed apart, as the entries of a batch:

    q [b, m, d], k [b, n, d], v [b, n, e]  made for b = 1, m = 1, n = 4096    ->    for any b and n, and m = 1 alone

One row needs no strides, divisions and masks of rows. The search is done with it, too: what is reduced over one key stays as it was.
Of any sizes there is a schedule without such constants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log, log2

from .graph import Graph
from .layouts import layout_axes
from .runtime import tuner
from .runtime.binary import Binary
from .schedule import Prediction
from .schedule.program import Program
from .targets.triton_python import TritonFile

FARTHEST = 1.5
"""How much slower than the fastest a variant may be predicted and yet be tried with fewer chunks."""

NEAREST = 0.1
"""Added to squared distances between sizes, so that what was measured at the sizes of a call counts much, but not all."""


@dataclass(frozen=True, slots=True)
class Timing:
    """What a variant took at a point, values of the symbols, and what the model had estimated; in seconds."""

    point: Mapping[str, int]
    measured: float
    estimated: float

    @property
    def where(self) -> tuple[tuple[str, int], ...]:
        """The point, to be compared with others."""
        return tuple(sorted(self.point.items()))

    def __str__(self) -> str:
        return f"{self.measured * 1e6:.2f} us (estimated {self.estimated * 1e6:.2f}) at {spelled(self.point)}"


@dataclass(frozen=True, slots=True)
class Variant:
    """
    One schedule: the program with its code, the run-time sizes it was made for, and what became of the candidates. `texts` are those of
    the levels below the algebra. `fixed` are the symbols that are constants in it, and `times` what was measured for the choice between
    variants.
    """

    program: Program
    file: TritonFile
    binaries: Mapping[str, Binary]
    texts: Mapping[str, str]
    point: Mapping[str, int]
    prediction: Prediction
    candidates: tuple[tuner.Entry, ...]
    remarks: tuple[str, ...]
    fixed: Mapping[str, int] = field(default_factory=dict[str, int])
    times: tuple[Timing, ...] = ()

    @property
    def spelled(self) -> str:
        """The sizes it was made for, for people."""
        return spelled(self.point, self.fixed)

    def takes(self, symbols: Mapping[str, int]) -> bool:
        """Whether it computes calls of these sizes."""
        return all(symbols[name] == value for name, value in self.fixed.items())

    def corrected(self, seconds: float, symbols: Mapping[str, int], points: frozenset[tuple[tuple[str, int], ...]]) -> float:
        """
        The model's estimate at these values of the symbols, by how much those at the points were off.

        That is a factor, the geometric mean over the points by the inverse fourth powers of their distances: in each size how often it
        doubles from one to the other. With lower powers far points, which are many, would outweigh the near ones.
        """
        total = weights = 0.0
        for timing in self.times:
            if timing.where in points:
                square = sum(log2((symbols[name] + 1) / (value + 1)) ** 2 for name, value in timing.point.items())
                weight = (NEAREST + square) ** -2
                total += weight * log(timing.measured / timing.estimated)
                weights += weight
        return seconds * exp(total / weights) if weights else seconds


def spelled(point: Mapping[str, int], fixed: Mapping[str, int] | None = None) -> str:
    """Values of symbols, for people."""
    return ", ".join(f"{name} = {value}{' (fixed)' if name in (fixed or {}) else ''}" for name, value in point.items())


def ones(graph: Graph, point: Mapping[str, int]) -> dict[str, int]:
    """
    The symbols that are 1 at a point and worth being constants: all but those that each tensor with axes among inputs and results has
    an axis of, whose elements are computed apart anyway.
    """
    tensors = [axes for entry in graph.inputs if (axes := entry.axes)]
    tensors += [axes for output in graph.outputs if (axes := layout_axes(output.layout))]
    out: dict[str, int] = {}
    for symbol in graph.symbols:
        apart = all(any(symbol.name in graph.axis(name).extent.symbols for name in axes) for axes in tensors)
        if point.get(symbol.name) == 1 and symbol.multiple_of == 1 and not apart:
            out[symbol.name] = 1
    return out


def distinct(variants: Sequence[Variant]) -> tuple[Variant, ...]:
    """The variants without those whose program an earlier one has that takes the same calls."""
    first: dict[object, Variant] = {}
    for variant in variants:
        first.setdefault((variant.texts["sched"], tuple(sorted(variant.fixed.items()))), variant)
    return tuple(first.values())


def fastest(variants: Sequence[Variant], symbols: Mapping[str, int]) -> tuple[int, dict[str, int]]:
    """
    The position of the variant predicted fastest at these sizes, and the numbers of chunks to call it with; of equals one with more
    constants, then the first.

    Variants are compared by what was measured where all of them were that were timed at all: an error that the model makes for all of
    them must not count for some. Fewer chunks than the program would have are tried where that may change which is fastest.
    """
    able = [place for place, variant in enumerate(variants) if variant.takes(symbols)]
    assert able, "some variant takes calls of any sizes"
    if len(able) == 1 and not variants[able[0]].prediction.counts:
        return able[0], {}
    timed = [frozenset(timing.where for timing in variants[place].times) for place in able if variants[place].times]
    points = frozenset[tuple[tuple[str, int], ...]].intersection(*timed) if timed else frozenset[tuple[tuple[str, int], ...]]()
    rough = {place: variants[place].corrected(variants[place].prediction.seconds(symbols), symbols, points) for place in able}
    found: list[tuple[float, int, int, dict[str, int]]] = []
    for place, seconds in rough.items():
        variant = variants[place]
        counts: dict[str, int] = {}
        if variant.prediction.counts and seconds <= FARTHEST * min(rough.values()):
            estimate, counts = variant.prediction.fewer(symbols)
            seconds = variant.corrected(estimate, symbols, points)
        found.append((seconds, -len(variant.fixed), place, counts))
    _, _, place, counts = min(found, key=lambda entry: entry[:3])
    return place, counts
