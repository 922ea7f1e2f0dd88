"""The demo shows every level of a real program, and its result is right at each."""

import re
from pathlib import Path

import pytest

from cleave.tools import demo


def test_every_level_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert demo.main() == 0
    out = capsys.readouterr().out
    for text in ("alg.contract", "as written", "alg.shift", "sched.kernel", "sched.for", "tt.dot", "@triton.jit", "tl.dot"):
        assert text in out
    rows = [line.split() for line in out.splitlines() if line.split()[:1] in (["PyTorch"], ["alg"], ["sched"], ["tt"]) and "e-" in line]
    assert [row[0] for row in rows] == ["PyTorch", "alg", "sched", "tt"]
    assert all(float(row[1]) < 5e-3 for row in rows)


def test_the_readme_shows_what_the_demo_prints(capsys: pytest.CaptureFixture[str]) -> None:
    demo.main()
    printed = {line.strip() for line in capsys.readouterr().out.splitlines()}
    readme = (Path(__file__).parent.parent.parent / "README.md").read_text()
    shown = re.findall(r"```(?:mlir|python)\n(.*?)```", readme, re.DOTALL)
    signature = "def grouped_query(q, k, v):"
    stale = [
        line for block in shown for line in block.splitlines() if "..." not in line and line != signature and line.strip() not in printed
    ]
    assert not stale, "copy these parts of the README anew from tools/demo"
