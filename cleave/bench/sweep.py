"""
Everything that the tuner may choose for one program: compiled, run, and compared with what is right.

The configurations are those the tuner draws its candidates from: every division, and of its kernels every way, each varied alone beside
the first way of the others that can be run; and each of them with launches that overlap, where there are such. While one part runs on
the GPU the next is compiled. Several run beside each other, each in a process of its own; what hangs or faults there is run again alone.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Lock

from ..runtime.cache import Store
from ..runtime.candidates import Candidate, Candidates, Pool, Space, Way
from ..runtime.clock import Checked, Clock
from ..runtime.failure import Failure, Kind
from ..schedule.candidates import ALL, Trial
from ..schedule.targets import Target

DROPPED = tuple(kind.value for kind in (Kind.UNCOMPILED, Kind.MISFIT, Kind.SPILLS, Kind.LATE))
"""Why a configuration is not run, as the tuner would not."""
PER_WORKER, LEAST_PART = 4, 16
"""How many configurations are compiled at a time for each worker, and at least."""


@dataclass(frozen=True)
class Bad:
    """A configuration whose result is wrong, or that hung or faulted, and what happened."""

    plan: str
    failure: str


@dataclass
class Swept:
    """
    What became of the configurations of a case. `equal` are those that have the code of another, which is run once; `dropped` counts by
    `DROPPED`, `reasons` by their texts; `left` were left out, and whatever would overlap of them with them. `worst` is the largest
    relative error that is right; `seconds` are of all.
    """

    case: str
    configurations: int = 0
    equal: int = 0
    dropped: dict[str, int] = field(default_factory=dict[str, int])
    reasons: dict[str, int] = field(default_factory=dict[str, int])
    right: int = 0
    wrong: list[Bad] = field(default_factory=list[Bad])
    faulted: list[Bad] = field(default_factory=list[Bad])
    left: int = 0
    worst: float = 0.0
    seconds: float = 0.0
    problem: str = ""

    @property
    def compiled(self) -> int:
        """How many configurations have kernels that all compile and fit."""
        return self.configurations - sum(self.dropped.values())

    @property
    def good(self) -> bool:
        """Whether everything that ran was right, and anything did."""
        return not self.wrong and not self.faulted and not self.problem and self.right > 0

    def add(self, plan: str, checked: Checked) -> None:
        """Files what running a configuration told."""
        if checked.failure is None:
            self.right += 1
            self.worst = max(self.worst, checked.error or 0.0)
        else:
            where = self.wrong if checked.wrong else self.faulted
            where.append(Bad(plan, checked.failure.text))

    def join(self, other: Swept) -> None:
        """Adds what became of another case's."""
        self.configurations += other.configurations
        self.equal += other.equal
        self.dropped = dict(Counter(self.dropped) + Counter(other.dropped))
        self.right += other.right
        self.wrong, self.faulted = [*self.wrong, *other.wrong], [*self.faulted, *other.faulted]
        self.left += other.left
        self.worst = max(self.worst, other.worst)
        self.seconds += other.seconds

    def drop(self, reason: Failure) -> None:
        """Files a configuration that is not run."""
        kind, text = reason.kind.value, reason.text
        self.dropped[kind] = self.dropped.get(kind, 0) + 1
        self.reasons[text] = self.reasons.get(text, 0) + 1


