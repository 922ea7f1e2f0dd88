"""Which code measured: the package's version and a checksum of its sources."""

from __future__ import annotations

import os
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from .. import __version__

DIGITS = 8


@lru_cache(maxsize=1)
def code() -> str:
    """The version, and the first digits of a checksum of all Python files of this package by their paths in it."""
    return f"cleave {__version__} {checksum(Path(__file__).resolve().parents[1])}"


def checksum(root: Path) -> str:
    """The first digits of a checksum of the Python files below a folder, links followed."""
    found = sha256()
    for top, folders, files in os.walk(root, followlinks=True):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(name for name in files if name.endswith(".py")):
            path = Path(top, name)
            content = path.read_bytes()
            found.update(f"{path.relative_to(root).as_posix()} {len(content)}\n".encode() + content)
    return found.hexdigest()[:DIGITS]
