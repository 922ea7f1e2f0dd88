"""
Search for other programs of the same value: a graph's body becomes `alg.alternatives`.

    %w = alg.div %p, %z                      alg.alternatives
    %o = alg.contract %w, %v over [n]   ->     "as written" { the body as it was }
    alg.yield %o                               "1" { %a = alg.contract %p, %v over [n]   %o = alg.div %a, %z   alg.yield %o }
                                               ...

Equality: exact in the algebra, up to rounding and to the dtypes of intermediate results in floats. Every alternative is
verified in finite fields (`cleave.search.verify`), then run in its dtypes on benign and adversarial inputs: one whose error
exceeds twice that of the program as written is dropped (`cleave.algebra.gate`). Region 0 is the program as written, the
others follow with the most promising first: the best at the hinted sizes, those that are best where a symbol is small or large,
soon one for every set of axes in chunks, then the rest; each with its FLOPs, bytes and number of dependent reductions.
Guards against NaN and infinity stay, but for those of exponentials over their sum, which are 0 in rows without a live element.

Left alone: graphs that have alternatives already. What cut a search short and what was dropped is said in remarks on standard
error. The search is deterministic unless the option `seconds` cuts it. One that takes longer than a second says how far it has
come, where standard error is a terminal.

Source: the algebraic search of arXiv 2610.07742, rebuilt on values in finite fields (`cleave.search`).
"""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from cleave.algebra import gate
from cleave.bridge.alg import Alternative, graph_of, replace_graph
from cleave.dialects.alg import AlternativesOp, GraphOp
from cleave.errors import CleaveError, place_of
from cleave.remarks import remark
from cleave.runtime.progress import Progress
from cleave.search import SearchOptions, superoptimize
from cleave.search.enumerate import enumerate_values
from cleave.search.explore import Exploration, explore
from cleave.search.picture import as_dot, as_json
from cleave.search.watch import Watch
from cleave.search.workers import Workers


