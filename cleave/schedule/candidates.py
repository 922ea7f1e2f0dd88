"""
The programs worth timing, best first by the cost model.

A program of one kernel competes with its other plans. In a program of several kernels each kernel is varied alone, the others
as the model likes them best, and once all that a library can do is left to it; what turns out best for each is then combined,
so that the number of trials is the sum and not the product of the ways to run the kernels.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from ..graph import Graph
from .counts import count_extents
from .fusion import Candidate
from .kernels import Choice, ScheduleOptions
from .overlap import may_overlap, overlapped
from .prediction import Prediction
from .program import Launch, Program
from .scheduler import assemble, considered, preferred
from .streaming import least_bytes, streamed
from .targets import Target

ALL = 1 << 30
"""As many trials as there are."""
CROWDED, LEAST_SHARE = 0.04, 0.2
"""
By what part every further way to run a kernel counts as slower than estimated, over its share of the time, at least the second; and by what
part of its own time a kernel that runs the tiles of another.
"""
ALIKE = 0.1
"""By what part every further trial with the same plans counts as slower than estimated."""
LIVE = 0.6
"""The share of the estimate that loops within ranges are taken to need, in the order of trials: some of what they walk is masked."""
TIMED = ScheduleOptions(peel=True, boxes=True, diagonal=True, orders=True, bounds=True, gathered=True, library=True, compare=True)
"""What is worth timing, though the model does not prefer it."""
MODELLED = ScheduleOptions(library=True, compare=True, ranges=False)
"""What is worth planning where nothing is timed: no kernels that only their times can speak for."""


Overlap: TypeAlias = Literal["", "at their ends", "from the start"]
"""Whether launches overlap, and when one lets the next begin; see `cleave.schedule.overlap`."""
OVERLAPS: tuple[Overlap, ...] = ("from the start", "at their ends")


@dataclass(frozen=True, slots=True)
class Trial:
    """
    A way to divide a graph into kernels, by position, which of its ways each kernel is run in, whether their launches overlap, and whether
    they stream their largest input (see `cleave.schedule.streaming`). `seconds` are estimated, without either.
    """

    division: int
    picks: tuple[int, ...]
    seconds: float
    overlap: Overlap = ""
    streaming: bool = False

    @property
    def varied(self) -> int | None:
        """The kernel that is not run as the model likes best, None where all are."""
        return next((place for place, pick in enumerate(self.picks) if pick), None)


@dataclass(frozen=True, slots=True)
class Space:
    """
    All that may be timed for some graphs: ways to divide them into kernels with their names, the model's favourite first,
    notes on the choice, and the machine.
    """

    divisions: tuple[tuple[str, Candidate], ...]
    notes: tuple[str, ...]
    target: Target

    def trials(self, count: int) -> list[Trial]:
        """
        The most promising trials.

        Each further way to run the same kernel counts as slightly slower than estimated, so that neither a division whose estimate
        is too good nor the many ways of a small kernel crowd out the others: the smaller the kernel's share of the time, the more. So
        does a way that runs the tiles of one of the same division before in another order, and a trial with the plans of one before. Loops
        within ranges come second, then those whose longest tiles are first, and more of both than of others: what they save is not
        estimated.
        """
        ordered: list[tuple[float, int, Trial]] = []
        for position, (_, candidate) in enumerate(self.divisions):
            repeats = [0] * len(candidate.ranked)
            for seconds, trial in sorted(self._weighed(position, candidate), key=lambda entry: entry[0]):
                repeat = 0.0
                if trial.varied is not None:
                    repeats[trial.varied] += 1
                    share = candidate.ranked[trial.varied][0].cost.seconds / sum(ways[0].cost.seconds for ways in candidate.ranked)
                    repeat = repeats[trial.varied] / max(share, LEAST_SHARE)
                taken = seconds * (LIVE if candidate.source.ranged else 1.0)
                ordered.append((taken * (1 + CROWDED * repeat), position, trial))
        ordered.sort(key=lambda entry: entry[:2])
        plans: dict[object, int] = {}
        apart: list[tuple[float, int, Trial]] = []
        for seconds, _, trial in ordered:
            alike = self._plans(trial)
            plans[alike] = plans.get(alike, -1) + 1
            apart.append((seconds * (1 + ALIKE * plans[alike]), len(apart), trial))
        apart.sort(key=lambda entry: entry[:2])
        trials = [trial for _, _, trial in apart]
        first = next(trial for trial in trials if trial.division == 0 and trial.varied is None)
        front = [first]
        for longest_first in (False, True):
            ranged = (trial for trial in trials if trial.varied is None and self._is_ranged(trial, longest_first))
            front += itertools.islice(ranged, 1)
        return [*front, *(trial for trial in trials if not any(trial is one for one in front))][: max(1, count)]

    def _is_ranged(self, trial: Trial, ordered: bool) -> bool:
        source = self.divisions[trial.division][1].source
        return source.ranged and source.ordered == ordered

    def _weighed(self, position: int, candidate: Candidate) -> list[tuple[float, Trial]]:
        """The trials of a division with what they are taken to need: kernels that run the tiles of others before more than estimated."""
        first, *rest = self._of(position, candidate)
        known = Counter((place, _tiled(ways[0])) for place, ways in enumerate(candidate.ranked))
        out = [(first.seconds, first)]
        for trial in sorted(rest, key=lambda trial: trial.seconds):
            seconds = trial.seconds
            if sum(pick > 0 for pick in trial.picks) == 1:
                place, pick = next((place, pick) for place, pick in enumerate(trial.picks) if pick)
                way = candidate.ranked[place][pick]
                tiles = place, _tiled(way)
                seconds += CROWDED * known[tiles] * way.cost.seconds
                known[tiles] += 1
            out.append((seconds, trial))
        return out

    def _of(self, position: int, candidate: Candidate) -> list[Trial]:
        """The trials of a division, the model's favourite first."""
        best = (0,) * len(candidate.ranked)
        seconds = sum(ways[0].cost.seconds for ways in candidate.ranked)
        out = [Trial(position, best, seconds)]
        for place, ways in enumerate(candidate.ranked):
            for pick, way in enumerate(ways[1:], 1):
                picks = (*best[:place], pick, *best[place + 1 :])
                out.append(Trial(position, picks, seconds - ways[0].cost.seconds + way.cost.seconds))
        called = tuple(next((pick for pick, way in enumerate(ways) if way.call is not None), 0) for ways in candidate.ranked)
        if sum(pick > 0 for pick in called) > 1:
            out.append(Trial(position, called, sum(ways[pick].cost.seconds for ways, pick in zip(candidate.ranked, called, strict=True))))
        return out

    def ways(self, division: int) -> tuple[int, ...]:
        """In how many ways each kernel of a division may be run."""
        return tuple(len(ways) for ways in self.divisions[division][1].ranked)

    def trial(self, division: int, picks: Sequence[int]) -> Trial:
        """The trial with these picks."""
        ranked = self.divisions[division][1].ranked
        seconds = sum(ways[pick].cost.seconds for ways, pick in zip(ranked, picks, strict=True))
        return Trial(division, tuple(picks), seconds)

    def called(self, division: int, place: int, pick: int) -> bool:
        """Whether a library routine is run in place of a kernel."""
        return self.divisions[division][1].ranked[place][pick].call is not None

    def plan(self, division: int, place: int, pick: int) -> str:
        """How a kernel is run, in words: `library`, or its plan as text, the same for kernels that are run alike."""
        return _spelled(self.divisions[division][1].ranked[place][pick])

    def orders(self, division: int, place: int, pick: int) -> list[int]:
        """The other ways of a kernel that run the same tiles in another order, best first by the model."""
        ranked = self.divisions[division][1].ranked[place]
        tiles = _tiled(ranked[pick])
        return sorted(
            (other for other, way in enumerate(ranked) if other != pick and _tiled(way) == tiles), key=lambda at: ranked[at].cost.seconds
        )

    def program(self, trial: Trial) -> Program:
        """The program of a trial; its notes say what was chosen."""
        name, candidate = self.divisions[trial.division]
        program = assemble(candidate, self.choices(trial), [*self.notes, f"chosen: {name}"])
        if trial.overlap:
            program = overlapped(program, trial.overlap == "from the start")
            program = replace(program, notes=(*program.notes, f"launches overlap {trial.overlap}"))
        if trial.streaming:
            program = self._streamed(trial, program)
            said = (f"{step.kernel} streams {step.streaming}" for step in program.steps if isinstance(step, Launch) and step.streaming)
            program = replace(program, notes=(*program.notes, *said))
        return program

    def _streamed(self, trial: Trial, program: Program) -> Program:
        """A program of a trial with launches that stream their largest input."""
        sizes = self.divisions[trial.division][1].source.sizes
        return streamed(program, sizes.values, least_bytes(self.target))

    def streams(self, trial: Trial) -> Trial | None:
        """
        The trial with launches that stream their largest input; None where they do already, the machine has no such launches, no input is
        large enough, or products of matrices take longer than what is read and written: then only noise would speak for it.
        """
        if trial.streaming or not self.target.streams:
            return None
        costs = [choice.cost for choice in self.choices(trial)]
        moving = sum(cost.memory_bytes for cost in costs) / self.target.bandwidth
        if moving < sum(cost.dot_flops for cost in costs) / self.target.dot_rate:
            return None
        program = self.program(trial)
        return None if self._streamed(trial, program) is program else replace(trial, streaming=True)

    def overlaps(self, trial: Trial) -> list[Trial]:
        """The trial with launches that overlap, in the ways there are; none where no launch comes right after another."""
        if trial.overlap or not may_overlap(self.program(trial)):
            return []
        return [replace(trial, overlap=overlap) for overlap in OVERLAPS]

    def prediction(self, trial: Trial, target: Target) -> Prediction:
        """What the program of a trial takes at other sizes."""
        source = self.divisions[trial.division][1].source
        static = {name: value for name, value in source.sizes.values.items() if name not in source.sizes.dynamic}
        choices = self.choices(trial)
        return Prediction(source.graph, static, tuple(choices), target, count_extents(source, choices))

    def name(self, trial: Trial) -> str:
        """What a trial runs: an alternative, its chunks and kernels."""
        return self.divisions[trial.division][0]

    def choices(self, trial: Trial) -> list[Choice]:
        """How a trial runs its kernels."""
        return [ways[pick] for ways, pick in zip(self.divisions[trial.division][1].ranked, trial.picks, strict=True)]

    def text(self, trial: Trial) -> str:
        """What a trial is, in a line."""
        name, _ = self.divisions[trial.division]
        overlap = f"; launches overlap {trial.overlap}" if trial.overlap else ""
        return f"{name}: " + " | ".join(self._plans(trial)) + overlap + ("; the largest input streams" if trial.streaming else "")

    def _plans(self, trial: Trial) -> tuple[str, ...]:
        return tuple(_spelled(choice) for choice in self.choices(trial))


