"""Importing generated files: Triton reads a kernel's source back from the file it was defined in, so there must be one."""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
import traceback
from functools import lru_cache
from hashlib import sha256
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

from cleave.files import replace
from cleave.runtime.versions import quiet

FOLDER = "CLEAVE_GENERATED_FOLDER"
"""The environment variable that tells a process of ours where the one that started it keeps generated files."""
_PREFIX = "cleave_generated_"


def folder() -> Path:
    """
    Where generated files are kept: with the process that started or forked this one, as far as it is still there. Processes of ours end in
    ways that clear nothing away; the first one's folder goes with it.
    """
    given = os.environ.get(FOLDER)
    if given and os.path.isdir(given):
        return Path(given)
    known = _own()
    if not known.is_dir():
        # Its process has ended, or someone has cleared it away.
        _own.cache_clear()
        known = _own()
    return known


@lru_cache(maxsize=1)
def _own() -> Path:
    made = Path(tempfile.mkdtemp(prefix="cleave-"))
    # Unlike atexit, and what tempfile does, in this process alone: others that are forked from it end earlier.
    Finalize(None, shutil.rmtree, (made, True), exitpriority=0)
    return made


@lru_cache(maxsize=256)
def load_module(source: str) -> Any:
    """The module of a generated file, imported once; the file lasts as long as the process that began it all."""
    quiet()
    name = f"{_PREFIX}{sha256(source.encode()).hexdigest()[:16]}"
    try:
        path = _written(name, source)
    except FileNotFoundError:
        # The folder went meanwhile, with the process that it was of.
        path = _written(name, source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None, "a .py file has a loader"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _written(name: str, source: str) -> Path:
    path = folder() / f"{name}.py"
    replace(path, source.encode())
    return path


def reason(error: BaseException) -> str:
    """What failed first, in a line, and where in a generated file that was."""
    while error.__cause__ is not None:
        error = error.__cause__
    told = " ".join(str(error).split())
    places = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).name.startswith(_PREFIX)]
    where = f" (in {places[-1].name}: {places[-1].line})" if places else ""
    return f"{type(error).__name__}{': ' if told else ''}{told}{where}"
