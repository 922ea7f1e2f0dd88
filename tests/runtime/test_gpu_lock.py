"""The lock on a GPU: told of where it is not had, one for each GPU whatever its number, gone with its holder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from cleave.remarks import collected
from cleave.runtime import gpu_lock
from cleave.runtime.gpu_lock import alone

UUIDS = ["aaaa", "bbbb"]


@pytest.fixture(autouse=True)
def gpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """What GPUs are called, by number, on a machine that has no folder for what runs."""
    names = list(UUIDS)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda number: SimpleNamespace(uuid=names[number]))
    monkeypatch.setattr(gpu_lock, "folder", lambda: tmp_path)
    yield names


def held(device: int = 0) -> bool:
    """Whether another could have the lock at once; nothing is said otherwise."""
    with collected() as remarks, alone(device, 0.0) as free:
        pass
    assert free == (not remarks)
    return not free


def test_one_excludes_others_until_it_is_given_back() -> None:
    with collected() as remarks:
        for _ in range(2):
            with alone(0, 0.0) as had:
                assert had and held() and not held(1)
            assert not held()
        with pytest.raises(KeyboardInterrupt), alone(0, 0.0):
            raise KeyboardInterrupt
    assert not held() and not remarks


def test_waiting_ends_when_it_is_given_back_or_with_a_remark() -> None:
    with collected() as remarks, alone(0, 0.0):
        began = time.monotonic()
        with alone(0, 0.2) as second:
            assert not second and time.monotonic() - began >= 0.2
        assert remarks == ["another process timed on the same GPU for more than 0 s: times beside it may be off"]
        assert held(), "what was not had is not given back"
    got: list[bool] = []

    def wait() -> None:
        with alone(0, 20.0) as had:
            got.append(had)

    with alone(0, 0.0):
        thread = threading.Thread(target=wait)
        thread.start()
        time.sleep(0.1)
        assert not got
    thread.join()
    assert got == [True]


def test_a_gpu_is_the_same_whatever_its_number(gpus: list[str]) -> None:
    """As CUDA_VISIBLE_DEVICES has it."""
    with alone(0, 0.0):
        gpus.reverse()
        assert held(1) and not held(0)


def test_gpus_without_an_identifier_have_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda number: SimpleNamespace())
    with alone(0, 0.0):
        assert held(0) and not held(1)


def test_where_no_file_can_be_made_that_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refused() -> Path:
        raise PermissionError("the folder is another user's")

    (tmp_path / "file").write_text("")
    (tmp_path / f"gpu-{UUIDS[1]}.lock").symlink_to(tmp_path / "file")
    for device, place in ((0, refused), (0, lambda: tmp_path / "file"), (1, lambda: tmp_path)):
        monkeypatch.setattr(gpu_lock, "folder", place)
        with collected() as remarks, alone(device, 0.0) as had:
            assert not had
        assert len(remarks) == 1 and remarks[0].startswith("other processes may time on the same GPU meanwhile")
    assert (tmp_path / "file").read_text() == ""


def test_where_there_are_no_locks_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_: Any) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(gpu_lock.fcntl, "flock", flock)
    with collected() as remarks, alone(0, 5.0) as had:
        assert not had
    assert len(remarks) == 1 and "Function not implemented" in remarks[0]


@pytest.fixture
def forked() -> Iterator[Any]:
    """Forks a process that does something, and then waits until the test is over."""
    children: list[int] = []

    def fork(then: Any) -> int:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            try:
                then()
                os.write(write, b"x")
                time.sleep(60)
            finally:
                os._exit(1)
        os.close(write)
        children.append(child)
        assert os.read(read, 1) == b"x"
        os.close(read)
        return child

    yield fork
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_process_that_was_forked_has_no_lock_and_takes_none_away(forked: Any) -> None:
    """It lives on, and leaves the block that it was forked in."""
    stack = alone(0, 0.0)
    assert stack.__enter__()
    forked(lambda: stack.__exit__(None, None, None))
    forked(lambda: None)
    assert held(), "the one that was forked gave back what it has not"
    stack.__exit__(None, None, None)
    assert not held(), "the one that was forked holds what was given back"


def test_a_process_that_was_forked_waits_like_any_other(forked: Any) -> None:
    def other() -> None:
        assert held()

    with alone(0, 0.0):
        forked(other)
    assert not held()


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "os._exit(0)", "raise SystemExit(0)"])
def test_it_ends_with_the_process_however_that_ends(end: str, tmp_path: Path) -> None:
    code = f"""
import os, sys, time
from pathlib import Path
from types import SimpleNamespace
import torch
from cleave.runtime import gpu_lock
torch.cuda.get_device_properties = lambda number: SimpleNamespace(uuid={UUIDS[0]!r})
gpu_lock.folder = lambda: Path({str(tmp_path)!r})
with gpu_lock.alone(0, 0.0) as had:
    child = os.fork()
    if child == 0:
        time.sleep(3)
        os._exit(0)
    print(had, flush=True)
    sys.stdin.read()
    {end}
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    assert process.stdout.readline() == b"True\n"
    assert held()
    process.stdin.close()
    process.wait(60)
    process.stdout.close()
    assert not held(), "though what it forked is still there"


@pytest.mark.parametrize(
    "environment", [{}, {"XDG_RUNTIME_DIR": "/nowhere"}, {"CLEAVE_CACHE_DIR": "/nowhere"}, {"CUDA_VISIBLE_DEVICES": "1"}]
)
def test_the_folder_is_the_users_own_in_any_environment(environment: dict[str, str], tmp_path: Path) -> None:
    code = "from cleave.runtime.gpu_lock import folder; print(folder())"
    ran = subprocess.run([sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=True)
    found = Path(ran.stdout.strip())
    assert found.stat().st_uid == os.getuid() and found.stat().st_mode & 0o077 == 0
    assert found in (Path(f"/run/user/{os.getuid()}/cleave"), Path(tempfile.gettempdir()) / f"cleave-locks-{os.getuid()}")


@pytest.mark.parametrize("way", ["link", "owner", "file"])
def test_what_another_user_put_there_is_not_used(way: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(os, "access", lambda *_: False)
    place = tmp_path / f"cleave-locks-{os.getuid()}"
    if way == "link":
        (tmp_path / "theirs").mkdir()
        place.symlink_to(tmp_path / "theirs")
    elif way == "file":
        place.write_text("")
    else:
        place.mkdir()
        user = os.getuid()
        monkeypatch.setattr(os, "getuid", lambda: user + 1)
        place.rename(tmp_path / f"cleave-locks-{user + 1}")
    with pytest.raises(OSError):
        gpu_lock.folder()
