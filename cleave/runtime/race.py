"""
Which of several programs is fastest, in as few runs as that takes.

Programs are run one after another, round after round, each round from another one on, so that what changes the clock of a GPU changes
all alike. Those that are clearly behind drop out; it ends when one is left, when those left cannot be told apart, or when time is up.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

LEAST = 3
MOST = 30
SETTLED = 15
MARGINS = ((3, 0.25), (5, 0.12), (8, 0.06), (12, 0.03), (20, 0.015))
"""After so many rounds, how far behind the leader a program may be to stay in the race."""


@dataclass(slots=True)
class Standing:
    """Samples by program, in seconds; `left` are those still in the race, in the order given, `rounds` how often they ran."""

    samples: dict[int, list[float]] = field(default_factory=dict[int, list[float]])
    left: list[int] = field(default_factory=list[int])
    rounds: int = 0

    def median(self, number: int) -> float:
        """The median time of a program."""
        return statistics.median(self.samples[number])

    @property
    def leader(self) -> int:
        """The fastest program by the median; of equals the first."""
        return min(self.left, key=lambda number: (self.median(number), self.left.index(number)))

    @property
    def times(self) -> Mapping[int, float]:
        """The median time of every program that ran."""
        return {number: self.median(number) for number, samples in self.samples.items() if samples}

    def spread(self, number: int) -> float:
        """Roughly how far the median of a program may be off."""
        return spread(self.samples[number])


def spread(samples: Sequence[float]) -> float:
    """Roughly how far the median may be off: the standard error of the median of normal samples, from the middle half."""
    count = len(samples)
    if count < 4:
        return float("inf")
    ordered = sorted(samples)
    middle = ordered[(3 * count) // 4] - ordered[count // 4]
    return 1.25 * (middle / 1.35) / count**0.5


def race(
    numbers: Sequence[int],
    sample: Callable[[Sequence[int]], Sequence[float]],
    out_of_time: Callable[[], bool],
) -> Standing:
    """
    Runs the programs until the fastest is known. `sample` runs each of those it is given once, and gives their times.

    Raises: what `sample` raises.
    """
    standing = Standing({number: [] for number in numbers}, list(numbers))
    while standing.left and standing.rounds < MOST:
        # A program runs after others in every round: what one leaves of a GPU's clocks the next one has.
        first = standing.rounds % len(standing.left)
        order = [*standing.left[first:], *standing.left[:first]]
        for number, seconds in zip(order, sample(order), strict=True):
            standing.samples[number].append(seconds)
        standing.rounds += 1
        _drop(standing)
        if standing.rounds >= LEAST and (len(standing.left) == 1 or _indistinct(standing)):
            break
        if out_of_time():
            break
    return standing


def _drop(standing: Standing) -> None:
    margin = min((part for rounds, part in MARGINS if standing.rounds >= rounds), default=None)
    if margin is not None:
        limit = standing.median(standing.leader) * (1 + margin)
        standing.left = [number for number in standing.left if standing.median(number) <= limit]


def _indistinct(standing: Standing) -> bool:
    """Whether all that are left are within their own noise, or a hundredth, of each other."""
    if standing.rounds < SETTLED:
        return False
    medians = [standing.median(number) for number in standing.left]
    noise = max(standing.spread(number) for number in standing.left)
    return max(medians) - min(medians) <= max(2 * noise, 0.01 * min(medians))
