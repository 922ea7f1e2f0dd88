"""Numerical confirmation that results do not depend on free shifts: at small sizes, in float64, under unrelated random shifts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..graph import Graph
from ..reference import Call
from ..reference.dtypes import Array
from .probes import SMALL, Probe, probe_graph, random_inputs, results

_SIZES = (SMALL, (2, 1, 3, 1))
_MOST_ELEMENTS = 1 << 22
_TOLERANCE = 1e-7
"""Relative, to values of at least 0.01. The sums are short and the shifts below 8 in size: float64 keeps ten digits."""


def independence_error(original: Graph, shifted: Graph) -> str | None:
    """
    What is wrong with a shifted graph, "" for nothing, None where that cannot be told: of a graph too large to evaluate even at the least
    sizes, or whose sizes do not fit each other as probed.

    The graphs have the same inputs, results and axes. Where the original gives NaN or infinity anything is right.
    """
    probe = next((probe for sizes in _SIZES if (probe := probe_graph(original, sizes)).elements() <= _MOST_ELEMENTS), None)
    if probe is None:
        return None
    rng = np.random.default_rng(20261)
    inputs = random_inputs(probe, rng)
    try:
        expected = results(probe, inputs, np.float64)
    except ValueError:
        return None

    def moved(call: Call, maxima: Array) -> Array:
        return rng.uniform(-8, 8, maxima.shape)

    candidate = Probe(replace(shifted, axes=probe.graph.axes), probe.symbols)
    for _ in range(2):
        found = results(candidate, inputs, np.float64, shift=moved)
        for index, (value, wanted) in enumerate(zip(found, expected, strict=True)):
            sound = np.isfinite(wanted)
            room = _TOLERANCE * (np.abs(wanted) + 1e-2 * np.max(np.abs(wanted), where=sound, initial=1))
            if not np.all(np.abs(value[sound] - wanted[sound]) <= room[sound]):
                return f"result {index} depends on a shift"
    return ""
