"""`cleave-opt --explain`: the chosen schedule beside the next best."""

from __future__ import annotations

from pathlib import Path

import pytest

from cleave.schedule import schedule, space, target
from cleave.schedule.explain import explained
from cleave.tools.cleave_opt import main
from tests.schedule.programs import attention

ATTENTION = """
alg.graph @f axes [b = 8, m = 16, n = 4096, e = 64, d = 64]
    (%q: !alg.tensor<[b, m, d], f16> layout "b m d", %k: !alg.tensor<[b, n, d], f16> layout "b n d",
     %v: !alg.tensor<[b, n, e], f16> layout "b n e") -> (!alg.tensor<[b, m, e], f16> layout "b m e") {
  %s = alg.contract %q, %k over [d] : !alg.tensor<[b, m, n], f32>
  %x = alg.exp %s : !alg.tensor<[b, m, n], f32>
  %z = alg.reduce sum %x over [n] : !alg.tensor<[b, m], f32>
  %p = alg.div %x, %z : !alg.tensor<[b, m, n], f32>
  %c = alg.cast %p : !alg.tensor<[b, m, n], f16>
  %o = alg.contract %c, %v over [n] : !alg.tensor<[b, m, e], f32>
  %r = alg.cast %o : !alg.tensor<[b, m, e], f16>
  alg.yield %r : !alg.tensor<[b, m, e], f16>
}
"""
PIPELINE = "alg-superoptimize,alg-stabilize,convert-alg-to-sched"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "f.mlir"
    path.write_text(ATTENTION)
    return path


def test_the_chosen_schedule_comes_first(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The IR is as it is without, and the table names what the program's notes say was chosen."""
    assert main([str(program), "-p", PIPELINE]) == 0
    plain = capsys.readouterr()
    assert main([str(program), "-p", PIPELINE, "--explain"]) == 0
    told = capsys.readouterr()
    assert told.out == plain.out
    chosen = next(line.split("chosen: ")[1] for line in plain.out.splitlines() if "chosen: " in line).split('"')[0]
    assert f"chosen: {chosen}" in told.err
    assert told.err.count("next ") >= 3 and "registers" in told.err and "\x1b[" not in told.err


def test_runners_up_are_in_order_and_differ() -> None:
    graph, machine = attention(m="16", n="4096"), target("h200")
    best, *rest = explained(space([graph], {}, frozenset(), machine))
    assert best.name in schedule([graph], {}, frozenset(), machine).notes[-2] and best.kernels
    assert [entry.seconds for entry in rest] == sorted(entry.seconds for entry in rest)
    assert len({(entry.name, tuple(str(choice.plan) for choice in entry.kernels)) for entry in (best, *rest)}) == len(rest) + 1


def test_it_needs_a_schedule_to_explain(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(program), "-p", "alg-superoptimize", "--explain"]) == 2
    assert "--explain needs convert-alg-to-sched" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["plans=0", "plans=-1", "alternatives=-1"])
def test_bounds_out_of_range_are_refused(program: Path, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(program), "-p", f"convert-alg-to-sched{{{option}}}"]) == 1
    name, value = option.split("=")
    assert f"option {name} is {value}" in capsys.readouterr().err
