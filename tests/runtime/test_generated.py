"""Generated files: one folder for all processes, which goes with the first."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cleave.runtime import generated

COMPILES = """
import torch
import cleave
from cleave.runtime.builders import Builders
from tests import tile_programs

x = torch.ones(4, 8)
assert cleave.compile(torch.exp, x, cache=False)(x).shape == (4, 8)
pool = Builders(2)
for job in [pool.submit(program, "sm_90") for program in (tile_programs.rows(), tile_programs.split_sum(), tile_programs.matmul())]:
    job.result(120)
"""


@pytest.mark.parametrize("end", ["", "pool.close()", "raise SystemExit(3)"])
def test_no_process_leaves_files_behind(end: str, tmp_path: Path) -> None:
    """The interpreter's process and the compilers' read and write generated files, and are ended in several ways."""
    places = {"TMPDIR": str(tmp_path / "tmp"), "CLEAVE_CACHE_DIR": str(tmp_path / "cache"), "TRITON_CACHE_DIR": str(tmp_path / "triton")}
    (tmp_path / "tmp").mkdir()
    ended = subprocess.run(
        [sys.executable, "-W", "default::ResourceWarning", "-c", COMPILES + end],
        env={**os.environ, **places},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == (3 if end.startswith("raise") else 0), ended.stderr
    assert "cleaning up" not in ended.stderr
    assert [path.name for path in (tmp_path / "tmp").iterdir() if path.name.startswith("cleave-")] == []


def test_a_folder_that_is_gone_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(generated.FOLDER, str(tmp_path))
    assert generated.folder() == tmp_path
    monkeypatch.setenv(generated.FOLDER, str(tmp_path / "gone"))
    assert generated.folder().is_dir() and generated.folder() != tmp_path
