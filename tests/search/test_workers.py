"""One process or two: the same alternatives, and nothing left behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cleave.bench.search_programs import attention, projected_attention, transformer
from cleave.graph import Graph
from cleave.search import superoptimize
from cleave.search.workers import LEAST, Workers

LARGE = LEAST


@pytest.mark.parametrize(
    "build", [projected_attention, lambda: transformer(1), lambda: transformer(2)], ids=["projections", "block", "two"]
)
def test_two_workers_find_what_one_finds(build: Callable[[], Graph]) -> None:
    """All graphs, names, formulas and caps, in order; the programs are large enough for a second process to start."""
    graph = build()
    with Workers(2) as workers:
        shared = superoptimize(graph, workers=workers)
        assert workers.failures == []
        assert len(multiprocessing.active_children()) == 1
    assert multiprocessing.active_children() == []
    alone = superoptimize(graph)
    assert repr(shared.alternatives) == repr(alone.alternatives)
    assert shared.caps == alone.caps


def test_small_programs_start_no_process() -> None:
    with Workers(2) as workers:
        superoptimize(attention(), workers=workers)
        assert workers.map(abs, [-1, 2], LARGE - 1) == [1, 2]
        assert multiprocessing.active_children() == []


def ends_elsewhere(number: int) -> int:
    """The square; ends any process but the one that has this test's number in its environment."""
    if os.environ["CLEAVE_TEST_HOME"] != str(os.getpid()):
        os._exit(3)
    return number * number


def square(number: int) -> int:
    return number * number


def rests(seconds: float) -> float:
    """Waits where it is not at home."""
    if os.environ["CLEAVE_TEST_HOME"] != str(os.getpid()):
        time.sleep(seconds)
    return seconds


def test_order_is_kept() -> None:
    with Workers(2) as workers:
        assert workers.map(square, list(range(40)), LARGE) == [number * number for number in range(40)]


def test_a_process_that_ends_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its work is done here, and that is said."""
    monkeypatch.setenv("CLEAVE_TEST_HOME", str(os.getpid()))
    with Workers(2) as workers:
        assert workers.map(ends_elsewhere, list(range(8)), LARGE) == [number * number for number in range(8)]
        assert workers.failures == ["a worker process ended; its work was done without"]
        assert workers.map(square, [1, 2], LARGE) == [1, 4]
    assert multiprocessing.active_children() == []


def test_a_process_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """What takes longer than it may is done here, and the process is ended while it is still at work."""
    monkeypatch.setenv("CLEAVE_TEST_HOME", str(os.getpid()))
    monkeypatch.setattr("cleave.search.workers.PATIENCE", 0.2)
    with Workers(2) as workers:
        assert workers.map(rests, [3600.0, 3600.0], LARGE) == [3600.0, 3600.0]
        assert workers.failures == ["a worker process took too long; its work was done without"]
    assert multiprocessing.active_children() == []


SCRIPT = """
import os, sys
from cleave.search.workers import Workers
if __name__ == "__main__":
    with Workers(2) as workers:
        workers.map(abs, [1, 2], 1000)
        import multiprocessing
        print(multiprocessing.active_children()[0].pid, flush=True)
        sys.stdin.read()
"""


def test_processes_do_not_outlive_the_one_that_started_them(tmp_path: Path) -> None:
    """Even if it is killed. The reaper of the worker is whoever adopts it, so a zombie counts as gone."""
    script = tmp_path / "main.py"
    script.write_text(SCRIPT)
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    with subprocess.Popen([sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        worker = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        process.wait()
    for _ in range(600):
        if not _lives(worker):
            return
        time.sleep(0.1)
    os.kill(worker, signal.SIGKILL)
    pytest.fail("the worker lives on")


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
