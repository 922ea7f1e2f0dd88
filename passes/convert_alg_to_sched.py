"""
Schedule graphs of the algebra: kernels of tile statements for the alternative that is fastest by the cost model.

    alg.graph @f { ... }   ->   sched.program @f { ... }   sched.kernel @f_... { ... }

Partition, roles, tile sizes, packing and splits are chosen by `cleave.schedule`; the choice is in the program's notes. Symbols
stay run-time sizes, scheduled at their first hint; numbers of chunks of split axes are chosen here. Values are the same up to
rounding and the order of sums. A graph must be stabilized: an exponential without a shift overflows as written.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from cleave.bridge.alg import graphs_of
from cleave.bridge.sched import module_of
from cleave.dialects.alg import GraphOp
from cleave.errors import CleaveError
from cleave.explanation import explain
from cleave.graph import DEFAULT_HINT, Graph
from cleave.schedule import ScheduleOptions, Target, schedule, space, split_symbols, target
from cleave.schedule.candidates import TIMED
from cleave.schedule.explain import explained
from cleave.schedule.program import Program


@dataclass(frozen=True)
class ConvertAlgToSchedPass(ModulePass):
    """Choose kernels, tiles and loops for every graph."""

    name = "convert-alg-to-sched"

    target: str = "h200"
    """The machine to schedule for: a100, h100, h200, b200, rtx4090 or mi300x."""

    plans: int = ScheduleOptions().plans
    """The most tile choices tried for one kernel."""

    alternatives: int = ScheduleOptions().alternatives
    """The most alternatives tried for one graph."""

    trial: int = 0
    """Which of the programs that tuning tries, from 1, in its order; 0 for the one that the cost model chooses."""

    explain: bool = False
    """Print, on standard error, the estimates of the chosen schedule and of the next ones, and why it was chosen."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        try:
            machine = target(self.target)
        except ValueError as error:
            raise CleaveError(op, str(error), op=self.name) from error
        for name, least in (("plans", 1), ("alternatives", 1), ("trial", 0)):
            if getattr(self, name) < least:
                raise CleaveError(op, f"{self.name}: option {name} is {getattr(self, name)}", f"give at least {least}")
        options = ScheduleOptions(plans=self.plans, alternatives=self.alternatives)
        for graph in [inner for inner in op.walk() if isinstance(inner, GraphOp)]:
            bodies = graphs_of(graph)
            sizes = hinted_sizes(bodies)
            if self.trial:
                program = _tried(graph, bodies, sizes, machine, options, self.trial)
            else:
                program = schedule(bodies, sizes, frozenset(sizes), machine, options)
            if self.explain:
                explain(bodies[0].name, explained(space(bodies, sizes, frozenset(sizes), machine, options)), machine)
            made = module_of(program)
            ops = [inner.detach() or inner for inner in list(made.body.block.ops)]
            for inner in ops:
                inner.location = graph.location
            Rewriter.replace_op(graph, ops, [])


def _tried(
    op: GraphOp, graphs: tuple[Graph, ...], sizes: dict[str, int], machine: Target, options: ScheduleOptions, number: int
) -> Program:
    """The program that tuning tries in that place. Raises: CleaveError where there are not as many."""
    found = space(graphs, sizes, frozenset(sizes), machine, replace(TIMED, plans=options.plans, alternatives=options.alternatives))
    trials = found.trials(number)
    if len(trials) < number:
        raise CleaveError(op, f"{graphs[0].name}: option trial is {number}", f"give at most {len(trials)}, there are no more")
    return found.program(trials[-1])


def hinted_sizes(graphs: tuple[Graph, ...]) -> dict[str, int]:
    """The size every symbol is scheduled at: its first hint, or a default that its known divisor divides."""
    out: dict[str, int] = {}
    for graph in graphs:
        counts = split_symbols(graph)
        for symbol in graph.symbols:
            if symbol.name not in counts:
                default = -(-DEFAULT_HINT // symbol.multiple_of) * symbol.multiple_of
                out.setdefault(symbol.name, symbol.hints[0] if symbol.hints else default)
    return out
