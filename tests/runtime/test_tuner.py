"""The tuner with a made-up space, pool and clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from cleave.errors import CleaveError
from cleave.runtime.binary import Binary
from cleave.runtime.build import Built, build
from cleave.runtime.builders import BuildError
from cleave.runtime.cache import Store
from cleave.runtime.clock import Checked, Hung
from cleave.runtime.tuner import Budget, Tuned, Tuner
from cleave.schedule.candidates import OVERLAPS, Trial
from cleave.schedule.program import Program
from cleave.schedule.targets import TARGETS
from cleave.targets.triton_python import TritonFile
from tests import tile_programs

H200 = TARGETS["h200"]


@dataclass
class FakeSpace:
    """Divisions with so many ways for each kernel, and the model's estimate of each pick, in microseconds."""

    divisions: Sequence[Sequence[Sequence[float]]]
    library: frozenset[tuple[int, int, int]] = frozenset()
    """What a library does: the first of two kernels."""
    overlap: bool = False
    """Whether launches of two kernels may overlap."""

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

    def program(self, trial: Trial) -> Program:
        if self.called(trial.division, 0, trial.picks[0]):
            return replace(tile_programs.library(), notes=(self.text(trial),))
        program = tile_programs.split_sum() if len(trial.picks) == 2 else tile_programs.rows()
        return replace(program, notes=(self.text(trial),))

    def overlaps(self, trial: Trial) -> list[Trial]:
        able = self.overlap and not trial.overlap and len(trial.picks) > 1
        return [replace(trial, overlap=overlap) for overlap in OVERLAPS] if able else []

    def text(self, trial: Trial) -> str:
        return f"{trial.division}:{','.join(map(str, trial.picks))}" + (f":{trial.overlap}" if trial.overlap else "")


@dataclass
class FakePool:
    """Compiles by looking up what is wrong with (division, place, pick). `asked` counts compilations."""

    failing: Mapping[tuple[int, int, int], str] = field(default_factory=dict)
    spilling: Mapping[tuple[int, int, int], int] = field(default_factory=dict)
    shared: Mapping[tuple[int, int, int], int] = field(default_factory=dict)
    workers: int = 2
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
            binaries[name] = Binary(name, architecture, name, b"", 128, shared, 64, spills, 3)
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
        return Checked(0.5, "wrong: relative error 5.0e-01") if text in self.wrong else Checked(1e-4)

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
    kept = store or Store(enabled=False)
    now = (lambda: clock.seconds) if clock is not None else (lambda: 0.0)
    return Tuner(space, H200, "sm_90", pool, clock, Budget(seconds, 32), kept, "here", now=now).tune()


def single(*estimates: float) -> FakeSpace:
    return FakeSpace([[list(estimates)]])


@pytest.mark.parametrize("fast", [True, False])
def test_a_library_call_is_timed_and_not_compiled(fast: bool) -> None:
    """The first kernel has a way of its own and a library call; the second, then the only launch, is compiled once."""
    space = FakeSpace([[[10, 12], [5]]], frozenset({(0, 0, 1)}))
    pool = FakePool()
    result = tuned(space, pool, FakeClock({"0:0,0": 20, "0:1,0": 15 if fast else 25}))
    assert result.program.notes == ("0:1,0" if fast else "0:0,0",)
    assert len(result.built.binaries) == (1 if fast else 2)
    assert sorted(pool.asked) == [(0, 0, 0), (0, 1, 0)]


def test_the_fastest_wins_and_the_rest_is_reported() -> None:
    result = tuned(single(10, 11, 12), FakePool(), FakeClock({"0:0": 30, "0:1": 20, "0:2": 25}))
    assert result.program.notes == ("0:1",)
    assert [entry.text.split(" ")[0] for entry in result.entries] == ["0:1", "0:2", "0:0"]
    assert [round((entry.measured or 0) * 1e6) for entry in result.entries] == [20, 25, 30]
    assert [entry.rank for entry in result.entries] == [1, 2, 0]


