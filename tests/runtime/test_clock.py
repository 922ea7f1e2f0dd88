"""The process that times, where something goes wrong in it."""

from __future__ import annotations

from typing import Any, cast

import pytest
import torch

from cleave.runtime.build import Built
from cleave.runtime.clock import Checked, Data, GpuClock, Workload
from cleave.runtime.connection import Gone
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
        assert "the inputs could not be made" in first.failure
        assert clock._process is None
        assert clock.prepare(1, built) == first
        assert clock._process is None
        clock.workload = workload(4)
        assert clock.prepare(1, built) == first
    finally:
        clock.close()


class Process:
    """Stands for the process that times; `refuses` to run on other inputs."""

    def __init__(self, refuses: bool = False) -> None:
        self.asked: list[Any] = []
        self.refuses = refuses
        self.closed = False

    def ask(self, message: tuple[Any, ...], seconds: float) -> object:
        self.asked.append(message)
        if message[0] in ("open", "rest") and self.refuses:
            raise Gone("out of memory")
        return "" if message[0] == "open" else Checked(1e-4)

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
        assert "the inputs could not be made" in clock.prepare(0, built).failure
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
