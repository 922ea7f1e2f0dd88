"""The table of why a schedule was chosen, for people."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from .schedule.explain import Considered
from .schedule.targets import Target

_WIDTH = 160
_HEADINGS = ("estimated us", "kernel", "MB", "GFLOP", "programs", "waves", "registers", "KiB shared", "bound by")


def explanation(name: str, found: Sequence[Considered], target: Target) -> Table:
    """The chosen schedule of a graph first, then the runners-up; a row for each kernel, and the reason below."""
    table = Table(title=f"{name} on {target.name}: the chosen schedule and the next by estimate", box=box.SIMPLE, title_justify="left")
    for heading in _HEADINGS:
        table.add_column(heading, justify="left" if heading in ("kernel", "bound by") else "right")
    for number, entry in enumerate(found):
        mark = "chosen" if number == 0 else f"next {number}"
        table.add_row(f"{entry.seconds * 1e6:.2f}", f"{mark}: {entry.name}; {entry.reason}")
        for choice in entry.kernels:
            cost = choice.cost
            plan = "library" if choice.call is not None else str(choice.plan)
            counts = [str(cost.programs), str(cost.waves), str(cost.registers), f"{cost.shared / 1024:.0f}"]
            own = counts if choice.call is None else ["-"] * len(counts)
            table.add_row(
                f"{cost.seconds * 1e6:.2f}", f"  {plan}", f"{cost.memory_bytes / 1e6:.2f}", f"{cost.flops / 1e9:.3f}", *own, cost.bound
            )
        table.add_section()
    return table


def explain(name: str, found: Sequence[Considered], target: Target) -> None:
    """Prints the table on standard error, with colours on a terminal only."""
    console = Console(stderr=True, width=None if sys.stderr.isatty() else _WIDTH, highlight=False)
    console.print(explanation(name, found, target))
