"""What the timing process does that needs no GPU: making inputs and comparing results."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from cleave.choosing import workload_of
from cleave.extents import extent
from cleave.graph import Axis, Graph, Input, Symbol
from cleave.runtime import timer
from cleave.runtime.build import Built
from cleave.runtime.clock import SENT_WHOLE, Checked, Workload, described, stored
from cleave.runtime.failure import NO_MEMORY
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


CAUSAL = torch.zeros(5, 7).masked_fill(torch.ones(5, 7).tril().bool().logical_not(), -torch.inf)
LIKE = {
    "numbers": torch.randn(5, 7),
    "causal mask": CAUSAL,
    "half causal mask": CAUSAL.half(),
    "bf16 causal mask": CAUSAL.bfloat16(),
    "strided mask": CAUSAL.t().contiguous().t(),
    "repeated mask": CAUSAL[:, 3:4].expand(5, 7),
    "all -inf": torch.full((5, 7), -torch.inf),
    "all inf": torch.full((5, 7), torch.inf),
    "both": torch.full((5, 7), torch.inf).index_fill(0, torch.tensor([2]), -torch.inf),
    "nan": torch.full((5, 7), torch.nan),
    "one nan": torch.randn(5, 7).index_fill(1, torch.tensor([2]), torch.nan),
    "too large for f32": torch.full((5, 7), 1e300, dtype=torch.float64),
    "whose square is too large": torch.randn(5, 7) * 1e30,
    "least": torch.full((5, 7), torch.finfo(torch.float32).min),
    "constant": torch.full((5, 7), 3.0),
    "none": torch.zeros(0, 7),
    "none at all": torch.zeros(0, 0),
    "one": torch.tensor([[-torch.inf]]),
}


@pytest.mark.parametrize("shape", [(5, 7), (11, 16), (3, 2), (1, 1), (12, 3), (0, 7)])
@pytest.mark.parametrize("name", LIKE)
def test_floats_of_another_shape_are_like_those_given(name: str, shape: tuple[int, int]) -> None:
    """Whatever they are: normal numbers where there is a mean and a deviation, else the same again and again."""
    tensor = LIKE[name]
    copy = made(described(tensor, shape), CPU, 0)
    assert copy.shape == shape and copy.is_contiguous() and copy.dtype == tensor.dtype
    if tensor.numel() == 0 or torch.stack(torch.std_mean(tensor.float(), correction=0)).isfinite().all():
        assert copy.isfinite().all()
        return
    for row in range(shape[0]):
        for column in range(shape[1]):
            assert torch.equal(copy[row, column].nan_to_num(7.0), tensor[row % len(tensor), column % tensor.shape[1]].nan_to_num(7.0))


KINDS = {
    "integers": torch.arange(35).reshape(5, 7),
    "booleans": CAUSAL.isfinite(),
    "short integers": torch.arange(35).reshape(5, 7).int(),
}


@pytest.mark.parametrize("name", [*LIKE, *KINDS])
def test_a_workload_can_be_made_of_anything(name: str) -> None:
    """At the hints where everything is floats, else at the sizes of the example."""
    tensor = {**LIKE, **KINDS}[name]
    sizes: dict[str, int] = dict(zip(("m", "n"), tensor.shape, strict=True))
    symbols = (Symbol("m", hints=(12,)), Symbol("n", hints=(9,)))
    axes = (Axis("m", extent("m")), Axis("n", extent("n")))
    graph = Graph("rows", symbols, axes, (Input("x", ("m", "n"), "f32", "m n"),), (), ())
    workload = workload_of(graph, [tensor], sizes, 0)
    (data,) = workload.inputs
    copy = made(data, CPU, 0)
    if name in KINDS:
        assert torch.equal(copy, tensor) and workload.symbols == sizes
    else:
        assert copy.shape == (12, 9) and workload.symbols == {"m": 12, "n": 9}
        assert bool(copy.isfinite().all()) == bool(tensor.isfinite().all())


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


class Loaded:
    """Stands for a program that is loaded: every run gives the next of the results, the last again."""

    def __init__(self, results: list[float]) -> None:
        self.left = results

    def fitted(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        return inputs

    def results(self) -> list[torch.Tensor]:
        return [torch.zeros(3)]

    def run(self, inputs: list[torch.Tensor], results: list[torch.Tensor]) -> None:
        results[0].fill_(self.left.pop(0) if len(self.left) > 1 else self.left[0])

    def spoil(self) -> None: ...


@pytest.mark.parametrize("known", ["given", "computed", "no memory", "no reference", "no graph"])
def test_that_what_is_right_is_not_known_comes_with_every_answer(known: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of right programs, and of those that differ from the first."""

    def evaluate(*_: Any) -> list[torch.Tensor]:
        if known == "no memory":
            raise torch.OutOfMemoryError("tried to allocate")
        return [torch.ones(3)]

    programs = {0: Loaded([1.0]), 1: Loaded([1.0]), 2: Loaded([2.0])}
    for place, name, value in (
        (torch.cuda, "synchronize", lambda: None),
        (torch.cuda, "empty_cache", lambda: None),
        (torch.cuda, "CUDAGraph", lambda: SimpleNamespace(replay=lambda: None)),
        (timer, "CudaBound", lambda plan, *_: programs[plan]),
        (timer, "evaluate", evaluate),
        (timer, "has_reference", lambda graph: known != "no reference"),
        (Timer, "_captured", lambda self, graph: contextlib.nullcontext()),
    ):
        monkeypatch.setattr(place, name, value)
    own = Timer.__new__(Timer)
    expected = (described(torch.ones(3)),) if known == "given" else ()
    graph = None if known == "no graph" else cast(Any, "graph")
    own.workload, own.device, own.inputs = Workload((), {}, graph, 1e-3, 0, expected=expected), CPU, []
    own.graphs, own.results, own.expected = {}, None, None
    own.unknown = own._reference()
    answers = [own._prepared(number, Built(TritonFile("", {}, cast(Any, (number,))), {})) for number in programs]
    assert [bool(answer.failure) for answer in answers] == [False, False, True] and answers[2].wrong
    why = {"no memory": "there is no memory to compute it"}.get(known, "it is not known how to compute it")
    assert {answer.unknown for answer in answers} == {"" if known in ("given", "computed") else why}


class Capture:
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
    graph = Capture()
    with own._captured(cast(Any, graph)):
        graph.calls.append("run")
    assert graph.calls == ["begin", "run", "end"]
    failing = Capture()
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
