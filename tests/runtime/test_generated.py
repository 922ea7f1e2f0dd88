"""Generated files: one folder for all processes, which goes with the first."""

from __future__ import annotations

import os
import shutil
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


FORKS = """
import os, shutil, signal, sys, multiprocessing
import torch
import cleave
from cleave.runtime import generated

def works(number):
    assert generated.load_module(f"answer = {number}").answer == number
    return generated.folder()

def forked(end):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        end()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

def ended_here():
    works(2)
    sys.exit(0)

def of_multiprocessing():
    made = multiprocessing.get_context("fork").Process(target=works, args=(3,))
    made.start()
    made.join()
    assert made.exitcode == 0

def outlives():
    shutil.rmtree(own)  # as where the parent has ended
    assert works(4) != own and works(5).is_dir()
    sys.exit(0)

def compiles():
    x = torch.ones(4, 8)
    assert torch.allclose(cleave.compile(torch.exp, x, cache=False)(x), x.exp())
    sys.exit(0)

own = works(1)
for kind in sys.argv[1:]:
    if kind == "multiprocessing":
        of_multiprocessing()
    else:
        forked({"exit": ended_here, "outlives": outlives, "compiles": compiles}[kind])
    assert (works(100 * len(kind)) == own) == (kind != "outlives")
    if kind == "compiles":
        x = torch.ones(4, 8)
        assert cleave.compile(torch.exp, x, cache=False)(x).shape == (4, 8)
"""


@pytest.mark.parametrize("kinds", ["exit", "multiprocessing", "outlives", "compiles exit"])
def test_processes_that_are_forked_leave_each_others_files_and_none_behind(kinds: str, tmp_path: Path) -> None:
    places = {"TMPDIR": str(tmp_path / "tmp"), "CLEAVE_CACHE_DIR": str(tmp_path / "cache"), "TRITON_CACHE_DIR": str(tmp_path / "triton")}
    (tmp_path / "tmp").mkdir()
    subprocess.run([sys.executable, "-c", FORKS, *kinds.split()], env={**os.environ, **places}, check=True, timeout=120)
    assert [path.name for path in (tmp_path / "tmp").iterdir() if path.name.startswith("cleave-")] == []


def test_a_process_of_multiprocessing_clears_away_what_it_made(tmp_path: Path) -> None:
    """Where the one that forked it had made no folder."""
    code = """
import multiprocessing, sys
from cleave.runtime import generated
made = multiprocessing.get_context("fork").Process(target=generated.load_module, args=("answer = 3",))
made.start()
made.join()
sys.exit(made.exitcode)
"""
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "TMPDIR": str(tmp_path)}, check=True, timeout=60)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_goes_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it is looked for, or after."""
    monkeypatch.delenv(generated.FOLDER, raising=False)
    before = generated.folder()
    shutil.rmtree(before)
    assert generated.load_module("answer = 6").answer == 6 and generated.folder() != before
    plain, gone = generated.folder, [True]

    def folder() -> Path:
        found = plain()
        if gone:
            gone.clear()
            shutil.rmtree(found)
        return found

    monkeypatch.setattr(generated, "folder", folder)
    assert generated.load_module("answer = 7").answer == 7 and not gone
