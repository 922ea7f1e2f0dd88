"""A made-up space, pool and clock, for what chooses among candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from cleave.runtime.binary import Binary
from cleave.runtime.build import Built, build
from cleave.runtime.builders import BuildError
from cleave.runtime.cache import Store
from cleave.runtime.clock import Checked, Hung
from cleave.runtime.failure import Failure, Kind
from cleave.runtime.tuner import Budget, Tuned, Tuner
from cleave.schedule.candidates import OVERLAPS, Trial
from cleave.schedule.program import Program
from cleave.schedule.targets import TARGETS
from cleave.targets.triton_python import TritonFile
from tests import tile_programs

H200 = TARGETS["h200"]
WRONG = Failure(Kind.WRONG, "wrong: relative error 5.0e-01")


@dataclass
class FakeSpace:
    """Divisions with so many ways for each kernel, and the model's estimate of each pick, in microseconds."""

    divisions: Sequence[Sequence[Sequence[float]]]
    library: frozenset[tuple[int, int, int]] = frozenset()
    """What a library does: the first of two kernels."""
    overlap: bool = False
    """Whether launches of two kernels may overlap."""
    streaming: frozenset[int] = frozenset()
    """The divisions whose launches have an input that may stream."""
    alike: Mapping[tuple[int, int, int], str] = field(default_factory=dict)
    """How kernels are run, in words, where several divisions have a way in common."""
    tiles: Mapping[tuple[int, int, int], str] = field(default_factory=dict)
    """The tiles of kernels, where several ways run the same."""

    def trial(self, division: int, picks: Sequence[int]) -> Trial:
        ways = self.divisions[division]
        return Trial(division, tuple(picks), sum(way[pick] for way, pick in zip(ways, picks, strict=True)) * 1e-6)

    def trials(self, count: int) -> list[Trial]:
        out: list[Trial] = []
        for division, ways in enumerate(self.divisions):
            out.append(self.trial(division, [0] * len(ways)))
            for place, way in enumerate(ways):
                for pick in range(1, len(way)):
                    out.append(self.trial(division, [pick if at == place else 0 for at in range(len(ways))]))
        out.sort(key=lambda trial: trial.seconds)
        return out[:count]

    def ways(self, division: int) -> tuple[int, ...]:
        return tuple(len(way) for way in self.divisions[division])

    def called(self, division: int, place: int, pick: int) -> bool:
        return (division, place, pick) in self.library

    def plan(self, division: int, place: int, pick: int) -> str:
        return self.alike.get((division, place, pick), f"{division},{place},{pick}")

    def orders(self, division: int, place: int, pick: int) -> list[int]:
        tiles = self.tiles.get((division, place, pick))
        ways = range(len(self.divisions[division][place]))
        return [other for other in ways if other != pick and tiles and self.tiles.get((division, place, other)) == tiles]

    def program(self, trial: Trial) -> Program:
        if self.called(trial.division, 0, trial.picks[0]):
            return replace(tile_programs.library(), notes=(self.text(trial),))
        program = tile_programs.split_sum() if len(trial.picks) == 2 else tile_programs.rows()
        return replace(program, notes=(self.text(trial),))

    def overlaps(self, trial: Trial) -> list[Trial]:
        able = self.overlap and not trial.overlap and len(trial.picks) > 1
        return [replace(trial, overlap=overlap) for overlap in OVERLAPS] if able else []

    def streams(self, trial: Trial) -> Trial | None:
        return replace(trial, streaming=True) if trial.division in self.streaming and not trial.streaming else None

    def text(self, trial: Trial) -> str:
        overlap, streaming = f":{trial.overlap}" if trial.overlap else "", ":streaming" if trial.streaming else ""
        return f"{trial.division}:{','.join(map(str, trial.picks))}{overlap}{streaming}"


@dataclass
class FakePool:
    """Compiles by looking up what is wrong with (division, place, pick). `asked` counts compilations."""

    failing: Mapping[tuple[int, int, int], str] = field(default_factory=dict)
    spilling: Mapping[tuple[int, int, int], int] = field(default_factory=dict)
    shared: Mapping[tuple[int, int, int], int] = field(default_factory=dict)
    workers: int = 2
    compiler: str = ""
    """What the machine code has of the compiler that made it."""
    asked: list[tuple[int, int, int]] = field(default_factory=list)
    files: dict[int, TritonFile] = field(default_factory=dict)

    def submit(self, program: Program, architecture: str, wanted: Sequence[int] | None = None, store: Store | None = None) -> Future[Built]:
        out: Future[Built] = Future()
        division, picks = program.notes[0].split(":")[:2]
        kernels = len(program.kernels)
        if kernels not in self.files:
            self.files[kernels] = build(program, architecture, ()).file
        known = self.files[kernels]
        binaries: dict[str, Binary] = {}
        for place in wanted or ():
            way = (int(division), place, int(picks.split(",")[place]))
            self.asked.append(way)
            if way in self.failing:
                out.set_exception(BuildError(self.failing[way]))
                return out
            name = list(known.kernels)[place]
            shared, spills = self.shared.get(way, 1024), self.spilling.get(way, 0)
            binaries[name] = Binary(name, architecture, name, f"{way}{self.compiler}".encode(), 128, shared, 64, spills, 3)
        out.set_result(Built(TritonFile(f"# {program.notes[0]}\n{known.text}", known.kernels, known.plans), binaries))
        return out


@dataclass
class FakeClock:
    """Times, in microseconds, by the text of a candidate; runs take that long on `seconds`."""

    times: Mapping[str, float]
    wrong: frozenset[str] = frozenset()
    hanging: frozenset[str] = frozenset()
    seconds: float = 0.0
    prepared: list[str] = field(default_factory=list)
    sampled: list[str] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)

    def prepare(self, number: int, built: Built) -> Checked:
        text = built.file.text.splitlines()[0].removeprefix("# ")
        self.names[number] = text
        self.prepared.append(text)
        self.seconds += 0.01
        return Checked(0.5, WRONG) if text in self.wrong else Checked(1e-4)

    def sample(self, numbers: Sequence[int]) -> list[float]:
        for number in numbers:
            if self.names[number] in self.hanging:
                raise Hung(number, "no answer within 10 s")
        self.sampled += [self.names[number] for number in numbers]
        self.seconds += sum(self.times[self.names[number]] for number in numbers) * 1e-6
        return [self.times[self.names[number]] * 1e-6 for number in numbers]

    def forget(self, number: int) -> None:
        del self.names[number]

    def close(self) -> None:
        pass


def tuned(space: FakeSpace, pool: FakePool, clock: FakeClock | None = None, store: Store | None = None, seconds: float = 100.0) -> Tuned:
    """What the tuner chooses for an h200; without a clock nothing is timed."""
    kept = store or Store(enabled=False)
    now = (lambda: clock.seconds) if clock is not None else (lambda: 0.0)
    return Tuner(space, H200, "sm_90", pool, clock, Budget(seconds, 32), kept, "here", now=now).tune()


def single(*estimates: float) -> FakeSpace:
    """One kernel with so many ways."""
    return FakeSpace([[list(estimates)]])
