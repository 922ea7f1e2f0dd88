"""The forms that the search must find, whatever it takes; times are for `cleave-bench search` to measure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cleave.bench.forms import chunked, deferred, phases
from cleave.bench.judging import oracle
from cleave.bench.search_programs import attention, root_norm_linear
from cleave.bench.search_report import report
from cleave.bench.search_rows import ROWS, Row, measured
from cleave.search import superoptimize
from cleave.search.verify import Verifier


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_wanted_form_is_among_the_first(row: Row) -> None:
    """The program as written must not have the form, which `measured` asserts."""
    found = measured(row)
    assert found.rank is not None, f"not among {found.alternatives} alternatives"
    assert found.rank <= row.within
    assert not any("refused" in cap for cap in found.caps)
    assert not any(" s with " in cap or cap.endswith(" s") for cap in found.caps), "a cap on time makes the test depend on the machine"


SAMPLE = (
    "attention, grouped heads", "RMSNorm, SwiGLU", "LayerNorm, linear, one pass", "MLA, decode, absorbed", "RoPE attention", "cross entropy"
)  # fmt: skip


@pytest.mark.parametrize("row", [row for row in ROWS if row.name in SAMPLE], ids=lambda row: row.name)
def test_alternatives_hold_at_other_seeds_and_in_float64(row: Row) -> None:
    """Asked again of a verifier with other draws, and of float64 at sizes 1 to 7: the best, the last, and some between."""
    graph = row.build()
    found = superoptimize(graph, row.options).alternatives[1:]
    verifier = Verifier(graph, seed=23)
    for entry in (*found[:2], *found[2:-1:4], found[-1]):
        assert verifier.problem(entry.graph) is None, entry.name
        assert oracle(graph, entry.graph) is True, entry.name


def test_forms_tell_programs_apart() -> None:
    """Attention as written divides before the second contraction, a norm multiplies before it, nothing is in chunks."""
    assert not deferred(attention(), "n")
    assert deferred(attention(), "d")
    assert not deferred(root_norm_linear(), "k")
    assert phases(root_norm_linear()) == 2
    assert not chunked(attention(), "n")


def test_figures_are_written_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.json"
    assert report("linear attention", None, path) in (0, 1)
    (row,) = json.loads(path.read_text())["rows"]
    assert (row["name"], row["rank"], row["form_found"]) == ("linear attention", 1, True)
    assert row["megabytes"] > 1
    assert set(row["seconds"]) >= {"closure", "extraction", "verification", "total", "processor"}
    assert "linear attention" in capsys.readouterr().out


def test_a_name_that_no_row_has_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert report("no such program", None, None) == 2
    assert "no program's name contains 'no such program'" in capsys.readouterr().err
