"""Requests to another process over a socket, with a limit on the time an answer may take."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from cleave.runtime.generated import FOLDER, folder

FIRST = 3
"""The least descriptor that is not of standard input or output."""


class Gone(RuntimeError):
    """The other process ended, took longer than it may and was ended, or failed."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The answer of a process in which something went wrong that nobody foresaw: what, and where."""

    text: str


@dataclass(frozen=True, slots=True)
class Done:
    """The answer of a process that did what it was asked: the result."""

    result: Any


class Peer:
    """The other end of a connection: a process that answers each message with one message. It ends when this end closes."""

    def __init__(self, connection: Connection[Any, Any], process: int) -> None:
        self.connection = connection
        self.process = process

    def ask(self, message: object, seconds: float) -> Any:
        """The answer to a message. Raises: Gone, after which the peer is of no more use."""
        try:
            self.connection.send(message)
            return self.receive(seconds)
        except (EOFError, OSError) as error:
            self.close()
            raise Gone("the process ended") from error

    def receive(self, seconds: float) -> Any:
        """The next message. Raises: Gone where there is none in time or the process failed; EOFError, OSError."""
        if not self.connection.poll(seconds):
            self.end()
            raise Gone(f"no answer within {seconds:.0f} s")
        reply = self.connection.recv()
        if isinstance(reply, Failed):
            self.end()
            raise Gone(reply.text)
        return reply

    def end(self) -> None:
        """Ends the process, which still has its end of the connection, so that its number is its own."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process, signal.SIGKILL)
        self.close()

    def close(self) -> None:
        """Closes this end."""
        with contextlib.suppress(OSError):
            self.connection.close()


def started(
    module: str, environment: Mapping[str, str], without: Sequence[str] = (), silent: bool = False
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """
    Starts a module of this package in another process, with a socket to it whose descriptor is its argument.

    The environment is this process' with the one given, without the variables named in `without`. What a `silent` one prints goes nowhere.
    """
    ours, theirs = map(_not_standard, socket.socketpair())
    with theirs:
        kept = {name: value for name, value in os.environ.items() if name not in without}
        merged = {**kept, FOLDER: str(folder()), **environment}
        # The other process finds this package where this one did, and nothing in the working folder.
        merged["PYTHONPATH"] = os.pathsep.join([*filter(None, [merged.get("PYTHONPATH")]), str(Path(__file__).resolve().parents[2])])
        command = [sys.executable, "-P", "-m", module, str(theirs.fileno())]
        out = subprocess.DEVNULL if silent else None
        process = subprocess.Popen(command, pass_fds=(theirs.fileno(),), env=merged, stdin=subprocess.DEVNULL, stdout=out)
    return process, ours


def _not_standard(end: socket.socket) -> socket.socket:
    """The socket at a descriptor that is not of standard input or output, which a process may have closed: another would take its place."""
    with end:
        return socket.socket(fileno=fcntl.fcntl(end.fileno(), fcntl.F_DUPFD_CLOEXEC, FIRST))
