"""The commands that measure on a GPU: which cases, what is added to their tables, and the loop that keeps what it has after each case."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import torch

from ..schedule import TARGETS
from . import dynamic, masks, model, programs, subgraphs, sweep_report
from .baselines import FLEX
from .cases import Case
from .compiling import compiled, empty_cache
from .plot import draw, missing
from .results import GRAPH, OURS, Row, geometric_mean, merged, read, write
from .run import GpuClock, Measurement, Note, Ours, empty_row, nothing
from .tables import Columns, Counts, none, number, ratios, show, summary, times
from .timing import FLUSHES

NO_CASE = "no case is of that name, phase and size"
NO_GPU = "no CUDA device was found; run it on a machine with an NVIDIA GPU"


@dataclass(frozen=True)
class Command:
    """
    What is measured under a name. `goal` is the ratio wanted of a row, `most_regret` what the cost model's may be; `columns` and `lines`
    are added to the tables. `counts` is the ratio that is to reach the goal.
    """

    name: str
    cases: Sequence[Case]
    ours: Ours = compiled
    note: Note = nothing
    goal: Callable[[Row], float] | None = None
    most_regret: Callable[[Row], float] | None = None
    columns: Columns = none
    counts: Counts = Row.lower
    lines: Callable[[Sequence[Row]], list[str]] = field(default=lambda rows: [])


def command(options: Namespace) -> Command:
    """The command that options name."""
    match options.command:
        case "subgraphs":
            cases = subgraphs.cases(options.shapes, options.max_autotune)
            return Command(
                "subgraphs",
                cases,
                goal=subgraphs.goal,
                most_regret=subgraphs.most_regret,
                columns=_subgraph_columns,
                counts=subgraphs.counts,
                lines=_subgraph_lines,
            )
        case "masks":
            return Command(
                "masks", masks.cases(), note=masks.note, goal=lambda row: masks.LEAST, columns=_mask_columns, counts=masks.over_flex
            )
        case "dynamic":
            ours = dynamic.Dynamic(dynamic.case(*dynamic.EXAMPLE))
            return Command("dynamic", dynamic.cases(), ours, columns=_dynamic_columns, lines=_dynamic_lines)
        case _:
            return Command("programs", programs.cases(getattr(torch, options.dtype), options.max_autotune))


def _subgraph_lines(rows: Sequence[Row]) -> list[str]:
    return [subgraphs.mean_line(rows)]


def _subgraph_columns(row: Row) -> Mapping[str, str]:
    if subgraphs.PREPARED not in row.errors:
        return {}
    return {"weights prepared": " / ".join(number(row.ratio(GRAPH, flush, subgraphs.PREPARED)) for flush in FLUSHES)}


def _mask_columns(row: Row) -> Mapping[str, str]:
    tile = "x".join(str(size) for size in row.facts.get("tile", ()))
    over = [masks.over_unmasked(row, flush) for flush in FLUSHES]
    slow = any(value is not None and value > masks.MOST for value in over)
    return {
        "flex over Cleave": " / ".join(number(row.ratio(GRAPH, flush, other=FLEX)) for flush in FLUSHES),
        "tile": tile if row.facts.get("own tile") else f"{tile}?",
        "live": number(row.facts.get("share"), ".3f"),
        f"over live share of unmasked (at most {masks.MOST})": " / ".join(number(value) for value in over) + (" HIGH" if slow else ""),
    }


def _dynamic_columns(row: Row) -> Mapping[str, str]:
    return {"over static": " / ".join(number(dynamic.over_static(row, flush)) for flush in FLUSHES)}


def _dynamic_lines(rows: Sequence[Row]) -> list[str]:
    lines: list[str] = []
    for flush in FLUSHES:
        found = [(value, row.case) for row in rows if (value := dynamic.over_static(row, flush)) is not None]
        if found:
            mean = geometric_mean([value for value, _ in found])
            worst, where = max(found)
            wanted = f"at most {dynamic.MOST_MEAN} and {dynamic.MOST_EACH}"
            lines.append(
                f"over static, L2 flushed by {flush}: geometric mean {number(mean, '.3f')}, worst {worst:.2f} at {where} ({wanted})"
            )
    right = sum(row.right for row in rows)
    return [*lines, f"right: {right} of {len(rows)} sizes"]


def filtered(cases: Sequence[Case], options: Namespace) -> list[Case]:
    """The cases that options ask for."""
    found = [case for case in cases if wanted(case.name, case.facts, options)]
    which, of = options.part or (1, 1)
    return found[which - 1 :: of]


def wanted(name: str, facts: Mapping[str, object], options: Namespace) -> bool:
    """Whether options ask for a case of this name and these facts."""
    asked = {key: getattr(options, key, None) for key in ("phase", "name", "size")}
    return options.only in name and all(values is None or facts.get(key) in values for key, values in asked.items())


def report(options: Namespace) -> int:
    """
    Measures, or merges what was measured, and prints tables.

    Exit code 0 when every result of Cleave is there and right, 1 when one is not, 2 for usage.
    """
    if options.command == "sweep":
        return _swept(options)
    if options.plot is not None and missing():
        return _refused(missing())
    if getattr(options, "target", "h200") not in TARGETS:
        return _refused(f"unknown target '{options.target}'; known are {', '.join(TARGETS)}")
    if getattr(options, "model", False):
        measuring = {"--json": options.json, "--plot": options.plot, "--merge": options.merge, "--keep-cache": options.keep_cache}
        given = [name for name, value in {**measuring, "--max-autotune": options.max_autotune}.items() if value]
        if given:
            return _refused(f"{given[0]} is about what is measured, and --model measures nothing; leave one of them out")
    found = command(options)
    if options.merge:
        try:
            rows = [row for row in merged(map(read, options.merge)) if row.command == found.name]
        except (OSError, ValueError) as error:
            return _refused(f"{error.filename}: {error.strerror}" if isinstance(error, OSError) else str(error))
        rows = [row for row in rows if wanted(row.case, row.facts, options)]
        if not rows:
            return _refused(f"the files have no such rows of '{found.name}'")
        _keep(options.json, rows)
    else:
        cases = filtered(found.cases, options)
        if not cases:
            return _no_case(found.cases)
        if getattr(options, "model", False):
            return model.report(cases, options.target, options.seconds)
        if not torch.cuda.is_available():
            return _refused(NO_GPU)
        with nullcontext() if options.keep_cache else empty_cache():
            rows = measured(found, cases, options.seconds, options.json)
    if not rows:
        return 1
    show(times(rows), ratios(rows, found.goal, found.columns, found.most_regret, found.counts))
    print("\n".join([*summary(rows, found.goal, found.most_regret, found.counts), *found.lines(rows)]))
    if options.plot is not None:
        draw(rows, options.plot)
    return 0 if all(row.whole for row in rows) else 1


def _swept(options: Namespace) -> int:
    cases = filtered(subgraphs.cases(options.shapes), options)
    if not cases:
        return _no_case(subgraphs.cases(options.shapes))
    if options.seed is not None and options.limit is None:
        return _refused("--seed says which configurations --limit takes; give --limit")
    if not torch.cuda.is_available() or torch.version.hip is not None:
        return _refused(NO_GPU)
    return sweep_report.report(cases, options)


def _no_case(known: Sequence[Case]) -> int:
    return _refused(f"{NO_CASE}; there are {', '.join(case.name for case in known)}")


def _refused(why: str) -> int:
    print(f"cleave-bench: error: {why}", file=sys.stderr)
    return 2


def _keep(path: Path | None, rows: Sequence[Row]) -> None:
    if path is not None:
        write(path, rows)


def measured(found: Command, cases: Sequence[Case], seconds: float | None, path: Path | None) -> list[Row]:
    """The rows of cases on the current GPU, kept after each. None is begun once `seconds` have passed; how many, it says."""
    started = time.monotonic()
    rows: list[Row] = []
    for place, case in enumerate(cases, 1):
        spent = time.monotonic() - started
        if seconds is not None and spent > seconds:
            print(f"{len(cases) - place + 1} of {len(cases)} cases skipped after {spent:.0f} s, from '{case.name}' on", file=sys.stderr)
            break
        print(f"[{place}/{len(cases)}] {case.name}", file=sys.stderr, flush=True)
        row = empty_row(found.name, case)
        rows.append(row)
        try:
            Measurement(case, row, GpuClock()).run(found.ours, found.note)
        except RuntimeError as error:
            row.failed.setdefault(OURS, f"the case could not be measured: {(str(error).splitlines() or [''])[0]}")
            _keep(path, rows)
            if _lost():
                print(f"the GPU was lost at '{case.name}'; {len(cases) - place} cases are left", file=sys.stderr)
                break
        _keep(path, rows)
    return rows


def _lost() -> bool:
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False
