"""What is timed, and what of it is chosen, on made-up cards whose clocks change, and where programs fail or time is short."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from cleave.errors import CleaveError
from cleave.runtime import candidates
from cleave.runtime.build import Built
from cleave.runtime.cache import Store
from cleave.runtime.clock import Checked, Hung, UnmadeError
from cleave.runtime.failure import NO_MEMORY, Failure, Kind
from cleave.schedule.candidates import Trial
from cleave.schedule.program import Program

from .made_up_space import FakeClock, FakePool, FakeSpace, single, tuned


@dataclass
class Capped(FakeClock):
    """A card on which what needs much power is slowed down once it has worked for a while."""

    hungry: str = ""

    def sample(self, numbers: Sequence[int]) -> list[float]:
        found = super().sample(numbers)
        slow = 1.05 if len(self.sampled) > 120 else 1.0
        return [seconds * (slow if self.names[number] == self.hungry else 1.0) for number, seconds in zip(numbers, found, strict=True)]


@pytest.mark.parametrize("scale", [0.05, 1.0])
def test_what_a_power_limit_slows_down_is_not_chosen(scale: float) -> None:
    """Of candidates that take long; others do not work for long at a time."""
    clock = Capped({"0:0": 1000 * scale, "0:1": 980 * scale, "0:2": 1500 * scale}, hungry="0:1")
    result = tuned(single(10, 11, 12), FakePool(), clock)
    assert result.program.notes == (("0:0",) if scale == 1.0 else ("0:1",))


@dataclass
class Resting(FakeClock):
    """A card that is fast after a pause, which checking a candidate is, and slow once it has worked for `warm` seconds."""

    warm: float = 0.3
    worked: float = 0.0

    def prepare(self, number: int, built: Built) -> Checked:
        self.worked = 0.0
        return super().prepare(number, built)

    def sample(self, numbers: Sequence[int]) -> list[float]:
        slow = 1.15 if self.worked > self.warm else 1.0
        found = [seconds * slow for seconds in super().sample(numbers)]
        self.worked += sum(found)
        return found


def test_a_card_that_has_rested_makes_nothing_faster() -> None:
    """The pair is raced alone with the best of the first race, after a pause, and takes longer by a tenth."""
    space = FakeSpace([[[700, 710], [500, 510]], [[1400]]])
    times = {"0:0,0": 1200, "0:1,0": 1100, "0:0,1": 1100, "0:1,1": 1100, "1:0": 1000}
    result = tuned(space, FakePool(), Resting(times))
    assert result.program.notes == ("1:0",)
    assert [round((entry.measured or 0) * 1e6) for entry in result.entries] == [1150, 1265, 1265, 1265, 1380]


@dataclass
class Slowing(FakeClock):
    """A card on which everything takes a fifth longer once `early` candidates were prepared."""

    early: int = 3

    def sample(self, numbers: Sequence[int]) -> list[float]:
        return [seconds * (1.2 if len(self.prepared) > self.early else 1.0) for seconds in super().sample(numbers)]


def test_times_of_a_slower_race_are_told_in_terms_of_the_first() -> None:
    """The pair, raced later, is the fastest, and the second of the first race would seem faster yet."""
    clock = Slowing({"0:0,0": 20, "0:1,0": 15, "0:0,1": 15.5, "0:1,1": 14})
    result = tuned(FakeSpace([[[10, 11], [5, 6]]]), FakePool(), clock)
    assert result.program.notes == ("0:1,1",)
    assert [round((entry.measured or 0) * 1e6, 1) for entry in result.entries] == [14, 15, 15.5, 20]


def test_the_models_favourite_runs_beside_the_finalists() -> None:
    """However far off: how much worse its choice is shows in one race alone."""
    clock = FakeClock({f"0:{number}": 30.0 if number < 8 else 20.0 + number / 100 for number in range(16)})
    result = tuned(single(*range(1, 17)), FakePool(), clock)
    assert result.program.notes == ("0:8",)
    assert set(clock.sampled[-20:]) == {f"0:{number}" for number in range(8, 14)}
    assert sum(name == "0:0" for name in clock.sampled) > sum(name == "0:1" for name in clock.sampled)


@dataclass
class Deciding(FakeClock):
    """Once no more than seven programs are raced, one of them is slow."""

    slow: str = ""

    def sample(self, numbers: Sequence[int]) -> list[float]:
        found = zip(numbers, super().sample(numbers), strict=True)
        return [seconds * (1.2 if len(numbers) <= 7 and self.names[number] == self.slow else 1.0) for number, seconds in found]


def test_time_is_left_for_the_last_race() -> None:
    """What is raced before it ends with the time for that: the one that is slow in its company is not chosen."""
    clock = Deciding({f"0:{number}": 20.0 + number / 100 for number in range(32)}, slow="0:0")
    result = tuned(single(*range(1, 33)), FakePool(), clock, seconds=0.2)
    assert len(clock.prepared) < 32 and result.program.notes == ("0:1",)


@dataclass
class Failing(FakeClock):
    """Fails to prepare some, as `checked` says, or to run `hanging_late` once no more than seven programs are raced."""

    checked: Mapping[str, Checked] = field(default_factory=dict[str, Checked])
    hanging_late: str = ""

    def prepare(self, number: int, built: Built) -> Checked:
        found = super().prepare(number, built)
        return self.checked.get(self.prepared[-1], found)

    def sample(self, numbers: Sequence[int]) -> list[float]:
        for number in numbers:
            if len(numbers) <= 7 and self.names[number] == self.hanging_late:
                raise Hung(number, "no answer within 10 s")
        return super().sample(numbers)


def test_the_leader_may_hang_in_the_last_race() -> None:
    clock = Failing({f"0:{number}": 20.0 + number / 100 for number in range(16)}, hanging_late="0:0")
    result = tuned(single(*range(1, 17)), FakePool(), clock)
    assert result.program.notes == ("0:1",)
    assert [entry.text.split(" ")[0] for entry in result.entries if entry.last] == [f"0:{number}" for number in range(1, 6)]


@dataclass
class Parting(Slowing):
    """Once everything has slowed down the first leader hangs."""

    def sample(self, numbers: Sequence[int]) -> list[float]:
        for number in numbers:
            if len(self.prepared) > self.early and self.names[number] == "0:1,0":
                raise Hung(number, "no answer within 10 s")
        return super().sample(numbers)


def test_the_leader_may_hang_in_a_race_at_other_clocks() -> None:
    """The next one takes its place, so that what the pair takes is told in terms of the first race."""
    clock = Parting({"0:0,0": 24, "0:1,0": 20, "0:0,1": 21, "0:1,1": 19})
    assert tuned(FakeSpace([[[10, 11], [5, 6]]]), FakePool(), clock).program.notes == ("0:1,1",)


WRONG = Checked(0.5, Failure(Kind.WRONG, "wrong: relative error 5.0e-01"))
HANGING = Checked(None, Failure(Kind.FAILED, "running it: no answer within 20 s"))
UNMADE = Checked(None, Failure(Kind.UNMADE, "running it: the inputs could not be made: out of memory"))


@pytest.mark.parametrize("failed", [WRONG, HANGING])
@pytest.mark.parametrize("spilling", [{}, {(0, 0, 2): 4}])
def test_what_was_seen_to_fail_is_not_chosen(failed: Checked, spilling: Mapping[tuple[int, int, int], int]) -> None:
    """Where something else is left, though it spills, that is; the reason is told where nothing is."""
    clock = Failing({}, checked={"0:0": failed, "0:1": failed})
    space = single(1, 2, 3) if spilling else single(1, 2)
    if spilling:
        result = tuned(space, FakePool(spilling=spilling), clock)
        assert result.program.notes == ("0:2",)
        assert result.remarks[-1] == "every candidate that does not spill was dropped; the one that spills least is used"
        return
    with pytest.raises(CleaveError, match=f"no candidate can run on h200: {failed.failure}"):
        tuned(space, FakePool(), clock)


def test_the_same_code_of_another_alternative_is_not_chosen_either() -> None:
    """Both divisions are the same program, which is wrong: it is run once."""

    @dataclass
    class Same(FakeSpace):
        def program(self, trial: Trial) -> Program:
            return super().program(replace(trial, division=0))

    clock = Failing({}, checked={"0:0": WRONG})
    with pytest.raises(CleaveError, match="no candidate can run on h200: wrong"):
        tuned(Same([[[10.0]], [[11.0]]]), FakePool(), clock)
    assert clock.prepared == ["0:0"]


def test_without_inputs_the_model_chooses() -> None:
    """No candidate is to blame for that, and it is tried once."""
    clock = Failing({}, checked={f"0:{number}": UNMADE for number in range(3)})
    result = tuned(single(1, 2, 3), FakePool(), clock)
    assert result.program.notes == ("0:0",) and result.dropped == 0 and clock.prepared == ["0:0"]
    assert result.remarks == (f"not all could be timed: {UNMADE.failure}",)


def test_without_memory_the_model_chooses() -> None:
    """What alone has no room is out."""
    short = Checked(None, NO_MEMORY)
    result = tuned(single(1, 2, 3), FakePool(), Failing({}, checked={f"0:{number}": short for number in range(3)}))
    assert result.program.notes == ("0:0",) and result.remarks == ("nothing could be timed: out of memory",)
    clock = Failing({"0:1": 2.0, "0:2": 1.0}, checked={"0:0": short})
    assert tuned(single(1, 2, 3), FakePool(), clock).program.notes == ("0:2",)


@pytest.mark.parametrize("kind", [Kind.WRONG, Kind.MEMORY, Kind.UNMADE, Kind.FATAL, Kind.FAILED])
@pytest.mark.parametrize("text", ["wrong", "out of memory", "fatal: a fault", "spills", "does not fit", "not compiled in time"])
def test_what_becomes_of_a_candidate_does_not_depend_on_the_words(kind: Kind, text: str) -> None:
    """A driver or a library may say anything."""
    result = tuned(single(1, 2), FakePool(), Failing({"0:1": 5.0}, checked={"0:0": Checked(None, Failure(kind, text))}))
    if kind is Kind.UNMADE:
        assert result.program.notes == ("0:0",) and result.remarks == (f"not all could be timed: {text}",) and not result.dropped
        return
    assert result.program.notes == ("0:1",) and [entry.dropped for entry in result.entries] == ["", text]
    told = {Kind.MEMORY: (), Kind.WRONG: (f"a candidate was {text}: 0:0",)}
    assert result.remarks == told.get(kind, (f"a candidate was dropped: {text}: 0:0",))
    alone = Failing({}, checked={"0:0": Checked(None, Failure(kind, text))})
    if kind is Kind.MEMORY:
        assert tuned(single(1), FakePool(), alone).program.notes == ("0:0",), "it may have room where nothing is compared"
    else:
        with pytest.raises(CleaveError, match=f"no candidate can run on h200: {text}"):
            tuned(single(1), FakePool(), alone)


def test_times_of_zero_decide_nothing_and_break_nothing() -> None:
    times = {"0:0,0": 0, "0:1,0": 0, "0:0,1": 0, "0:1,1": 0}
    assert tuned(FakeSpace([[[10, 11], [5, 6]]]), FakePool(), FakeClock(times)).entries[0].measured == 0


@dataclass
class Scaled(FakeClock):
    """A card on which everything takes so many times as long."""

    factor: float = 1.0

    def sample(self, numbers: Sequence[int]) -> list[float]:
        return [seconds * self.factor for seconds in super().sample(numbers)]


def test_times_from_before_are_told_in_terms_of_today(tmp_path: Path) -> None:
    """The leader of a faster day runs beside what streams, and loses then to what was timed today."""
    store = Store(tmp_path)
    times = {"0:0": 20.0, "0:1": 16.6, "0:2": 23.0, "0:0:streaming": 25.0, "0:1:streaming": 25.0, "0:2:streaming": 25.0}
    tuned(single(10, 12), FakePool(), Scaled({"0:0": 20.0, "0:1": 23.0}), store)
    space = FakeSpace([[[10, 12, 11]]], streaming=frozenset([0]))
    today = {**times, "0:1": 23.0, "0:2": 16.6}
    result = tuned(space, FakePool(), Scaled(today, factor=1.3), store)
    assert result.program.notes == ("0:2",)
    found = {entry.text.split(" ")[0]: round((entry.measured or 0) * 1e6, 1) for entry in result.entries}
    assert found["0:0"] == 26.0 and found["0:1"] == 29.9 and found["0:2"] == 21.6


def test_a_finalist_whose_time_was_known_is_prepared_first(tmp_path: Path) -> None:
    store = Store(tmp_path)
    times = {"0:0": 20.0, "0:1": 20.1, "0:2": 20.2}
    tuned(single(10, 11), FakePool(), FakeClock(times), store)
    clock = FakeClock(times)
    result = tuned(single(10, 11, 12), FakePool(), clock, store)
    assert result.program.notes == ("0:0",) and not result.remarks
    assert sorted(clock.prepared) == ["0:0", "0:1", "0:2"]


@pytest.mark.parametrize(("seconds", "most"), [(1.0, 48.0), (0.5, 24.0), (0.1, 16.0)])
def test_warming_takes_little_of_the_time(seconds: float, most: float) -> None:
    """Candidates that take very long are run for all of it at most once."""
    clock = FakeClock({f"0:{number}": seconds * 1e6 for number in range(32)})
    tuned(single(*[seconds * 1e6] * 32), FakePool(), clock, seconds=14.0)
    assert clock.seconds <= most


def test_where_all_finalists_are_lost_the_next_is_chosen() -> None:
    @dataclass
    class Losing(FakeClock):
        def sample(self, numbers: Sequence[int]) -> list[float]:
            if len(numbers) <= 7:
                raise Hung(numbers[0], "no answer within 10 s")
            return super().sample(numbers)

    clock = Losing({f"0:{number}": 20.0 - number / 100 for number in range(16)})
    result = tuned(single(*range(1, 17)), FakePool(), clock)
    assert result.program.notes == ("0:9",) and not any(entry.last for entry in result.entries)


def test_a_last_race_that_is_cut_short_decides_nothing() -> None:
    """One round of it is all there is time for, in which the leader seems slow."""

    @dataclass
    class Late(FakeClock):
        def sample(self, numbers: Sequence[int]) -> list[float]:
            slow = 1.2 if self.seconds > 6.65 else 1.0
            return [
                seconds * (slow if self.names[number] == "0:0" else 1)
                for number, seconds in zip(numbers, super().sample(numbers), strict=True)
            ]

    clock = Late({"0:0": 200e3, "0:1": 202e3})
    result = tuned(single(190e3, 195e3), FakePool(), clock, seconds=7.3)
    assert 6.9 < clock.seconds < 7.8, "there was a last race"
    assert result.program.notes == ("0:0",) and not any(entry.last for entry in result.entries)


def test_a_time_of_what_fails_counts_no_more(tmp_path: Path) -> None:
    """Neither of what hung in the last race, nor of what is wrong where it is run beside others."""
    times = {f"0:{number}": 20.0 + number / 100 for number in range(16)}
    store = Store(tmp_path / "hung")
    tuned(single(*range(1, 17)), FakePool(), Failing(times, hanging_late="0:0"), store)
    clock = Failing(times, hanging_late="0:0")
    assert tuned(single(*range(1, 17)), FakePool(), clock, store).program.notes == ("0:1",)
    assert "0:0" in clock.prepared

    store = Store(tmp_path / "wrong")
    tuned(single(10), FakePool(), FakeClock({"0:0": 20}), store)
    for _ in range(2):
        clock = Failing({"0:1": 21}, checked={"0:0": WRONG})
        assert tuned(single(10, 11), FakePool(), clock, store).program.notes == ("0:1",)
        assert "0:0" in clock.prepared


def test_a_leader_from_before_runs_beside_the_best_of_today(tmp_path: Path) -> None:
    """Also where nothing further is tried; what is told anew is kept."""
    store = Store(tmp_path)
    tuned(single(10, 11), FakePool(), FakeClock({"0:0": 20, "0:1": 23}), store)
    today = {"0:0": 20.0, "0:1": 23.0, "0:2": 17.0}
    assert tuned(single(10, 11, 12), FakePool(), Scaled(today, factor=1.3), store).program.notes == ("0:2",)
    clock = FakeClock(today)
    result = tuned(single(10, 11, 12), FakePool(), clock, store)
    assert result.program.notes == ("0:2",) and not clock.sampled
    assert sorted(round((entry.measured or 0) * 1e6, 1) for entry in result.entries) == [22.1, 26.0, 29.9]


def test_inputs_that_cannot_be_made_again_end_the_races() -> None:
    @dataclass
    class Losing(FakeClock):
        until: int = 40

        def sample(self, numbers: Sequence[int]) -> list[float]:
            if len(self.sampled) > self.until:
                raise UnmadeError("the inputs could not be made: out of memory")
            return super().sample(numbers)

    for until in (40, 70):
        clock = Losing({f"0:{number}": 20.0 + number / 100 for number in range(4)}, until=until)
        result = tuned(single(*range(1, 5)), FakePool(), clock)
        assert result.dropped == 0 and result.program.notes == ("0:0",)
        assert (result.entries[0].measured is None) == (until == 40), "the other was lost in the last race"
        assert result.remarks == ("not all could be timed: the inputs could not be made: out of memory",)


def test_of_what_could_not_be_timed_none_has_code_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """A way that is out is out in all."""
    monkeypatch.setattr(candidates, "wrong_code", lambda binary: "it reads UR7" if binary.image == b"(0, 1, 0)" else "")
    clock = Failing({}, checked={f"0:{first},0": UNMADE for first in range(2)})
    with pytest.raises(CleaveError, match="the assembler's code is wrong: it reads UR7"):
        tuned(FakeSpace([[[10, 11], [5]]]), FakePool(), clock)