@dataclass
class Sweep:
    """
    Runs one space on one machine, on clocks whose workload is set, all at a time. Of more than `limit` trials the model's first are taken,
    or where there is a `seed` any; nothing is begun after `until`, in the seconds of `now`. `told` is shown what is done.
    """

    space: Space
    target: Target
    architecture: str
    pool: Pool
    clocks: Sequence[Clock]
    store: Store
    limit: int | None = None
    seed: int | None = None
    until: float = float("inf")
    now: Callable[[], float] = time.monotonic
    told: Callable[[str], None] = lambda text: None
    _found: Swept = field(init=False)
    _made: Candidates = field(init=False)
    _free: SimpleQueue[Clock] = field(init=False, default_factory=SimpleQueue[Clock])
    _aside: set[int] = field(init=False, default_factory=set[int])
    _anew: bool = field(init=False, default=True)
    _lock: Lock = field(init=False, default_factory=Lock)

    def __post_init__(self) -> None:
        for clock in self.clocks:
            self._free.put(clock)

    def run(self, case: str) -> Swept:
        """What became of the configurations."""
        started = self.now()
        self._found = found = Swept(case)
        self._made = Candidates(self.space, self.target, self.architecture, self.pool, self.store)
        trials = self._trials()
        size = max(LEAST_PART, PER_WORKER * self.pool.workers)
        parts = [trials[at : at + size] for at in range(0, len(trials), size)]
        running: list[tuple[Candidate, Future[Checked | None]]] = []
        runner = ThreadPoolExecutor(len(self.clocks), "cleave sweep")
        try:
            for number, part in enumerate(parts):
                rest = parts[number + 1 :]
                if self._over():
                    found.left += len(part) + sum(map(len, rest))
                    break
                self._made.submit(part)
                self._made.submit(rest[0] if rest else ())
                for candidate in self._built(part):
                    running.append((candidate, runner.submit(self._checked, len(running), candidate)))
                found.configurations += len(part)
                self.told(f"{found.configurations} compiled or dropped, {sum(map(len, rest))} and what overlaps of them to go")
            first = [future.result() for _, future in running]
            for number, ((candidate, _), checked) in enumerate(zip(running, first, strict=True)):
                self._file(candidate, self._again(number, candidate, checked))
        finally:
            runner.shutdown(cancel_futures=True)
        found.seconds = self.now() - started
        return found

    def _over(self, idle: bool = False) -> bool:
        return self.now() >= self.until

    def _trials(self) -> list[Trial]:
        """The configurations without overlap, best first by the model."""
        every = self.space.trials(ALL)
        if self.limit is not None and len(every) > self.limit:
            chosen = range(self.limit) if self.seed is None else sorted(random.Random(self.seed).sample(range(len(every)), self.limit))
            self._found.left += len(every) - self.limit
            every = [every[place] for place in chosen]
        able = self._able({trial.division for trial in every})
        out: dict[tuple[int, tuple[int, ...]], Trial] = {}
        for trial in every:
            picks = tuple(pick or first for pick, first in zip(trial.picks, able[trial.division], strict=True))
            if trial.varied is None:
                out.setdefault((trial.division, trial.picks), trial)
            out.setdefault((trial.division, picks), trial if picks == trial.picks else self.space.trial(trial.division, picks))
        return list(out.values())

    def _able(self, divisions: set[int]) -> dict[int, tuple[int, ...]]:
        """The first way of each kernel that can be run, by division; the first of all where none can."""
        counts = {division: self.space.ways(division) for division in sorted(divisions)}
        able: dict[tuple[int, int], int] = {}
        first, step = 0, 1
        while not self._over():
            open_ = [(division, place) for division, ways in counts.items() for place in range(len(ways)) if (division, place) not in able]
            tried = {(*key, pick) for key in open_ for pick in range(first, min(first + step, counts[key[0]][key[1]]))}
            if not tried:
                break
            trials = [self.space.trial(division, _varied(counts[division], place, pick)) for division, place, pick in sorted(tried)]
            self._made.submit(trials)
            self._made.finish(trials, self._over)
            for division, place, pick in sorted(tried, reverse=True):
                if self._made.usable(Way(division, place, pick)):
                    able[division, place] = pick
            first, step = first + step, 2 * step
        return {division: tuple(able.get((division, place), 0) for place in range(len(ways))) for division, ways in counts.items()}

    def _built(self, part: Sequence[Trial]) -> list[Candidate]:
        """What can be run of configurations and of what would overlap of them; what cannot is filed."""
        usable = self._usable(part)
        further = [trial for one in usable for trial in self.space.overlaps(one)] if self.target.overlaps else []
        self._made.submit(further)
        usable += self._usable(further)
        self._found.configurations += len(further)
        made = self._made.assembled(usable)
        self._found.equal += len(usable) - len(made)
        for candidate in made:
            if candidate.dropped:
                self._found.drop(candidate.dropped)
        return [candidate for candidate in made if not candidate.dropped]

    def _usable(self, trials: Sequence[Trial]) -> list[Trial]:
        self._made.finish(trials, self._over)
        out: list[Trial] = []
        for trial in trials:
            reason = self._made.why_not(trial)
            if reason:
                self._found.drop(reason)
            else:
                out.append(trial)
        return out

    def _checked(self, number: int, candidate: Candidate) -> Checked | None:
        """What running it told; None where there was no time."""
        assert candidate.built is not None, "what is run was built"
        while True:
            clock = self._free.get()
            try:
                if self._over():
                    return None
                checked = clock.prepare(number, candidate.built)
                if not checked.unmade or not (self._put_aside(clock) or self._reopened(clock)):
                    clock.forget(number)
                    return checked
            finally:
                if id(clock) not in self._aside:
                    self._free.put(clock)

    def _reopened(self, clock: Clock) -> bool:
        """Begins anew, once, with the last clock, which may have had no inputs because of those that were put aside."""
        again, self._anew = self._anew, False
        if again and self._aside:
            clock.close()
        return again and bool(self._aside)

    def _put_aside(self, clock: Clock) -> bool:
        """Runs nothing more on a clock, where there is another."""
        with self._lock:
            last = len(self._aside) + 1 == len(self.clocks)
            if not last:
                self._aside.add(id(clock))
                clock.close()
            return not last

    def _again(self, number: int, candidate: Candidate, checked: Checked | None) -> Checked | None:
        """
        What it told in the end: what hung or faulted beside others is run alone, while there is time. The others' processes are ended, and
        with them goes what they have of the GPU's memory.
        """
        if checked is None or not checked.failure or checked.wrong or len(self.clocks) == 1:
            return checked
        while len(self._aside) + 1 < len(self.clocks):
            self._put_aside(self._free.get())
        return self._checked(number, candidate) or checked

    def _file(self, candidate: Candidate, checked: Checked | None) -> None:
        if checked is None:
            self._found.left += 1
        else:
            self._found.add(self.space.text(candidate.trial), checked)


def _varied(ways: Sequence[int], place: int, pick: int) -> tuple[int, ...]:
    return tuple(pick if at == place else 0 for at in range(len(ways)))
