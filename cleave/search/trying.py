"""
Operations tried on values, blindly: every one whose result is *reducible*, as `enumerate` says, `DEPTH` operations deep.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction
from itertools import combinations

from ..graph import UNARY
from .dimensions import Dimension
from .effort import Effort
from .explore import Exploration
from .recipes import Key, Recipe, Recipes
from .watch import Watch

FUNCTIONS = tuple(kind for kind in UNARY if kind != "not")
"""Of one number: only floats are operands."""
DEPTH = 2
"""New values on a path of a detour."""
MOST_PAIRS = 60_000
"""Pairs of operands at one depth; beyond, one of the two must be a known value, which is said."""


class Trying:
    """Operations on the values of a program, as long as there is effort left; `watch` is told how many were tried."""

    def __init__(self, explored: Exploration, recipes: Recipes, effort: Effort, watch: Watch) -> None:
        self.explored = explored
        self.recipes = recipes
        self.e = recipes.e
        self.effort = effort
        self.watch = watch
        self._within: dict[Dimension, bool] = {}
        written = [recipes.dimension[key] for key in recipes.place]
        self.exponentials = list(dict.fromkeys(recipes.dimension[key] for key in recipes.place if recipes.recipe[key].kind == "exp"))
        columns = [[dimension[i] for dimension in written] for i in range(recipes.factors)]
        self.low = tuple(min(column) for column in columns)
        self.high = tuple(max(column) for column in columns)
        kinds = {op.kind for op in recipes.graph.ops}
        self.subtracts = not kinds.isdisjoint(("sub", "neg"))
        self.unary = tuple(kind for kind in FUNCTIONS if kind in kinds)
        sums = [op.attr[-1] for op in recipes.graph.ops if op.kind in ("reduce", "contract")]
        self.summed = recipes.graph.ordered({str(axis) for axes in sums if isinstance(axes, tuple) for axis in axes})

    def landings(self) -> Iterator[tuple[Recipe, Key]]:
        """Every operation on new values that gives a known one."""
        known = list(self.recipes.known)
        pool: dict[Key, None] = dict.fromkeys(known)
        frontier = known
        for _ in range(DEPTH):
            others = list(pool)
            if len(frontier) * len(others) > MOST_PAIRS:
                self.effort.cap(f"of {len(frontier)} values those with one of {len(known)} known ones were tried, not all pairs")
                others = known
            fresh: dict[Key, None] = {}
            for recipe, key in self.results(frontier, others):
                if key in self.recipes.known:
                    yield recipe, key
                elif key not in pool:
                    fresh[key] = None
            pool |= fresh
            frontier = list(fresh)
        last_layer = set(frontier)
        goals = {(self.e.mask(key), self.recipes.dimension[key]) for key in known}
        index: dict[Dimension, list[Key]] = {}
        for key in [key for key in pool if key not in last_layer]:
            index.setdefault(self.recipes.dimension[key], []).append(key)
        for key in frontier:
            if self.effort.exhausted():
                break
            for recipe, value in self.results([key], self.partners(key, goals, index), goals):
                if value in self.recipes.known:
                    yield recipe, value

    def partners(self, key: Key, goals: Collection[tuple[int, Dimension]], index: dict[Dimension, list[Key]]) -> list[Key]:
        """The values that may give a goal together with one, by their dimensions."""
        mine = self.recipes.dimension[key]
        wanted: dict[Dimension, None] = {mine: None}
        for _, goal in goals:
            wanted[tuple(x - y for x, y in zip(goal, mine, strict=True))] = None
            wanted[tuple(x - y for x, y in zip(mine, goal, strict=True))] = None
            wanted[tuple(x + y for x, y in zip(goal, mine, strict=True))] = None
        return [other for dimension in wanted for other in index.get(dimension, [])]

    def results(
        self, left: Sequence[Key], right: Sequence[Key], goals: Collection[tuple[int, Dimension]] | None = None
    ) -> Iterator[tuple[Recipe, Key]]:
        """Every operation on a left operand, alone or with a right one, and its value; with `goals` only what may be one."""
        for a in left:
            if self.effort.exhausted():
                return
            for recipe, mask, dimension in self.alone(a):
                if self.reducible(mask, dimension) and (goals is None or (mask, dimension) in goals):
                    yield from self.made(recipe, dimension)
            for b in right:
                if self.effort.spent:
                    return
                for recipe, mask, dimension in self.pairs(a, b):
                    if self.reducible(mask, dimension) and (goals is None or (mask, dimension) in goals):
                        yield from self.made(recipe, dimension)

    def alone(self, a: Key) -> Iterator[tuple[Recipe, int, Dimension]]:
        """Operations of one operand, with the axes and dimension of the result."""
        mask, dimension = self.e.mask(a), self.recipes.dimension[a]
        for axes in self.subsets(mask):
            yield Recipe("reduce", ("sum", axes), (a,)), mask & ~self.e.mask_of(axes), dimension
        for kind in self.unary:
            if kind in ("sqrt", "rsqrt"):
                if a in self.recipes.positive:
                    power = Fraction(1, 2) if kind == "sqrt" else Fraction(-1, 2)
                    yield Recipe(kind, (), (a,)), mask, tuple(exponent * power for exponent in dimension)
            elif kind == "exp" and not any(dimension) and len(self.exponentials) == 1:
                yield Recipe(kind, (), (a,)), mask, self.exponentials[0]
            elif kind != "exp" and not any(dimension) and (kind != "log" or a in self.recipes.positive):
                yield Recipe(kind, (), (a,)), mask, dimension

    def pairs(self, a: Key, b: Key) -> Iterator[tuple[Recipe, int, Dimension]]:
        """Operations of two operands."""
        mask = self.e.mask(a) | self.e.mask(b)
        first, second = self.recipes.dimension[a], self.recipes.dimension[b]
        product = tuple(x + y for x, y in zip(first, second, strict=True))
        a, b = min(a, b), max(a, b)
        yield Recipe("mul", (), (a, b)), mask, product
        if a != b:
            for axes in self.subsets(mask):
                yield Recipe("contract", (axes,), (a, b)), mask & ~self.e.mask_of(axes), product
            if first == second:
                yield Recipe("add", (), (a, b)), mask, first
                if self.subtracts:
                    yield Recipe("sub", (), (a, b)), mask, first
                    yield Recipe("sub", (), (b, a)), mask, first
            for above, below in ((a, b), (b, a)):
                if below in self.recipes.divisors:
                    gap = tuple(x - y for x, y in zip(self.recipes.dimension[above], self.recipes.dimension[below], strict=True))
                    yield Recipe("div", (), (above, below)), mask, gap

    def subsets(self, mask: int) -> Iterator[tuple[str, ...]]:
        """Non-empty sets of the axes of a mask that the program sums over somewhere."""
        names = [name for name in self.e.names(mask) if name in self.summed]
        for size in range(1, len(names) + 1):
            yield from combinations(names, size)

    def reducible(self, mask: int, dimension: Dimension) -> bool:
        """Whether the results may be made from such a value."""
        if not self.explored.storable(mask):
            return False
        within = self._within.get(dimension)
        if within is None:
            within = all(low <= power <= high for low, power, high in zip(self.low, dimension, self.high, strict=True))
            self._within[dimension] = within
        return within

    def made(self, recipe: Recipe, dimension: Dimension) -> Iterator[tuple[Recipe, Key]]:
        """The operation with its value, if it has one."""
        if recipe in self.recipes.made:
            key = self.recipes.made[recipe]
        elif self.effort.spent:
            return
        else:
            self.effort.tried += 1
            if self.effort.tried % 256 == 0 and not self.effort.exhausted():
                self.watch(f"enumeration, {self.effort.tried} operations tried, {len(self.e.classes)} classes")
            key = self.recipes.made[recipe] = self.recipes.evaluated(recipe, dimension)
        if key is not None:
            yield recipe, key
