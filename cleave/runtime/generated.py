"""Importing generated files: Triton reads a kernel's source back from the file it was defined in, so there must be one."""

from __future__ import annotations

import importlib.util
import tempfile
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from cleave.runtime.versions import quiet


@lru_cache(maxsize=1)
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="cleave-")


@lru_cache(maxsize=256)
def load_module(source: str) -> Any:
    """The module of a generated file, imported once; the file lasts as long as the process."""
    quiet()
    name = f"cleave_generated_{sha256(source.encode()).hexdigest()[:16]}"
    path = Path(_folder().name) / f"{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None, "a .py file has a loader"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
