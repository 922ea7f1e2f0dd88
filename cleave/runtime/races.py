"""
Timing candidates on a clock, race after race.

A GPU's clocks change with what ran before, and so do times from one race to the next. What takes long is run until the card's power limit
holds its clocks down, and raced then. A race's times are told in terms of what its candidates took in earlier ones; times that were known
from before are told in terms of these once one of them runs beside what was timed since. In the end the fastest are raced once more,
side by side, and one of these is chosen.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice

from cleave.runtime.build import Built
from cleave.runtime.cache import Store
from cleave.runtime.candidates import Candidate
from cleave.runtime.clock import Clock, Hung, UnmadeError
from cleave.runtime.failure import Failure, Kind
from cleave.runtime.proposals import time_of
from cleave.runtime.race import LEAST, Standing, race

STREAMING_GAIN = 0.01
"""By what part launches that stream must be faster to be chosen, as they take the processor longer."""

LONG, WARM, WARM_SHARE = 100e-6, 0.4, 1 / 3
"""
Candidates that take so many seconds in the mean are run for so many before they are raced, or for this part of the seconds that are left: a
card's power limit holds its clocks down after a while, and more so for kernels that need more power.
"""

AT_ONCE, MOST_AT_ONCE = 0.05, 1000
"""For how many seconds candidates are run before one looks at the time, and how often at most."""

NEAR, FINALISTS = 1.05, 6
"""How close to the fastest a time of another race must be for both to be run again at the end, and how many of the fastest are."""

DRIFT = 1.5
"""How much slower what was timed since may seem than what is known from before, for both to be run side by side."""

FAVOURITES = 8
"""How many of those that the model likes best, and that can be timed, it is judged by: the fastest of them is at the end too."""


@dataclass(slots=True)
class Races:
    """
    The races of `states`, which the clock knows by their places in that list. Times are kept in `store` by the `key` of what was built.

    `left` is how many seconds are left, `now` the time; `checking` and `dropped` are told which candidate is looked at, and which failed
    and how. `unmade` says why nothing can be run, where that is so.
    """

    clock: Clock
    states: list[Candidate]
    store: Store
    key: Callable[[Built], str]
    left: Callable[[], float]
    now: Callable[[], float]
    checking: Callable[[Candidate], None]
    dropped: Callable[[Candidate, str], None]
    unmade: str = ""
    _loaded: set[int] = field(default_factory=set[int])

    def ready(self) -> list[Candidate]:
        """The candidates that were timed and may be chosen."""
        return [state for state in self.states if state.measured is not None and not state.dropped]

    def measure(self, candidates: Sequence[Candidate], beside: bool) -> None:
        """Times candidates, with what is known from earlier taken from the store; `beside` the fastest so far, where there is one."""
        racing: list[Candidate] = []
        for state in candidates:
            assert state.built is not None, "what is timed was built"
            known = self.store.get("times", self.key(state.built))
            if isinstance(known, tuple):
                state.measured, state.error, state.unknown = known
                state.cached = True
            elif self._load(state):
                racing.append(state)
            if racing and self.left() < 0:
                break
        while racing:
            links = self._links() if beside else []
            self._race([*racing, *links])
            if not links or not all(state.dropped for state in links):
                break
            # Nothing is left that tells these times in terms of the others'.
            for state in racing:
                state.measured = None

    def decided(self) -> Candidate | None:
        """The fastest candidate, from a last race of the fastest where there is time for one; None where there is none."""
        finalists = self._finalists()
        since = min((state for state in self.ready() if not state.cached), key=preferred, default=None)
        if since and all(state.cached for state in finalists) and preferred(since) <= DRIFT * preferred(finalists[0]) and self.left() >= 0:
            self._race([finalists[0], since])
            finalists = self._finalists()
        if len(finalists) > 1 and not all(state.cached for state in finalists) and self.left() >= 0:
            settled = self._race(finalists)
            for state in finalists:
                state.last = settled and not state.dropped
        remaining = [state for state in finalists if not state.dropped]
        return min(remaining or self.ready(), key=preferred, default=None)

    def _finalists(self) -> list[Candidate]:
        """The fastest, best first, and the fastest of the model's favourites."""
        ready = sorted(self.ready(), key=preferred)
        close = [state for state in ready if preferred(state) <= NEAR * preferred(ready[0])][:FINALISTS]
        ranked = sorted((state for state in ready if state.rank is not None), key=lambda state: state.rank or 0)
        favourite = min(ranked[:FAVOURITES], key=preferred, default=None)
        return close if favourite is None or favourite in close else [*close, favourite]

    def _links(self) -> list[Candidate]:
        """The fastest, and where its time is from before the fastest that was timed since: what tells how clocks have changed."""
        ready = sorted(self.ready(), key=time_of)
        since = [state for state in ready if not state.cached]
        return ready[:1] + (since[:1] if ready[:1] != since[:1] else [])

    def _load(self, state: Candidate) -> bool:
        """Whether the clock has the program: it is run and compared, once."""
        number = self.states.index(state)
        if number in self._loaded or state.dropped or self.unmade:
            return not state.dropped and not self.unmade
        assert state.built is not None, "what is timed was built"
        self.checking(state)
        checked = self.clock.prepare(number, state.built)
        failure = checked.failure
        if failure is not None and failure.kind is Kind.UNMADE:
            self.unmade = failure.text
            return False
        state.error, state.unknown = checked.error, checked.unknown
        if failure is None:
            self._loaded.add(number)
        elif failure.kind is Kind.MEMORY:
            state.dropped = failure
        else:
            self._drop(state, failure)
        return not state.dropped

    def _drop(self, state: Candidate, failure: Failure) -> None:
        """Drops what failed; a time that is known of it counts no more."""
        state.dropped = failure
        if state.built is not None:
            self.store.put("times", self.key(state.built), None)
        self.dropped(state, f"{'was' if failure.kind is Kind.WRONG else 'was dropped:'} {failure}")

    def _race(self, states: Sequence[Candidate]) -> bool:
        """Times candidates side by side; whether they ran as often as is needed to tell."""
        numbers = [self.states.index(state) for state in states if self._load(state)]
        standing = Standing() if self.unmade else self._run(numbers)
        times = {number: seconds for number, seconds in standing.times.items() if seconds > 0}
        settled = standing.rounds >= LEAST
        since, before = (self._ratios(times, cached) for cached in (False, True))
        scale = statistics.median(since or before or [1.0])
        if since and before and settled:
            for number, state in enumerate(self.states):
                if state.cached and state.measured is not None and number not in times:
                    self._keep(state, state.measured * scale / statistics.median(before))
        for number, seconds in standing.times.items():
            state = self.states[number]
            if settled or state.measured is None:
                state.cached = False
                self._keep(state, seconds * scale)
        return settled

    def _keep(self, state: Candidate, seconds: float) -> None:
        state.measured = seconds
        if state.built is not None:
            self.store.put("times", self.key(state.built), (seconds, state.error, state.unknown))

    def _ratios(self, times: dict[int, float], cached: bool) -> list[float]:
        """What candidates took, from before or since, over what they take in this race."""
        known = {number: self.states[number] for number in times if self.states[number].cached == cached}
        return [state.measured / times[number] for number, state in known.items() if state.measured]

    def _run(self, numbers: Sequence[int]) -> Standing:
        """A race of candidates; what hangs is dropped."""
        while numbers:
            try:
                self._warm(numbers)
                return race(numbers, self.clock.sample, lambda: self.left() < 0)
            except Hung as error:
                self._drop(self.states[error.number], Failure(Kind.FAILED, str(error)))
                numbers = [number for number in numbers if number != error.number]
            except UnmadeError as error:
                self.unmade = str(error)
                break
        return Standing()

    def _warm(self, numbers: Sequence[int]) -> None:
        """Runs what takes long until the card's clocks are those that it has under load. Raises: Hung."""
        states = [self.states[number] for number in numbers]
        seconds = sum(state.measured or state.trial.seconds for state in states) / len(states)
        if seconds < LONG:
            return
        begun, limit = self.now(), min(WARM, WARM_SHARE * self.left())
        part = max(1, round(AT_ONCE / seconds))
        following = cycle(numbers)
        for _ in range(MOST_AT_ONCE):
            if self.now() - begun >= limit:
                break
            self.clock.sample(list(islice(following, min(part, len(numbers)))))


def preferred(state: Candidate) -> float:
    """The time that candidates are chosen by, which is longer than measured where the processor takes longer."""
    return time_of(state) * (1 + STREAMING_GAIN if state.trial.streaming else 1)
