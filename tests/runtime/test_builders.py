"""The pool of processes that compile: results, failures of single programs, and its end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from cleave.runtime.build import build
from cleave.runtime.builder import reason
from cleave.runtime.builders import BuildError, Builders
from cleave.runtime.cache import Store
from cleave.runtime.connection import Gone, Peer
from cleave.schedule.program import Program
from tests import tile_programs


@pytest.fixture(scope="module")
def builders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Builders]:
    folder = str(tmp_path_factory.mktemp("cache"))
    before = os.environ.get("CLEAVE_CACHE_DIR")
    os.environ["CLEAVE_CACHE_DIR"] = folder
    pool = Builders(2)
    yield pool
    pool.close()
    if before is None:
        del os.environ["CLEAVE_CACHE_DIR"]
    else:
        os.environ["CLEAVE_CACHE_DIR"] = before


def broken() -> Program:
    """A program with a number of warps that no block may have."""
    program = tile_programs.rows()
    return replace(program, kernels=tuple(replace(kernel, num_warps=3) for kernel in program.kernels))


def test_programs_are_built_elsewhere_as_here(builders: Builders, tmp_path: Path) -> None:
    programs = [tile_programs.rows(), tile_programs.split_sum()]
    results = [builders.submit(program, "sm_90") for program in programs]
    for program, result in zip(programs, results, strict=True):
        here = build(program, "sm_90", store=Store(tmp_path))
        there = result.result(120)
        assert there.file.text == here.file.text and there.file.plans == here.file.plans
        assert {name: binary.arguments for name, binary in there.binaries.items()} == {
            name: binary.arguments for name, binary in here.binaries.items()
        }
        assert all(binary.image.startswith(b"\x7fELF") for binary in there.binaries.values())


def test_only_the_wanted_kernels_are_compiled(builders: Builders) -> None:
    assert list(builders.submit(tile_programs.split_sum(), "sm_80", [1]).result(120).binaries) == ["combine"]


def test_a_program_that_does_not_compile_fails_alone(builders: Builders) -> None:
    bad = builders.submit(broken(), "sm_90")
    good = builders.submit(tile_programs.rows(), "sm_90")
    with pytest.raises(BuildError, match="use a power of two"):
        bad.result(120)
    assert good.result(120).binaries


def test_the_assembler_says_why_in_the_answer_alone(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A warp-group dot of 64 x 256 sums holds 128 registers a thread. Triton would print the code that the assembler refused."""
    program = tile_programs.matmul(tile=256)
    program = replace(program, kernels=tuple(replace(kernel, num_warps=8, max_registers=64) for kernel in program.kernels))
    pool = Builders(1)
    try:
        with pytest.raises(BuildError, match=r"ptxas.*[Rr]egister"):
            pool.submit(program, "sm_90", store=Store(tmp_path)).result(120)
    finally:
        pool.close()
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", ""),
        ("\n  first\nsecond", "first"),
        ("Internal error\n`ptxas` stderr:\nptxas fatal   : Out of registers\nRepro command: ptxas x", "ptxas fatal   : Out of registers"),
        (
            "`ptxas` stderr:\nptxas info    : (C7510) slow\nptxas x.ptx, line 3; error   : bad\nptxas fatal   : aborted",
            "ptxas x.ptx, line 3; error   : bad",
        ),
        ("`ptxas` raised SIGSEGV\n`ptxas` stderr:\nptxas info    : (C7510) slow", "`ptxas` raised SIGSEGV"),
    ],
)
def test_the_reason_is_the_line_that_says_what_is_wrong(text: str, told: str) -> None:
    assert reason(ValueError(text)) == f"ValueError: {told}"


BUILD = """
import sys
from pathlib import Path
from cleave.runtime.builders import Builders
from cleave.runtime.cache import Store
from tests import tile_programs

pool = Builders(1)
try:
    built = pool.submit(tile_programs.rows(), "sm_90", store=Store(Path(sys.argv[1]))).result(120)
    (Path(sys.argv[1]) / "built").write_text(" ".join(built.binaries))
finally:
    pool.close()
"""


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_programs_are_built_where_standard_output_is_closed(closed: str, tmp_path: Path) -> None:
    """As services run: the descriptors of standard input and output are no files, or other ones."""
    command = f'exec "$0" -c "$1" "$2" {closed}'
    subprocess.run(["sh", "-c", command, sys.executable, BUILD, str(tmp_path)], check=False, timeout=300)
    assert (tmp_path / "built").read_text() == "rows_kernel"