def test_what_does_not_fit_or_spills_is_dropped_before_timing_and_counted() -> None:
    pool = FakePool({(0, 0, 0): "CompilationError: no"}, {(0, 0, 1): 12}, {(0, 0, 2): 240000})
    clock = FakeClock({"0:3": 20})
    result = tuned(single(1, 2, 3, 4), pool, clock)
    assert result.program.notes == ("0:3",) and clock.prepared == ["0:3"]
    assert result.dropped == 3
    assert [entry.rank for entry in result.entries] == [0, None, None, None]
    reasons = " ".join(entry.dropped for entry in result.entries)
    assert "CompilationError: no" in reasons and "spills 12" in reasons and "240000 bytes of shared memory" in reasons


def test_a_wrong_result_is_dropped_and_reported() -> None:
    result = tuned(single(1, 2), FakePool(), FakeClock({"0:0": 1, "0:1": 20}, wrong=frozenset(["0:0"])))
    assert result.program.notes == ("0:1",)
    assert any("wrong" in remark and "0:0" in remark for remark in result.remarks)


def test_a_candidate_that_hangs_is_dropped_and_reported() -> None:
    result = tuned(single(1, 2, 3), FakePool(), FakeClock({"0:0": 1, "0:1": 20, "0:2": 30}, hanging=frozenset(["0:0"])))
    assert result.program.notes == ("0:1",)
    assert any("no answer" in remark for remark in result.remarks)


def test_kernels_are_varied_alone_and_combined_in_the_end() -> None:
    """The second way of each kernel saves 5 and 2; each is compiled once, and the pair is timed whole."""
    space = FakeSpace([[[10, 11], [5, 6]]])
    pool = FakePool()
    clock = FakeClock({"0:0,0": 20, "0:1,0": 15, "0:0,1": 18, "0:1,1": 13})
    result = tuned(space, pool, clock)
    assert result.program.notes == ("0:1,1",)
    assert sorted(pool.asked) == [(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1)]
    assert "0:1,1" in clock.sampled and clock.sampled.count("0:1,0") > 3
    assert [entry.rank for entry in result.entries] == [None, 1, 2, 0], "the pair was not the model's"


def test_the_pair_is_found_where_the_first_trial_varies_a_kernel() -> None:
    """The model likes a varied trial best: what saves time in the other kernel is still seen against the common way."""
    space = FakeSpace([[[10, 4, 11], [5, 2, 6]]])
    clock = FakeClock({"0:0,0": 20, "0:1,0": 15, "0:2,0": 21, "0:0,1": 18, "0:0,2": 22, "0:1,1": 13})
    assert tuned(space, FakePool(), clock).program.notes == ("0:1,1",)


def test_a_kernel_that_does_not_fit_is_replaced_in_the_trials_of_the_others() -> None:
    space = FakeSpace([[[10, 11], [5, 6]]])
    clock = FakeClock({"0:1,0": 15, "0:1,1": 13})
    result = tuned(space, FakePool(spilling={(0, 0, 0): 3}), clock)
    assert result.program.notes == ("0:1,1",)
    assert sorted(clock.prepared) == ["0:1,0", "0:1,1"]


def test_divisions_compete_by_their_whole_time() -> None:
    space = FakeSpace([[[10.0]], [[6, 7], [5, 6]]])
    clock = FakeClock({"0:0": 14, "1:0,0": 15, "1:1,0": 14.5, "1:0,1": 13.5, "1:1,1": 13})
    assert tuned(space, FakePool(), clock).program.notes == ("1:1,1",)


def test_known_times_are_not_taken_again(tmp_path: Path) -> None:
    store = Store(tmp_path)
    times = {"0:0": 30.0, "0:1": 20.0, "0:2": 90.0}
    tuned(single(10, 11), FakePool(), FakeClock(times), store)
    clock = FakeClock(times)
    result = tuned(single(10, 11, 12), FakePool(), clock, store)
    assert result.program.notes == ("0:1",)
    assert clock.prepared == ["0:2"] and set(clock.sampled) == {"0:2"}
    assert sorted(entry.cached for entry in result.entries) == [False, True, True]


