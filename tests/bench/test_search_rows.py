"""The forms that the search must find, whatever it takes; times are for `cleave-bench search` to measure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cleave.bench.forms import chunked, deferred, phases
from cleave.bench.search_programs import attention, root_norm_linear
from cleave.bench.search_report import report
from cleave.bench.search_rows import ROWS, Row, measured


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_wanted_form_is_among_the_first(row: Row) -> None:
    """The program as written must not have the form, which `measured` asserts."""
    found = measured(row)
    assert found.rank is not None, f"not among {found.alternatives} alternatives"
    assert found.rank <= row.within
    assert not any("refused" in cap for cap in found.caps)
    assert not any(" s with " in cap or cap.endswith(" s") for cap in found.caps), "a cap on time makes the test depend on the machine"


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
