"""Rows as JSON, merged over files, as tables and as a picture; the loop that measures; the command line."""

from __future__ import annotations

import importlib
import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import cleave
from cleave.api import Report
from cleave.bench import masks, measuring, plot, subgraphs
from cleave.bench.cases import Case, Given
from cleave.bench.code import checksum, code
from cleave.bench.compiling import compiled, empty_cache, regret
from cleave.bench.results import GRAPH, OURS, PLAIN, Row, geometric_mean, merged, read, write
from cleave.bench.tables import ratios, summary, times
from cleave.bench.timing import FLUSHES
from cleave.runtime.tuner import Entry
from cleave.tools import cleave_bench

from .clocks import ToldClock


def row(case: str = "decode matmul 16", at: str = "2026-01-01", ours: float = 2.0, best: float = 3.0, **more: Any) -> Row:
    facts = {"phase": case.split()[0], "name": case.split()[1], "size": int(case.split()[-1]), "floor_ms": 0.5}
    out = Row("subgraphs", case, "float16", facts, at, "a GPU", ["eager", "flash"], **more)
    for kind in (GRAPH, PLAIN):
        for flush, extra in zip(FLUSHES, (0.5, 0.0), strict=True):
            out.milliseconds[f"{kind}, {flush}"] = {OURS: ours + extra, "eager": best + 1, "flash": best}
    out.errors = {OURS: 2e-4, "eager": 3e-4, "flash": 2e-4}
    out.compilation = {"seconds": 9.5, "again": 0.02, "kernels": 2, "calls": 1, "regret": 0.031, "notes": ["a remark"]}
    return out


def printed(table: Any) -> str:
    from io import StringIO

    from rich.console import Console

    out = StringIO()
    Console(file=out, width=250).print(table)
    return out.getvalue()


def test_rows_survive_a_file(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    rows = [row(), row("decode matmul 128", processor_microseconds={OURS: 8.0}, failed={"flash": "no"})]
    write(path, rows)
    assert read(path) == rows
    assert json.loads(path.read_text())["rows"][0]["ratio"] == pytest.approx(1.2)


def test_the_newest_of_a_case_wins_whatever_the_order(tmp_path: Path) -> None:
    old, new, other = row(at="2026-01-01T10"), row(at="2026-01-01T11", ours=1.0), row("decode matmul 128")
    assert merged([[old, other], [new]]) == [new, other]
    assert merged([[new], [old, other]]) == [new, other]
    bf16 = row(at="2026-01-02")
    bf16.dtype = "bfloat16"
    assert len(merged([[old], [bf16]])) == 2


def test_the_lower_ratio_counts_and_wrong_ones_do_not() -> None:
    found = row(ours=2.0, best=3.0)
    assert (found.ratio(GRAPH, "writes"), found.ratio(GRAPH, "reads")) == (pytest.approx(1.2), pytest.approx(1.5))
    assert found.lower() == pytest.approx(1.2)
    found.failed["flash"] = "wrong"
    assert found.lower() == pytest.approx(1.6) and found.best(GRAPH, "reads") == ("eager", 4.0)
    found.failed[OURS] = "wrong"
    assert found.lower() is None and not found.right


def test_geometric_mean() -> None:
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0)
    assert geometric_mean([]) is None


def test_tables_and_the_lines_below() -> None:
    bad = row("decode matmul 128", failed={OURS: "wrong: by far", "flash": "RuntimeError: no kernel"})
    bad.code, bad.machine, bad.seconds = "cleave 1 abc", "another GPU", {OURS: 20.0, "graph": 2.0}
    rows = [row(), bad]
    text = printed(ratios(rows, lambda row: 1.25))
    good, refused = (line for line in text.splitlines() if line.strip().startswith("decode"))
    assert " ".join(good.split()) == "decode matmul 16 500.0 2500 3000 flash 1.20 1.50 1.25 LOW 1.20 2.0e-04 2 + 1 lib 9.5 0.02 - 3.1%"
    assert "1.20" not in refused and "LOW" in refused
    assert "2500 / 2000 !" in printed(times(rows)) and "3000 / 3000 !" in printed(times(rows))
    lines = summary(rows, lambda row: 1.25)
    assert lines[0] == "geometric mean of the lower ratios, graph: 1.200 over 1 of 2 rows"
    assert "0 of 2 rows reach their goal; below it: decode matmul 16 1.20 (goal 1.25), decode matmul 128 - (goal 1.25)" in lines
    assert "NOT OF ONE RUN, measured on 2 machines: a GPU (1 rows); another GPU (1 rows)" in lines
    assert "NOT OF ONE RUN, measured with 2 versions of the code: code that is not known (1 rows); cleave 1 abc (1 rows)" in lines
    assert "measuring took 22 s, 22.0 a row: cleave 20, graph 2" in lines
    assert "flash: RuntimeError: no kernel [decode matmul 128]" in lines and "decode matmul 16: a remark" in lines


