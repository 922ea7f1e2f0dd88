"""Why a candidate is out: of what kind that is, which decisions are taken by, and the words that tell a person."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """Of kernels, then of programs that are run."""

    UNCOMPILED = "does not compile"
    MISFIT = "does not fit"
    SPILLS = "spills"
    LATE = "not compiled in time"
    CODE = "the assembler's code is wrong"

    WRONG = "a wrong result"
    """It ran."""
    MEMORY = "out of memory"
    UNMADE = "there are no inputs to run it on"
    """No program is to blame."""
    FATAL = "fatal"
    """Nothing else runs in that process."""
    FAILED = "failed"
    """Anything else, as where it hung."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure and what is told of it, in a line."""

    kind: Kind
    text: str

    def __str__(self) -> str:
        return self.text


LATE = Failure(Kind.LATE, Kind.LATE.value)
NO_MEMORY = Failure(Kind.MEMORY, Kind.MEMORY.value)
"""What could not be run for want of memory."""
