"""The tuner with a made-up space, pool and clock."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from cleave import choosing
from cleave.errors import CleaveError
from cleave.runtime import candidates
from cleave.runtime.binary import Binary
from cleave.runtime.build import Built
from cleave.runtime.cache import Store
from cleave.runtime.clock import Checked
from cleave.runtime.machine_code import UnreadableError
from cleave.runtime.tuner import Budget, Tuner
from cleave.schedule.candidates import OVERLAPS
from cleave.schedule.program import Program
from cleave.schedule.targets import TARGETS

from .made_up_space import H200, FakeClock, FakePool, FakeSpace, single, tuned


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


def many(way: float) -> list[float]:
    """So many ways that the last is not among the first trials."""
    return [way, *(way + 1 + number for number in range(40))]


def test_what_is_fast_in_one_division_is_tried_in_another() -> None:
    """The model likes a way that both divisions have so little that only one of them shows among the first trials that it is fast."""
    common = {(0, 1, 1): "common", (1, 1, 40): "common", (1, 1, 39): "another"}
    space = FakeSpace([[[10.0], [5, 6]], [[6.0], many(8.0)]], alike=common)
    times = {"0:0,0": 20.0, "0:0,1": 16.0, **{f"1:0,{pick}": 17.0 for pick in range(40)}, "1:0,40": 12.0}
    pool, clock = FakePool(), FakeClock(times)
    result = tuned(space, pool, clock)
    assert result.program.notes == ("1:0,40",)
    assert result.entries[0].rank is None, "it was not the model's"
    assert (1, 1, 39) not in pool.asked


def test_what_was_adopted_is_put_together() -> None:
    """Both kernels of the second division gain from how a faster one runs its own; the pair is in no other way among the trials."""
    common = {(0, 0, 1): "first", (1, 0, 40): "first", (0, 1, 1): "second", (1, 1, 40): "second"}
    space = FakeSpace([[[10.0, 11], [5, 6]], [many(6.0), many(8.0)]], alike=common)
    slow = {f"1:{first},{second}": 17.0 for first in range(41) for second in range(41) if 0 in (first, second)}
    fast = {"1:40,0": 14.0, "1:0,40": 13.9, "1:40,40": 10.0}
    clock = FakeClock({"0:0,0": 20.0, "0:1,0": 16.0, "0:0,1": 16.5, "0:1,1": 15.0, **slow, **fast})
    assert tuned(space, FakePool(), clock).program.notes == ("1:40,40",)


def test_slow_divisions_adopt_nothing_and_ways_that_spill_are_dropped() -> None:
    common = {(0, 1, 1): "common", (1, 1, 40): "common"}
    space = FakeSpace([[[10.0], [5, 6]], [[6.0], many(8.0)]], alike=common)
    slow = {"0:0,0": 20.0, "0:0,1": 16.0, **{f"1:0,{pick}": 19.0 for pick in range(40)}}
    pool = FakePool()
    assert tuned(space, pool, FakeClock(slow)).program.notes == ("0:0,1",)
    assert (1, 1, 40) not in pool.asked
    near = {**slow, **{f"1:0,{pick}": 17.0 for pick in range(40)}}
    pool = FakePool(spilling={(1, 1, 40): 8})
    result = tuned(space, pool, FakeClock(near))
    assert result.program.notes == ("0:0,1",)
    assert pool.asked.count((1, 1, 40)) == 1
    assert ["spills" in entry.dropped for entry in result.entries if entry.text.startswith("1:0,40")] == [True], "and it is told of"


def test_a_way_of_a_library_is_not_adopted() -> None:
    space = FakeSpace([[[10.0, 9.0], [5]], [[8.0], many(8.0)]], frozenset({(0, 0, 1)}), alike={(0, 0, 1): "library", (1, 1, 40): "library"})
    times = {"0:0,0": 20.0, "0:1,0": 16.0, **{f"1:0,{pick}": 17.0 for pick in range(40)}}
    pool = FakePool()
    assert tuned(space, pool, FakeClock(times)).program.notes == ("0:1,0",)
    assert (1, 1, 40) not in pool.asked


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
    clock = FakeClock(times)
    assert tuned(single(10, 11, 12), FakePool(), clock, store).program.notes == ("0:1",)
    assert not clock.prepared and not clock.sampled


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


def test_what_another_compiler_made_is_compared_and_timed_again(tmp_path: Path) -> None:
    """The same kernels: whatever else makes their machine code differ, the old comparison says nothing of it."""
    store, times = Store(tmp_path), {"0:0": 20.0, "0:1": 30.0}
    assert tuned(single(10, 11), FakePool(), FakeClock(times), store).program.notes == ("0:0",)
    for compiler in ("newer", "another"):
        clock = FakeClock(times, wrong=frozenset(["0:0"]))
        result = tuned(single(10, 11), FakePool(compiler=compiler), clock, store)
        assert clock.prepared == ["0:0", "0:1"]
        assert result.program.notes == ("0:1",) and any("wrong" in remark for remark in result.remarks)
        again = FakeClock(times)
        tuned(single(11), FakePool(compiler=compiler), again, store)
        assert again.prepared == ["0:0"], "what was wrong has no time"
    known = FakeClock(times)
    assert tuned(single(10, 11), FakePool(), known, store).program.notes == ("0:0",) and not known.prepared


def test_one_kernel_that_is_made_anew_makes_the_time_of_the_whole_unknown(tmp_path: Path) -> None:
    @dataclass
    class Newer(FakePool):
        def submit(self, program: Program, architecture: str, wanted: Sequence[int] | None = None, store: Store | None = None) -> Any:
            self.compiler = "newer" if wanted == [1] else ""
            return super().submit(program, architecture, wanted, store)

    store, space = Store(tmp_path), FakeSpace([[[10.0], [5.0]]])
    for pool, prepared in ((FakePool(), 1), (FakePool(), 0), (Newer(), 1), (Newer(), 0)):
        clock = FakeClock({"0:0,0": 20.0})
        tuned(space, pool, clock, store)
        assert len(clock.prepared) == prepared


@pytest.mark.parametrize("changed", ["gpu", "processors", "driver", "torch", "cuda", "architecture", "target"])
def test_times_depend_on_the_machine_and_the_libraries(changed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A product that a library computes has no machine code of ours: torch's version stands for it."""
    properties = SimpleNamespace(name="H200", multi_processor_count=132)
    before = choosing.setting_of("h200", "sm_90", properties)
    assert before == choosing.setting_of("h200", "sm_90", properties)
    for place, name, value, what in (
        (properties, "name", "H100", "gpu"),
        (properties, "multi_processor_count", 114, "processors"),
        (choosing, "nvidia_driver", lambda: "999.1", "driver"),
        (torch, "__version__", "99.0", "torch"),
        (torch.version, "cuda", "99.0", "cuda"),
    ):
        if what == changed:
            monkeypatch.setattr(place, name, value)
    target, architecture = "h100" if changed == "target" else "h200", "sm_80" if changed == "architecture" else "sm_90"
    assert choosing.setting_of(target, architecture, properties) != before


