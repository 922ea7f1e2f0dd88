"""Measured choice between variants: what each takes at each of the points, and what that says of other sizes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import sqrt
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleave.remarks import collected
from cleave.runtime.build import Built
from cleave.runtime.clock import Checked, Hung, Workload
from cleave.runtime.connection import Gone
from cleave.runtime.failure import Failure, Kind
from cleave.timings import MOST_POINTS, ROUNDS, crossed, timed
from cleave.variants import Variant, fastest

POINTS = ({"m": 1, "n": 128}, {"m": 1, "n": 4096}, {"m": 512, "n": 512})
Time = Callable[[int, int], float]
"""Microseconds at m and n."""


@dataclass
class MadeUpPrediction:
    """Estimates in microseconds; with `counts` half of them with fewer chunks."""

    estimate: Time
    counts: tuple[Any, ...] = ()

    def seconds(self, symbols: Mapping[str, int]) -> float:
        return self.estimate(symbols["m"], symbols["n"]) * 1e-6

    def fewer(self, symbols: Mapping[str, int]) -> tuple[float, dict[str, int]]:
        return self.seconds(symbols) / 2, {"s": 1}


@dataclass
class MadeUpClock:
    """Variants, known by their files, that take what is said of them. `failing` and `hanging` are what goes wrong at which m and n."""

    times: Mapping[str, Time]
    failing: Mapping[tuple[str, int, int], str] = field(default_factory=dict[tuple[str, int, int], str])
    hanging: frozenset[tuple[str, int, int]] = frozenset()
    gone: bool = False
    unknown: str = ""
    seconds: float = 0.0
    workload: Any = None
    opened: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    names: dict[int, str] = field(default_factory=dict[int, str])
    sampled: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])

    def prepare(self, number: int, built: Built) -> Checked:
        m, n = self.workload.symbols["m"], self.workload.symbols["n"]
        if (m, n) not in self.opened:
            self.opened.append((m, n))
        self.names[number] = str(built.file)
        self.seconds += 0.01
        failing = self.failing.get((self.names[number], m, n))
        return Checked(None, Failure(Kind.WRONG, failing) if failing else None, self.unknown)

    def sample(self, numbers: Sequence[int]) -> list[float]:
        m, n = self.workload.symbols["m"], self.workload.symbols["n"]
        self.sampled.append(tuple(self.names[number] for number in numbers))
        if self.gone:
            raise Gone("the process ended")
        for number in numbers:
            if (self.names[number], m, n) in self.hanging:
                raise Hung(number, "no answer within 10 s")
        wobble = 1 + 0.5 * (len(self.sampled) % 5 == 0)
        return [self.times[self.names[number]](m, n) * 1e-6 * wobble for number in numbers]

    def forget(self, number: int) -> None:
        del self.names[number]

    def close(self) -> None:
        pass


def variant(name: str, estimate: Time, fixed: Mapping[str, int] | None = None, counts: tuple[Any, ...] = ()) -> Variant:
    made_up = cast(Any, MadeUpPrediction(estimate, counts))
    return Variant(cast(Any, None), cast(Any, name), {}, {"sched": name}, {"m": 1, "n": 1}, made_up, (), (), fixed or {})


def workloads(*points: Mapping[str, int]) -> list[Workload]:
    return [Workload((), point, None, 1e-3, 0) for point in points]


def taken(variants: Sequence[Variant], m: int, n: int) -> str:
    return str(variants[fastest(variants, {"m": m, "n": n})[0]].file)


def linear(first: float, rate: float) -> Time:
    return lambda m, n: first + rate * m * n


MISTAKEN = [variant("a", linear(4, 0.001)), variant("b", linear(5, 0.0013))]
"""The model likes a better everywhere."""


def test_what_the_model_mistakes_at_one_point_is_corrected_near_it_and_right_far_from_it() -> None:
    """a takes twice as long as it thinks at few keys, and what it thinks at other sizes."""
    assert {taken(MISTAKEN, m, n) for m, n in ((1, 1), (1, 128), (1, 4096), (512, 512))} == {"a"}
    truth = {"a": lambda m, n: (2 if n < 1000 and m == 1 else 1) * (4 + 0.001 * m * n), "b": linear(5, 0.0013)}
    variants = timed(MISTAKEN, workloads(*POINTS), MadeUpClock(truth))
    assert [[round(timing.measured * 1e6, 3) for timing in one.times] for one in variants] == [
        [8.256, 8.096, 266.144],
        [5.166, 10.325, 345.787],
    ]
    assert {taken(variants, m, n) for m, n in ((1, 128), (1, 100), (1, 200), (1, 64), (2, 128))} == {"b"}
    far = ((1, 4096), (1, 8192), (2, 4096), (1, 1_000_000), (512, 512), (500, 600), (9000, 9000))
    assert {taken(variants, m, n) for m, n in far} == {"a"}


def test_at_the_points_the_fastest_by_the_clock_is_taken() -> None:
    truth = {"a": lambda m, n: 30.0 if n == 4096 else 10.0, "b": lambda m, n: 20.0}
    variants = timed(MISTAKEN, workloads(*POINTS), MadeUpClock(truth))
    for point in POINTS:
        assert taken(variants, point["m"], point["n"]) == ("b" if point["n"] == 4096 else "a")


def test_an_error_of_the_model_for_all_does_not_count_for_some() -> None:
    """Everything takes ten times as long as estimated at many rows, where the variant of one row has no time."""
    variants = [variant("one", linear(4.1, 0.001), {"m": 1}), variant("general", linear(4, 0.001))]
    truth = {"one": linear(4, 0.001), "general": lambda m, n: (4.2 + 0.001 * m * n) * (10 if m > 1 else 1)}
    variants = timed(variants, workloads(*POINTS), MadeUpClock(truth))
    assert [len(one.times) for one in variants] == [2, 3]
    assert {taken(variants, 1, n) for n in (1, 128, 700, 4096, 100_000)} == {"one"}
    assert {taken(variants, m, n) for m, n in ((2, 128), (0, 128), (512, 512))} == {"general"}


def test_variants_that_take_different_calls_are_compared_where_both_do() -> None:
    """One for one row, one for one key: at one row and key both are able, which is no size that either was made for."""
    variants = [variant("row", linear(4, 0.001), {"m": 1}), variant("key", linear(5, 0.001), {"n": 1}), variant("any", linear(9, 0.001))]
    truth = {"row": linear(8, 0.001), "key": linear(4, 0.001), "any": linear(9, 0.001)}
    points = [{"m": 1, "n": 4096}, {"m": 512, "n": 1}, {"m": 512, "n": 4096}]
    assert taken(timed(variants, workloads(*points), MadeUpClock(truth)), 1, 1) == "row"
    between = timed(variants, workloads(*points, *crossed(points, {})), MadeUpClock(truth))
    assert taken(between, 1, 1) == "key" and taken(between, 1, 4096) == "row" and taken(between, 700, 1) == "key"


SIZES = st.lists(st.fixed_dictionaries({name: st.integers(1, 40) for name in "mn"}, optional={"b": st.integers(1, 5)}), max_size=5)


@given(SIZES, st.sampled_from([1, 4]))
def test_points_between_are_of_the_least_the_middle_and_the_largest_values(given_: list[dict[str, int]], multiple: int) -> None:
    points = [{**point, "n": point["n"] * multiple} for point in given_]
    found = crossed(points, {"n": multiple})
    assert not any(point in points for point in found) and len({tuple(point.items()) for point in found}) == len(found)
    values = {name: [point[name] for point in points if name in point] for point in points for name in point}
    for point in found:
        assert list(point) == list(values)
        assert point["n"] % multiple == 0
        for name, size in point.items():
            least, most = min(values[name]), max(values[name])
            assert least <= size <= most
            assert size in (least, most) or abs(size - sqrt(least * most)) <= max(multiple, 1) / 2
    ends = [dict(zip(values, sizes, strict=True)) for sizes in product(*({min(of), max(of)} for of in values.values()))] if values else []
    assert all(end in found or end in points for end in ends)


def test_many_symbols_have_few_points() -> None:
    for count, wanted in ((4, 3**4 - 2), (5, 2**5 - 2), (6, 2**6 - 2), (7, 0), (30, 0)):
        names = [f"s{number}" for number in range(count)]
        assert len(crossed([dict.fromkeys(names, 1), dict.fromkeys(names, 16)], {})) == wanted <= MOST_POINTS


def test_of_equals_the_one_with_more_constants_is_taken_then_the_first() -> None:
    variants = [variant("first", linear(4, 0.001)), variant("second", linear(4, 0.001)), variant("one", linear(4, 0.001), {"m": 1})]
    assert taken(variants, 1, 5) == "one" and taken(variants, 2, 5) == "first"


def test_fewer_chunks_are_corrected_as_the_rest() -> None:
    """The model has it at half the time with fewer chunks, but it takes three times as long as the model thinks."""
    variants = [variant("chunks", linear(4, 0.001), None, ("s",)), variant("plain", linear(5, 0.001))]
    assert fastest(variants, POINTS[0]) == (0, {"s": 1})
    variants = timed(variants, workloads(*POINTS), MadeUpClock({"chunks": linear(12, 0.003), "plain": linear(5, 0.001)}))
    assert fastest(variants, POINTS[0]) == (1, {})


@pytest.mark.parametrize("way", ["fails", "hangs"])
def test_one_that_fails_or_hangs_is_left_out_there_and_remarked(way: str) -> None:
    at = ("a", 1, 4096)
    clock = MadeUpClock({"a": linear(4, 0.001), "b": linear(5, 0.0013)})
    if way == "fails":
        clock.failing = {at: "wrong: relative error 5.0e-01"}
    else:
        clock.hanging = frozenset([at])
    with collected() as remarks:
        variants = timed(MISTAKEN, workloads(*POINTS), clock)
    why = "wrong: relative error 5.0e-01" if way == "fails" else "no answer within 10 s"
    assert remarks == [f"the variant for m = 1, n = 1 was not timed at m = 1, n = 4096: {why}"]
    assert [[timing.point["n"] for timing in one.times] for one in variants] == [[128, 512], [128, 4096, 512]]
    assert taken(variants, 1, 4096) == "a", "points of all alone count"


def test_without_a_reference_that_is_told_once_at_every_point() -> None:
    clock = MadeUpClock({"a": linear(4, 0.001), "b": linear(5, 0.0013)}, unknown="there is no memory to compute it")
    with collected() as remarks:
        timed(MISTAKEN, workloads(*POINTS[:2]), clock)
    told = "variants were compared with the first that ran: there is no memory to compute it"
    assert remarks == [f"what is right is not known at m = 1, n = {n}, {told}" for n in (128, 4096)]


def test_without_a_process_nothing_is_corrected() -> None:
    with collected() as remarks:
        variants = timed(MISTAKEN, workloads(*POINTS), MadeUpClock({}, gone=True))
    assert not any(one.times for one in variants) and len(remarks) == 6
    assert taken(variants, 1, 128) == "a"


def test_equal_points_are_measured_once_and_none_after_the_time() -> None:
    truth = {"a": linear(4, 0.001), "b": linear(5, 0.0013)}
    clock = MadeUpClock(truth)
    timed(MISTAKEN, workloads(POINTS[0], POINTS[1], POINTS[0]), clock)
    assert clock.opened == [(1, 128), (1, 4096)] and clock.sampled == [("a", "b")] * (2 * ROUNDS)
    clock = MadeUpClock(truth)
    with collected() as remarks:
        variants = timed(MISTAKEN, workloads(*POINTS), clock, 0.015, lambda: clock.seconds)
    assert clock.opened == [(1, 128)] and [len(one.times) for one in variants] == [1, 1]
    assert remarks == ["variants were compared at 1 of 3 sizes: that took 0 s"]


def test_times_are_kept_and_the_same_again() -> None:
    truth = {"a": linear(4, 0.002), "b": linear(5, 0.0013)}
    variants = timed(MISTAKEN, workloads(*POINTS), MadeUpClock(truth))
    assert timed(MISTAKEN, workloads(*POINTS), MadeUpClock(truth)) == variants
    assert pickle.loads(pickle.dumps([one.times for one in variants])) == [one.times for one in variants]
    assert str(variants[0].times[0]) == "4.26 us (estimated 4.13) at m = 1, n = 128"
