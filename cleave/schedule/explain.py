"""
Why a schedule was chosen: what the cost model says of it and of the next best.

Each kernel's time is the largest of what its units, the memory, the second-level cache and latency need (`cost`); what differs
in the kernel that takes longest is the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .candidates import ALL, Space, Trial
from .kernels import Choice

ALIKE = 0.005
"""The share that estimates differ by, below which they say nothing."""
MOST = 8
"""The schedules that are explained."""


@dataclass(frozen=True, slots=True)
class Considered:
    """A schedule with the kernels it runs. `seconds` are those of a run; `reason` is why it is not the one chosen, or why it is."""

    name: str
    seconds: float
    kernels: tuple[Choice, ...]
    reason: str


def explained(space: Space) -> list[Considered]:
    """The schedule that the model likes best, then those that would be timed next, by their estimates."""
    first, *others = space.trials(ALL)
    rest = sorted(others[: MOST - 1], key=lambda trial: trial.seconds)
    best = space.choices(first)
    out = [_considered(space, first, f"least estimate; {_limits(best)}" if _least(first, others) else f"preferred; {_limits(best)}")]
    out += [_considered(space, trial, _difference(best, first, space.choices(trial), trial)) for trial in rest]
    return out


def _considered(space: Space, trial: Trial, reason: str) -> Considered:
    return Considered(space.name(trial), trial.seconds, tuple(space.choices(trial)), reason)


def _least(first: Trial, rest: Sequence[Trial]) -> bool:
    return all(first.seconds <= trial.seconds for trial in rest)


def _limits(kernels: Sequence[Choice]) -> str:
    longest = max(kernels, key=lambda choice: choice.cost.seconds)
    return f"bound by {longest.cost.bound}"


def _difference(best: Sequence[Choice], first: Trial, other: Sequence[Choice], trial: Trial) -> str:
    """How another schedule differs from the best in time and in what decides it."""
    more = trial.seconds / first.seconds - 1
    if abs(more) < ALIKE:
        return "as fast by estimate"
    told = f"{abs(more):.0%} {'slower' if more >= 0 else 'faster'} by estimate"
    if len(other) != len(best):
        return f"{told}: {len(other)} kernels instead of {len(best)}"
    if any(choice.call is not None for choice in other) and not any(choice.call is not None for choice in best):
        return f"{told}: by a library, which only timing can tell"
    ours, theirs = (max(kernels, key=lambda choice: choice.cost.seconds).cost for kernels in (best, other))
    apart = {
        "bytes from memory": (ours.memory_bytes, theirs.memory_bytes),
        "bytes through the cache": (ours.cache_bytes, theirs.cache_bytes),
        "operations": (ours.flops, theirs.flops),
        "waves": (ours.waves, theirs.waves),
    }
    name, (mine, its) = max(apart.items(), key=lambda entry: entry[1][1] / max(entry[1][0], 1))
    if its > 1.02 * mine:
        return f"{told}: {its / max(mine, 1):.2f} times the {name}"
    return f"{told}: bound by {theirs.bound}" if theirs.bound != ours.bound else f"{told}: longer steps"
