"""
Remarks: what a pass wants a person to know although nothing is wrong, such as a cap that cut a search short.

They go to standard error, one line each, unless someone collects them.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

_collected: ContextVar[list[str] | None] = ContextVar("_collected", default=None)


def remark(text: str) -> None:
    """Says something to the collector around the call, or on standard error where there is none."""
    into = _collected.get()
    if into is None:
        print(text, file=sys.stderr)
    else:
        into.append(text)


@contextmanager
def collected() -> Generator[list[str]]:
    """Collects the remarks made inside."""
    into: list[str] = []
    token = _collected.set(into)
    try:
        yield into
    finally:
        _collected.reset(token)
