"""`cleave-bench search`: tables of the search's rows and of the judgement of mutants, and all figures as plain values."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ..graph import Graph
from ..search.enumerate import enumerate_values
from . import search_programs as programs
from .judging import PER_PROGRAM, judged
from .mutants import KINDS as MISTAKES
from .search_rows import MOST_GROWTH, MOST_MEGABYTES, ROWS, Found, growth, measure


def rows(only: str, grown: bool) -> tuple[dict[str, object], bool]:
    """Prints a table of the rows whose name contains `only`; returns plain values and whether all is as it should be."""
    found: list[Found] = []
    for entry in measure([row for row in ROWS if only in row.name]):
        print(f"{entry.name}: {entry.seconds['total']:.2f} s", file=sys.stderr, flush=True)
        found.append(entry)
    stages = ("closure", "extraction", "verification", "split", "total", "processor")
    table = Table(title="search; rank and seconds with what is wanted in brackets, rank 1 is the best alternative")
    for heading in ("program", "ops", "classes", "edges", *(f"{stage} s" for stage in stages), "rank", "MB"):
        table.add_column(heading, justify="left" if heading == "program" else "right")
    for entry in found:
        seconds = [f"{entry.seconds.get(stage, 0.0):.2f}" for stage in stages]
        seconds[-1] += f" ({entry.most_seconds:g})" + ("" if entry.in_time else " SLOW")
        rank = f"{entry.rank or 'MISSING'} ({entry.within})" + ("" if entry.form_found or entry.rank is None else " LOW")
        table.add_row(entry.name, str(entry.ops), str(entry.classes), str(entry.edges), *seconds, rank, f"{entry.megabytes:.0f}")
    console = Console(width=None if sys.stdout.isatty() else 190)
    console.print(table)
    for entry in found:
        for cap in entry.caps:
            print(f"{entry.name}: {cap}")
    good = all(entry.form_found and entry.in_time and entry.megabytes <= MOST_MEGABYTES for entry in found)
    out: dict[str, object] = {"rows": [entry.as_json() for entry in found]}
    if grown:
        seconds_of = growth()
        least, most = min(seconds_of), max(seconds_of)
        factor = seconds_of[most] / seconds_of[least] / (most / least)
        text = ", ".join(f"{count}: {seconds:.2f} s" for count, seconds in seconds_of.items())
        print(f"layers of a transformer: {text}; {factor:.2f} times linear (at most {MOST_GROWTH:g})")
        out["growth"] = {str(count): seconds for count, seconds in seconds_of.items()}
        good = good and factor <= MOST_GROWTH
    return out, good


def judgements(per_program: int = PER_PROGRAM) -> tuple[dict[str, object], bool]:
    """Prints how mutants were judged; returns plain values and whether nothing was judged wrongly."""
    started, used = time.perf_counter(), time.process_time()
    counts: dict[str, dict[str, int]] = {}
    mistakes: dict[str, dict[str, int]] = {kind: dict.fromkeys(KINDS, 0) for kind in MISTAKES}
    wrong: list[str] = []
    for entry in judged(per_program):
        kind = _kind(entry.accepted, entry.equal)
        counts.setdefault(entry.program, dict.fromkeys(KINDS, 0))[kind] += 1
        for mistake in dict.fromkeys(entry.kinds):
            mistakes[mistake][kind] += 1
        if entry.wrong:
            wrong.append(f"{entry.program}: {entry.mutant}: {'accepted' if entry.accepted else f'refused, {entry.reason}'}")
    table = Table(title="mutants: what the verifier said, with float64 as the oracle")
    for heading in ("program", *KINDS):
        table.add_column(heading, justify="left" if heading == "program" else "right")
    for program, kinds in counts.items():
        table.add_row(program, *(str(kinds[kind]) for kind in KINDS))
    totals = {kind: sum(kinds[kind] for kinds in counts.values()) for kind in KINDS}
    table.add_row("all", *(str(totals[kind]) for kind in KINDS), style="bold")
    console = Console(width=None if sys.stdout.isatty() else 150)
    console.print(table)
    table = Table(title="the same by what was changed; a mutant of two changes counts for both")
    for heading in ("change", *KINDS):
        table.add_column(heading, justify="left" if heading == "change" else "right")
    for mistake, found in mistakes.items():
        table.add_row(mistake, *(str(found[kind]) for kind in KINDS))
    console.print(table)
    for text in wrong:
        print(text)
    seconds = f"{time.perf_counter() - started:.1f} s, of which {time.process_time() - used:.1f} s on the processor"
    print(f"{sum(totals.values())} mutants in {seconds}")
    return {"mutants": totals, "changes": mistakes, "wrong": wrong}, not wrong


def enumerated() -> tuple[dict[str, object], bool]:
    """Prints what enumeration finds beyond the rules on small programs; all is well if the rules miss no value."""
    out: dict[str, object] = {}
    good = True
    for name, build in ENUMERATED.items():
        started = time.process_time()
        found = enumerate_values(build())
        print(
            f"{name}: {found.tried} operations tried, {found.ways} ways found, {len(found.detours)} of them not by rules, "
            f"{found.elsewhere} differ from theirs in the place of a coefficient ({time.process_time() - started:.1f} s)"
        )
        for detour in found.detours:
            print(f"  {detour.operations} operations, {detour.work:.2f} times the work: {' and '.join(detour.missing)}")
        for cap in found.caps:
            print(f"  {cap}")
        out[name] = {"tried": found.tried, "ways": found.ways, "missed": len(found.detours), "elsewhere": found.elsewhere}
        good = good and not found.detours
    return {"enumeration": out}, good


ENUMERATED: dict[str, Callable[[], Graph]] = {
    "linear attention": programs.linear_attention,
    "LoRA, merged": lambda: programs.low_rank(True),
    "LoRA, paths": lambda: programs.low_rank(False),
    "RMSNorm, linear": programs.root_norm_linear,
    "attention": lambda: programs.attention(False, False, False),
}
KINDS: tuple[str, ...] = ("refused", "accepted", "false accept", "false reject", "undefined")


def _kind(accepted: bool, equal: bool | None) -> str:
    if equal is None:
        return "undefined"
    if accepted == equal:
        return "accepted" if accepted else "refused"
    return "false accept" if accepted else "false reject"


def report(only: str, mutants: int | None, json_file: Path | None, enumerate_programs: bool = False) -> int:
    """Prints what was asked for and writes it as JSON; exit code 0 when all is as it should be, 1 when not, 2 for usage."""
    if not any(only in row.name for row in ROWS):
        print(f"cleave-bench: error: no program's name contains '{only}'", file=sys.stderr)
        return 2
    if enumerate_programs:
        out, good = enumerated()
    else:
        out, good = rows(only, grown=not only) if mutants is None else judgements(mutants or PER_PROGRAM)
    if json_file is not None:
        json_file.write_text(json.dumps(out, indent=1) + "\n")
    return 0 if good else 1