@dataclass
class Unsure(FakeClock):
    """Compares with the first program alone, for a reason; with what is right what is run `later`."""

    reason: str = "there is no memory to compute it"
    later: frozenset[str] = frozenset()

    def prepare(self, number: int, built: Built) -> Checked:
        found = super().prepare(number, built)
        return found if self.prepared[-1] in self.later else replace(found, unknown=self.reason)


def test_without_a_reference_that_is_told_and_told_again_of_times_from_before(tmp_path: Path) -> None:
    """However candidates came by their times, and though they were wrong; what was compared with what is right does not count."""
    store, times = Store(tmp_path), {"0:0": 20.0, "0:1": 30.0, "0:2": 40.0}
    why = "there is no memory to compute it"

    def told(count: int, why: str = why) -> str:
        return f"compared with the first that ran, as what is right is not known: {count} candidates ({why})"

    assert tuned(single(10, 11), FakePool(), Unsure(times), store).remarks == (told(2),)
    assert tuned(single(10, 11), FakePool(), FakeClock(times), store).remarks == (told(2),), "known times"
    assert tuned(single(10, 11, 12), FakePool(), FakeClock(times), store).remarks == (told(2),)
    wrong = tuned(single(10, 11, 12), FakePool(), Unsure(times, frozenset(["0:1"]), later=frozenset(["0:0"])))
    assert wrong.remarks[-1] == told(2) and "wrong" in wrong.remarks[0]
    assert tuned(single(10, 11), FakePool(), FakeClock(times)).remarks == ()
    other = "it is not known how to compute it"
    both = tuned(single(10, 11, 12, 13), FakePool(), Unsure({**times, "0:3": 50.0}, reason=other), store).remarks
    assert both == (told(2), told(1, other))


