"""Numerical confirmation that results do not depend on free shifts: at small sizes, in float64, under unrelated random shifts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..graph import Graph
from ..reference import Call, evaluate
from ..reference.dtypes import Array
from .probes import probe_graph, random_inputs

_MOST_ELEMENTS = 1 << 22
_TOLERANCE = 1e-7
"""Relative, to values of at least 0.01. The sums are short and the shifts below 8 in size: float64 keeps ten digits."""


def independence_error(original: Graph, shifted: Graph) -> str:
    """
    What is wrong with a shifted graph, or nothing.

    The graphs have the same inputs, results and axes. Where the original gives NaN or infinity anything is right. A graph
    too large to evaluate, or whose sizes do not fit each other as probed, is left to the degrees.
    """
    probe = probe_graph(original)
    if probe.elements() > _MOST_ELEMENTS:
        return ""
    rng = np.random.default_rng(20261)
    inputs = random_inputs(probe, rng)
    try:
        expected = _evaluated(probe.graph, inputs, probe.symbols, None)
    except (ValueError, KeyError, ZeroDivisionError):
        return ""
    candidate = replace(shifted, axes=probe.graph.axes)
    for _ in range(2):
        found = _evaluated(candidate, inputs, probe.symbols, rng)
        for index, (value, wanted) in enumerate(zip(found, expected, strict=True)):
            if value.shape != wanted.shape:
                return f"result {index} has shape {value.shape} with shifts and {wanted.shape} without"
            sound = np.isfinite(wanted)
            room = _TOLERANCE * (np.abs(wanted) + 1e-2 * np.max(np.abs(wanted), where=sound, initial=1))
            if not np.all(np.abs(value[sound] - wanted[sound]) <= room[sound]):
                return f"result {index} depends on a shift"
    return ""


def _evaluated(graph: Graph, inputs: list[Array], symbols: Mapping[str, int], rng: np.random.Generator | None) -> list[Any]:
    def moved(call: Call, maxima: Array) -> Array:
        assert rng is not None
        return rng.uniform(-8, 8, maxima.shape)

    hook = None if rng is None else moved
    return [np.asarray(value, dtype=np.float64) for value in evaluate(graph, inputs, symbols, shift=hook)]
