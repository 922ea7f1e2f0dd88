"""What enumeration may spend: operations tried, and seconds; and what was left out, said once each."""

from __future__ import annotations

import time

MOST_TRIED = 300_000
"""Operations tried; beyond, nothing more is, which is said."""
TRYING = 0.75
"""The share of the seconds in which operations may be tried; the rest is for the programs along what was found."""


class Effort:
    """Counts what was tried. `spent` says that nothing more may be, `caps` what was left out."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.started = time.monotonic()
        self.tried = 0
        self.spent = False
        self.caps: list[str] = []

    def late(self, share: float = 1.0) -> bool:
        """Whether a share of the seconds is over."""
        return time.monotonic() - self.started > self.seconds * share

    def exhausted(self) -> bool:
        """Whether nothing more may be tried; notes why."""
        if not self.spent and self.tried >= MOST_TRIED:
            self.spent = True
            self.cap(f"stopped after {self.tried} operations")
        elif not self.spent and self.late(TRYING):
            self.spent = True
            self.cap(f"trying stopped after {self.tried} operations, as most of the {self.seconds:g} s were over")
        return self.spent

    def cap(self, text: str) -> None:
        """Notes what was left out, once."""
        if text not in self.caps:
            self.caps.append(text)
