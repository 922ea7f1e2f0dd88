"""What the timing process does that needs no GPU: making inputs and comparing results."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from cleave.runtime import timer
from cleave.runtime.build import Built
from cleave.runtime.clock import NO_MEMORY, SENT_WHOLE, Checked, described, stored
from cleave.runtime.timer import Timer, answer, compared, made
from cleave.targets.triton_python import TritonFile

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    "tensor",
    [
        torch.randn(4, 6).half().t(),
        torch.arange(5),
        torch.tensor(3.0),
        torch.tensor([[True, False], [False, True]]),
        torch.zeros(0, 4),
        torch.randn(3, 8)[:, ::2].bfloat16(),
        torch.randn(3, 1).expand(3, 5),
    ],
    ids=["transposed", "integers", "scalar", "booleans", "empty", "strided", "repeated"],
)
def test_small_inputs_and_integers_are_as_they_were(tensor: torch.Tensor, tmp_path: Path) -> None:
    """So is everything that is kept in a file."""
    for data in (described(tensor), stored(tensor, tmp_path / "data")):
        copy = made(data, CPU, 0)
        assert torch.equal(copy, tensor)
        assert copy.stride() == tensor.stride() and copy.dtype == tensor.dtype


def test_large_floats_are_alike_in_distribution_only() -> None:
    tensor = torch.randn(SENT_WHOLE // 4 + 64) * 3 + 5
    data = described(tensor)
    assert data.content is None
    copy = made(data, CPU, 0)
    assert not torch.equal(copy, tensor)
    assert abs(float(copy.mean()) - 5) < 0.01 and abs(float(copy.std()) - 3) < 0.01


def test_a_large_mask_with_infinities_is_kept() -> None:
    tensor = torch.zeros(SENT_WHOLE // 4 + 64)
    tensor[::2] = -torch.inf
    assert torch.equal(made(described(tensor), CPU, 0), tensor)


def test_rounding_passes_and_errors_do_not() -> None:
    exact = torch.randn(100_000, generator=torch.Generator().manual_seed(0))
    error, wrong = compared([exact.half()], [exact], 1e-3)
    assert wrong == "" and 1e-4 < error < 5e-4
    for bad in (exact * 1.01, torch.full_like(exact, torch.nan), exact.roll(1)):
        assert compared([bad], [exact], 1e-3)[1].startswith("wrong")


def test_one_wrong_element_among_many_is_seen() -> None:
    """It moves the norm of the difference by 3e-4, less than the tolerance."""
    exact = torch.ones(1_000_000)
    bad = exact.clone()
    bad[77] += 0.3
    assert "an element is off by 3.00e-01" in compared([bad], [exact], 1e-3)[1]


def test_infinities_and_nans_must_be_where_they_should() -> None:
    exact = torch.tensor([1.0, torch.inf, torch.nan])
    assert compared([exact.clone()], [exact], 1e-3) == (0.0, "")
    assert compared([torch.tensor([1.0, 2.0, torch.nan])], [exact], 1e-3)[1].startswith("wrong")
    assert compared([torch.tensor([1.0, torch.inf, 0.0])], [exact], 1e-3)[1].startswith("wrong")


@pytest.mark.parametrize(("ready", "kept"), [(False, 0), (True, 3 << 20)])
def test_rest_is_answered_without_a_workload(ready: bool, kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what the process keeps of the GPU's memory, which is nothing where it never came to use it."""
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: ready)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: 3 << 20)
    assert answer(None, ("rest",)) == (None, kept)


class Graph:
    """Stands for a graph whose capture fails in the end, where anything did in it."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.failed = False

    def capture_begin(self) -> None:
        self.calls.append("begin")

    def capture_end(self) -> None:
        self.calls.append("end")
        if self.failed:
            raise RuntimeError("operation failed due to a previous error during capture")


def test_what_failed_in_a_capture_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Want of memory above all, for which there is more to be tried."""
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: contextlib.nullcontext())
    monkeypatch.setattr(timer, "_stream", lambda device: None)
    own = Timer.__new__(Timer)
    own.device = CPU
    graph = Graph()
    with own._captured(cast(Any, graph)):
        graph.calls.append("run")
    assert graph.calls == ["begin", "run", "end"]
    failing = Graph()
    with pytest.raises(torch.OutOfMemoryError), own._captured(cast(Any, failing)):
        failing.failed = True
        raise torch.OutOfMemoryError("tried to allocate")
    assert failing.calls == ["begin", "end"]


def test_a_program_without_memory_has_another_try(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once memory that is not used was given back; only then is it told of."""
    given: list[int] = []
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (3 << 30, 4 << 30))
    monkeypatch.setattr(timer, "_give_back", lambda: given.append(len(tries)))
    built = Built(TritonFile("", {}, ()), {})
    for failures, answer_ in ((1, Checked(1e-4)), (2, Checked(None, NO_MEMORY))):
        tries: list[int] = []
        given.clear()

        def prepared(self: Timer, number: int, built: Built, failures: int = failures, tries: list[int] = tries) -> Checked:
            tries.append(number)
            if len(tries) <= failures:
                raise torch.OutOfMemoryError("tried to allocate")
            return Checked(1e-4)

        monkeypatch.setattr(Timer, "_prepared", prepared)
        own = Timer.__new__(Timer)
        own.device = CPU
        assert own.prepare(7, built) == answer_
        assert tries == [7, 7] and given == list(range(1, failures + 1))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1 << 29, 4 << 30))
    tries, given[:] = [], []
    monkeypatch.setattr(Timer, "_prepared", lambda self, number, built: Checked(1e-4))
    own.prepare(7, built)
    assert given == [0], "where little is free that comes first"
