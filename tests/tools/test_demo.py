"""The demo shows every level of a real program, its result is right at each, and the README shows the same."""

import re
import runpy
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from cleave.tools import demo


@pytest.fixture(scope="module")
def printed() -> list[str]:
    """The demo's output. Its exit code says that no error is above the limit."""
    out = StringIO()
    with redirect_stdout(out):
        assert demo.main() == 0
    return out.getvalue().splitlines()


def test_every_level_is_shown(printed: list[str]) -> None:
    text = "\n".join(printed)
    for part in ("alg.contract", "as written", "alg.shift", "sched.kernel", "sched.for", "tt.dot", "@triton.jit", "tl.dot"):
        assert part in text
    start = next(at for at, line in enumerate(printed) if line.startswith("Greatest error"))
    rows = [line.split() for line in printed[start + 2 :]]
    assert [row[0] for row in rows] == ["PyTorch", "alg", "sched", "tt"]
    assert all(0 < float(row[1]) < 5e-3 for row in rows)


def test_the_readme_shows_what_the_demo_prints(printed: list[str]) -> None:
    readme = (Path(__file__).parent.parent.parent / "README.md").read_text()
    shown = re.findall(r"```(?:mlir|python)\n(.*?)```", readme, re.DOTALL)
    lines = [line for block in shown for line in block.splitlines() if "..." not in line and line != "def grouped_query(q, k, v):"]
    known = {line.strip() for line in printed}
    stale = [line for line in lines if line.strip() not in known]
    assert not stale, "copy these parts of the README anew from tools/demo"


def test_the_way_from_pytorch_works_as_shown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """torch.export wants the function's file, so the block runs from one."""
    readme = (Path(__file__).parent.parent.parent / "README.md").read_text()
    (block,) = re.findall(r"```py\n(.*?)```", readme, re.DOTALL)
    path = tmp_path / "shown.py"
    path.write_text(block)
    names = runpy.run_path(str(path))
    exact = names["gated"](*(tensor.double() for tensor in names["example"]))
    error = (names["result"].double() - exact).norm() / exact.norm()
    assert error < 1e-6
    assert "tl.dot" in capsys.readouterr().out