FORKS = """
import faulthandler, os, signal, sys, threading, time, traceback
from cleave.runtime.builders import BUILDERS
from cleave.runtime.cache import Store
from tests import tile_programs

faulthandler.dump_traceback_later(100, exit=True)
BUILDERS.workers = 2

def built():
    store = Store(enabled=False)
    asked = [BUILDERS.submit(program, "sm_90", store=store) for program in (tile_programs.rows(), tile_programs.split_sum())]
    return [sorted(future.result(60).binaries) for future in asked] == [["rows_kernel"], ["combine", "parts"]]

def asked():
    return [future.result(60) for future in [BUILDERS.call(len, "a" * size) for size in range(4)]] == [0, 1, 2, 3]

def forked(then):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            os._exit(0 if then() else 1)
        except BaseException:
            traceback.print_exc()
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

busy = None
match sys.argv[1]:
    case "warm": BUILDERS.warm()
    case "idle": assert asked()
    case "busy":
        busy = threading.Thread(target=built)
        busy.start()
        time.sleep(float(sys.argv[2]))
    case "locked":
        busy = threading.Thread(target=lambda: BUILDERS._lock.acquire() and time.sleep(3) or BUILDERS._lock.release())
        busy.start()
        time.sleep(0.1)
if sys.argv[1] == "idle":
    assert forked(lambda: built() and forked(asked) == 0 and asked()) == 0
else:
    assert forked(asked) == 0
if busy is not None:
    busy.join()
assert asked()
"""


@pytest.mark.parametrize("state", ["untouched", "warm", "idle", "busy 0.05", "busy 2", "locked"])
def test_a_process_that_was_forked_compiles_and_so_does_the_other(state: str) -> None:
    """Whatever the threads and processes were at when it was, and so does one that was forked from it."""
    subprocess.run([sys.executable, "-c", FORKS, *state.split()], check=True, timeout=120)


def test_what_was_forked_keeps_no_worker_alive() -> None:
    """A worker ends when everyone who could ask it has gone."""
    pool = Builders(1)
    assert pool.call(len, "ab").result(120) == 2
    (peer,) = pool._peers
    os.register_at_fork(after_in_child=pool.forget)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    try:
        pool._ended(peer)
        until = time.monotonic() + 20
        while os.path.exists(f"/proc/{peer.process}"):
            assert time.monotonic() < until, "the worker is still there"
            time.sleep(0.02)
    finally:
        os.close(write)
        os.waitpid(child, 0)
        os.close(read)
        pool.close()


def test_without_a_thread_the_answer_is_an_error_and_the_next_may_be_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a process may have no more threads."""
    pool = Builders(2)

    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    try:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refused)
            with pytest.raises(BuildError, match="can't start new thread"):
                pool.call(len, "ab").result(20)
        assert pool.call(len, "abc").result(120) == 3
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", refused)
            assert [asked.result(120) for asked in [pool.call(len, "a" * size) for size in range(4)]] == [0, 1, 2, 3]
    finally:
        pool.close()


@pytest.mark.parametrize(
    "error", [ImportError("no module"), ValueError("odd"), MemoryError(), Gone("it failed"), TypeError("odd"), OSError()]
)
def test_whatever_goes_wrong_there_is_an_answer(error: Exception, builders: Builders, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(peer: Peer, message: object, seconds: float) -> object:
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(Peer, "ask", ask)
        with pytest.raises(BuildError):
            builders.call(len, "ab").result(60)
    assert builders.call(len, "ab").result(120) == 2


def test_sockets_of_processes_are_never_standard_descriptors() -> None:
    """With standard input closed a socket would be there, and what a process starts with in its place."""
    code = """
import os
from cleave.runtime.connection import started
os.close(0)
os.close(1)
process, ours = started("cleave.runtime.builder", {}, silent=True)
os._exit(0 if int(process.args[-1]) > 2 and ours.fileno() > 2 else 1)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_other_functions_are_called_too_and_fail_alone(builders: Builders) -> None:
    asked = [builders.call(divmod, 7, divisor) for divisor in (2, 0, 3)]
    assert asked[0].result(120) == (3, 1) and asked[2].result(120) == (2, 1)
    with pytest.raises(BuildError, match=r"^ZeroDivisionError: "):
        asked[1].result(120)
    with pytest.raises(BuildError, match="cannot be sent"):
        builders.call(len, lambda: None).result(120)
    with pytest.raises(BuildError, match="the process ended"):
        builders.call(eval, "lambda: None").result(120)
    assert builders.call(len, "sent").result(120) == 4


def test_an_unknown_architecture_says_so(builders: Builders) -> None:
    with pytest.raises(BuildError, match="is not an architecture"):
        builders.submit(tile_programs.rows(), "vax").result(120)


def test_a_program_that_takes_too_long_fails_alone(builders: Builders) -> None:
    slow = builders.submit(tile_programs.streamed(), "gfx942", patience=0.01)
    with pytest.raises(BuildError, match="no answer within"):
        slow.result(120)
    assert builders.submit(tile_programs.rows(), "sm_90").result(120).binaries


def test_a_pool_that_lost_its_server_starts_another(builders: Builders) -> None:
    builders.submit(tile_programs.rows(), "sm_90").result(120)
    server = builders._server
    assert server is not None
    server.kill()
    server.wait()
    builders.close()
    assert builders.submit(tile_programs.rows("bf16"), "sm_90").result(120).binaries


def test_a_peer_that_is_silent_is_ended() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], pass_fds=[theirs.fileno()])
        connection: Connection[Any, Any] = Connection(ours.detach())
        started = time.monotonic()
        with pytest.raises(Gone, match="no answer"):
            Peer(connection, child.pid).ask("hello", 0.2)
        assert time.monotonic() - started < 5
    assert child.wait(10) == -signal.SIGKILL
