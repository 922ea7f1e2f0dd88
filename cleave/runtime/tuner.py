"""
Choosing among candidate programs by compiling and, where there is a GPU, timing them.

Kernels are compiled once each, in other processes. What does not compile, does not fit the machine or spills registers is dropped
before timing; what gives a wrong result, hangs or faults is dropped and reported. The rest is raced. Programs of several kernels vary one
kernel at a time; the fastest way of each is combined and raced against the leader. What `cleave.runtime.proposals` makes of that is tried
next: the kernels of the leader varied further, ways that were fast elsewhere, what of these is fast together, launches that overlap and
ones that stream their largest input. The fastest are raced once more, side by side. Without a GPU the first candidate that fits is taken,
in the order of the cost model.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

from cleave.errors import CleaveError
from cleave.runtime import proposals
from cleave.runtime.build import Built
from cleave.runtime.cache import Store, key_of
from cleave.runtime.candidates import LATE, Candidate, Candidates, Pool, Space, Way, code_of
from cleave.runtime.clock import Clock, Hung
from cleave.runtime.machine_code import UnreadableError
from cleave.runtime.progress import Progress
from cleave.runtime.proposals import time_of
from cleave.runtime.race import Standing, race
from cleave.schedule.candidates import Trial
from cleave.schedule.program import Program
from cleave.schedule.targets import Target

BUILD_SHARE, LAST_SHARE = 0.6, 0.1
"""
The part of the time after which programs that are still being compiled are left out, once some are ready, and the part that is left for the
last race.
"""

STREAMING_GAIN = 0.01
"""By what part launches that stream must be faster to be chosen, as they take the processor longer."""

LONG, WARM, MOST_WARM = 100e-6, 0.4, 200
"""
Candidates that take so many seconds in the mean are run for so many before they are raced, in at most so many rounds: a card's power limit
holds its clocks down after a while, and more so for kernels that need more power.
"""

NEAR, FINALISTS = 1.05, 6
"""How close to a time of another race one must come for both to be run again, and how many are at the end."""

FAVOURITES = 8
"""How many of those that the model likes best, and that can be timed, it is judged by: the fastest of them is among the finalists."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Bounds of tuning: seconds, and how many candidates are compiled."""

    seconds: float = 14.0
    candidates: int = 32


