"""The one exception for mistakes in a user's program. Cleave's own broken promises are assertions instead."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from xdsl.ir import Operation

Place: TypeAlias = "Operation | str | None"
"""Where a mistake is: an operation with its location, a text `file:line:col`, or None where that is unknown."""


class CleaveError(Exception):
    """
    A mistake in a program, said in one line: `file:line:col: error: op: what was found; what to do`.

    Of a `place` that is an operation, location and name are used; elsewhere `op` gives the name, where there is one.
    """

    def __init__(self, place: Place, found: str, advice: str = "", op: str = "") -> None:
        self.place = place if isinstance(place, str) else "" if place is None else place_of(place)
        self.op = op or ("" if place is None or isinstance(place, str) else place.name)
        self.found = found
        self.advice = advice
        super().__init__(str(self))

    def __reduce__(self) -> tuple[type[CleaveError], tuple[str, str, str, str]]:
        return type(self), (self.place, self.found, self.advice, self.op)

    def __str__(self) -> str:
        text = "; ".join(part for part in (self.found, self.advice) if part)
        return " ".join(": ".join(part for part in (self.place, "error", self.op, text) if part).split())


def internal_error(place: Place, error: Exception, op: str = "") -> CleaveError:
    """What a bug of Cleave's met at a place of a program, in one line with the place in the code."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    found = f"internal error, {type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})"
    return CleaveError(place, found, "please report it", op=op)


def place_of(op: Operation) -> str:
    """The `file:line:col` an operation was read from, or the nearest operation around it that has one; else empty."""
    from xdsl.dialects.builtin import FileLineColLoc

    at: Operation | None = op
    while at is not None:
        if isinstance(at.location, FileLineColLoc):
            return f"{at.location.filename.data}:{at.location.line.data}:{at.location.column.data}"
        at = at.parent_op()
    return ""