def test_rows_of_one_run_have_one_line_for_where_they_are_from() -> None:
    lines = summary([row(code="cleave 1 abc"), row("decode matmul 128", code="cleave 1 abc")], lambda row: 1.2)
    assert "2 of 2 rows reach their goal" in lines
    assert "measured on a GPU" in lines and "measured with cleave 1 abc" in lines


def test_weights_may_be_prepared_where_that_was_measured() -> None:
    plain, better = row("prefill swiglu 512", ours=2.4), row("prefill swiglu 4096", ours=3.4)
    better.milliseconds = {name: {**times, subgraphs.PREPARED: 2.0} for name, times in better.milliseconds.items()}
    assert better.lower() == pytest.approx(3.0 / 3.9) and subgraphs.counts(better) == pytest.approx(3.0 / 3.9), "its result is not known"
    better.errors[subgraphs.PREPARED] = 1e-4
    assert subgraphs.counts(plain) == plain.lower() and subgraphs.counts(better) == pytest.approx(1.5)
    found = measuring.command(cleave_bench.parser().parse_args(["subgraphs"]))
    assert found.columns(plain) == {} and found.columns(better) == {"weights prepared": "1.50 / 1.50"}
    assert "2 of 2 rows reach their goal" in summary([plain, better], lambda row: 1.0, None, found.counts)
    better.failed[subgraphs.PREPARED] = "wrong"
    assert subgraphs.counts(better) == better.lower()
    del better.failed[subgraphs.PREPARED]
    better.failed[OURS] = "wrong"
    assert subgraphs.counts(better) is None, "no row is good whose plain result is wrong"


@pytest.mark.parametrize(("name", "code"), [("", 0), ("flash", 0), (OURS, 1), (subgraphs.PREPARED, 1), (masks.UNMASKED, 1)])
def test_every_wrong_result_of_cleave_fails_a_command(name: str, code: int, tmp_path: Path) -> None:
    """What others lack or have wrong does not."""
    path = tmp_path / "rows.json"
    write(path, [row("prefill swiglu 512", failed={name: "wrong"} if name else {})])
    assert measuring.report(cleave_bench.parser().parse_args(["subgraphs", "--merge", str(path)])) == code


def test_regrets_beyond_their_goal_are_marked() -> None:
    near, far = row(), row("prefill matmul 512")
    text = printed(ratios([near, far], most_regret=subgraphs.most_regret))
    good, bad = (line.rstrip() for line in text.splitlines() if " matmul " in line)
    assert good.endswith(" 3.1%") and bad.endswith(" 3.1% HIGH, over 3%")
    (line,) = (line for line in summary([near, far], None, subgraphs.most_regret) if "first 8" in line)
    assert line.endswith("is near enough to the best of all in 1 of 2 rows; not in prefill matmul 512 3.1% (goal 3%)")


def test_the_mean_is_that_of_all_quick_rows() -> None:
    rows = [row(case.name, best=2.5 * 1.3) for case in subgraphs.cases("quick")]
    assert subgraphs.mean_line(rows) == "geometric mean over all 40 quick rows: 1.300 (goal 1.25)"
    rows[3].failed[OURS] = "wrong"
    more = row("prefill matmul 1024", best=9.0)
    name, gone = rows[3].case, rows[0].case
    assert subgraphs.mean_line([*rows[1:], more]) == (
        f"geometric mean over 38 of the 40 quick rows: 1.300 (goal 1.25); without a ratio: {name}; not measured: {gone}"
    )
    assert subgraphs.mean_line([row(best=2.5)]).startswith(
        "geometric mean over 1 of the 40 quick rows: 1.000 (goal 1.25) LOW; not measured: 39,"
    )


