"""Files that a command line names, `-` for the standard streams. What goes wrong is an OSError that has the file's name."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import tempfile
from pathlib import Path
from types import TracebackType


def end_quietly() -> None:
    """
    Lets a program end without a word when it is interrupted, or when what reads its output has ended, as in `cleave-opt … | head`, where
    there are such signals.
    """
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    shown = sys.excepthook

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not issubclass(kind, KeyboardInterrupt):
            shown(kind, error, trace)

    sys.excepthook = show


def read(path: str) -> bytes:
    """The bytes of a file, of standard input for `-`. Raises: OSError with a file name."""
    if path != "-":
        return Path(path).read_bytes()
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]
        raise OSError(errno.EBADF, os.strerror(errno.EBADF), "standard input")
    return sys.stdin.buffer.read()


def write(path: str, data: bytes) -> None:
    """Makes a file of that very name with these bytes, or puts them on standard output for `-`. Raises: OSError with a file name."""
    try:
        if path != "-":
            Path(path).write_bytes(data)
            return
        if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
    except OSError as error:
        raise OSError(error.errno, error.strerror, "standard output" if path == "-" else path) from error


def check(path: str) -> None:
    """
    Asks whether `write` could make that file, so that what takes long does not learn it in the end; nothing is made.

    Raises: OSError with a file name.
    """
    if path == "-":
        return
    file = Path(os.path.realpath(path))
    if file.is_dir():
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not file.parent.is_dir():
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), path)


def replace(path: Path, data: bytes) -> None:
    """
    Makes a file with these bytes, or one that was there have them: whoever reads it sees all of the old or all of the new.

    Raises: OSError.
    """
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def told(error: OSError) -> str:
    """What went wrong with which file; one without a name is standard output, as `read` and `write` name theirs."""
    return f"{error.filename or 'standard output'}: {error.strerror or error}"
