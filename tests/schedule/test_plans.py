"""Every plan that may be chosen computes the same values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from cleave.algebra import degrees
from cleave.graph import Graph, Input
from cleave.schedule.chunks import aligned
from cleave.schedule.cost import Cost
from cleave.schedule.fusion import Candidate
from cleave.schedule.kernels import Choice
from cleave.schedule.partition import items, problem_of, source_of
from cleave.schedule.plans import plans
from cleave.schedule.roles import Plan
from cleave.schedule.scheduler import assemble
from cleave.schedule.sizes import Sizes
from cleave.schedule.statements import InfeasibleError
from cleave.schedule.whole import KernelEmitter

from .programs import Sketch, agrees, attention, linear_attention, norm_linear


def centred() -> Graph:
    """The mean square of what is left of rows without their means, added to their maximum: loops of which one needs another first."""
    s = Sketch("centred", "m=40 n=1500", [Input("x", ("m", "n"), "f32", "m n")])
    mean = s.op("mul", s.reduce("sum", 0, "n"), 1 / 1500)
    low = s.op("sub", 0, mean)
    s.output(s.op("add", s.reduce("sum", s.op("mul", low, low), "n"), s.reduce("max", s.op("abs", low), "n")), "m")
    return s.graph()


NO_COST = Cost(0.0, 0.0, 0.0, 0.0, 0.0, 1, 1, 1, 1, "")
GRAPHS = {
    "attention": attention(g="2", r="3", m="35", n="150", d="24", e="40", mask="window"),
    "weights": attention(m="70", n="90", d="40", e="40", mask="dead", lse=True),
    "norm": norm_linear(m="40", k="150", c="72", gated=True),
    "centred": centred(),
    "reassociated": linear_attention(h="2", m="70", n="100", d="24", e="40"),
}


def every_plan(
    graph: Graph, most: int, wanted: Callable[[Plan], bool] = lambda plan: True, change: Callable[[Plan], Plan] = lambda plan: plan
) -> int:
    """Runs the graph as one kernel under every plan that is wanted, changed, evenly thinned to about `most`; returns how many ran."""
    sizes = Sizes(graph, {}, frozenset())
    source = source_of(aligned(graph, degrees(graph)), sizes)
    group = items(source, ())
    problem = problem_of(source, graph.name, group, {})
    found = [plan for plan in plans(problem, 100000) if wanted(plan)]
    ran = 0
    for plan in found[:: max(1, len(found) // most)]:
        for peeled, branching in ((False, False), (True, False), (False, True)):
            chosen = replace(change(plan), peeled=peeled, branching=branching)
            try:
                kernel = KernelEmitter(problem, chosen).kernel()
            except InfeasibleError:
                continue
            choice = Choice(chosen, kernel, NO_COST)
            agrees(graph, assemble(Candidate(source, [group], [choice], {}, [], ()), [choice], []))
            ran += 1
    return ran


@pytest.mark.parametrize("name", GRAPHS)
def test_every_plan(name: str) -> None:
    assert every_plan(GRAPHS[name], 12) >= (8 if name == "centred" else 16)


@pytest.mark.parametrize("gated", [False, True])
def test_few_rows_may_be_columns(gated: bool) -> None:
    """With the sides of dots exchanged, the long side fills the rows of the tensor cores; not where one dot reads another's result."""
    graph = norm_linear(m="16", k="150", c="200", gated=gated)
    assert every_plan(graph, 12, lambda plan: plan.dims[0].name == "c" and plan.dims[0].tile > 1) >= 8
    assert not every_plan(attention(m="16", n="200", d="64", e="128"), 12, lambda plan: plan.dims[0].name != "m")
