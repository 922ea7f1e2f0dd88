"""
`cleave-bench sweep`: the configurations of cases on the current GPU, each compared with the case's float64 result, as a table.

Arguments and exact results are files that the process which runs the programs reads, so that it has them again when it had to be ended.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from rich import box
from rich.table import Table
from torch import Tensor
from xdsl.dialects.builtin import ModuleOp

from ..api import Options
from ..bridge.alg import graph_op
from ..choosing import Machine, searched, space_of
from ..errors import CleaveError
from ..files import replace
from ..frontend import Captured, capture
from ..machines import machine_for
from ..runtime.builders import BUILDERS
from ..runtime.cache import Store
from ..runtime.clock import GpuClock, Workload, stored, tolerance
from ..schedule import Space
from .accuracy import exact
from .cases import Case
from .code import code
from .run import machine as machine_text
from .sweep import DROPPED, Sweep, Swept
from .tables import number, show

MOST_CLOCKS, WORKERS_EACH = 3, 4
"""How many processes run configurations at most, and for how many that compile there is one."""

MOST_REASONS = 5
"""How many reasons are told for which configurations of a case were dropped."""


def space_for(captured: Captured, machine: Machine) -> Space:
    """What `cleave.compile` tunes for a captured program of fixed sizes, weights not being prepared. Raises: CleaveError."""
    chosen = Options()
    settings = {"split": chosen.split, "alternatives": chosen.alternatives, "seed": chosen.seed, "weights": False}
    bodies, _, _ = searched(ModuleOp([graph_op(captured.graph)]), "", settings, lambda stage: None)
    return space_of(bodies, {}, machine.target, rounded=not captured.unrounded)[1]


def workload_for(case: Case, captured: Captured, inputs: Sequence[Tensor], folder: Path, device: int) -> Workload:
    """What the configurations of a case run on, and its result in float64, in files of a folder. Raises: OSError, torch's errors."""
    assert len(captured.graph.outputs) == 1, "a case has one result"
    views = captured.bindings.views(captured.bindings.flatten(inputs), {})
    data = [stored(view, folder / f"input {place}") for place, view in enumerate(views)]
    right = stored(exact(case, inputs).contiguous(), folder / "result")
    return Workload(tuple(data), {}, None, tolerance(captured.graph), device, expected=(right,))


@dataclass(frozen=True)
class Opened:
    """A case that is ready to be swept: what there is to choose from, and what it runs on, whose files are in the folder."""

    case: Case
    space: Space
    workload: Workload
    folder: tempfile.TemporaryDirectory[str]
    seconds: float


def opened(case: Case, machine: Machine) -> Opened:
    """A case made ready. Raises: CleaveError, OSError, torch's errors."""
    assert machine.device is not None, "a sweep runs on a GPU"
    started = time.monotonic()
    folder = tempfile.TemporaryDirectory(prefix="cleave-sweep-", ignore_cleanup_errors=True)
    try:
        inputs = case.inputs(f"cuda:{machine.device}")
        captured = capture(case.program, inputs, None, case.weights)
        workload = workload_for(case, captured, inputs, Path(folder.name), machine.device)
        del inputs
        torch.cuda.empty_cache()
        return Opened(case, space_for(captured, machine), workload, folder, time.monotonic() - started)
    except BaseException:
        folder.cleanup()
        raise


def swept(ready: Opened, clocks: Sequence[GpuClock], machine: Machine, options: Namespace, until: float) -> Swept:
    """What became of the configurations of a case, whose files are then gone."""
    with ready.folder:
        for clock in clocks:
            clock.workload = ready.workload
        limits = options.limit, options.seed, until
        sweep = Sweep(ready.space, machine.target, machine.architecture, BUILDERS, clocks, Store(), *limits, told=_told)
        out = sweep.run(ready.case.name)
        for clock in clocks:
            clock.rest()
    out.seconds += ready.seconds
    _told(f"{out.right} right, {len(out.wrong)} wrong, {len(out.faulted)} hung or faulted, {sum(out.dropped.values())} dropped")
    return out