def test_a_checksum_is_of_the_sources(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1")
    first = checksum(tmp_path)
    (tmp_path / "a.txt").write_text("no source")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.py").write_text("no source")
    assert checksum(tmp_path) == first and len(first) == 8
    (tmp_path / "a.py").write_text("x = 2")
    assert checksum(tmp_path) != first
    assert code() == f"cleave {cleave.__version__} {checksum(Path(cleave.__file__).parent)}"


def test_rows_of_earlier_versions_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    write(path, [row(code="cleave 1 abc")])
    known = json.loads(path.read_text())
    for name in ("code", "seconds"):
        del known["rows"][0][name]
    path.write_text(json.dumps(known))
    assert read(path) == [row()]


def test_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "out.png"
    plot.draw([row(), row("decode matmul 128", failed={OURS: "wrong"})], path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_regret_is_that_of_the_models_first() -> None:
    def report(*measured: tuple[int | None, float | None, str]) -> Report:
        entries = tuple(Entry("", 1.0, seconds, None, dropped, rank=rank) for rank, seconds, dropped in measured)
        return Report({}, False, 1, (), entries, (), 0)

    assert regret(report()) is None
    first = [(place, 10.0 + place, "") for place in range(8)]
    assert regret(report(*first)) == 0
    assert regret(report(*first, (8, 8.0, ""), (9, 1.0, "wrong"))) == pytest.approx(0.25)
    assert regret(report(*first, (None, 5.0, ""))) == pytest.approx(1.0)
    assert regret(report((3, 6.0, ""), (9, 5.0, ""), (1, None, "spills"))) == 0
    streaming = Entry("", 1.0, 2.0, streaming=True)
    assert regret(replace(report(*first), candidates=(streaming, *report(*first).candidates))) == 0


def test_regret_is_of_one_race_where_there_was_a_last_one() -> None:
    """Of what was in it: a favourite that seemed faster before does not count, nor does what is faster than the best of it."""

    def entry(seconds: float, rank: int | None, last: bool) -> Entry:
        return Entry("", 1.0, seconds, rank=rank, last=last)

    entries = (entry(10.0, None, True), entry(12.0, 0, True), entry(11.0, 1, False), entry(9.0, None, False))
    assert regret(Report({}, False, 1, (), entries, (), 0)) == pytest.approx(0.2)
    lost = tuple(replace(one, last=False) if one.rank == 0 else one for one in entries)
    assert regret(Report({}, False, 1, (), lost, (), 0)) == pytest.approx(0.1)


def double(x: Tensor) -> Tensor:
    return torch.exp(x) * 2


CASES = [Case(f"double {size}", double, (Given((size, 4)),), pieces=(0,), facts={"name": "double", "size": size}) for size in (3, 5, 7)]


def test_compiling_twice_with_an_empty_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLEAVE_CACHE_DIR", raising=False)
    with empty_cache():
        folder = os.environ["CLEAVE_CACHE_DIR"]
        _, found = compiled(CASES[0], CASES[0].inputs("cpu"))
        assert found.seconds is not None and found.again is not None and found.again < found.seconds
        assert not found.notes and found.kernels == 1
        _, found = compiled(CASES[0], CASES[0].inputs("cpu"))
        assert found.seconds is None
    assert "CLEAVE_CACHE_DIR" not in os.environ and not Path(folder).exists()


@pytest.fixture
def without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def measurement(case: Case, row: Row, clock: object) -> object:
        return real(case, row, ToldClock(), "cpu")

    real = measuring.Measurement
    monkeypatch.setattr(measuring, "Measurement", measurement)
    monkeypatch.setattr(measuring, "_lost", lambda: False)


@pytest.mark.usefixtures("without_gpu")
def test_rows_are_kept_after_each_case_and_what_is_left_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "out.json"
    kept: list[int] = []

    def ours(case: Case, inputs: Any) -> Any:
        kept.append(len(read(path)) if path.exists() else 0)
        if case is CASES[1]:
            # From here on the time is up.
            monkeypatch.setattr(time, "monotonic", lambda: 1e9)
        return compiled(case, inputs, cache=False)

    rows = measuring.measured(measuring.Command("programs", CASES, ours), CASES, 1000.0, path)
    assert [row.case for row in rows] == ["double 3", "double 5"] == [row.case for row in read(path)]
    assert kept == [0, 1]
    assert "1 of 3 cases skipped" in capsys.readouterr().err


@pytest.mark.usefixtures("without_gpu")
def test_a_case_that_cannot_be_measured_is_a_row_and_the_next_goes_on(tmp_path: Path) -> None:
    def broken(x: Tensor) -> Tensor:
        if x.dtype == torch.float64 and x.device.type != "meta":
            raise RuntimeError("out of memory")
        return x

    cases = [Case("broken 1", broken, (Given((2, 2)),)), CASES[0]]
    rows = measuring.measured(measuring.Command("programs", cases), cases, None, tmp_path / "out.json")
    assert [row.right for row in rows] == [False, True]
    assert "out of memory" in rows[0].failed[OURS]


def test_merging_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b, out, picture = (tmp_path / name for name in ("a.json", "b.json", "out.json", "out.png"))
    write(a, [row(), row("prefill swiglu 512", best=1.0)])
    write(b, [row(at="2026-02-02", best=8.0)])
    command = ["subgraphs", "--merge", str(a), str(b), "--json", str(out)]
    assert cleave_bench.main([*command, *(["--plot", str(picture)] if not plot.missing() else [])]) == 0
    assert [found.at for found in read(out)] == ["2026-02-02", "2026-01-01"]
    assert plot.missing() or picture.exists()
    text = capsys.readouterr().out
    assert "geometric mean of the lower ratios, graph: 1.131 over 2 of 2 rows" in text
    assert cleave_bench.main([*command, "--phase", "decode", "--name", "matmul", "--size", "16"]) == 0
    assert [found.case for found in read(out)] == ["decode matmul 16"]
    write(a, [row("prefill swiglu 512", failed={OURS: "wrong"})])
    assert cleave_bench.main(command) == 1


def test_parts_are_all_cases_together() -> None:
    def names(*more: str) -> list[str]:
        options = cleave_bench.parser().parse_args(["dynamic", *more])
        return [case.name for case in measuring.filtered(measuring.command(options).cases, options)]

    parts = [names("--part", f"{which}/3") for which in (1, 2, 3)]
    assert sorted(map(len, parts)) == [13, 13, 14] and sorted(name for some in parts for name in some) == sorted(names())
    assert names("--only", "8x", "--part", "1/1") == names("--only", "8x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a file of results: JSONDecodeError"),
        ("{}", "not a file of results: KeyError: 'rows'"),
        ('{"rows": [{"case": "x"}]}', "not a file of results: KeyError"),
        ('{"rows": [1]}', "not a file of results: TypeError"),
        (None, "No such file"),
        ('{"rows": []}', "the files have no such rows of 'subgraphs'"),
    ],
)
def test_files_that_cannot_be_merged(text: str | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.json"
    if text is not None:
        path.write_text(text)
    assert cleave_bench.main(["subgraphs", "--merge", str(path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("cleave-bench: error: ") and message in error and error.count("\n") == 1


def test_a_row_of_another_shape_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write(path, [row()])
    path.write_text(path.read_text().replace('"a GPU"', "3"))
    with pytest.raises(ValueError, match="'machine' is not a str"):
        read(path)


@pytest.mark.parametrize(
    "change",
    [
        {"milliseconds": {"graph, writes": 3}},
        {"milliseconds": {"graph, writes": {OURS: "fast"}}},
        {"errors": {OURS: None}},
        {"seconds": {"graph": True}},
        {"processor_microseconds": {OURS: []}},
        {"facts": {"size": "large"}},
        {"compilation": {"regret": "none"}},
    ],
)
def test_numbers_of_rows_are_numbers(change: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"rows": [{**row().as_json(), **change}]}))
    assert cleave_bench.main(["subgraphs", "--merge", str(path)]) == 2
    error = capsys.readouterr().err
    assert "is no number" in error and error.count("\n") == 1


def test_rows_may_lack_facts_that_earlier_versions_did_not_keep(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"rows": [{**row().as_json(), "facts": {}}]}))
    assert cleave_bench.main(["subgraphs", "--merge", str(path)]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["subgraphs", "--name", "nothing"], "no case is of that name, phase and size"),
        (["masks", "--only", "nothing"], "no case is of that name, phase and size; there are causal 4096, window 4096"),
        (["subgraphs", "--model", "--target", "abacus"], "unknown target 'abacus'; known are a100"),
        *[
            (["subgraphs", "--model", *option], f"{option[0]} is about what is measured, and --model measures nothing")
            for option in (["--json", "{tmp}/a"], ["--plot", "{tmp}/a"], ["--merge", "{tmp}/a"], ["--keep-cache"], ["--max-autotune"])
        ],
        *[
            pytest.param([name], "no CUDA device was found", marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU"))
            for name in ("programs", "subgraphs", "masks", "dynamic")
        ],
    ],
)
def test_what_cannot_be_measured(arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cleave_bench.main([argument.replace("{tmp}", str(tmp_path)) for argument in arguments]) == 2
    assert not list(tmp_path.iterdir())
    error = capsys.readouterr().err
    assert error.startswith("cleave-bench: error: ") and message in error and error.count("\n") == 1


def test_drawing_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def absent(name: str) -> object:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", absent)
    assert cleave_bench.main(["subgraphs", "--plot", str(tmp_path / "out.png")]) == 2
    assert capsys.readouterr().err == (
        "cleave-bench: error: drawing needs matplotlib, which is not installed; it is in the extra 'gpu-bench'\n"
    )


def test_compiling_by_the_model_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert cleave_bench.main(["subgraphs", "--model", "--only", "decode matmul_rowsum 16"]) in (0, 1)
    text = capsys.readouterr().out
    assert "decode matmul_rowsum 16" in text and "warps" in text