def _spelled(choice: Choice) -> str:
    return "library" if choice.call is not None else str(choice.plan)


def _tiled(choice: Choice) -> object:
    """
    The same for kernels that run the same tiles in the same way, but for the order: how axes make dimensions of the grid, and how many
    tiles are run as a group.
    """
    if choice.call is not None:
        return "library"
    plan = choice.plan
    own, last = (tuple((dim.axes[-1], dim.role, dim.tile) for dim in dims if dim.tile > 1) for dims in (plan.dims, plan.last))
    rest = replace(plan, dims=(), last=(), raster=(), group=0, descending="from the last" if plan.descending else "")
    return own, last, rest, choice.cost.programs


def space(
    graphs: Sequence[Graph],
    sizes: Mapping[str, int],
    dynamic: frozenset[str],
    target: Target,
    options: ScheduleOptions | None = None,
) -> Space:
    """What may be timed; arguments and errors as for `cleave.schedule.schedule`."""
    found, notes = considered(graphs, sizes, dynamic, target, options or TIMED, True)
    best = preferred(found)
    rest = sorted((entry for entry in found if entry is not best), key=lambda entry: entry[1].seconds)
    return Space(tuple(_full(entry) for entry in (best, *rest)), tuple(notes), target)


def _full(entry: tuple[str, Candidate]) -> tuple[str, Candidate]:
    name, candidate = entry
    return name, candidate if candidate.ranked else replace(candidate, ranked=[(choice,) for choice in candidate.choices])
