"""
What was measured, a row for each case, as plain values that are kept as JSON.

A file has the rows of one run; rows of several files are merged, the newest of each winning.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, cast

from ..files import replace
from .timing import FLUSHES

OURS = "cleave"
GRAPH, PLAIN = "graph", "plain"
"""How calls are timed: as replays of a CUDA graph, or as they are."""


LATER = ("code", "seconds")
"""What rows of earlier versions lack."""


@dataclass
class Row:
    """
    One case. `milliseconds` and `processor_microseconds` are by contender, the former by way of calling and flush first (`graph, writes`);
    `errors` are relative ones by contender; `failed` says why a contender is missing or wrong. `existing` are those that count as best
    existing. `compilation` has the fields of `compiling.Compilation`. `at` is the time in UTC, `machine` what it was measured on, `code`
    what measured; `seconds` is what measuring took, by stage and contender. Plain calls are not timed of contenders far behind.
    """

    command: str
    case: str
    dtype: str
    facts: dict[str, Any]
    at: str
    machine: str
    existing: list[str] = field(default_factory=list[str])
    milliseconds: dict[str, dict[str, float]] = field(default_factory=dict[str, dict[str, float]])
    processor_microseconds: dict[str, float] = field(default_factory=dict[str, float])
    errors: dict[str, float] = field(default_factory=dict[str, float])
    failed: dict[str, str] = field(default_factory=dict[str, str])
    compilation: dict[str, Any] = field(default_factory=dict[str, Any])
    code: str = ""
    seconds: dict[str, float] = field(default_factory=dict[str, float])

    @property
    def key(self) -> tuple[str, str, str]:
        """What the row is about."""
        return self.command, self.case, self.dtype

    @property
    def right(self) -> bool:
        """Whether Cleave's result is there and right."""
        return OURS not in self.failed and OURS in self.errors

    @property
    def whole(self) -> bool:
        """Whether every result of Cleave is there and right: also those of contenders that are none of the existing."""
        return self.right and self.failed.keys() <= set(self.existing)

    def time(self, name: str, kind: str, flush: str) -> float | None:
        """Milliseconds of a contender, None where it is missing or wrong."""
        return None if name in self.failed else self.milliseconds.get(f"{kind}, {flush}", {}).get(name)

    def best(self, kind: str, flush: str) -> tuple[str, float] | None:
        """The fastest existing contender whose result is right."""
        times = [(value, name) for name in self.existing if (value := self.time(name, kind, flush)) is not None]
        return (min(times)[1], min(times)[0]) if times else None

    def ratio(self, kind: str, flush: str, own: str = OURS, other: str = "") -> float | None:
        """
        The best existing time, or that of the `other` contender, over Cleave's, or that of the contender `own`; None where the latter's
        result is wrong or missing.
        """
        best = self.best(kind, flush)
        wanted = self.time(other, kind, flush) if other else None if best is None else best[1]
        time = self.time(own, kind, flush) if own in self.errors else None
        return wanted / time if wanted is not None and time else None

    def lower(self, kind: str = GRAPH, own: str = OURS, other: str = "") -> float | None:
        """The lower of the ratios of both flushes, which counts; None without either."""
        ratios = [self.ratio(kind, flush, own, other) for flush in FLUSHES]
        return None if None in ratios else min(value for value in ratios if value is not None)

    def as_json(self) -> dict[str, Any]:
        """Plain values, the ratios among them."""
        return {**asdict(self), "ratio": self.lower(), "plain ratio": self.lower(PLAIN)}


def write(path: Path, rows: Sequence[Row]) -> None:
    """Keeps rows, all or none of them. Raises: OSError."""
    replace(path, (json.dumps({"rows": [row.as_json() for row in rows]}, indent=1) + "\n").encode())


def read(path: Path) -> list[Row]:
    """The rows of a file. Raises: ValueError with the file's name where it has none, OSError."""
    try:
        rows = json.loads(path.read_bytes())["rows"]
        return [_row(cast(Mapping[str, Any], row)) for row in rows]
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from error
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: not a file of results: {type(error).__name__}: {error}") from error


def _row(values: Mapping[str, Any]) -> Row:
    row = Row(**{entry.name: values[entry.name] for entry in fields(Row) if entry.name not in LATER or entry.name in values})
    for entry in fields(Row):
        wanted = list if entry.name == "existing" else str if entry.type == "str" else dict
        if not isinstance(getattr(row, entry.name), wanted):
            raise ValueError(f"'{entry.name}' is not a {wanted.__name__}")
    for name in ("processor_microseconds", "errors", "seconds"):
        _numbers(name, getattr(row, name))
    for name, times in row.milliseconds.items():
        _numbers(f"milliseconds of {name}", times)
    for name, wanted in (("facts", ("size", "floor_ms", "share")), ("compilation", ("seconds", "again", "regret"))):
        _numbers(name, {key: value for key, value in getattr(row, name).items() if key in wanted and value is not None})
    return row


def _numbers(name: str, values: object) -> None:
    """Raises: ValueError for anything but numbers by name."""
    entries = cast(Mapping[str, object], values) if isinstance(values, dict) else None
    if entries is None or any(isinstance(value, bool) or not isinstance(value, int | float) for value in entries.values()):
        raise ValueError(f"'{name}' has something that is no number")


def merged(groups: Iterable[Iterable[Row]]) -> list[Row]:
    """The newest row of every case, in the order in which cases appear first."""
    out: dict[tuple[str, str, str], Row] = {}
    for row in (row for group in groups for row in group):
        known = out.get(row.key)
        if known is None or row.at >= known.at:
            out[row.key] = row
    return list(out.values())


def geometric_mean(values: Sequence[float]) -> float | None:
    """Of positive numbers; None of none."""
    product = 1.0
    for value in values:
        product *= value ** (1 / len(values))
    return product if values else None