def _told(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


def report(cases: Sequence[Case], options: Namespace) -> int:
    """Sweeps cases and prints a table; exit code 0 when all that ran was right, 1 when not, or where nothing ran."""
    device = torch.empty(0, device="cuda").device
    machine = machine_for("auto", device, "auto")
    until = float("inf") if options.seconds is None else time.monotonic() + options.seconds
    BUILDERS.warm()
    clocks = [GpuClock() for _ in range(max(1, min(MOST_CLOCKS, BUILDERS.workers // WORKERS_EACH)))]
    rows: list[Swept] = []
    # While one case is compiled and run, the next is made ready.
    ahead = ThreadPoolExecutor(1, "cleave sweep ahead")
    try:
        ready = ahead.submit(opened, cases[0], machine)
        for place, case in enumerate(cases, 1):
            print(f"[{place}/{len(cases)}] {case.name}", file=sys.stderr, flush=True)
            wait([ready])
            following = ahead.submit(opened, cases[place], machine) if place < len(cases) else ready
            try:
                rows.append(swept(ready.result(), clocks, machine, options, until))
            except (CleaveError, OSError, RuntimeError) as error:
                rows.append(Swept(case.name, problem=f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"))
            ready = following
            if options.json is not None:
                keep(options.json, rows)
            if time.monotonic() >= until and place < len(cases):
                print(f"{len(cases) - place} of {len(cases)} cases left out, from '{cases[place].name}' on", file=sys.stderr)
                break
    finally:
        ahead.shutdown(cancel_futures=True)
        for clock in clocks:
            clock.close()
    show(table(rows))
    print("\n".join(lines(rows)))
    return 0 if all(row.good for row in rows) else 1


def keep(path: Path, rows: Sequence[Swept]) -> None:
    """Keeps rows as JSON, all or none of them. Raises: OSError."""
    told = {"machine": machine_text(), "code": code(), "sweep": [asdict(row) for row in rows]}
    replace(path, (json.dumps(told, indent=1) + "\n").encode())


def table(rows: Sequence[Swept]) -> Table:
    """Counts by case, and of all."""
    out = Table(title="configurations compiled, run and compared with float64", box=box.SIMPLE)
    headings = (
        "case",
        "configurations",
        "compiled",
        "equal",
        *DROPPED,
        "right",
        "WRONG",
        "hung or faulted",
        "left out",
        "error",
        "seconds",
    )
    for heading in headings:
        out.add_column(heading, justify="left" if heading == "case" else "right", no_wrap=heading == "case")
    for row in rows:
        out.add_row(*_cells(row))
    if len(rows) > 1:
        total = Swept("all")
        for row in rows:
            total.join(row)
        out.add_section()
        out.add_row(*_cells(total))
    return out


def _cells(row: Swept) -> list[str]:
    counts = [row.configurations, row.compiled, row.equal, *(row.dropped.get(kind, 0) for kind in DROPPED)]
    counts += [row.right, len(row.wrong), len(row.faulted), row.left]
    return [row.case, *map(str, counts), number(row.worst or None, ".1e"), f"{row.seconds:.0f}"]


def lines(rows: Sequence[Swept]) -> list[str]:
    """Every configuration that is not right, why others were dropped, and what was left out."""
    out: list[str] = []
    for row in rows:
        out += [f"{row.case}: {bad.failure}: {bad.plan}" for bad in (*row.wrong, *row.faulted)]
    for row in rows:
        reasons = sorted(row.reasons.items(), key=lambda entry: -entry[1])
        told = [f"{count} {reason}" for reason, count in reasons[:MOST_REASONS]]
        if len(reasons) > MOST_REASONS:
            told.append(f"{sum(count for _, count in reasons[MOST_REASONS:])} for {len(reasons) - MOST_REASONS} other reasons")
        if told:
            out.append(f"{row.case}: dropped: {'; '.join(told)}")
    for row in rows:
        if row.problem or not row.right:
            out.append(f"{row.case}: {row.problem or 'no configuration was right'}")
        elif row.left:
            out.append(f"{row.case}: {row.left} configurations left out")
    bad = sum(len(row.wrong) + len(row.faulted) for row in rows)
    total = sum(row.right for row in rows) + bad
    out.append(
        f"{bad} of {total} configurations that ran are wrong, hung or faulted" if bad else f"all {total} configurations that ran are right"
    )
    return out
