"""
Compiling the subgraphs without a GPU: the choice is the cost model's, and what it takes is told.

Kernels are compiled for the machine, which need not be here.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from rich import box
from rich.table import Table

from ..errors import CleaveError
from .cases import Case
from .compiling import Compilation, compiled, empty_cache
from .tables import number, show

MOST_SECONDS, MOST_AGAIN = 15.0, 0.3
"""The most seconds that compiling a case should take on two cores, and from the cache."""


def report(cases: Sequence[Case], target: str, seconds: float | None) -> int:
    """Compiles cases and prints a table; exit code 0 when all is as it should be, 1 when not."""
    started = time.monotonic()
    found: dict[str, Compilation] = {}
    failed: dict[str, str] = {}
    with empty_cache():
        for case in cases:
            if seconds is not None and time.monotonic() - started > seconds:
                print(f"{len(cases) - len(found) - len(failed)} of {len(cases)} cases skipped, from '{case.name}' on", file=sys.stderr)
                break
            print(case.name, file=sys.stderr, flush=True)
            try:
                found[case.name] = compiled(case, case.empty("cpu"), target=target)[1]
            except CleaveError as error:
                failed[case.name] = str(error)
    table = Table(title=f"compiled for {target} by the cost model; at most {MOST_SECONDS:g} s, again {MOST_AGAIN:g} s", box=box.SIMPLE)
    for heading in ("case", "seconds", "again", "kernels", "library", "estimate us", "plan"):
        table.add_column(heading, justify="left" if heading in ("case", "plan") else "right", no_wrap=heading != "plan")
    good = not failed
    for name, entry in found.items():
        slow = (entry.seconds or 0.0) > MOST_SECONDS or (entry.again or 0.0) > MOST_AGAIN
        good = good and not slow
        estimate = None if entry.estimated is None else entry.estimated * 1e6
        cells = [number(entry.seconds), number(entry.again), str(entry.kernels), str(entry.calls), number(estimate, ".1f"), entry.plan]
        table.add_row(f"{name}{' SLOW' if slow else ''}", *cells)
    show(table)
    for name, entry in found.items():
        for note in entry.notes:
            print(f"{name}: {note}")
    for name, reason in failed.items():
        print(f"{name}: {reason}")
    return 0 if good else 1