def test_a_new_time_near_a_known_one_is_compared_afresh(tmp_path: Path) -> None:
    """The clock has become slower since: the known leader is still the faster of the two."""
    store = Store(tmp_path)
    tuned(single(10), FakePool(), FakeClock({"0:0": 20}), store)
    result = tuned(single(10, 11), FakePool(), FakeClock({"0:0": 19.0, "0:1": 19.5}), store)
    assert result.program.notes == ("0:0",)


def test_other_settings_have_other_times(tmp_path: Path) -> None:
    store = Store(tmp_path)
    tuned(single(10), FakePool(), FakeClock({"0:0": 20}), store)
    clock = FakeClock({"0:0": 20})
    Tuner(single(10), H200, "sm_90", FakePool(), clock, Budget(), store, "elsewhere", now=lambda: clock.seconds).tune()
    assert clock.prepared == ["0:0"]


def test_time_is_bounded() -> None:
    """Checking takes 10 ms each; of 32 candidates only those that fit in 100 ms are looked at."""
    clock = FakeClock({f"0:{number}": 20.0 + number for number in range(32)})
    result = tuned(single(*range(1, 33)), FakePool(), clock, seconds=0.1)
    assert len(clock.prepared) <= 12
    assert result.program.notes[0] in clock.prepared


def test_without_a_clock_the_first_that_fits_is_taken() -> None:
    pool = FakePool({(0, 0, 0): "no"}, {(0, 0, 1): 5}, {})
    result = tuned(single(1, 2, 3, 4, 5, 6, 7, 8), pool)
    assert result.program.notes == ("0:2",)
    assert len(pool.asked) == 4


def test_where_everything_spills_the_least_is_used() -> None:
    result = tuned(single(1, 2), FakePool(spilling={(0, 0, 0): 9, (0, 0, 1): 4}))
    assert result.program.notes == ("0:1",)
    assert any("spills least" in remark for remark in result.remarks)


def test_where_nothing_fits_the_reasons_are_given() -> None:
    with pytest.raises(CleaveError, match=r"no candidate can run on h200: .*shared memory"):
        tuned(single(1), FakePool(shared={(0, 0, 0): 300000}))


def test_launches_overlap_where_that_is_faster() -> None:
    space = FakeSpace([[[10.0]], [[6, 7], [5, 6]]], overlap=True)
    alone = {"0:0": 14, "1:0,0": 15, "1:1,0": 16, "1:0,1": 17, "1:1,1": 20}
    early, late = OVERLAPS
    overlapping = {f"1:{picks}:{way}": 18.0 for picks in ("0,0", "1,0", "0,1") for way in OVERLAPS}
    faster = {**alone, **overlapping, f"1:0,1:{late}": 13.0, f"1:0,0:{early}": 13.5}
    pool = FakePool()
    assert tuned(space, pool, FakeClock(faster)).program.notes == (f"1:0,1:{late}",)
    assert len(pool.asked) == 5 + 2 * 4, "every way of a kernel once without, and in each way that launches overlap"
    assert tuned(space, FakePool(), FakeClock({**alone, **overlapping})).program.notes == ("0:0",)


def test_launches_far_from_the_best_are_not_tried_with_overlap() -> None:
    space = FakeSpace([[[10.0]], [[6], [5]]], overlap=True)
    clock = FakeClock({"0:0": 14, "1:0,0": 25})
    assert tuned(space, FakePool(), clock).program.notes == ("0:0",)
    assert sorted(clock.prepared) == ["0:0", "1:0,0"]


def test_machines_without_early_launches_have_no_overlap() -> None:
    space = FakeSpace([[[6], [5]]], overlap=True)
    clock = FakeClock({"0:0,0": 15})
    Tuner(space, TARGETS["a100"], "sm_80", FakePool(), clock, Budget(), Store(enabled=False), "here", now=lambda: clock.seconds).tune()
    assert clock.prepared == ["0:0,0"]
