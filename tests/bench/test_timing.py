"""How many rounds and calls are timed, and of whom."""

from __future__ import annotations

import time

from cleave.bench.results import OURS
from cleave.bench.timing import deciding, processor_microseconds, settled


def test_processor_time_counts_calls() -> None:
    calls: list[int] = []
    waits: list[int] = []
    found = processor_microseconds(lambda: calls.append(1), lambda: waits.append(len(calls)))
    assert found > 0
    assert waits[:3] == [0, 20, 40] and waits[-1] == len(calls)


def test_the_first_call_after_a_wait_does_not_count_for_the_others() -> None:
    waited: list[int] = []

    def call() -> None:
        if waited:
            time.sleep(0.005)
            waited.clear()

    assert 0 < processor_microseconds(call, lambda: waited.append(1)) < 1000


def test_what_decides_is_timed_on() -> None:
    found = {OURS: [9.0] * 9, "eager": [3.2] * 9, "flash": [2.0] * 9, "beside": [8.0] * 9}
    assert deciding(found, list(found), ["eager", "flash"]) == [OURS, "flash", "beside"]
    assert deciding(found, list(found), ["eager"]) == list(found)
    assert deciding(found, [OURS], []) == [OURS]


def test_medians_are_known_when_samples_hardly_differ() -> None:
    even = [1.0, 1.001, 0.999, 1.002, 0.998, 1.0, 1.001, 0.999, 1.0]
    wide = [1.0, 1.03, 0.97, 1.02, 0.98, 1.05, 0.95, 1.01, 0.99]
    assert settled({"a": even}, ["a"]) and not settled({"a": even, "b": wide}, ["a", "b"])
    assert settled({"a": even, "b": wide}, ["a"]) and not settled({"a": even[:3]}, ["a"])
