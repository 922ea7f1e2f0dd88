"""A line on a terminal that says what is going on; elsewhere nothing."""

from __future__ import annotations

import shutil
import sys
import time
from dataclasses import dataclass, field
from typing import TextIO

INTERVAL = 0.1


@dataclass(slots=True)
class Progress:
    """
    One line that is written over. `stream` is standard error where it is not given.

    Nothing is shown before `patience` seconds, nor where the stream is not a terminal.
    """

    title: str = "tuning"
    stream: TextIO = field(default_factory=lambda: sys.stderr)
    patience: float = 1.0
    _started: float = field(default_factory=time.monotonic)
    _last: float = 0.0
    _shown: bool = False

    def show(self, text: str, left: float | None = None) -> None:
        """Says what is done, and that it takes `left` seconds more at most, or where that is not known how long it has taken."""
        now = time.monotonic()
        if not self.stream.isatty() or now - self._started < self.patience or now - self._last < INTERVAL:
            return
        self._last = now
        self._shown = True
        width = shutil.get_terminal_size().columns - 1
        seconds = f"{now - self._started:.0f} s" if left is None else f"at most {max(0, round(left))} s left"
        line = f"{self.title}: {text}, {seconds}"
        self.stream.write(f"\r\033[K{line[:width]}")
        self.stream.flush()

    def done(self) -> None:
        """Clears the line."""
        if self._shown:
            self.stream.write("\r\033[K")
            self.stream.flush()
            self._shown = False
