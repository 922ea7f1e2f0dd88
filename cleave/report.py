"""What became of a compilation and of the calls since, as text to read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .runtime import tuner

SHOWN = 10
"""How many candidates are listed that were not dropped."""


@dataclass(frozen=True, slots=True)
class Report:
    """
    What compiling did.

    `seconds` by stage; `cached` that everything came from the cache; `alternatives` is how many programs of the algebra competed;
    `notes` are the scheduler's reasons, with its estimates of FLOPs, bytes and microseconds; `candidates` are those that were compiled
    or timed, the chosen one first, each with its time or why it was dropped; `remarks` are what the passes and the tuner said; `copies`
    counts inputs that calls had to copy because their memory was not as in the example; `target` is the machine that was planned for;
    `long` counts the calls on a GPU whose arguments were looked at anew, by why they were.
    """

    seconds: Mapping[str, float]
    cached: bool
    alternatives: int
    notes: tuple[str, ...]
    candidates: tuple[tuner.Entry, ...]
    remarks: tuple[str, ...]
    copies: int
    target: str = ""
    long: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def dropped(self) -> int:
        """How many candidates were dropped."""
        return sum(bool(entry.dropped) for entry in self.candidates)

    def __str__(self) -> str:
        stages = ", ".join(f"{name} {value:.2f}" for name, value in self.seconds.items())
        lines = [f"seconds: {stages}{' (from the cache)' if self.cached else ''}"]
        lines += [f"target: {self.target}"] if self.target else []
        lines += [f"alternatives: {self.alternatives}", *self.notes]
        kept = [entry for entry in self.candidates if not entry.dropped]
        lines += [f"candidate {number}: {entry}" for number, entry in enumerate(kept[:SHOWN])]
        if len(kept) > SHOWN:
            lines.append(f"and {len(kept) - SHOWN} more")
        lines += [f"{entry.text}: dropped: {entry.dropped}" for entry in self.candidates if entry.dropped]
        lines += self.remarks
        if self.long:
            lines.append(f"calls that went the long way: {'; '.join(f'{count}, as {why}' for why, count in self.long.items())}")
        if self.copies:
            lines.append(f"inputs copied to the layout of the example: {self.copies}")
        return "\n".join(lines)
