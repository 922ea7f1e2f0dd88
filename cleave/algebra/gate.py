"""
The float gate: a rewrite may be exact in a field and bad in floats (a variance as E[x^2] - E[x]^2 with a large mean).

Original and candidate run in the dtypes they name, arithmetic in float32, against the original in float64; both with safe
exponentials, as they will run. Inputs are benign, and adversarial: a large mean, large logits, a tiny scale, many equal
values, values of one sign, zeros where a divisor may be 0 and masks be empty, tiny sizes. A candidate whose error exceeds
twice that of the original plus one unit in the last place of the result's dtype, for any kind of input, is dropped.

The error of a result is |x - exact| / max(|exact|, root mean square of exact): its largest, and its root mean square; of
every kind of input several draws are taken together. A few rounding errors differ by chance: a candidate that comes out
somewhat worse is drawn again, and dropped if it is worse in most repetitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..graph import FLOATS, Graph, misfit
from ..reference.dtypes import Array, rounded
from .probes import Probe, chunked, counted_axes, probe_graph, random_inputs, results, structured_axes
from .stabilize import stabilize

_MOST_ELEMENTS = 1 << 23
_DRAWS = 3
_MOST_DRAWS = 6
_REPETITIONS = 4
_CHANCE = 16.0
_MEDIUM = (12, 7, 16, 9)
_SMALL = (6, 4, 7, 5)
_TINY = (2, 1, 3, 1)
_UNIT = {"f16": 2.0**-10, "bf16": 2.0**-7, "f32": 2.0**-23, "f64": 2.0**-52}


@dataclass(frozen=True, slots=True)
class Gated:
    """Positions of the candidates that pass, reasons for those that do not, and positions that were too large for some kind of input."""

    kept: tuple[int, ...]
    dropped: Mapping[int, str]
    unchecked: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Kind:
    """
    A kind of input: what it is called, the sizes it is drawn at, and how a normal draw becomes one.

    With `alone`, every draw treats one of the inputs so and leaves the others normal: activations have a large mean, but not
    the weights they meet. With `bits`, truth values are treated so as well.
    """

    name: str
    sizes: tuple[int, ...]
    of: Callable[[Array, np.random.Generator], Array]
    alone: bool = False
    bits: bool = False


def _equal(x: Array, rng: np.random.Generator) -> Array:
    """All one value but for a few."""
    return np.where(rng.random(x.shape) < 0.9, np.float64(rng.normal()), x)


def _emptied(x: Array, rng: np.random.Generator) -> Array:
    """Rows of zeros along one of the axes."""
    if not x.ndim:
        return x * 0
    axis = int(rng.integers(x.ndim))
    kept = rng.random(int(x.shape[axis])) < 0.7
    return x * kept.reshape([-1 if at == axis else 1 for at in range(x.ndim)])


def _marked(x: Array, rng: np.random.Generator) -> Array:
    """Zeros and ones, and rows of zeros: a mask."""
    return _emptied((x > 0) * 1.0, rng)


KINDS = (
    Kind("benign inputs", _MEDIUM, lambda x, rng: x),
    Kind("a large mean", _MEDIUM, lambda x, rng: x + 1000, alone=True),
    Kind("large values", _MEDIUM, lambda x, rng: x * 1000, alone=True),
    Kind("a tiny scale", _MEDIUM, lambda x, rng: x * 1e-3, alone=True),
    Kind("equal values", _MEDIUM, _equal),
    Kind("positive values", _MEDIUM, lambda x, rng: np.abs(x)),
    Kind("tiny sizes", _TINY, lambda x, rng: x),
    Kind("negative values", _SMALL, lambda x, rng: -np.abs(x)),
    Kind("zeros", _SMALL, lambda x, rng: x * 0, alone=True, bits=True),
    Kind("rows of zeros", _SMALL, _emptied, bits=True),
    Kind("zeros and ones", _SMALL, _marked, alone=True, bits=True),
)


def gate(original: Graph, candidates: Sequence[Graph]) -> Gated:
    """
    Which candidates are about as accurate as the original.

    All graphs have the same inputs and results. Elements where float64 has no finite value, or the original none where
    float64 has one, say nothing. Deterministic: inputs are seeded by their kind.
    """
    keep = (*counted_axes((original, *candidates)), *(axis for graph in candidates for axis in structured_axes(graph)))
    baseline = stabilize(original)
    stable = [stabilize(candidate) for candidate in candidates]
    dropped = {index: reason for index, candidate in enumerate(candidates) if (reason := misfit(original, candidate))}
    unchecked: set[int] = set()
    for number, kind in enumerate(KINDS):
        probe = probe_graph(original, kind.sizes, keep)
        if _at(baseline, probe).elements() > _MOST_ELEMENTS:
            unchecked |= set(range(len(candidates)))
            continue
        trials = _Trials(original, baseline, probe, kind, number)
        for index, candidate in enumerate(stable):
            if index in dropped:
                continue
            if _at(candidate, probe).elements() > _MOST_ELEMENTS:
                unchecked.add(index)
            elif reason := trials.reason(candidate):
                dropped[index] = f"{reason} on {kind.name}"
    kept = tuple(index for index in range(len(candidates)) if index not in dropped)
    return Gated(kept, dropped, tuple(sorted(unchecked & set(kept))))


class _Trials:
    """The draws of one kind of input, with the exact results and those of the original; repetitions are drawn when needed."""

    def __init__(self, original: Graph, baseline: Graph, probe: Probe, kind: Kind, number: int) -> None:
        self._original, self._baseline, self._probe, self._kind, self._number = original, baseline, probe, kind, number
        self._drawn: list[tuple[list[list[Array]], list[list[Array]], list[list[Array]]]] = []

    def reason(self, candidate: Graph) -> str:
        """Why the candidate is worse than the original, or nothing."""
        reason, surely = self._worse(candidate, 0)
        if not reason or surely:
            return reason
        again = [self._worse(candidate, repetition) for repetition in range(1, _REPETITIONS + 1)]
        certain = next((text for text, surely in again if surely), "")
        return certain or (reason if 2 * sum(bool(text) for text, _ in again) > _REPETITIONS else "")

    def _worse(self, candidate: Graph, repetition: int) -> tuple[str, bool]:
        while len(self._drawn) <= repetition:
            number, count = len(self._drawn), _draws(self._original, self._kind)
            inputs = [_inputs(self._probe, self._kind, self._number, number * count + draw) for draw in range(count)]
            exact = [_exact(self._baseline, self._probe, each) for each in inputs]
            self._drawn.append((inputs, exact, [_run(self._baseline, self._probe, each) for each in inputs]))
        inputs, exact, ours = self._drawn[repetition]
        return _worse(self._original, exact, ours, [_run(candidate, self._probe, each) for each in inputs])


def _at(graph: Graph, probe: Probe) -> Probe:
    """Another graph at the sizes of a probe. Axes that the probe lacks are those of a split."""
    known = {axis.name: axis for axis in probe.graph.axes}
    symbols = {symbol.name: 2 * symbol.multiple_of for symbol in graph.symbols} | dict(probe.symbols)
    axes = chunked([known.get(axis.name, axis) for axis in graph.axes], known)
    return Probe(replace(graph, axes=axes), symbols)


def _treated(graph: Graph, kind: Kind) -> list[int]:
    """The inputs that a kind treats, or one of them at a time."""
    return [position for position, entry in enumerate(graph.inputs) if entry.dtype in FLOATS or (kind.bits and entry.dtype == "i1")]


def _draws(graph: Graph, kind: Kind) -> int:
    """How often a kind is drawn: with `alone` once for each input, within reason."""
    return min(max(_DRAWS, len(_treated(graph, kind))), _MOST_DRAWS) if kind.alone else _DRAWS


def _inputs(probe: Probe, kind: Kind, number: int, draw: int) -> list[Array]:
    rng = np.random.default_rng([number, draw])
    able = _treated(probe.graph, kind)
    treated = {able[draw % len(able)]} if kind.alone and able else set(able)
    out: list[Array] = []
    for position, value in enumerate(random_inputs(probe, rng, 1.0)):
        dtype = probe.graph.inputs[position].dtype
        if position in treated:
            value = kind.of(value, rng) if dtype != "i1" else kind.of(value * 1.0, rng) != 0
        out.append(rounded(value, dtype) if dtype in FLOATS else value)
    return out


def _run(graph: Graph, probe: Probe, inputs: Sequence[Array]) -> list[Array]:
    values = results(_at(graph, probe), inputs, np.float32, respect_dtypes=True)
    return [rounded(value, output.dtype) for value, output in zip(values, graph.outputs, strict=True)]


def _exact(baseline: Graph, probe: Probe, inputs: Sequence[Array]) -> list[Array]:
    """float64: as written, and with safe exponentials where that overflows."""
    written = results(probe, inputs, np.float64)
    safe = results(_at(baseline, probe), inputs, np.float64)
    return [np.where(np.isfinite(a), a, b) for a, b in zip(written, safe, strict=True)]


def _worse(original: Graph, exact: list[list[Array]], ours: list[list[Array]], theirs: list[list[Array]]) -> tuple[str, bool]:
    """Why the candidate's results are worse than the original's over some draws, or nothing; and whether by more than chance."""
    for index, output in enumerate(original.outputs):
        mine: list[Array] = []
        other: list[Array] = []
        for right, ref, got in zip((e[index] for e in exact), (o[index] for o in ours), (t[index] for t in theirs), strict=True):
            sound = np.isfinite(right) & np.isfinite(ref)
            if not np.isfinite(got[sound]).all():
                return f"result {index} is not finite", True
            scale = np.maximum(np.abs(right[sound]), _size(right))
            mine.append(np.abs(ref[sound] - right[sound]) / scale)
            other.append(np.abs(got[sound] - right[sound]) / scale)
        unit = _UNIT.get(output.dtype, 0.0)
        for measure, name in ((_largest, "largest"), (_root_mean_square, "mean square")):
            error, before = measure(other), measure(mine)
            if error > 2 * before + unit:
                reason = f"result {index} has a {name} error of {error:.2g}, the original {before:.2g},"
                return reason, error > _CHANCE * (before + unit)
    return "", False


def _size(exact: Array) -> float:
    """The root mean square of what is finite; 1 where all is 0."""
    finite = exact[np.isfinite(exact)]
    top = float(np.max(np.abs(finite), initial=0.0))
    return top * float(np.sqrt(np.mean((finite / top) ** 2))) if top else 1.0


def _largest(errors: list[Array]) -> float:
    return max((float(error.max()) for error in errors if error.size), default=0.0)


def _root_mean_square(errors: list[Array]) -> float:
    joined = np.concatenate(errors) if errors else np.zeros(0)
    return float(np.sqrt(np.mean(joined**2))) if joined.size else 0.0
