"""
Choosing among candidate programs by compiling and, where there is a GPU, timing them.

Kernels are compiled once each, in other processes. What does not compile, does not fit the machine or spills registers is dropped
before timing; what gives a wrong result, hangs or faults is dropped and reported. The rest is raced (`cleave.runtime.races`). Programs of
several kernels vary one kernel at a time; the fastest way of each is combined and raced against the leader. What `cleave.runtime.proposals`
makes of that is tried next: the kernels of the leader varied further, ways that were fast elsewhere, what of these is fast together,
launches that overlap and ones that stream their largest input. The fastest are raced once more, side by side. Without a GPU the first
candidate that fits is taken, in the order of the cost model.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

from cleave.errors import CleaveError
from cleave.runtime import proposals
from cleave.runtime.build import Built
from cleave.runtime.cache import Store, key_of
from cleave.runtime.candidates import Candidate, Candidates, Pool, Space, Way, code_of
from cleave.runtime.clock import Clock
from cleave.runtime.failure import LATE, Kind
from cleave.runtime.machine_code import UnreadableError
from cleave.runtime.progress import Progress
from cleave.runtime.races import Races
from cleave.schedule.candidates import Trial
from cleave.schedule.program import Program
from cleave.schedule.targets import Target

BUILD_SHARE, LAST_SHARE = 0.6, 0.1
"""
The part of the time after which programs that are still being compiled are left out, once some are ready, and the part that is left for the
last race.
"""


@dataclass(frozen=True, slots=True)
class Budget:
    """Bounds of tuning: seconds, and how many candidates are compiled."""

    seconds: float = 14.0
    candidates: int = 32


@dataclass(frozen=True, slots=True)
class Entry:
    """
    What became of a candidate. `estimated` and `measured` are seconds; `error` is relative; `dropped` says why it is out, `cached` that
    its time was known, `last` that it was in the race that decided. `rank` is its place, from 0, in the cost model's order of those that
    can be timed; None for one that was not among them or was put together from what the others took. What runs as another does but for an
    input that is `streaming` has none.
    """

    text: str
    estimated: float
    measured: float | None = None
    error: float | None = None
    dropped: str = ""
    cached: bool = False
    rank: int | None = None
    streaming: bool = False
    last: bool = False

    def __str__(self) -> str:
        time = f"{self.measured * 1e6:.2f} us" if self.measured is not None else "not timed"
        rest = f"dropped: {self.dropped}" if self.dropped else "" if self.error is None else f"error {self.error:.1e}"
        parts = [f"{time} (estimated {self.estimated * 1e6:.2f})", self.text, rest, "known" if self.cached else ""]
        return "; ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Tuned:
    """The chosen program, its code, and what became of every candidate: the chosen one first, the timed ones by time."""

    trial: Trial
    program: Program
    built: Built
    entries: tuple[Entry, ...]
    remarks: tuple[str, ...]
    seconds: float

    @property
    def dropped(self) -> int:
        """How many candidates were dropped."""
        return sum(bool(entry.dropped) for entry in self.entries)


@dataclass(slots=True)
class Tuner:
    """
    Tunes one space for one machine. Times are kept in `store` under `setting`, which names all they depend on beside the program.

    Without a `clock` nothing is timed. `now` is the time in seconds, from any start.
    """

    space: Space
    target: Target
    architecture: str
    pool: Pool
    clock: Clock | None = None
    budget: Budget = field(default_factory=Budget)
    store: Store = field(default_factory=lambda: Store(enabled=False))
    setting: str = ""
    progress: Progress = field(default_factory=Progress)
    now: Callable[[], float] = time.monotonic
    _made: Candidates = field(init=False)
    _states: list[Candidate] = field(default_factory=list[Candidate])
    _remarks: list[str] = field(default_factory=list[str])
    _start: float = 0.0
    _limit: float = 0.0

    def __post_init__(self) -> None:
        self._made = Candidates(self.space, self.target, self.architecture, self.pool, self.store)

    def tune(self) -> Tuned:
        """
        The best program that could be found within the budget.

        Raises: CleaveError where no candidate can run on the machine, with the reasons.
        """
        self._start = self.now()
        self._limit = self.budget.seconds * (1 - LAST_SHARE if self.clock is not None else 1)
        trials = self._first_trials()
        best = self._timed(trials, self.clock) if self.clock is not None else None
        if best is None:
            best = self._untimed() or self._first(trials)
        self.progress.done()
        assert best.built is not None, "what is chosen was built"
        rest = [state for state in self._states if state is not best]
        rest.sort(key=lambda state: (bool(state.dropped), state.measured is None, state.measured or state.trial.seconds))
        entries = tuple(self._entry(state) for state in (best, *rest))
        return Tuned(best.trial, best.program, best.built, entries, tuple(self._remarks), self.now() - self._start)

    def _first_trials(self) -> list[Trial]:
        """What the model likes best, and where launches may overlap its favourite way of each division so as well, right after it."""
        out: list[Trial] = []
        for trial in self.space.trials(self.budget.candidates):
            out.append(trial)
            if self.clock is not None and self.target.overlaps and trial.varied is None:
                out += self.space.overlaps(trial)[:1]
        return out[: max(1, self.budget.candidates)]

    def _entry(self, state: Candidate) -> Entry:
        text = self.space.text(state.trial)
        if state.built is not None:
            used = [f"{one.registers} registers, {one.shared} bytes shared" for one in state.built.binaries.values()]
            text = f"{text} [{' | '.join(used)}]"
        known = state.measured, state.error, str(state.dropped or ""), state.cached, state.rank, state.trial.streaming, state.last
        return Entry(text, state.trial.seconds, *known)

    def _spent(self) -> float:
        return self.now() - self._start

    def _compile(self, trials: Sequence[Trial], deadline: float, enough: Callable[[], bool]) -> None:
        """Compiles the kernels of trials that are not known yet, until the deadline has passed and there is enough."""

        def over(idle: bool) -> bool:
            return (self.now() >= deadline and enough()) or (idle and self._spent() > 4 * self.budget.seconds)

        def told(done: int, total: int) -> None:
            self.progress.show(f"compiled {done} of {total} kernels", self.budget.seconds - self._spent())

        self._made.submit(trials)
        self._made.finish(trials, over, told)

    def _repaired(self, trial: Trial) -> Trial | None:
        """The trial with kernels that do not fit, other than the varied one, run in the first way that does."""
        picks = list(trial.picks)
        for place, count in enumerate(self.space.ways(trial.division)):
            way = Way(trial.division, place, picks[place], trial.overlap)
            if self._made.usable(way):
                continue
            if place == trial.varied or trial.overlap or trial.streaming:
                return None
            usable = [pick for pick in range(count) if self._made.usable(Way(trial.division, place, pick))]
            if not usable:
                return None
            picks[place] = usable[0]
        return trial if tuple(picks) == trial.picks else self.space.trial(trial.division, picks)

    def _assemble(self, trials: Sequence[Trial], as_they_are: bool = False) -> list[Candidate]:
        """
        The candidates of trials whose kernels are usable, with their files; equal code is kept once. Unless they are wanted `as_they_are`
        kernels that do not fit are run in other ways in the trials of the others.
        """
        wanted: dict[tuple[int, tuple[int, ...], str, bool], Trial] = {}
        for trial in trials:
            usable = all(self._made.usable(way) for way in self._made.ways(trial))
            repaired = (trial if usable else None) if as_they_are else self._repaired(trial)
            if repaired is None or (trial.varied is None and repaired is not trial):
                why = self._made.why_not(trial) or LATE
                self._states.append(Candidate(trial, self.space.program(trial), dropped=why))
            if repaired is not None and not any(
                replace(state.trial, seconds=0.0) == replace(repaired, seconds=0.0) for state in self._states
            ):
                wanted.setdefault((repaired.division, repaired.picks, repaired.overlap, repaired.streaming), repaired)
        made = self._made.assembled(list(wanted.values()))
        self._states += made
        return [state for state in made if not state.dropped]

    def _timed(self, trials: Sequence[Trial], clock: Clock) -> Candidate | None:
        """The fastest candidate, or None where none could be timed."""
        self._compile(trials, self._start + BUILD_SHARE * self.budget.seconds, lambda: bool(self._made.binaries))
        states = self._assemble(trials)
        for rank, state in enumerate(states):
            state.rank = rank
        races = Races(clock, self._states, self.store, self._time_key, self._left, self.now, self._checking, self._told)
        races.measure(states, beside=False)
        self._try(races, proposals.combined(self.space, races.ready()))
        self._try(races, proposals.refined(self.space, races.ready(), self._states))
        self._try(races, proposals.adopted(self.space, races.ready(), self._states))
        self._try(races, proposals.reordered(self.space, races.ready(), self._states))
        self._try(races, proposals.combined(self.space, races.ready()))
        self._try(races, proposals.overlapping(self.space, races.ready()) if self.target.overlaps else [])
        self._try(races, proposals.streaming(self.space, races.ready()))
        self._limit = self.budget.seconds
        best = races.decided()
        if races.unmade:
            self._remarks.append(f"not all could be timed: {races.unmade}")
        for why, count in Counter(state.unknown for state in self._states if state.unknown).items():
            self._remarks.append(f"compared with the first that ran, as what is right is not known: {count} candidates ({why})")
        return best

    def _try(self, races: Races, trials: Sequence[Trial]) -> None:
        """Compiles what further trials need that is not known yet, while there is time, and times them beside the best so far."""
        if self._left() >= 0:
            self._compile(trials, self._start + self._limit, lambda: True)
        states = self._assemble(trials, as_they_are=True)
        if races.ready():
            races.measure(states, beside=True)

    def _checking(self, state: Candidate) -> None:
        self.progress.show(f"checking {self.space.text(state.trial)}", self._left())

    def _told(self, state: Candidate, what: str) -> None:
        self._remarks.append(f"a candidate {what}: {self.space.text(state.trial)}")

    def _left(self) -> float:
        """How many seconds are left, but for those of the last race."""
        return self._limit - self._spent()

    def _time_key(self, built: Built) -> str:
        """What a time and an error are of: machine code that another compiler made is new, and is run and compared before it is chosen."""
        images = sorted((name, sha256(binary.image).hexdigest()) for name, binary in built.binaries.items())
        return key_of("seconds, error, unknown", self.setting, self.architecture, code_of(built), images)

    def _untimed(self) -> Candidate | None:
        """Of what was made to be timed, and could not be for want of memory if not of time, the first, in the order of the cost model."""
        for kind in (None, Kind.MEMORY):
            for state in self._states:
                why = state.dropped
                if state.built is not None and (why.kind if why is not None else None) is kind and self._sound(state):
                    if why is not None:
                        self._remarks.append(f"nothing could be timed: {why}")
                        state.dropped = None
                    return state
        return None

    def _first(self, trials: Sequence[Trial]) -> Candidate:
        """The first candidate that fits, a few compiled at a time."""
        step = max(1, min(self.pool.workers, 4))
        for start in range(0, len(trials), step):
            part = trials[start : start + step]
            self._compile(part, float("inf"), lambda: False)
            for trial in part:
                for state in self._assemble([trial]):
                    if not state.dropped and self._sound(state):
                        return state
            if self._left() < 0:
                break
        return self._spilling(trials)

    def _sound(self, state: Candidate) -> bool:
        """
        Whether a candidate that is not run before it is chosen has code that nothing is found wrong with. It is told of if not, or where
        that cannot be seen.
        """
        try:
            sound = self._made.sound(state)
        except UnreadableError as error:
            self._remarks.append(f"the machine code of what is chosen was not looked at: {error}")
            return True
        if not sound:
            self._told(state, f"was dropped: {state.dropped}")
        return sound

    def _spilling(self, trials: Sequence[Trial]) -> Candidate:
        """The candidate that spills least, where everything else is out."""
        able: list[tuple[int, int]] = []
        ran = [state for state in self._states if state.built is not None and state.dropped]
        out = {state.trial: state.dropped for state in ran}
        for number, trial in enumerate(trials):
            if trial not in out and all(way in self._made.binaries for way in self._made.ways(trial)):
                able.append((sum(self._made.binaries[way].spills for way in self._made.ways(trial)), number))
        for _, number in sorted(able):
            trial = trials[number]
            for way in self._made.ways(trial):
                if way in self._made.binaries:
                    self._made.failures.pop(way, None)
            self._states[:] = [state for state in self._states if state.trial != trial]
            self._made.codes = {code_of(state.built) for state in ran if state.built is not None}
            for state in self._assemble([trial], as_they_are=True):
                if not state.dropped and self._sound(state):
                    why = (
                        f"every candidate that fits {self.target.name} spills"
                        if not ran
                        else "every candidate that does not spill was dropped"
                    )
                    self._remarks.append(f"{why}; the one that spills least is used")
                    return state
        reasons = sorted({str(failure) for failure in (*self._made.failures.values(), *out.values())})
        raise CleaveError(None, f"no candidate can run on {self.target.name}: {'; '.join(reasons[:3])}", "choose another target")
