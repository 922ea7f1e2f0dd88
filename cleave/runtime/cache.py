"""
Results on disk: `$CLEAVE_CACHE_DIR`, else the user's cache folder.

An entry is a file named by the hash of its key. It is written beside its place and renamed, so readers see all of it or
nothing, and of several writers the last wins. A checksum comes first; an entry that does not match it, or that no longer
loads, is deleted and counts as missing. Entries are Python pickles: like the compilers' caches beside it, the folder must
be writable by its user only, and is made so.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import platformdirs

from cleave.files import replace

MAGIC = b"cleave cache 1\n"
_PACKAGES = ("cleave", "triton", "torch", "xdsl")


def folder() -> Path:
    """Where entries are kept."""
    named = os.environ.get("CLEAVE_CACHE_DIR")
    return Path(named).absolute() if named else Path(platformdirs.user_cache_dir("cleave"))


def key_of(*parts: object) -> str:
    """
    The hash of what an entry depends on.

    Raises: TypeError for what has no JSON form.
    """
    return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@lru_cache(maxsize=1)
def versions() -> tuple[str, ...]:
    """The packages that results depend on, and a mark of this package's own files, as those change without a new version."""
    out: list[str] = []
    for name in _PACKAGES:
        try:
            out.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            out.append(f"{name} absent")
    root = Path(__file__).resolve().parent.parent
    mark = sha256()
    for top, folders, files in os.walk(root, followlinks=True):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(files):
            if name.endswith(".py"):
                status = os.stat(os.path.join(top, name))
                mark.update(f"{os.path.relpath(top, root)}/{name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return (*out, mark.hexdigest())


@lru_cache(maxsize=8)
def mark_of(*modules: str) -> str:
    """A mark of the text of modules of this package, for what these alone make of the rest of a key."""
    root = Path(__file__).resolve().parent.parent.parent
    mark = sha256()
    for name in modules:
        mark.update((root / name.replace(".", "/")).with_suffix(".py").read_bytes())
    return mark.hexdigest()


@lru_cache(maxsize=1)
def nvidia_driver() -> str:
    """The version of the NVIDIA driver, empty where there is none."""
    try:
        return Path("/sys/module/nvidia/version").read_text().strip()
    except OSError:
        return ""


@dataclass(slots=True)
class Store:
    """
    Entries of several kinds in one folder. `root` is `folder()` where it is not given; `enabled` false keeps nothing.

    `damaged` counts the entries that were found corrupt and deleted.
    """

    root: Path = field(default_factory=folder)
    enabled: bool = True
    damaged: int = 0

    def path(self, kind: str, key: str) -> Path:
        """The file of an entry."""
        return self.root / kind / key[:2] / key

    def get(self, kind: str, key: str) -> Any:
        """The value of an entry, None where there is no sound one."""
        if not self.enabled:
            return None
        path = self.path(kind, key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        start = len(MAGIC) + 32
        if data[: len(MAGIC)] == MAGIC and sha256(data[start:]).digest() == data[len(MAGIC) : start]:
            try:
                return pickle.loads(data[start:])
            except Exception:
                # Written by code whose classes have changed since: as useless as a torn file.
                pass
        self.damaged += 1
        with contextlib.suppress(OSError):
            path.unlink()
        return None

    def put(self, kind: str, key: str, value: object) -> bool:
        """Keeps a value; false where the folder cannot be written."""
        if not self.enabled:
            return False
        payload = pickle.dumps(value, protocol=5)
        path = self.path(kind, key)
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.parent.mkdir(parents=True, exist_ok=True)
            replace(path, MAGIC + sha256(payload).digest() + payload)
        except OSError:
            return False
        return True