def test_time_is_bounded() -> None:
    """Checking takes 10 ms each; of 32 candidates only those that fit in 100 ms are looked at."""
    clock = FakeClock({f"0:{number}": 20.0 + number for number in range(32)})
    result = tuned(single(*range(1, 33)), FakePool(), clock, seconds=0.1)
    assert len(clock.prepared) <= 12
    assert result.program.notes[0] in clock.prepared
    assert clock.seconds < 0.11


def test_without_a_clock_the_first_that_fits_is_taken() -> None:
    pool = FakePool({(0, 0, 0): "no"}, {(0, 0, 1): 5}, {})
    result = tuned(single(1, 2, 3, 4, 5, 6, 7, 8), pool)
    assert result.program.notes == ("0:2",)
    assert len(pool.asked) == 4


def test_where_everything_spills_the_least_is_used() -> None:
    result = tuned(single(1, 2), FakePool(spilling={(0, 0, 0): 9, (0, 0, 1): 4}))
    assert result.program.notes == ("0:1",)
    assert any("spills least" in remark for remark in result.remarks)


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[tuple[int, int, int]]]:
    """Makes the code of some kernels wrong, by (division, place, pick); what comes back grows by each that is looked at."""

    def looked(*wrong: tuple[int, int, int]) -> list[tuple[int, int, int]]:
        seen: list[tuple[int, int, int]] = []

        def wrong_code(binary: Binary) -> str:
            seen.append(literal_eval(binary.image.decode()))
            return "it reads UR7 (0x30), which nothing before it sets" if seen[-1] in wrong else ""

        monkeypatch.setattr(candidates, "wrong_code", wrong_code)
        return seen

    return looked


def test_wrong_code_is_found_where_nothing_is_timed(looked: Callable[..., list[tuple[int, int, int]]]) -> None:
    seen = looked((0, 0, 0), (0, 0, 1))
    result = tuned(single(1, 2, 3, 4), FakePool())
    assert result.program.notes == ("0:2",) and seen == [(0, 0, 0), (0, 0, 1), (0, 0, 2)]
    why = "the assembler's code is wrong: it reads UR7 (0x30), which nothing before it sets"
    assert [entry.dropped for entry in result.entries] == ["", why, why]
    assert result.remarks == (f"a candidate was dropped: {why}: 0:0", f"a candidate was dropped: {why}: 0:1")


def test_where_one_kernel_is_wrong_the_other_stays(looked: Callable[..., list[tuple[int, int, int]]]) -> None:
    looked((0, 1, 0))
    assert tuned(FakeSpace([[[6.0, 7.0], [5.0, 9.0]]]), FakePool()).program.notes == ("0:0,1",)


def test_what_is_timed_is_compared_and_its_code_not_read(looked: Callable[..., list[tuple[int, int, int]]]) -> None:
    """Reading takes as long as compiling."""
    seen = looked((0, 0, 0))
    assert tuned(single(1, 2), FakePool(), FakeClock({"0:0": 1.0, "0:1": 2.0})).program.notes == ("0:0",) and seen == []


def test_code_that_cannot_be_read_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(binary: Binary) -> str:
        raise UnreadableError("Triton comes without nvdisasm")

    monkeypatch.setattr(candidates, "wrong_code", unreadable)
    result = tuned(single(1, 2), FakePool())
    assert result.program.notes == ("0:0",)
    assert result.remarks == ("the machine code of what is chosen was not looked at: Triton comes without nvdisasm",)


def test_of_what_spills_wrong_code_is_not_used(looked: Callable[..., list[tuple[int, int, int]]]) -> None:
    looked((0, 0, 1))
    result = tuned(single(1, 2), FakePool(spilling={(0, 0, 0): 9, (0, 0, 1): 4}))
    assert result.program.notes == ("0:0",) and any("spills least" in remark for remark in result.remarks)


