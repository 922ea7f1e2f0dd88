"""
How long a scheduled program takes at other sizes than those it was scheduled for, by the cost model.

Its tiles, warps and chunks stay as they are; the numbers of programs and steps, the bytes and the waves are those of the sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf

from ..extents import Extent, sizes_of
from ..graph import Graph
from .cost import REPLAY, estimate
from .kernels import Choice, by_library
from .measure import measure
from .sizes import Sizes
from .targets import Target


@dataclass(frozen=True, slots=True)
class Prediction:
    """
    The kernels of a program with what their estimates rest on. `static` are the symbols whose values the kernels have built in, `counts`
    numbers of chunks that the program finds by itself where they are not given.
    """

    graph: Graph
    static: Mapping[str, int]
    choices: tuple[Choice, ...]
    target: Target
    counts: tuple[tuple[str, Extent], ...] = ()

    def seconds(self, symbols: Mapping[str, int]) -> float:
        """
        The estimate at these values of the run-time symbols, infinite where a kernel does not fit there; sizes of 0 count as 1.

        Raises: KeyError for a symbol without a value.
        """
        values = {**sizes_of(self.counts, {name: max(1, value) for name, value in symbols.items()}), **self.static}
        dynamic = frozenset(entry.name for entry in self.graph.symbols if entry.name not in self.static)
        sizes = Sizes(self.graph, values, dynamic)
        total = REPLAY
        for choice in self.choices:
            plan = choice.plan
            cost = estimate(measure(choice.kernel, sizes, plan.ordered), plan.num_warps, plan.num_stages, self.target)
            if cost is None:
                return inf
            at = replace(choice, cost=cost)
            total += (by_library(at, choice.call, self.target) if choice.call is not None else at).cost.seconds
        return total

    def fewer(self, symbols: Mapping[str, int]) -> tuple[float, dict[str, int]]:
        """
        The estimate at these values with the numbers of chunks that the program finds by itself, halved while that is faster, and those.

        Raises: KeyError as `seconds`.
        """
        names = {symbol.name for symbol in self.graph.symbols}
        own = sizes_of(self.counts, {name: max(1, value) for name, value in symbols.items()})
        seconds, counts = self.seconds(symbols), {name: own[name] for name, _ in self.counts if name in names}
        for name in counts:
            while counts[name] > 1:
                tried = {**counts, name: counts[name] // 2}
                other = self.seconds({**symbols, **tried})
                if other >= seconds:
                    break
                seconds, counts = other, tried
        return seconds, counts
