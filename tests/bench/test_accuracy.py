"""What counts as right: budgets beside eager execution, pieces of float64, refused ratios."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from cleave.bench.accuracy import Error, error_of, exact, problem
from cleave.bench.cases import Call, Case, Contender, Given, work_of
from cleave.bench.results import GRAPH, OURS, PLAIN
from cleave.bench.run import Measurement, empty_row
from cleave.bench.subgraphs import SUBGRAPHS
from cleave.bench.timing import Replay
from cleave.errors import CleaveError

from .clocks import ToldClock


def product(x: Tensor, w: Tensor) -> Tensor:
    return torch.tanh(x @ w)


CASE = Case("product", product, (Given((7, 16)), Given((16, 9), 0.25)), pieces=(0, None))


@pytest.mark.parametrize("name", ["prefill matmul", "decode gqa_d128", "prefill mla", "decode mla"])
def test_pieces_make_the_whole(name: str) -> None:
    (subgraph,) = (entry for entry in SUBGRAPHS if f"{entry.phase} {entry.name}" == name)
    small = {"k": 8, "n": 6, "keys": 12, "d": 4, "e": 4, "l": 8, "r": 4, "requests": 7, "heads": 8, "kv": 2}
    case = subgraph.case(7, {key: small[key] for key in subgraph.sizes})
    inputs = case.inputs("cpu")
    whole = exact(case, inputs)
    largest = work_of(case.program, inputs).largest
    for pieces in (2, 3, 100):
        torch.testing.assert_close(exact(case, inputs, piece_bytes=largest * 8 // pieces), whole, rtol=1e-12, atol=1e-12)


def test_work_is_that_of_products_and_of_the_largest_value() -> None:
    work = work_of(product, CASE.empty())
    assert (work.flops, work.largest) == (2 * 7 * 16 * 9, 7 * 9)


def test_errors() -> None:
    right = torch.tensor([3.0, 4.0], dtype=torch.float64)
    assert error_of(right.half(), right) == Error(0.0, 0.0, 4.0)
    found = error_of(torch.tensor([3.0, 4.5]), right)
    assert (found.relative, found.largest) == (pytest.approx(0.1), pytest.approx(0.5))
    assert math.isnan(error_of(torch.tensor([3.0, math.nan]), right).relative)
    with pytest.raises(ValueError, match="shape"):
        error_of(right[:, None], right)


def test_the_budget() -> None:
    """Twice eager's largest error plus a unit in the last place, and a relative error of 1e-3; not-a-number is never right."""
    eager = Error(1e-4, 0.01, 8.0)
    unit = 2.0**-10 * 8
    assert not problem(Error(1e-4, 0.02 + unit, 8.0), eager, torch.float16)
    assert "largest error" in problem(Error(1e-4, 0.021 + unit, 8.0), eager, torch.float16)
    assert "relative error" in problem(Error(1.1e-3, 0.01, 8.0), eager, torch.float16)
    assert not problem(Error(1.1e-3, 0.01, 8.0), eager, torch.bfloat16)
    for wrong in (Error(math.nan, 0.0, 8.0), Error(0.0, math.nan, 8.0)):
        assert problem(wrong, eager, torch.float16)


def contender(name: str, result: Callable[[Tensor, Tensor], Tensor]) -> Contender:
    return Contender(name, lambda inputs: lambda: result(*inputs))


def broken(x: Tensor, w: Tensor) -> Tensor:
    raise RuntimeError("no kernel for this\nand more")


def test_contenders_that_are_wrong_or_missing_are_told_of_and_do_not_count() -> None:
    others = (
        contender("wrong", lambda x, w: product(x, w) + 0.1),
        contender("other shape", lambda x, w: product(x, w)[None]),
        contender("broken", broken),
        contender("good", product),
        Contender("beside", lambda inputs: lambda: inputs[0] @ inputs[1], existing=False, program=torch.matmul),
    )
    case = replace(CASE, contenders=others)
    clock = ToldClock({OURS: 4.0, "eager": 9.0, "good": 8.0, "wrong": 1.0, "beside": 0.5})
    row = Measurement(case, empty_row("test", case), clock, "cpu").run()
    assert row.best(GRAPH, "reads") == ("good", 8.0)
    assert row.lower() == pytest.approx(2.0)
    assert set(row.failed) == {"wrong", "other shape", "broken"}
    assert row.failed["wrong"].startswith("wrong: the largest error")
    assert row.failed["broken"] == "RuntimeError: no kernel for this"
    assert row.time("wrong", GRAPH, "reads") is None and row.time("beside", GRAPH, "reads") == 0.5


