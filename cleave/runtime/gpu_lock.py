"""
One process at a time on a GPU, of those of a user that time programs: a lock of the operating system, which ends with whoever holds it.

It is a file of the GPU's own name in a folder of the user's, so that neither the cache nor the environment, which may number GPUs in its
own way, has a say in it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any, cast

import torch

from cleave.remarks import remark

_HELD: set[int] = set()
"""Descriptors of files that are locked, or are to be. A process that is forked has copies, which would hold the locks longer."""


@contextlib.contextmanager
def alone(device: int, patience: float) -> Generator[bool]:
    """
    Holds the GPU of that number. Gives false where another process holds it for longer than `patience` seconds, or where that cannot be
    known, either of which is remarked.
    """
    with contextlib.ExitStack() as stack:
        held = False
        try:
            file = _opened(folder() / f"{name_of(device)}.lock")
            stack.callback(_given_back, file)
            held = _locked(file, patience)
            if not held:
                remark(f"another process timed on the same GPU for more than {patience:.0f} s: times beside it may be off")
        except OSError as error:
            remark(f"other processes may time on the same GPU meanwhile: no lock can be had: {error}")
        yield held


def name_of(device: int) -> str:
    """What a GPU is called in any process: its identifier, its number where it has none."""
    known = getattr(cast(Any, torch.cuda).get_device_properties(device), "uuid", None)
    return f"gpu-{known or device}"


def folder() -> Path:
    """
    Where locks are: the user's folder for what runs, another's for temporary files where there is none. Whether a shell or a service runs
    this makes no difference to it.

    Raises: OSError where there is none that is the user's own.
    """
    user = os.getuid()
    running = Path(f"/run/user/{user}")
    made = running / "cleave" if os.access(running, os.W_OK) else Path(tempfile.gettempdir()) / f"cleave-locks-{user}"
    made.mkdir(mode=0o700, exist_ok=True)
    if made.is_symlink() or made.stat().st_uid != user:
        raise PermissionError(f"{made} is another user's")
    return made


def _opened(path: Path) -> int:
    """The descriptor of a lock's file. Raises: OSError."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    _HELD.add(file)
    return file


def _given_back(file: int) -> None:
    """Ends a lock, but for a process that was forked meanwhile, which has none: this one's copy of the file is closed."""
    if file in _HELD:
        _HELD.discard(file)
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_UN)
        os.close(file)


def _locked(file: int, patience: float) -> bool:
    """Whether the lock is had within so many seconds. Raises: OSError where there are no locks."""
    until = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(0.05)
        else:
            return True


def _left() -> None:
    """After a fork: the locks are the other process'."""
    for file in _HELD:
        with contextlib.suppress(OSError):
            os.close(file)
    _HELD.clear()


os.register_at_fork(after_in_child=_left)