def test_where_all_code_is_wrong_that_is_the_reason(looked: Callable[..., list[tuple[int, int, int]]]) -> None:
    looked((0, 0, 0), (0, 0, 1))
    for spilling in ({}, {(0, 0, 0): 9, (0, 0, 1): 4}):
        with pytest.raises(CleaveError, match=r"no candidate can run on h200: the assembler's code is wrong: it reads UR7"):
            tuned(single(1, 2), FakePool(spilling=spilling))


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
    """But for the model's favourite of a division, in one way."""
    space = FakeSpace([[[10.0]], [[6, 7], [5]]], overlap=True)
    early, _ = OVERLAPS
    clock = FakeClock({"0:0": 14, "1:0,0": 25, "1:1,0": 25, f"1:0,0:{early}": 24})
    assert tuned(space, FakePool(), clock).program.notes == ("0:0",)
    assert sorted(clock.prepared) == ["0:0", "1:0,0", f"1:0,0:{early}", "1:1,0"]


def test_what_the_model_likes_best_is_among_the_first_with_overlap() -> None:
    """So that it counts as one of these, and not only once everything else is known."""
    space = FakeSpace([[[10.0, 11.0]], [[6, 7], [5, 6]]], overlap=True)
    early, _ = OVERLAPS
    times = {f"1:{picks}{way}": 18.0 for picks in ("0,0", "1,0", "0,1", "1,1") for way in ("", *(f":{each}" for each in OVERLAPS))}
    result = tuned(space, FakePool(), FakeClock({**times, "0:0": 14, "0:1": 15, f"1:0,0:{early}": 13}))
    assert result.program.notes == (f"1:0,0:{early}",)
    assert result.entries[0].rank is not None


def test_machines_without_early_launches_have_no_overlap() -> None:
    space = FakeSpace([[[6], [5]]], overlap=True)
    clock = FakeClock({"0:0,0": 15})
    Tuner(space, TARGETS["a100"], "sm_80", FakePool(), clock, Budget(), Store(enabled=False), "here", now=lambda: clock.seconds).tune()
    assert clock.prepared == ["0:0,0"]


def test_launches_stream_where_that_is_faster() -> None:
    """Of the few fastest; nothing is compiled for it."""
    space = FakeSpace([[[10.0, 11.0, 12.0, 13.0, 14.0]]], streaming=frozenset([0]))
    plain = {"0:0": 30.0, "0:1": 22.0, "0:2": 23.0, "0:3": 24.0, "0:4": 25.0}
    pool, clock = (
        FakePool(),
        FakeClock({**plain, "0:1:streaming": 21.0, "0:2:streaming": 20.0, "0:3:streaming": 30.0, "0:4:streaming": 24.0}),
    )
    result = tuned(space, pool, clock)
    assert result.program.notes == ("0:2:streaming",)
    assert len(pool.asked) == 5
    streaming = {name for name in clock.prepared if name.endswith("streaming")}
    assert streaming == {f"0:{pick}:streaming" for pick in (1, 2, 3, 4)}
    assert result.entries[0].streaming and result.entries[0].rank is None, "the model has no say in it"


def test_launches_that_stream_for_nothing_are_not_chosen() -> None:
    """The processor takes longer for these: what they save must be more than noise."""
    space = FakeSpace([[[10.0]]], streaming=frozenset([0]))
    assert tuned(space, FakePool(), FakeClock({"0:0": 1000, "0:0:streaming": 995})).program.notes == ("0:0",)
    assert tuned(space, FakePool(), FakeClock({"0:0": 1000, "0:0:streaming": 980})).program.notes == ("0:0:streaming",)


def test_launches_that_overlap_may_stream_too() -> None:
    space = FakeSpace([[[6], [5]]], overlap=True, streaming=frozenset([0]))
    early, late = OVERLAPS
    times = {"0:0,0": 15.0, f"0:0,0:{early}": 13.0, f"0:0,0:{late}": 14.0, "0:0,0:streaming": 14.5, f"0:0,0:{late}:streaming": 13.5}
    result = tuned(space, FakePool(), FakeClock({**times, f"0:0,0:{early}:streaming": 12.0}))
    assert result.program.notes == (f"0:0,0:{early}:streaming",)
