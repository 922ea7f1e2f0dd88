"""The process that times, where something goes wrong in it."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from cleave.runtime import clock as clock_module
from cleave.runtime.build import Built
from cleave.runtime.clock import MOST_HELD, MOST_RESTS, Checked, Data, GpuClock, Hung, UnmadeError, Workload
from cleave.runtime.connection import Gone
from cleave.runtime.failure import Failure, Kind
from cleave.targets.triton_python import TritonFile


def workload(size: int) -> Workload:
    return Workload((Data((size,), (1,), torch.float16),), {}, None, 1e-3, 0)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a CUDA device")
def test_inputs_that_cannot_be_made_are_told_of_once() -> None:
    """Every program gets the reason; the process is started again for another workload only."""
    clock = GpuClock(workload(3))
    built = Built(TritonFile("", {}, ()), {})
    try:
        first = clock.prepare(0, built)
        assert "the inputs could not be made" in str(first.failure) and first.unmade
        assert clock._process is None
        assert clock.prepare(1, built) == first
        assert clock._process is None
        clock.workload = workload(4)
        assert clock.prepare(1, built) == first
    finally:
        clock.close()


class Process:
    """Stands for the process that times; `refuses` to run on other inputs."""

    def __init__(self, refuses: bool = False, held: int = 0) -> None:
        self.asked: list[Any] = []
        self.refuses = refuses
        self.held = held
        self.closed = False

    def ask(self, message: tuple[Any, ...], seconds: float) -> object:
        self.asked.append(message)
        if message[0] in ("open", "rest") and self.refuses:
            raise Gone("out of memory")
        answers = {"open": "", "rest": self.held}
        return answers.get(message[0], Checked(1e-4))

    def close(self) -> None:
        self.closed = True


def test_the_process_stays_for_another_workload_and_forgets_programs() -> None:
    clock, process, built = GpuClock(workload(3)), Process(), Built(TritonFile("", {}, ()), {})
    try:
        clock._peer, clock._open = cast(Any, process), True
        assert clock.prepare(0, built) == Checked(1e-4)
        clock.workload = workload(4)
        assert clock.prepare(0, built) == clock.prepare(1, built) == Checked(1e-4)
        assert process.asked == [("prepare", 0, built), ("open", workload(4)), ("prepare", 0, built), ("prepare", 1, built)]
        assert not process.closed
    finally:
        clock.close()


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a CUDA device")
def test_a_process_that_cannot_go_on_is_followed_by_another() -> None:
    clock, process, built = GpuClock(workload(3)), Process(refuses=True), Built(TritonFile("", {}, ()), {})
    try:
        clock._peer = cast(Any, process)
        assert "the inputs could not be made" in str(clock.prepare(0, built).failure)
        assert process.closed and len(process.asked) == 1
    finally:
        clock.close()


def test_a_clock_that_rests_has_nothing_and_its_process_takes_other_work() -> None:
    clock, process, built = GpuClock(workload(3)), Process(), Built(TritonFile("", {}, ()), {})
    try:
        clock._peer, clock._open = cast(Any, process), True
        clock.prepare(0, built)
        assert clock.rest() and clock.workload is None
        clock.workload = workload(4)
        clock.prepare(0, built)
        assert [message[0] for message in process.asked] == ["prepare", "rest", "open", "prepare"]
    finally:
        clock.close()
    assert not clock.rest(), "there is no process"


def test_a_process_that_cannot_rest_is_ended() -> None:
    clock, process = GpuClock(workload(3)), Process(refuses=True)
    clock.close()
    clock._peer = cast(Any, process)
    assert not clock.rest() and process.closed


@pytest.mark.parametrize(("held", "rests"), [(MOST_HELD + 1, 1), (0, MOST_RESTS)])
def test_a_process_that_keeps_much_or_had_much_is_ended(held: int, rests: int) -> None:
    clock, process = GpuClock(), Process(held=held)
    clock.close()
    clock._peer = cast(Any, process)
    for number in range(1, rests + 1):
        assert clock.rest() == (number < rests) and process.closed == (number == rests)


def test_a_process_that_ended_before_its_first_work_is_no_process() -> None:
    clock = GpuClock()
    assert clock._warm is not None and clock.rest()
    clock._warm[0].kill()
    clock._warm[0].wait()
    assert not clock.rest()
    clock.close()


class Faulting:
    """Stands for processes, one after another: each ends where `bad` is prepared again or sampled, or answers that as fatal."""

    def __init__(self, bad: int, answers: bool) -> None:
        self.bad, self.answers = bad, answers
        self.there: set[int] = set()
        self.first = True

    def ask(self, message: tuple[Any, ...], seconds: float) -> object:
        match message:
            case ("open", _):
                return ""
            case ("prepare", int(number), _):
                if number == self.bad and not self.first:
                    if self.answers:
                        return Checked(None, Failure(Kind.FATAL, "an illegal address"))
                    raise Gone("the process ended")
                self.there.add(number)
                return Checked(1e-4)
            case ("sample", numbers):
                if self.bad in numbers or not set(numbers) <= self.there:
                    raise Gone("the process ended")
                return [float(number) for number in numbers]
            case _:
                raise AssertionError(message)

    def close(self) -> None:
        self.there.clear()
        self.first = False


@pytest.mark.parametrize("answers", [False, True])
def test_of_several_the_one_that_faults_alone_is_told_of(answers: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though it faults again where another process is to have all of them."""
    process, built = Faulting(1, answers), Built(TritonFile("", {}, ()), {})
    clock = GpuClock(workload(3))
    clock.close()
    monkeypatch.setattr(clock_module, "_started", lambda: (SimpleNamespace(pid=0, kill=lambda: None, wait=lambda: None), socket.socket()))
    monkeypatch.setattr(clock_module, "Peer", lambda connection, pid: process)
    for number in range(5):
        assert not clock.prepare(number, built).failure
    with pytest.raises(Hung) as hung:
        clock.sample(range(5))
    assert hung.value.number == 1
    left = [0, 2, 3, 4]
    assert clock.sample(left) == [0.0, 2.0, 3.0, 4.0]


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a CUDA device")
def test_inputs_that_cannot_be_made_again_are_no_programs_fault() -> None:
    clock = GpuClock(workload(3))
    clock._kept[0] = Built(TritonFile("", {}, ()), {})
    try:
        with pytest.raises(UnmadeError, match="the inputs could not be made"):
            clock.sample([0])
    finally:
        clock.close()
