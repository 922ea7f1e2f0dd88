"""How much the rules make of one form, and how often that was less than all."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

PART_LIMIT = 6
"""Products and sums of up to this many members are taken apart in every way."""
TERM_LIMIT = 12
"""The longest sum that distribution makes."""


class Limits:
    """Counts by name what was left out, in `hits`."""

    def __init__(self) -> None:
        self.hits: dict[str, int] = {}

    def _hit(self, name: str) -> None:
        self.hits[name] = self.hits.get(name, 0) + 1

    def too_long(self, terms: int) -> bool:
        """Whether distribution would make a sum of too many terms, which is counted."""
        if terms > TERM_LIMIT:
            self._hit("terms")
        return terms > TERM_LIMIT

    def parts(self, members: tuple[tuple[int, Fraction], ...]) -> list[tuple[tuple[int, Fraction], ...]]:
        """The parts of a product or sum; of one with more members than are taken apart only what one or two are, and the rest."""
        count = len(members)
        if count <= PART_LIMIT:
            return [part for size in range(1, count) for part in combinations(members, size)]
        self._hit("parts")
        small = [part for size in (1, 2) for part in combinations(members, size)]
        return small + [tuple(m for m in members if m not in part) for part in small]
