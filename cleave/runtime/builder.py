"""
The server of `cleave.runtime.builders`: forks a worker for every connection it is sent. Its argument is a socket's descriptor.

A worker first sends its process number, then answers each function with its arguments by `Done` and the result, or by a text that says
why there is none.
"""

from __future__ import annotations

import importlib
import os
import signal
import socket
import sys
from multiprocessing.connection import Connection
from typing import Any

from cleave.runtime.connection import Done

IMPORTS = ("triton", "triton.compiler", "cleave.runtime.build", "cleave.schedule")
"""What the functions are of or import when they run, for the workers to have from the start."""


def reason(error: Exception) -> str:
    """What an error says, in a line: the assembler's own words where it is its."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # Before what is wrong the assembler may warn and inform.
    wrong = (line for line in lines if line.startswith("ptxas") and ("fatal" in line or "error" in line))
    told = next(wrong, lines[0] if lines else "")
    return f"{type(error).__name__}: {told}"[:400]


def serve(connection: Connection[Any, Any]) -> None:
    """Answers until the other end closes."""
    connection.send(os.getpid())
    while True:
        try:
            function, arguments = connection.recv()
        except (EOFError, OSError):
            return
        try:
            reply: object = Done(function(*arguments))
        except Exception as error:
            reply = reason(error)
        connection.send(reply)


def main() -> None:
    """Forks workers until the other end closes. The system buries them: the server does not wait."""
    for name in IMPORTS:
        importlib.import_module(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = socket.socket(fileno=int(sys.argv[1]))
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        if not message:
            return
        for descriptor in descriptors:
            if os.fork() == 0:
                # Compilers are processes that a worker waits for.
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                control.close()
                try:
                    serve(Connection(descriptor))
                finally:
                    os._exit(0)
            os.close(descriptor)


if __name__ == "__main__":
    main()
