"""How long the stages of a compilation take."""

from __future__ import annotations

import time


class Laps:
    """Seconds by stage, of which `laps(name)` ends one; a stage may have several parts."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def __call__(self, name: str) -> None:
        """Ends a part of a stage, which began where the last ended."""
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._last
        self._last = now
