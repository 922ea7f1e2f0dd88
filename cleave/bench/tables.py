"""Tables of rows: ratios with what they rest on, and every contender's time. What is missing or wrong is told below, with the reason."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from ..runtime.races import FAVOURITES
from .results import GRAPH, OURS, PLAIN, Row, geometric_mean
from .timing import FLUSHES

Columns = Callable[[Row], Mapping[str, str]]
"""What a command adds to the table of ratios: texts by heading."""

Counts = Callable[[Row], float | None]
"""The ratio of a row that is to reach its goal; None where there is none."""


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


def ratios(
    rows: Sequence[Row],
    goal: Callable[[Row], float] | None = None,
    more: Columns = none,
    most_regret: Callable[[Row], float] | None = None,
    counts: Counts = Row.lower,
) -> Table:
    """
    Cleave beside the best existing; the ratio is the latter's time over the former's, so more than 1 is faster. Beside a goal that what
    `counts` does not reach stands that, and beside a regret above `most_regret`.
    """
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
            cells.append(f"{goal(row):.2f}{'' if reached(row, goal, counts) else ' LOW'}")
        cells += [number(row.lower(PLAIN)), *(more(row).get(heading, "-") for heading in added)]
        cells += [number(row.errors.get(OURS), ".1e"), _kernels(made)]
        cells += [number(made.get("seconds"), ".1f"), number(made.get("again")), number(row.processor_microseconds.get(OURS), ".1f")]
        cells.append(_regret(row, most_regret))
        table.add_row(*cells)
    return table


def _regret(row: Row, most: Callable[[Row], float] | None) -> str:
    regret: float | None = row.compilation.get("regret")
    if regret is None:
        return "-"
    return f"{regret:.1%} HIGH, over {most(row):.0%}" if most is not None and regret > most(row) else f"{regret:.1%}"


def reached(row: Row, goal: Callable[[Row], float], counts: Counts = Row.lower) -> bool:
    """Whether the ratio that counts is what is wanted."""
    ratio = counts(row)
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


def summary(
    rows: Sequence[Row],
    goal: Callable[[Row], float] | None = None,
    most_regret: Callable[[Row], float] | None = None,
    counts: Counts = Row.lower,
) -> list[str]:
    """
    Lines below the tables: means, rows below their goal, remarks, what is missing, once for each reason, and with what code and where
    the rows were measured, and in what time.
    """
    lines: list[str] = []
    for kind in (GRAPH, PLAIN):
        counted = [ratio for row in rows if (ratio := row.lower(kind)) is not None]
        mean = geometric_mean(counted)
        if mean is not None:
            lines.append(f"geometric mean of the lower ratios, {kind}: {mean:.3f} over {len(counted)} of {len(rows)} rows")
    if goal is not None:
        low = [f"{row.case} {number(counts(row))} (goal {goal(row):.2f})" for row in rows if not reached(row, goal, counts)]
        told = f"{len(rows) - len(low)} of {len(rows)} rows reach their goal"
        lines.append(f"{told}; below it: {', '.join(low)}" if low else told)
    if most_regret is not None:
        lines += _regrets(rows, most_regret)
    lines += [f"{row.case}: {note}" for row in rows for note in row.compilation.get("notes", ())]
    reasons: dict[str, list[str]] = {}
    for row in rows:
        for name, reason in row.failed.items():
            reasons.setdefault(f"{name}: {reason}", []).append(row.case)
    for reason, cases in reasons.items():
        lines.append(f"{reason} [{', '.join(cases) if len(cases) < 4 else f'{len(cases)} rows, first {cases[0]}'}]")
    lines += [_origin("measured on", {row.case: row.machine for row in rows}, "machines")]
    lines += [_origin("measured with", {row.case: row.code or "code that is not known" for row in rows}, "versions of the code")]
    return [*lines, *_spent(rows)]


def _regrets(rows: Sequence[Row], most: Callable[[Row], float]) -> list[str]:
    """How often the best of the model's first candidates is near the best of all."""
    known = {row.case: (float(row.compilation["regret"]), most(row)) for row in rows if row.compilation.get("regret") is not None}
    high = [f"{case} {regret:.1%} (goal {limit:.0%})" for case, (regret, limit) in known.items() if regret > limit]
    if not known:
        return []
    told = f"the best of the model's first {FAVOURITES} is near enough to the best of all in {len(known) - len(high)} of {len(known)} rows"
    return [f"{told}; not in {', '.join(high)}" if high else told]


def _origin(how: str, of: Mapping[str, str], several: str) -> str:
    """Where rows come from, by case; that they are not of one kind where they are not."""
    kinds = Counter(of.values())
    if len(kinds) == 1:
        return f"{how} {next(iter(kinds))}"
    return f"NOT OF ONE RUN, {how} {len(kinds)} {several}: {'; '.join(f'{kind} ({count} rows)' for kind, count in kinds.items())}"


def _spent(rows: Sequence[Row]) -> list[str]:
    """What measuring took, the longest parts first."""
    total = Counter[str]()
    for row in rows:
        total.update(row.seconds)
    seconds, count = sum(total.values()), sum(bool(row.seconds) for row in rows)
    if not count:
        return []
    parts = [f"{name} {value:.0f}" for name, value in total.most_common() if value >= 0.5]
    return [f"measuring took {seconds:.0f} s, {seconds / count:.1f} a row: {', '.join(parts)}"]


def show(*tables: Table) -> None:
    """Prints tables, wide where the output is a file."""
    console = Console(width=None if sys.stdout.isatty() else 220)
    for table in tables:
        console.print(table)