class SeenClock(ToldClock):
    """Remembers what is timed; plain calls, which are not replays, take `more`."""

    def __init__(self, milliseconds: Mapping[str, float], more: float) -> None:
        super().__init__(milliseconds)
        self.more = more
        self.seen: list[set[str]] = []

    def interleaved(self, calls: Mapping[str, Callable[[], object]], flush: str, existing: Collection[str] = ()) -> dict[str, float]:
        self.seen.append(set(calls))
        found = super().interleaved(calls, flush)
        return found if len(self.seen) <= 2 else {name: value + self.more for name, value in found.items()}


def test_plain_calls_of_those_far_behind_are_not_timed_unless_they_might_be_the_best() -> None:
    case = replace(CASE, contenders=(contender("good", product), contender("slow", product)))
    told = {OURS: 4.0, "eager": 2.5, "good": 2.0, "slow": 5.0}
    everything = set(told)
    clock = SeenClock(told, more=1.0)
    row = Measurement(case, empty_row("test", case), clock, "cpu").run()
    assert clock.seen == [everything, everything, everything - {"slow"}, everything - {"slow"}]
    assert row.best(PLAIN, "reads") == ("good", 3.0) and row.lower(PLAIN) == pytest.approx(3.2 / 5.4)
    # Overhead as large as this could make any of them the best.
    clock = SeenClock(told, more=4.0)
    Measurement(case, empty_row("test", case), clock, "cpu").run()
    assert clock.seen[2:] == [everything - {"slow"}, everything] * 2


def test_what_measuring_took_is_kept() -> None:
    case = replace(CASE, contenders=(contender("good", product),))
    row = Measurement(case, empty_row("test", case), ToldClock(), "cpu").run()
    assert list(row.seconds) == ["reference", OURS, "eager", "good", "processor and capture", "graph", "plain"]
    assert row.code.startswith("cleave ")


@pytest.mark.parametrize("failure", ["wrong", "missing"])
def test_no_ratio_for_a_wrong_or_missing_result(failure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import cleave

    def compile(*_: object, **__: object) -> object:
        if failure == "missing":
            raise CleaveError(None, "not supported")
        return Wrong()

    class Wrong:
        def __init__(self) -> None:
            self.real = ready

        def __getattr__(self, name: str) -> object:
            return getattr(self.real, name)

        def __call__(self, x: Tensor, w: Tensor) -> Tensor:
            return product(x, w) * 1.01

    ready = cleave.compile(product, *CASE.inputs("cpu"), cache=False)
    monkeypatch.setattr("cleave.compile", compile)
    row = Measurement(CASE, empty_row("test", CASE), ToldClock(), "cpu").run()
    assert not row.right
    assert row.ratio(GRAPH, "writes") is None and row.lower() is None and row.as_json()["ratio"] is None
    assert ("not supported" if failure == "missing" else "wrong: ") in row.failed[OURS]


def test_what_is_left_unwritten_or_wrong_the_second_time_is_found() -> None:
    memory: dict[str, Tensor] = {}

    def unwritten(x: Tensor, w: Tensor) -> Tensor:
        """Right the first time; then it leaves a row as it was, which lies in the same memory."""
        if "out" not in memory:
            memory["out"] = product(x, w)
        else:
            memory["out"][1:] = product(x, w)[1:]
        return memory["out"]

    class LateClock(ToldClock):
        def captured(self, call: Call) -> Replay:
            result = call()
            return Replay(lambda: result.copy_(call() * 1.1), result)

    case = replace(CASE, contenders=(contender("unwritten", unwritten),))
    row = Measurement(case, empty_row("test", case), ToldClock(), "cpu").run()
    assert set(row.failed) == {"unwritten"} and row.lower() == pytest.approx(1.0)
    row = Measurement(CASE, empty_row("test", CASE), LateClock(), "cpu").run()
    assert row.failed[OURS].startswith("wrong") and row.lower() is None and row.errors[OURS] > 0.05
