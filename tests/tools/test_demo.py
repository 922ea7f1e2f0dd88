"""The demo shows every level of a real program, its result is right at each, and the README shows the same."""

import re
import runpy
import subprocess
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch

import cleave
from cleave.tools import cleave_opt, cleave_run, demo


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


def test_the_commands_work_as_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Each ends with exit code 0."""
    readme = (Path(__file__).parent.parent.parent / "README.md").read_text()
    (block,) = re.findall(r"```sh\n(.*?)```", readme, re.DOTALL)
    program = re.findall(r"```mlir\n(.*?)```", readme, re.DOTALL)[0]
    monkeypatch.chdir(tmp_path)
    Path("model.mlir").write_text(program)
    for line in block.splitlines():
        tool, *args = line.split()
        assert {"cleave-opt": cleave_opt.main, "cleave-run": cleave_run.main}[tool](args) == 0, line
    assert "against alg" in capsys.readouterr().out


ASSUMED: list[tuple[str, str]] = [
    ("x: x / x", "[1, 1, 1]"),
    ("x: x - x", "[0, 0, 0]"),
    ("x: x * 0", "[0, 0, 0]"),
    ("x: x.sqrt() ** 2", "[0, -1, -inf]"),
    ("x: x.masked_fill(x <= 0, -torch.inf).softmax(-1)", "[0, 0, 0]"),
    ("x: x.masked_fill(x <= 0, -torch.inf).logsumexp(-1, keepdim=True)", "[-inf]"),
    ("x: torch.where(x.isinf(), 7.0, x)", "[0, -1, 7]"),
    ("x: torch.nan_to_num(x.masked_fill(x <= 0, -torch.inf).softmax(-1), 5.0)", "[0, 0, 0]"),
]


@pytest.mark.parametrize(("text", "expected"), ASSUMED)
def test_what_is_assumed_is_so(text: str, expected: str) -> None:
    """The section of the README, on zero, a negative number and an infinity."""
    x = torch.tensor([0.0, -1.0, -torch.inf])
    result = cleave.compile(eval(f"lambda {text}", {"torch": torch}), x)(x)
    torch.testing.assert_close(result, torch.tensor(eval(expected, {"inf": torch.inf}), dtype=torch.float32))


def test_results_are_contiguous() -> None:
    x = torch.ones(2, 3)
    assert cleave.compile(lambda x: x.T * 2, x)(x).is_contiguous()


def test_the_way_from_pytorch_works_as_shown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """torch.export wants the functions' file, so the blocks run from one; the second starts from the imports of the first."""
    readme = (Path(__file__).parent.parent.parent / "README.md").read_text()
    first, second = re.findall(r"```py\n(.*?)```", readme, re.DOTALL)
    names = _run(first, tmp_path)
    exact = names["gated"](*(tensor.double() for tensor in names["example"]))
    error = (names["result"].double() - exact).norm() / exact.norm()
    assert error < 1e-6
    assert "tl.dot" in capsys.readouterr().out
    names = _run(f"import torch\nimport cleave\n\n\n{second}", tmp_path)
    exact = names["projected"](*(names[name].double() for name in ("x", "down", "up")))
    assert (names["result"].double() - exact).norm() / exact.norm() < 1e-6
    assert re.search(r"^prepared 1 times: .* from down, up$", capsys.readouterr().out, re.MULTILINE)


def _run(block: str, folder: Path) -> dict[str, Any]:
    path = folder / "shown.py"
    path.write_text(block)
    return runpy.run_path(str(path))


def test_arguments_are_a_mistake() -> None:
    script = Path(__file__).parent.parent.parent / "tools" / "demo"
    done = subprocess.run([script, "x"], text=True, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "usage: tools/demo, without arguments\n")
