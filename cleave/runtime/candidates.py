"""
Candidate programs of a space: their kernels compiled once each, in other processes, and programs put together from them.

A kernel that does not compile, does not fit the machine or spills registers is filed with the reason; so is what was not compiled in
time. A candidate needs all of its kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from typing import Protocol

from cleave.runtime.binary import Binary
from cleave.runtime.build import Built
from cleave.runtime.builders import BuildError
from cleave.runtime.cache import Store
from cleave.runtime.failure import LATE, Failure, Kind
from cleave.runtime.machine_code import wrong_code
from cleave.runtime.plan import calls
from cleave.schedule.candidates import Trial
from cleave.schedule.program import Program
from cleave.schedule.targets import Target


class Space(Protocol):
    """What there is to choose from: `cleave.schedule.Space`."""

    def trials(self, count: int) -> list[Trial]:
        """The most promising trials, best first."""
        ...

    def ways(self, division: int) -> tuple[int, ...]:
        """In how many ways each kernel of a division may be run."""
        ...

    def trial(self, division: int, picks: Sequence[int]) -> Trial:
        """The trial with these picks."""
        ...

    def called(self, division: int, place: int, pick: int) -> bool:
        """Whether a library routine is run in place of a kernel."""
        ...

    def plan(self, division: int, place: int, pick: int) -> str:
        """How a kernel is run, in words: the same for kernels that are run alike."""
        ...

    def orders(self, division: int, place: int, pick: int) -> list[int]:
        """The other ways of a kernel that run the same tiles in another order, best first."""
        ...

    def program(self, trial: Trial) -> Program:
        """The program of a trial."""
        ...

    def overlaps(self, trial: Trial) -> list[Trial]:
        """The trial with launches that overlap, in the ways there are."""
        ...

    def streams(self, trial: Trial) -> Trial | None:
        """The trial with launches that stream their largest input; None where that is not worth timing, or cannot be."""
        ...

    def text(self, trial: Trial) -> str:
        """What a trial is, in a line."""
        ...


class Pool(Protocol):
    """What builds programs: `cleave.runtime.builders.Builders`."""

    workers: int

    def submit(self, program: Program, architecture: str, wanted: Sequence[int] | None = None, store: Store | None = None) -> Future[Built]:
        """The program with the machine code of the kernels that the wanted launches run."""
        ...


@dataclass(frozen=True, slots=True)
class Way:
    """One way to run one kernel of a division, under launches that overlap in a way."""

    division: int
    place: int
    pick: int
    overlap: str = ""


@dataclass(slots=True, eq=False)
class Candidate:
    """
    What is known of a candidate: as an `Entry` of the tuner, and its program, with its code once it has any; `unknown` as of
    `cleave.runtime.clock.Checked`.
    """

    trial: Trial
    program: Program
    built: Built | None = None
    error: float | None = None
    unknown: str = ""
    dropped: Failure | None = None
    measured: float | None = None
    cached: bool = False
    rank: int | None = None
    last: bool = False


@dataclass(slots=True)
class Candidates:
    """The candidates of one space on one machine: `binaries` and `failures` by way; what spills is in both. `codes` are of those made."""

    space: Space
    target: Target
    architecture: str
    pool: Pool
    store: Store
    binaries: dict[Way, Binary] = field(default_factory=dict[Way, Binary])
    failures: dict[Way, Failure] = field(default_factory=dict[Way, Failure])
    codes: set[str] = field(default_factory=set[str])
    _pending: dict[Future[Built], Way] = field(default_factory=dict[Future[Built], Way])

    def ways(self, trial: Trial) -> list[Way]:
        """The ways that a trial runs its kernels in, in the order of their launches; what a library does is none."""
        ways = [Way(trial.division, place, pick, trial.overlap) for place, pick in enumerate(trial.picks)]
        return [way for way in ways if not self.space.called(way.division, way.place, way.pick)]

    def usable(self, way: Way) -> bool:
        """Whether a kernel can be run so: by a library, or compiled and fit."""
        return self.space.called(way.division, way.place, way.pick) or (way in self.binaries and way not in self.failures)

    def why_not(self, trial: Trial) -> Failure | None:
        """Why a trial cannot be run, None where its kernels are all usable or not compiled yet."""
        return next((self.failures[way] for way in self.ways(trial) if way in self.failures), None)

    def submit(self, trials: Sequence[Trial]) -> None:
        """Begins to compile the kernels of trials that are not known yet."""
        asked = set(self._pending.values())
        for trial in trials:
            program = self.space.program(trial)
            for launch, way in enumerate(self.ways(trial)):
                if way not in self.binaries and way not in self.failures and way not in asked:
                    asked.add(way)
                    self._pending[self.pool.submit(program, self.architecture, [launch], self.store)] = way

    def finish(self, trials: Sequence[Trial], over: Callable[[bool], bool], told: Callable[[int, int], None] | None = None) -> None:
        """
        Waits for the kernels of trials until it is `over`; then whatever is still to be compiled is too late. `over` is asked now and
        then, with whether nothing was compiled since it was asked last; `told` is how many kernels are there and of how many.
        """
        wanted = {way for trial in trials for way in self.ways(trial)}
        pending = {future: way for future, way in self._pending.items() if way in wanted}
        total = len(pending)
        while pending:
            done, _ = wait(list(pending), timeout=0.25, return_when=FIRST_COMPLETED)
            for future in done:
                way = pending.pop(future)
                del self._pending[future]
                try:
                    built = future.result()
                    self.store.damaged += built.damaged
                    (binary,) = built.binaries.values()
                    self._file(way, binary)
                except BuildError as error:
                    self.failures[way] = _uncompiled(str(error))
            if told is not None:
                told(total - len(pending), total)
            if over(not done):
                for future, way in self._pending.items():
                    future.cancel()
                    self.failures[way] = LATE
                self._pending.clear()
                break

    def sound(self, candidate: Candidate) -> bool:
        """
        Whether nothing is found wrong with the machine code of a candidate, for one that is not run before it is chosen; else it is
        dropped, and the way of that kernel is out. Raises: UnreadableError.
        """
        for way in self.ways(candidate.trial):
            if way not in self.binaries:
                candidate.dropped = self.failures[way]
                return False
            why = wrong_code(self.binaries[way])
            if why:
                del self.binaries[way]
                candidate.dropped = self.failures[way] = Failure(Kind.CODE, f"{Kind.CODE.value}: {why}")
                return False
        return True

    def _file(self, way: Way, binary: Binary) -> None:
        """Files a compiled kernel: usable, or out and why."""
        misfit = binary.misfit(self.target.shared, self.target.registers)
        if misfit:
            self.failures[way] = Failure(Kind.MISFIT, misfit)
            return
        if binary.spills:
            self.failures[way] = Failure(Kind.SPILLS, f"{Kind.SPILLS.value} {binary.spills} registers a thread")
        self.binaries[way] = binary

    def assembled(self, trials: Sequence[Trial]) -> list[Candidate]:
        """
        The candidates of trials whose kernels are all compiled, with their files, or dropped where they cannot be lowered. Those of
        code that was met before are left out.
        """
        lowered: list[tuple[Candidate, Future[Built]]] = []
        for trial in trials:
            program = self.space.program(trial)
            lowered.append((Candidate(trial, program), self.pool.submit(program, self.architecture, (), self.store)))
        out: list[Candidate] = []
        for candidate, future in lowered:
            try:
                file = future.result().file
            except BuildError as error:
                candidate.dropped = _uncompiled(f"it cannot be lowered: {error}")
                out.append(candidate)
                continue
            launches = [call.kernel for plan in file.plans for call in calls(plan)]
            ways = self.ways(candidate.trial)
            candidate.built = Built(file, {name: self.binaries[way] for name, way in zip(launches, ways, strict=True)})
            code = code_of(candidate.built)
            # The same program from another alternative is nothing new.
            if code not in self.codes:
                self.codes.add(code)
                out.append(candidate)
        return out


def _uncompiled(why: str) -> Failure:
    return Failure(Kind.UNCOMPILED, f"{Kind.UNCOMPILED.value}: {why}")


def code_of(built: Built) -> str:
    """All that decides how a built program runs, as text."""
    launches: list[str] = []
    for plan in built.file.plans:
        for call in calls(plan):
            grid = f"{[str(count) for count in call.grid]} {call.persistent} {call.max_registers} {call.streaming}"
            launches.append(f"{call.kernel} {call.num_warps} {call.num_stages} {grid}")
    return "\n".join([built.file.text, *launches])
