"""The race between programs, with made-up clocks."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from cleave.runtime.race import MOST, race


def noisy(
    times: Sequence[float], seed: int, noise: float = 0.02, drift: float = 0.0
) -> tuple[Callable[[Sequence[int]], list[float]], list[int]]:
    """A clock with the given true times; the second value counts the runs. With `drift` everything slows down as time goes on."""
    rng = random.Random(seed)
    runs: list[int] = []

    def sample(numbers: Sequence[int]) -> list[float]:
        out: list[float] = []
        for number in numbers:
            runs.append(number)
            out.append(times[number] * (1 + drift * len(runs)) * (1 + abs(rng.gauss(0, noise))))
        return out

    return sample, runs


@pytest.mark.parametrize("seed", range(10))
def test_the_fastest_wins_through_noise_and_drift(seed: int) -> None:
    """5% ahead, with 2% of noise and a clock that slows by half over the race."""
    times = [1.3, 1.0, 1.05, 2.0, 1.6, 1.1]
    sample, runs = noisy(times, seed, drift=0.5 / 180)
    standing = race(range(6), sample, lambda: False)
    assert standing.leader == 1
    assert runs.count(3) <= 3 and runs.count(4) <= 3
    assert set(standing.times) == set(range(6))


def test_a_clear_leader_ends_the_race_early() -> None:
    sample, runs = noisy([1.0, 2.0, 3.0], 0)
    standing = race(range(3), sample, lambda: False)
    assert standing.left == [0] and len(runs) == 9


def test_equals_end_without_running_forever() -> None:
    sample, runs = noisy([1.0, 1.0, 1.0], 1)
    standing = race(range(3), sample, lambda: False)
    assert 0 < len(runs) <= 3 * MOST and standing.rounds < MOST
    assert all(abs(seconds - 1.0) < 0.05 for seconds in standing.times.values())


def test_time_can_run_out() -> None:
    sample, runs = noisy([1.0, 1.01], 2)
    standing = race(range(2), sample, lambda: len(runs) >= 4)
    assert len(runs) == 4 and standing.leader in (0, 1)


def test_a_lone_program_is_timed() -> None:
    sample, runs = noisy([1.0], 3)
    assert race([0], sample, lambda: False).median(0) == pytest.approx(1.0, rel=0.05)
    assert 3 <= len(runs) <= MOST


def test_rounds_begin_with_another_program() -> None:
    """A clock on which the first of a round is a tenth faster, as after a pause of a GPU, does not decide between equals."""
    rounds: list[list[int]] = []

    def sample(numbers: Sequence[int]) -> list[float]:
        rounds.append(list(numbers))
        return [0.9 if place == 0 else 1.0 for place in range(len(numbers))]

    standing = race(range(3), sample, lambda: False)
    assert [order[0] for order in rounds[:4]] == [0, 1, 2, 0]
    assert len(set(standing.times.values())) == 1
