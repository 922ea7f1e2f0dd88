"""Tables of rows: ratios with what they rest on, and every contender's time. What is missing or wrong is told below, with the reason."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from .results import GRAPH, OURS, PLAIN, Row, geometric_mean
from .timing import FLUSHES

Columns = Callable[[Row], Mapping[str, str]]
"""What a command adds to the table of ratios: texts by heading."""


def none(row: Row) -> Mapping[str, str]:
    """Nothing added."""
    return {}


def number(value: float | None, form: str = ".2f") -> str:
    """A number, or a dash for none."""
    return "-" if value is None else f"{value:{form}}"


def microseconds(milliseconds: float | None) -> str:
    """Milliseconds in microseconds, with four digits."""
    if milliseconds is None:
        return "-"
    value = milliseconds * 1e3
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}"


def ratios(rows: Sequence[Row], goal: Callable[[Row], float] | None = None, more: Columns = none) -> Table:
    """Cleave beside the best existing; the ratio is the latter's time over the former's, so more than 1 is faster."""
    table = Table(title="best existing over Cleave, graph replays, L2 flushed by writes and by reads; times in us", box=box.SIMPLE)
    added = list(dict.fromkeys(heading for row in rows for heading in more(row)))
    wanted = ["goal"] if goal is not None else []
    headings = ["case", "floor", OURS, "best existing", *FLUSHES, *wanted, PLAIN, *added]
    headings += ["error", "kernels", "compile s", "again s", "CPU us", "regret"]
    for heading in headings:
        table.add_column(heading, justify="left" if heading in ("case", "best existing") else "right", no_wrap=True)
    for row in rows:
        best = row.best(GRAPH, FLUSHES[0])
        made = row.compilation
        cells = [row.case, microseconds(row.facts.get("floor_ms")), microseconds(row.time(OURS, GRAPH, FLUSHES[0]))]
        cells += ["-" if best is None else f"{microseconds(best[1])} {best[0]}", *(number(row.ratio(GRAPH, flush)) for flush in FLUSHES)]
        if goal is not None:
            cells.append(f"{goal(row):.2f}{'' if reached(row, goal) else ' LOW'}")
        cells += [number(row.lower(PLAIN)), *(more(row).get(heading, "-") for heading in added)]
        cells += [number(row.errors.get(OURS), ".1e"), _kernels(made)]
        cells += [number(made.get("seconds"), ".1f"), number(made.get("again")), number(row.processor_microseconds.get(OURS), ".1f")]
        cells.append("-" if made.get("regret") is None else f"{made['regret']:.1%}")
        table.add_row(*cells)
    return table


def reached(row: Row, goal: Callable[[Row], float]) -> bool:
    """Whether the ratio that counts is what is wanted."""
    ratio = row.lower()
    return ratio is not None and ratio >= goal(row)


def _kernels(compilation: Mapping[str, object]) -> str:
    if not compilation:
        return "-"
    calls = compilation.get("calls")
    return f"{compilation.get('kernels')}{f' + {calls} lib' if calls else ''}"


def times(rows: Sequence[Row]) -> Table:
    """Microseconds of every contender, by the flushes in turn."""
    table = Table(title=f"us of graph replays, L2 flushed by {' / '.join(FLUSHES)}; ! is a wrong result", box=box.SIMPLE)
    names = list(dict.fromkeys(name for row in rows for name in (*_names(row), *row.failed)))
    table.add_column("case", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(row.case, *(_time(row, name) for name in names))
    return table


def _names(row: Row) -> list[str]:
    return [name for times in row.milliseconds.values() for name in times]


def _time(row: Row, name: str) -> str:
    found = [row.milliseconds.get(f"{GRAPH}, {flush}", {}).get(name) for flush in FLUSHES]
    if None in found:
        return "-"
    return " / ".join(microseconds(value) for value in found) + (" !" if name in row.failed else "")


def summary(rows: Sequence[Row], goal: Callable[[Row], float] | None = None) -> list[str]:
    """Lines below the tables: means, rows below their goal, remarks, and what is missing, once for each reason."""
    lines: list[str] = []
    for kind in (GRAPH, PLAIN):
        counted = [ratio for row in rows if (ratio := row.lower(kind)) is not None]
        mean = geometric_mean(counted)
        if mean is not None:
            lines.append(f"geometric mean of the lower ratios, {kind}: {mean:.3f} over {len(counted)} of {len(rows)} rows")
    if goal is not None:
        low = [f"{row.case} {number(row.lower())} ({goal(row):.2f})" for row in rows if not reached(row, goal)]
        lines.append(f"below their goal: {', '.join(low)}" if low else "all rows reach their goal")
    lines += [f"{row.case}: {note}" for row in rows for note in row.compilation.get("notes", ())]
    reasons: dict[str, list[str]] = {}
    for row in rows:
        for name, reason in row.failed.items():
            reasons.setdefault(f"{name}: {reason}", []).append(row.case)
    for reason, cases in reasons.items():
        lines.append(f"{reason} [{', '.join(cases) if len(cases) < 4 else f'{len(cases)} rows, first {cases[0]}'}]")
    machines = sorted({row.machine for row in rows})
    lines.append(f"measured on {'; '.join(machines)}")
    return lines


def show(*tables: Table) -> None:
    """Prints tables, wide where the output is a file."""
    console = Console(width=None if sys.stdout.isatty() else 220)
    for table in tables:
        console.print(table)
