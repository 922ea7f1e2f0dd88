"""Everything the tuner may choose, run on made-up machines; what is told of it; and on a GPU, the real thing."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from cleave.bench import sweep_report
from cleave.bench.accuracy import exact
from cleave.bench.cases import Case, Given
from cleave.bench.sweep import Bad, Sweep, Swept
from cleave.choosing import Machine
from cleave.frontend import capture
from cleave.runtime.cache import Store
from cleave.runtime.clock import Checked
from cleave.runtime.failure import Failure, Kind
from cleave.runtime.timer import made
from cleave.schedule.candidates import OVERLAPS
from cleave.schedule.targets import TARGETS
from cleave.tools import cleave_bench
from tests.runtime.made_up_space import FakeClock, FakePool, FakeSpace

EARLY, LATE = OVERLAPS


class Clock(FakeClock):
    """One whose candidates in `faulting` take the process with them, and that keeps nothing."""

    def __init__(self, wrong: tuple[str, ...] = (), faulting: tuple[str, ...] = (), each: float = 0.0) -> None:
        super().__init__({}, frozenset(wrong))
        self.faulting = faulting
        self.each = each

    def prepare(self, number: int, built: Any) -> Checked:
        assert not self.names, "what was run is forgotten"
        found = super().prepare(number, built)
        self.seconds += self.each
        return Checked(None, Failure(Kind.FAILED, "running it: the process ended")) if self.prepared[-1] in self.faulting else found


def sweep(space: FakeSpace, pool: FakePool, *clocks: FakeClock, target: str = "h200", **more: Any) -> Swept:
    now: Callable[[], float] = more.pop("now", lambda: clocks[0].seconds)
    return Sweep(space, TARGETS[target], "sm_90", pool, clocks, Store(enabled=False), now=now, **more).run("a case")


def test_every_way_of_each_kernel_is_run_alone_with_and_without_overlap() -> None:
    space = FakeSpace([[[6, 7, 8], [5, 6]], [[9.0]]], overlap=True)
    pool, clock = FakePool(), Clock()
    found = sweep(space, pool, clock)
    plain = {"0:0,0", "0:1,0", "0:2,0", "0:0,1", "1:0"}
    wanted = plain | {f"{text}:{overlap}" for text in plain - {"1:0"} for overlap in OVERLAPS}
    assert sorted(clock.prepared) == sorted(wanted)
    assert (found.configurations, found.compiled, found.right, found.equal, found.left) == (13, 13, 13, 0, 0)
    assert found.good and found.worst == pytest.approx(1e-4)
    assert len(pool.asked) == 6 + 2 * 5, "each way of a kernel is compiled once, and once for each kind of overlap"


@pytest.mark.parametrize("kind", [*Kind])
@pytest.mark.parametrize("text", ["does not compile", "spills 3", "wrong", "anything"])
def test_what_is_counted_is_the_kind_whatever_the_words(kind: Kind, text: str) -> None:
    found, failure = Swept("a case"), Failure(kind, text)
    found.drop(failure)
    found.drop(failure)
    assert found.dropped == {kind.value: 2} and found.reasons == {text: 2}
    found.add("a plan", Checked(None, failure))
    assert (found.wrong, found.faulted)[kind is not Kind.WRONG] == [Bad("a plan", text)] and not found.good


def test_machines_without_early_launches_run_none() -> None:
    clock = Clock()
    assert sweep(FakeSpace([[[6], [5]]], overlap=True), FakePool(), clock, target="a100").configurations == 1
    assert clock.prepared == ["0:0,0"]


def test_what_is_wrong_hangs_or_faults_is_told_with_its_plan() -> None:
    clock = Clock(wrong=("0:1",), faulting=("0:2",))
    found = sweep(FakeSpace([[[1, 2, 3, 4]]]), FakePool(), clock)
    assert found.wrong == [Bad("0:1", "wrong: relative error 5.0e-01")]
    assert found.faulted == [Bad("0:2", "running it: the process ended")]
    assert found.right == 2 and not found.good
    assert sorted(clock.prepared) == ["0:0", "0:1", "0:2", "0:3"], "nothing was beside it, so it is not run again"
    text = "\n".join(sweep_report.lines([found]))
    assert "a case: wrong: relative error 5.0e-01: 0:1\na case: running it: the process ended: 0:2" in text
    assert text.endswith("2 of 4 configurations that ran are wrong, hung or faulted")


class Crowded(Clock):
    """One that runs nothing until another clock runs something too, while any may; what is in `shy` faults beside others."""

    def __init__(self, meeting: threading.Barrier, shy: tuple[str, ...], faulting: tuple[str, ...]) -> None:
        super().__init__(wrong=("0:3",), faulting=faulting)
        self.meeting, self.shy = meeting, shy
        self.closed = False

    def prepare(self, number: int, built: Any) -> Checked:
        try:
            self.meeting.wait(1.0)
            beside = True
        except threading.BrokenBarrierError:
            beside = False
        found = super().prepare(number, built)
        return Checked(None, Failure(Kind.FAILED, "running it: no answer")) if beside and self.prepared[-1] in self.shy else found

    def close(self) -> None:
        self.closed = True


def test_what_hangs_or_faults_beside_others_is_run_again_alone() -> None:
    meeting = threading.Barrier(2)
    clocks = [Crowded(meeting, ("0:1",), ("0:2",)) for _ in range(2)]
    found = sweep(FakeSpace([[[1, 2, 3, 4]]]), FakePool(), *clocks)
    assert sorted(name for clock in clocks for name in clock.prepared) == ["0:0", "0:1", "0:1", "0:2", "0:2", "0:3"]
    assert found.right == 2 and found.faulted == [Bad("0:2", "running it: the process ended")] and len(found.wrong) == 1
    assert [clock.closed for clock in clocks].count(True) == 1, "what does not run it takes no memory meanwhile"


class Unopened(Clock):
    """One that has no inputs, and says so at once; `able` has them once it was closed."""

    def __init__(self, able: bool = False) -> None:
        super().__init__()
        self.able = able
        self.closed = False

    def prepare(self, number: int, built: Any) -> Checked:
        found = super().prepare(number, built)
        if self.closed and self.able:
            return found
        self.names.clear()
        return Checked(None, Failure(Kind.UNMADE, "running it: the inputs could not be made: out of memory"))

    def forget(self, number: int) -> None:
        self.names.pop(number, None)

    def close(self) -> None:
        self.closed = True


def test_what_has_no_inputs_runs_nothing_while_another_does() -> None:
    clocks = [Clock(), Unopened(), Unopened()]
    found = sweep(FakeSpace([[list(range(1, 61))]]), FakePool(), *clocks)
    assert found.right == 60 and found.good
    assert all(len(clock.prepared) <= 1 for clock in clocks[1:])
    alone = sweep(FakeSpace([[[1, 2]]]), FakePool(), Unopened(), Unopened())
    assert len(alone.faulted) == 2 and not alone.good


def test_the_last_one_without_inputs_begins_anew() -> None:
    """The memory that it wanted was taken by the others, which are put aside by then."""
    found = sweep(FakeSpace([[list(range(1, 13))]]), FakePool(), *(Unopened(able=True) for _ in range(3)))
    assert found.right == 12 and found.good


def test_a_fault_that_there_is_no_time_to_see_again_counts() -> None:
    clock = Clock(faulting=("0:0",), each=1.0)
    found = sweep(FakeSpace([[[1]]]), FakePool(), clock, until=0.5)
    assert clock.prepared == ["0:0"] and len(found.faulted) == 1


def test_what_is_dropped_is_counted_by_its_kind() -> None:
    pool = FakePool({(0, 0, 0): "CompilationError: no"}, {(0, 0, 1): 12, (0, 0, 4): 3}, {(0, 0, 2): 240000})
    clock = Clock()
    found = sweep(FakeSpace([[[1, 2, 3, 4, 5]]]), pool, clock)
    assert clock.prepared == ["0:3"] and found.good
    assert found.dropped == {"does not compile": 1, "spills": 2, "does not fit": 1}
    assert (found.configurations, found.compiled) == (5, 1)
    (line, _) = sweep_report.lines([found])
    assert line.startswith("a case: dropped: ") and "1 spills 12 registers a thread" in line


def test_the_other_kernels_are_run_in_their_first_way_that_can_be() -> None:
    """The favourite of the first kernel spills, the next too: the second kernel's ways are run beside the third."""
    space = FakeSpace([[[1, 2, 3, 4], [1, 2, 3]]])
    clock = Clock()
    found = sweep(space, FakePool(spilling={(0, 0, 0): 1, (0, 0, 1): 1, (0, 1, 2): 1}), clock)
    assert sorted(clock.prepared) == ["0:2,0", "0:2,1", "0:3,0"]
    assert found.dropped == {"spills": 3} and found.configurations == 6