@dataclass(frozen=True, slots=True)
class Entry:
    """
    What became of a candidate. `estimated` and `measured` are seconds, the latter at the clocks of the first race (see `Tuner`); `error` is
    relative; `dropped` says why it is out, `cached` that its time was known. `rank` is its place, from 0, in the cost model's order of
    those that can be timed; None for one that was not among them or was put together from what the others took. What runs as another
    does but for an input that is `streaming` has none.
    """

    text: str
    estimated: float
    measured: float | None = None
    error: float | None = None
    dropped: str = ""
    cached: bool = False
    rank: int | None = None
    streaming: bool = False

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

    A GPU's clocks change between races. The best so far runs in each; by how long it took before, times of one are told in terms of the
    others'.

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
        best = self._timed(trials) if self.clock is not None else None
        if best is None:
            best = self._first(trials)
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
        known = state.measured, state.error, state.dropped, state.cached, state.rank, state.trial.streaming
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

    def _timed(self, trials: Sequence[Trial]) -> Candidate | None:
        """The fastest candidate, or None where none could be timed."""
        self._compile(trials, self._start + BUILD_SHARE * self.budget.seconds, lambda: bool(self._made.binaries))
        states = self._assemble(trials)
        for rank, state in enumerate(states):
            state.rank = rank
        if not any(state.built for state in states):
            return None
        self._measure(states)
        self._try(proposals.combined(self.space, self._ready()))
        self._try(proposals.refined(self.space, self._ready(), self._states))
        self._try(proposals.adopted(self.space, self._ready(), self._states))
        self._try(proposals.combined(self.space, self._ready()))
        self._try(proposals.overlapping(self.space, self._ready()) if self.target.overlaps else [])
        self._try(proposals.streaming(self.space, self._ready()))
        return self._decided(self._finalists())

    def _decided(self, finalists: Sequence[Candidate]) -> Candidate | None:
        """The fastest of those, which are timed once more, side by side; None where there is none."""
        clock = self.clock
        assert clock is not None, "measuring needs a clock"
        self._limit = self.budget.seconds
        if len(finalists) > 1 and not all(state.cached for state in finalists) and not self._over():
            numbers = [(self._states.index(state), state) for state in finalists]
            able = [number for number, state in numbers if not state.cached or self._prepare(clock, number, state)]
            self._race(clock, able, finalists[0])
        left = [state for state in finalists if not state.dropped]
        return min(left or self._ready(), key=_preferred, default=None)

    def _finalists(self) -> list[Candidate]:
        """The fastest, best first, and the fastest of the model's favourites, which were timed in different races."""
        ready = sorted(self._ready(), key=_preferred)
        close = [state for state in ready if _preferred(state) <= NEAR * _preferred(ready[0])][:FINALISTS]
        ranked = sorted((state for state in ready if state.rank is not None), key=lambda state: state.rank or 0)
        favourite = min(ranked[:FAVOURITES], key=_preferred, default=None)
        return close if favourite is None or favourite in close else [*close, favourite]

    def _ready(self) -> list[Candidate]:
        """The candidates that were timed and may be chosen."""
        return [state for state in self._states if state.measured is not None and not state.dropped]

    def _try(self, trials: Sequence[Trial]) -> None:
        """Compiles what further trials need that is not known yet, while there is time, and times them beside the best so far."""
        if not self._over():
            self._compile(trials, self._start + self._limit, lambda: True)
        states, ready = self._assemble(trials, as_they_are=True), self._ready()
        if states and ready:
            self._measure(states, against=min(ready, key=time_of))

    def _measure(self, states: Sequence[Candidate], against: Candidate | None = None) -> None:
        """Times candidates, with what is known from earlier taken from the store. `against` is run again beside them."""
        clock = self.clock
        assert clock is not None, "measuring needs a clock"
        racing: list[int] = []
        for number, state in enumerate(self._states):
            if not any(state is one for one in states) or state.built is None:
                continue
            known = self.store.get("times", self._time_key(state.built))
            if isinstance(known, tuple):
                state.measured, state.error = known
                state.cached = True
                continue
            self.progress.show(f"checking {self.space.text(state.trial)}", self.budget.seconds - self._spent())
            if self._prepare(clock, number, state):
                racing.append(number)
            if racing and self._over():
                break
        self._race(clock, racing, against)
        self._settle(clock, racing)

    def _prepare(self, clock: Clock, number: int, state: Candidate) -> bool:
        assert state.built is not None, "what is timed was built"
        checked = clock.prepare(number, state.built)
        state.error, state.dropped = checked.error, checked.failure
        if checked.wrong:
            self._remarks.append(f"a candidate was {checked.failure}: {self.space.text(state.trial)}")
        return not checked.failure

    def _race(self, clock: Clock, racing: list[int], against: Candidate | None) -> None:
        """Times candidates, in terms of how long `against`, which runs beside them, took before."""
        reference = self._states.index(against) if against is not None else -1
        if against is not None and racing and reference not in racing and self._prepare(clock, reference, against):
            racing.append(reference)
        times = self._run(clock, racing).times
        scale = time_of(against) / times[reference] if against is not None and reference in times else 1.0
        for number, seconds in times.items():
            state = self._states[number]
            state.measured, state.cached = seconds * scale, False
            if state.built is not None and not state.dropped:
                self.store.put("times", self._time_key(state.built), (state.measured, state.error))

    def _settle(self, clock: Clock, racing: Sequence[int]) -> None:
        """Where a known and a new time are close, runs both again: they were taken at different times."""
        ready = self._ready()
        if not ready or not racing:
            return
        best = min(ready, key=time_of)
        limit = NEAR * time_of(best)
        old = [state for state in ready if state.cached and time_of(state) <= limit]
        new = [number for number in racing if not self._states[number].dropped and time_of(self._states[number]) <= limit]
        if old and new:
            self._race(clock, new, min(old, key=time_of))

    def _run(self, clock: Clock, racing: Sequence[int]) -> Standing:
        """A race of those that are not dropped; what hangs is dropped."""
        numbers = [number for number in racing if not self._states[number].dropped]
        while numbers:
            try:
                self._warm(clock, numbers)
                return race(numbers, clock.sample, self._over)
            except Hung as error:
                self._states[error.number].dropped = str(error)
                self._remarks.append(f"a candidate was dropped: {error}: {self.space.text(self._states[error.number].trial)}")
                numbers = [number for number in numbers if number != error.number]
        return Standing()

    def _warm(self, clock: Clock, numbers: Sequence[int]) -> None:
        """Runs what takes long until the card's clocks are those that it has under load. Raises: Hung."""
        states = [self._states[number] for number in numbers]
        seconds = sum(state.measured or state.trial.seconds for state in states)
        if seconds >= LONG * len(states):
            begun = self.now()
            for _ in range(min(MOST_WARM, ceil(WARM / seconds))):
                clock.sample(numbers)
                if self.now() - begun > WARM or self._over():
                    break

    def _over(self) -> bool:
        return self._spent() > self._limit

    def _time_key(self, built: Built) -> str:
        return key_of("time", self.setting, self.architecture, code_of(built))

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
            if self._over():
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
            self._remarks.append(f"a candidate was dropped: {state.dropped}: {self.space.text(state.trial)}")
        return sound

    def _spilling(self, trials: Sequence[Trial]) -> Candidate:
        """The candidate that spills least, where everything spills."""
        able: list[tuple[int, int]] = []
        for number, trial in enumerate(trials):
            if all(way in self._made.binaries for way in self._made.ways(trial)):
                able.append((sum(self._made.binaries[way].spills for way in self._made.ways(trial)), number))
        for _, number in sorted(able):
            trial = trials[number]
            for way in self._made.ways(trial):
                if way in self._made.binaries:
                    self._made.failures.pop(way, None)
            self._states = [state for state in self._states if state.trial != trial]
            self._made.codes.clear()
            for state in self._assemble([trial], as_they_are=True):
                if not state.dropped and self._sound(state):
                    self._remarks.append(f"every candidate that fits {self.target.name} spills; the one that spills least is used")
                    return state
        reasons = sorted(set(self._made.failures.values()))
        raise CleaveError(None, f"no candidate can run on {self.target.name}: {'; '.join(reasons[:3])}", "choose another target")


def _preferred(state: Candidate) -> float:
    """The time that candidates are chosen by, which is longer than measured where the processor takes longer."""
    return time_of(state) * (1 + STREAMING_GAIN if state.trial.streaming else 1)
