"""
The best plan of one kernel, by the cost model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from .cost import Cost, estimate, measure
from .partition import Item, Source, needs, problem_of
from .plans import launches, plans
from .problem import Problem
from .program import Kernel
from .reductions import KernelEmitter
from .roles import Plan
from .statements import InfeasibleError
from .targets import Target


@dataclass(frozen=True, slots=True)
class ScheduleOptions:
    """
    Bounds of the choice. `plans`: tile choices tried for a kernel; `alternatives`: graphs tried, in the order given; `sweeps`:
    passes over the values stored between kernels when a large graph is fused.
    """

    plans: int = 160
    alternatives: int = 12
    sweeps: int = 2


@dataclass(frozen=True, slots=True)
class Choice:
    """A scheduled kernel: its plan, code and estimate."""

    plan: Plan
    kernel: Kernel
    cost: Cost


@dataclass(slots=True)
class Kernels:
    """Chooses kernels of one graph; what several partitions share is chosen once. Choices are `coarse` (few tiles) or full."""

    source: Source
    target: Target
    options: ScheduleOptions
    _chosen: dict[tuple[object, ...], Choice | None] = field(default_factory=lambda: {})

    def choose(self, group: Sequence[Item], stored: Mapping[int, Item], coarse: bool) -> Choice | None:
        """The best kernel that stores a group of values, or None where none fits the machine. Raises: EntangledError."""
        key = (coarse, tuple((item.op, item.buffer.name) for item in group), needs(self.source, group, stored))
        if key not in self._chosen:
            problem = problem_of(self.source, self.source.graph.name, group, stored)
            self._chosen[key] = self._best(problem, coarse)
        return self._chosen[key]

    def _best(self, problem: Problem, coarse: bool) -> Choice | None:
        found: list[Choice] = []
        for plan in plans(problem, self.options.plans, coarse):
            try:
                kernel = KernelEmitter(problem, plan).kernel()
            except InfeasibleError:
                continue
            measured = measure(kernel, problem.sizes)
            for warps, stages in launches(problem, plan):
                cost = estimate(measured, warps, stages, problem.sizes, self.target)
                if cost is not None:
                    found.append(Choice(replace(plan, num_warps=warps, num_stages=stages), kernel, cost))
        if not found:
            return None
        # The model does not tell apart what is within a fiftieth: then simpler code wins, and what leaves registers free.
        least = min(choice.cost.seconds for choice in found)
        close = [choice for choice in found if choice.cost.seconds <= 1.02 * least]
        best = min(close, key=lambda choice: (choice.plan.packed, choice.cost.registers > 224, choice.cost.seconds))
        kernel = replace(best.kernel, num_warps=best.plan.num_warps, num_stages=best.plan.num_stages)
        return replace(best, kernel=kernel)
