"""What is proposed to be tried next, from made-up times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from cleave.runtime import proposals
from cleave.runtime.candidates import Candidate
from cleave.schedule.candidates import OVERLAPS

from .made_up_space import FakeClock, FakePool, FakeSpace, single, tuned

WAYS = 12
COMMON = {(division, place, 3 + place + number): f"{place} {number}" for division in range(3) for place in range(2) for number in range(4)}


def space() -> FakeSpace:
    """Three divisions of two kernels of many ways, of which four of each kernel are in all three."""
    return FakeSpace([[[1.0] * WAYS, [1.0] * WAYS]] * 3, alike=COMMON, overlap=True)


def timed(of: FakeSpace, times: Mapping[str, float]) -> list[Candidate]:
    """Candidates by the text of their trials, "division:pick,pick" and ":overlap" where launches do."""
    out: list[Candidate] = []
    for text, seconds in times.items():
        division, picks, *overlap = text.split(":")
        trial = of.trial(int(division), [int(pick) for pick in picks.split(",")])
        trial = next(each for each in (trial, *of.overlaps(trial)) if each.overlap == "".join(overlap))
        out.append(Candidate(trial, of.program(trial), measured=seconds))
    return out


def texts(of: FakeSpace, trials: list[proposals.Trial]) -> list[str]:
    return [of.text(trial) for trial in trials]


def adopted(times: Mapping[str, float], dropped: Mapping[str, float] | None = None) -> list[str]:
    made = space()
    found = timed(made, times)
    return texts(made, proposals.adopted(made, found, [*found, *timed(made, dropped or {})]))


def test_faster_candidates_of_other_divisions_are_followed_the_fastest_first() -> None:
    times = {"0:1,4": 10.0, "0:3,2": 11.0, "0:1,5": 12.0, "0:1,6": 12.5, "1:2,1": 11.4}
    # Of what is slower than the division's own best nothing is taken over.
    assert adopted(times) == ["1:2,4", "1:3,1"]
    assert adopted({**times, "1:2,1": 11.5, "0:1,6": 11.2, "0:1,5": 11.1}) == ["1:2,4", "1:3,1", "1:2,5"], "two for each kernel"


def test_what_was_tried_or_dropped_is_not_adopted() -> None:
    times = {"0:1,4": 10.0, "1:2,1": 11.0}
    assert adopted(times) == ["1:2,4"]
    assert adopted({**times, "1:3,4": 13.0}) == []
    assert adopted(times, {"1:3,4": 0.0}) == []


def test_nothing_is_adopted_from_oneself_or_by_what_is_far_behind() -> None:
    early, _ = OVERLAPS
    assert adopted({"0:1,3": 12.0, f"0:4,4:{early}": 11.0}) == []
    assert adopted({f"0:1,4:{early}": 10.0, "1:2,1": 11.0}) == ["1:2,4"], "whether launches overlap or not"
    assert adopted({"0:1,4": 10.0, "1:2,1": 10.0 * proposals.ADOPTING + 0.1}) == []


def test_no_more_is_adopted_than_there_is_time_for() -> None:
    alike = {(division, place, 5 + place): str(place) for division in range(9) for place in (0, 1)}
    many = FakeSpace([[[1.0] * WAYS, [1.0] * WAYS]] * 9, alike=alike)
    found = timed(many, {"0:5,6": 10.0, **{f"{division}:0,0": 11.0 for division in range(1, 9)}})
    trials = texts(many, proposals.adopted(many, found, found))
    assert trials == [f"{division}:5,0" for division in range(1, 1 + proposals.MOST_ADOPTED)]


def test_the_best_is_refined_in_each_kernel() -> None:
    made = space()
    found = timed(made, {"0:2,0": 12.0, "1:2,1": 10.0, "1:0,1": 11.0, "1:2,4": 11.0, "2:0,0": 12.0})
    wanted = [*(f"1:{pick},1" for pick in range(proposals.REFINED) if pick not in (0, 2))]
    wanted += [f"1:2,{pick}" for pick in range(proposals.REFINED) if pick not in (1, 4)]
    assert texts(made, proposals.refined(made, found, found)) == wanted
    alone = FakeSpace([[[1.0] * WAYS]])
    assert proposals.refined(alone, (ready := timed(alone, {"0:0": 1.0})), ready) == []
    assert proposals.refined(made, [], []) == []


def test_the_tiles_of_the_best_are_run_in_other_orders() -> None:
    tiles = dict.fromkeys(((1, 0, 2), (1, 0, 5), (1, 0, 9), (1, 0, 11)), "64") | dict.fromkeys(((1, 1, 1), (1, 1, 3)), "128")
    made = replace(space(), tiles={**tiles, (0, 0, 2): "64", (0, 0, 3): "64", (1, 0, 7): "32"})
    found = timed(made, {"0:2,0": 12.0, "1:2,1": 10.0, "1:5,1": 11.0, "1:0,4": 11.0, "1:7,0": 12.0})
    assert sorted(texts(made, proposals.reordered(made, found, found))) == ["1:11,1", "1:2,3", "1:9,1"]
    many = FakeSpace([[[1.0] * WAYS]], tiles={(0, 0, pick): "64" for pick in range(WAYS)})
    first = timed(many, {"0:3": 1.0})
    assert len(proposals.reordered(many, first, first)) == proposals.MOST_REORDERED < WAYS - 1
    assert proposals.reordered(made, [], []) == []


def test_an_order_that_is_not_among_the_first_is_found() -> None:
    """Forty ways; the fastest tiles are found among the first, their fastest order, the last way of all, after them."""
    made = replace(single(*(1.0 + pick for pick in range(40))), tiles={(0, 0, 5): "64", (0, 0, 39): "64"})
    times = {f"0:{pick}": 10.0 if pick == 5 else 9.0 if pick == 39 else 20.0 + pick for pick in range(40)}
    clock = FakeClock(times)
    found = tuned(made, FakePool(), clock)
    assert made.text(found.trial) == "0:39"
    assert len(clock.prepared) < 40


@pytest.mark.parametrize("extra", [{}, {"1:7,7": 9.5}])
def test_the_fastest_ways_around_one_trial_are_combined(extra: Mapping[str, float]) -> None:
    """A trial like no other says nothing of how much each of its kernels takes."""
    made = space()
    found = timed(made, {"1:0,0": 12.0, "1:1,0": 11.0, "1:2,0": 13.0, "1:0,1": 11.5, "1:0,2": 11.4, **extra})
    assert texts(made, proposals.combined(made, found)) == ["1:1,2"]


def test_a_library_for_every_kernel_is_not_combined() -> None:
    made = FakeSpace([[[1.0, 1.0], [1.0, 1.0]]], frozenset({(0, 0, 1), (0, 1, 1)}))
    found = timed(made, {"0:0,0": 12.0, "0:1,0": 11.0, "0:0,1": 11.0})
    assert proposals.combined(made, found) == []
