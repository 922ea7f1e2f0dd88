"""A picture of rows: every contender's time beside the floor."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .results import GRAPH, OURS, Row
from .timing import FLUSHES

MARKS = "osDv^<>PX*"


def missing() -> str:
    """Why nothing can be drawn, empty where it can."""
    try:
        importlib.import_module("matplotlib")
    except ImportError:
        return "drawing needs matplotlib, which is not installed; it is in the extra 'gpu-bench'"
    return ""


def draw(rows: Sequence[Row], path: Path) -> None:
    """
    Writes a PNG: a line for each row, times on a logarithmic axis, the floor as a bar. Only right results are shown.

    Raises: ImportError where `missing`, OSError.
    """
    matplotlib: Any = importlib.import_module("matplotlib")
    matplotlib.use("Agg")
    pyplot: Any = importlib.import_module("matplotlib.pyplot")
    figure, axes = pyplot.subplots(figsize=(10, 1.5 + 0.25 * len(rows)))
    places = range(len(rows), 0, -1)
    floors = [float(row.facts.get("floor_ms", 0.0)) * 1e3 for row in rows]
    axes.plot(floors, list(places), "k|", markersize=12, label="floor")
    names = list(dict.fromkeys(name for row in rows for name in (OURS, *row.existing)))
    for number, name in enumerate(names):
        points = [(time * 1e3, place) for row, place in zip(rows, places, strict=True) if (time := row.time(name, GRAPH, FLUSHES[0]))]
        if points:
            across, up = zip(*points, strict=True)
            filled = {} if name == OURS else {"markerfacecolor": "none"}
            axes.plot(across, up, MARKS[number % len(MARKS)], label=name, **filled)
    axes.set_xscale("log")
    axes.set_yticks(list(places), [row.case for row in rows])
    axes.set_xlabel(f"us, graph replays, L2 flushed by {FLUSHES[0]}")
    axes.grid(axis="x", which="both", alpha=0.2)
    axes.legend(loc="best", fontsize="small")
    figure.savefig(path, format="png", dpi=120, bbox_inches="tight")
    pyplot.close(figure)