def test_a_kernel_that_cannot_be_run_at_all() -> None:
    clock = Clock()
    found = sweep(FakeSpace([[[1, 2], [1]], [[9.0]]]), FakePool(spilling={(0, 1, 0): 1}), clock)
    assert clock.prepared == ["1:0"] and found.dropped == {"spills": 2}
    nothing = sweep(FakeSpace([[[1.0]]]), FakePool(spilling={(0, 0, 0): 1}), Clock())
    assert not nothing.good and sweep_report.lines([nothing])[1] == "a case: no configuration was right"


def test_what_a_library_does_is_run_too() -> None:
    clock = Clock()
    sweep(FakeSpace([[[10, 12], [5]]], frozenset({(0, 0, 1)})), FakePool(), clock)
    assert sorted(clock.prepared) == ["0:0,0", "0:1,0"]


def test_limits_are_told() -> None:
    space = FakeSpace([[list(range(1, 51))]])
    clock = Clock()
    found = sweep(space, FakePool(), clock, limit=3)
    assert clock.prepared == ["0:0", "0:1", "0:2"] and found.left == 47 and found.configurations == 3
    assert sweep_report.lines([found])[0] == "a case: 47 configurations left out"
    drawn: list[set[str]] = []
    for seed in (1, 1, 2):
        clock = Clock()
        assert sweep(space, FakePool(), clock, limit=10, seed=seed).right == 10
        drawn.append(set(clock.prepared))
    assert drawn[0] == drawn[1] != drawn[2]