@dataclass(frozen=True)
class AlgSuperoptimizePass(ModulePass):
    """Add equivalent programs, found by search, to each graph."""

    name = "alg-superoptimize"

    alternatives: int = 12
    """Most alternatives beside the program as written and those with an axis split."""

    extra_ops: int = 24
    """An alternative may have so many operations more than the program as written."""

    cost_factor: float = 2.0
    """An alternative may cost so many times what the program as written costs, at the hinted sizes or where it is best."""

    classes: int = 260
    """Most values the search looks at, and four more for each operation of the program."""

    seconds: float = 60.0
    """Most seconds each stage of the search may take; what was found by then is kept."""

    seed: int = 0
    """Seed of the random tensors that tell values apart."""

    split: bool = True
    """Add programs in which an axis that every result reduces over is split into chunks."""

    split_at_once: int = 2
    """With split, most axes that a program has in chunks: 1, or 2 for pairs of such axes too."""

    workers: int = 1
    """Processes that share the search of a large program, 1 or 2. The result is the same."""

    hoist: bool = False
    """Count work on weights alone as done once, at load time."""

    gate: bool = True
    """Drop programs that are less accurate in floats than the program as written (`cleave.algebra.gate`)."""

    mode: str = "rules"
    """`rules`, or `enumerate`: also try every operation on small programs, and report the values that the rules do not know."""

    enumerate_ops: int = 8
    """With mode=enumerate, most operations of a program that is tried."""

    emit_egraph: str = ""
    """File that gets the classes of the search with all their forms: JSON, or dot for Graphviz if it is named `.dot`."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        options = self._options(op)
        if self.emit_egraph:
            _write_egraph(op, options, Path(self.emit_egraph))
        with Workers(self.workers) as workers:
            for graph in [inner for inner in op.walk() if isinstance(inner, GraphOp)]:
                if not isinstance(graph.body.block.last_op, AlternativesOp):
                    if self.mode == "enumerate":
                        _enumerate(graph, options, self.enumerate_ops)
                    _superoptimize(graph, options, self.gate, workers)

    def _options(self, op: ModuleOp) -> SearchOptions:
        for name, least in (
            ("alternatives", 0),
            ("extra_ops", 0),
            ("cost_factor", 1),
            ("classes", 1),
            ("seconds", 0),
            ("enumerate_ops", 1),
        ):
            value = getattr(self, name)
            if not least <= value < math.inf:
                advice = f"give at least {least}" if math.isfinite(value) else "give a finite number"
                raise CleaveError(op, f"{self.name}: option {name} is {value:g}", advice)
        if self.split_at_once not in (1, 2):
            raise CleaveError(op, f"{self.name}: option split_at_once is {self.split_at_once}", "give 1 or 2")
        if self.workers not in (1, 2):
            raise CleaveError(op, f"{self.name}: option workers is {self.workers}", "give 1 or 2")
        if self.mode not in ("rules", "enumerate"):
            raise CleaveError(op, f"{self.name}: option mode is '{self.mode}'", "give rules or enumerate")
        return SearchOptions(
            alternatives=self.alternatives, extra_ops=self.extra_ops, cost_factor=self.cost_factor, classes=self.classes,
            seconds=self.seconds, seed=self.seed, split=self.split, split_at_once=self.split_at_once,
            hoist=self.hoist,
        )  # fmt: skip


_UNSEARCHED = "give the program as it was before the search, or choose one program with alg-select"


@contextmanager
def watched(op: GraphOp) -> Generator[Watch]:
    """Shows on a terminal what a search of a graph is at, and clears the line in the end."""
    progress = Progress(f"search of @{op.sym_name.data}")
    try:
        yield progress.show
    finally:
        progress.done()


def _enumerate(op: GraphOp, options: SearchOptions, most: int) -> None:
    """Reports in remarks what enumeration finds beyond the rules."""
    with watched(op) as watch:
        found = enumerate_values(graph_of(op), most, options, watch)
    place = place_of(op) or op.sym_name.data
    for detour in found.detours:
        remark(f"{place}: remark: alg.graph: not found by rules: {' and '.join(detour.missing)}")
    for cap in found.caps:
        remark(f"{place}: remark: alg.graph: enumeration: {cap}")
    summary = (
        f"{found.tried} operations were tried, {found.ways} ways of at most {most} operations found, {len(found.detours)} of them new, "
        f"{found.elsewhere} with a coefficient elsewhere"
    )
    remark(f"{place}: remark: alg.graph: enumeration: {summary}")


def _write_egraph(op: ModuleOp, options: SearchOptions, path: Path) -> None:
    """
    Writes the e-graphs of all graphs that have no alternatives yet; the others are named in remarks.

    Raises: CleaveError where there is none to write, a graph cannot be searched, or the file cannot be written.
    """
    graphs = [inner for inner in op.walk() if isinstance(inner, GraphOp)]
    found: dict[str, Exploration] = {}
    done: list[GraphOp] = []
    for graph in graphs:
        if isinstance(graph.body.block.last_op, AlternativesOp):
            done.append(graph)
            continue
        with watched(graph) as watch:
            explored = explore(graph_of(graph), options, watch)
        if isinstance(explored, str):
            raise CleaveError(graph, explored, "there is no e-graph to write")
        found[graph.sym_name.data] = explored
    if not graphs:
        raise CleaveError(op, "there is no alg.graph", "there is no e-graph to write")
    if not found:
        raise CleaveError(done[0], f"@{done[0].sym_name.data} has alternatives already, so it is not searched", _UNSEARCHED)
    for graph in done:
        place = place_of(graph) or graph.sym_name.data
        remark(f"{place}: remark: alg.graph: {path} has no e-graph of @{graph.sym_name.data}, which has alternatives already")
    try:
        path.write_text(as_dot(found) if path.suffix == ".dot" else as_json(found), encoding="utf-8")
    except OSError as error:
        raise CleaveError(op, f"{path}: {error.strerror}", "name a file that can be written as emit-egraph") from error


def _superoptimize(op: GraphOp, options: SearchOptions, gated: bool, workers: Workers) -> None:
    written = graph_of(op)
    with watched(op) as watch:
        result = superoptimize(written, options, workers, watch)
        others = result.alternatives[1:]
        watch(f"accuracy of {len(others)} programs")
        passed = gate(written, [entry.graph for entry in others]) if gated and others else None
    remarks = list(result.caps)
    if passed is not None:
        remarks += [f"alternative '{others[index].name}' is dropped: {reason}" for index, reason in passed.dropped.items()]
        remarks += [
            f"alternative '{others[index].name}' has tensors too large for some of the inputs that its accuracy is checked on"
            for index in passed.unchecked
        ]
        others = tuple(others[index] for index in passed.kept)
    for text in remarks:
        remark(f"{place_of(op) or op.sym_name.data}: remark: alg.graph: {text}")
    kept = (result.alternatives[0], *others)
    found = [Alternative(entry.name, entry.graph, entry.flops, entry.bytes, entry.phases) for entry in kept]
    replace_graph(op, found)
