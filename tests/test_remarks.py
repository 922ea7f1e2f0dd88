"""Remarks reach the innermost collector, else standard error."""

from __future__ import annotations

import pytest

from cleave.remarks import collected, remark


def test_remarks_go_to_the_innermost_collector(capsys: pytest.CaptureFixture[str]) -> None:
    with collected() as outer:
        remark("a")
        with collected() as inner:
            remark("b")
        remark("c")
    remark("d")
    assert (outer, inner) == (["a", "c"], ["b"])
    assert capsys.readouterr().err == "d\n"