def test_what_there_is_no_time_for_is_left_out() -> None:
    space = FakeSpace([[list(range(1, 51))]])
    clock = Clock(each=1.0)
    found = sweep(space, FakePool(), clock, until=5.0)
    assert 5 <= len(clock.prepared) <= 6
    assert found.right + found.left + found.dropped.get("not compiled in time", 0) == 50
    over = sweep(space, FakePool(), Clock(), until=-1.0)
    assert over.left == 50 and not over.right


def test_the_table_and_the_file(tmp_path: Path) -> None:
    from io import StringIO

    from rich.console import Console

    rows = [
        Swept("one", 9, 1, {"spills": 2}, {"spills 4": 2}, 5, [Bad("plan", "wrong: x")], [], 3, 2e-4, 7.0),
        Swept("two", 4, 0, {"spills": 1}, {"spills 4": 1}, 3, [], [], 0, 1e-4, 2.0),
    ]
    out = StringIO()
    Console(file=out, width=250).print(sweep_report.table(rows))
    lines = [" ".join(line.split()) for line in out.getvalue().splitlines()]
    assert "one 9 7 1 0 0 2 0 5 1 0 3 2.0e-04 7" in lines and "all 13 10 1 0 0 3 0 8 1 0 3 2.0e-04 9" in lines
    path = tmp_path / "out.json"
    sweep_report.keep(path, rows)
    kept = json.loads(path.read_text())
    assert kept["sweep"][0]["wrong"] == [{"plan": "plan", "failure": "wrong: x"}]


def product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x @ w).sum(-1)


CASE = Case("product 32", product, (Given((32, 64)), Given((64, 48), 0.125)), pieces=(0, None))


def test_arguments_and_results_are_the_cases_own(tmp_path: Path) -> None:
    inputs = CASE.inputs("cpu")
    captured = capture(CASE.program, inputs)
    work = sweep_report.workload_for(CASE, captured, inputs, tmp_path, 0)
    cpu = torch.device("cpu")
    assert all(torch.equal(made(data, cpu, 0), tensor) for data, tensor in zip(work.inputs, inputs, strict=True))
    (right,) = work.expected
    assert torch.equal(made(right, cpu, 0), exact(CASE, inputs)) and right.dtype == torch.float64
    assert work.tolerance == 1e-3
    space = sweep_report.space_for(captured, Machine(TARGETS["h200"], "sm_90", 0, ""))
    assert len(space.trials(1000)) > 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--name", "nothing"], "no case is of that name, phase and size"),
        (["--seed", "2"], "--seed says which configurations --limit takes; give --limit"),
        pytest.param([], "no CUDA device was found", marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")),
    ],
)
def test_what_cannot_be_swept(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cleave_bench.main(["sweep", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("cleave-bench: error: ") and message in error and error.count("\n") == 1


@pytest.mark.gpu
@pytest.mark.parametrize("wrong", [False, True])
def test_on_a_gpu(wrong: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a case that is not what its float64 result says, everything is wrong; as it is, everything is right."""
    options = cleave_bench.parser().parse_args(["sweep", "--limit", "6", "--json", str(tmp_path / "out.json")])
    monkeypatch.setenv("CLEAVE_CACHE_DIR", str(tmp_path / "cache"))
    if wrong:
        monkeypatch.setattr(sweep_report, "exact", lambda case, inputs: exact(case, inputs) * 1.01)
    started = time.monotonic()
    assert sweep_report.report([CASE, replace(CASE, name="again")], options) == int(wrong)
    first, again = json.loads((tmp_path / "out.json").read_text())["sweep"]
    assert first["right"] == again["right"] and len(first["wrong"]) == len(again["wrong"])
    assert (first["right"] > 3) != wrong and (len(first["wrong"]) > 3) == wrong and not first["faulted"]
    assert time.monotonic() - started < 120
