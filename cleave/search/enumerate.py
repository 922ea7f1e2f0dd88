"""
Programs by enumeration, as a check on the rules.

The law: from the values that a program computes as written, every operation is tried on every operand, blindly, `DEPTH`
operations deep; where the next gives a value that is known already, this is another way to compute that value, and the values
between join the known ones (`ROUNDS`, `SLACK`). No rule takes part. What the rules should have found, and have not, are
the values of such *detours* that their e-graph lacks, provided that the program along the detour passes the verifier and has no
more operations than allowed. Values are compared up to a coefficient: `multiples` says why, and `scales` places coefficients.

A value is tried only if the results are *reducible* to it (pruning):

- it is homogeneous, it has a dimension (`dimensions`): a sum of unlike terms could only be taken apart again. A new exponential
  has the dimension of those of the program; where these differ, none is tried.
- its powers lie between those of the known values: one that is of higher degree in some argument than anything the program
  computes could only be divided again.
- it may be stored, is summed over axes that the program sums over, and is neither 0 nor 1.

Detours that undo what they have done (a product divided by a factor, a sum less a term) are of no interest: the program divides
by what it divides by as written, and subtracts only if it does as written.

Where dimensions tell little apart (logarithms, as their arguments have none) almost every pair of values is tried, of which there may
be millions. So trying ends after `MOST_TRIED` operations, or most of the `seconds` of the options; what was found by then is followed
in the rest of them.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import NamedTuple, TypeAlias

from ..graph import Attr, Builder, Graph, Op, Output
from .attributes import axis_names
from .cost import hinted_sizes
from .dimensions import Dimension, dimensions
from .egraph import EGraph
from .explore import Exploration, explore
from .meaning import FLOATS, evaluate, operation, truncates
from .multiples import Multiples
from .options import SearchOptions
from .values import Value
from .verify import Verifier
from .watch import Watch, unwatched
from .work import work

UNARY = ("exp", "log", "sqrt", "rsqrt", "tanh", "sigmoid", "silu", "gelu", "gelu_tanh", "relu", "sin", "cos", "erf")
ROUNDS = 2
SLACK = 1
"""The values of detours join the known ones if the program has at most so many operations more than as written, in so many rounds."""
DEPTH = 2
"""New values on a path of a detour."""
MOST_PAIRS = 60_000
"""Pairs of operands at one depth; beyond, one of the two must be a known value, which is said."""
MOST_TRIED = 300_000
"""Operations tried; beyond, nothing more is, which is said."""
TRYING = 0.75
"""The share of the seconds in which operations may be tried; the rest is for the programs along what was found."""

Key: TypeAlias = int
"""A value: its class in an e-graph of its own."""


class Recipe(NamedTuple):
    """One operation over values."""

    kind: str
    attr: tuple[Attr, ...]
    args: tuple[Key, ...]
    dtype: str = "f32"


FREE = ("input", "constant", "size", "iota", "cast")
OPPOSITE = {"mul": "div", "div": "mul", "add": "sub", "sub": "add", "contract": "div"}


@dataclass(frozen=True, slots=True)
class Detour:
    """
    A way to compute a value of the program that the rules do not know.

    `program` takes it, verified; `operations` counts what it takes beyond arguments and constants, `work` is its cost over
    that of the program as written. `missing` describes the values that the e-graph of the rules lacks.
    """

    program: Graph
    operations: int
    work: float
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Enumeration:
    """
    What was tried: operations, known values at the end, the ways between them, and what the rules lack.

    On `elsewhere` of the ways a coefficient is applied elsewhere than in the e-graph of the rules, and nothing else is new.
    """

    tried: int
    known: int
    ways: int
    elsewhere: int
    detours: tuple[Detour, ...]
    caps: tuple[str, ...]


def enumerate_values(graph: Graph, most_operations: int = 8, options: SearchOptions | None = None, watch: Watch = unwatched) -> Enumeration:
    """The detours of at most so many operations that the rules miss. `watch` is told how many operations were tried."""
    options = options or SearchOptions()
    explored = explore(graph, options, watch)
    if isinstance(explored, str):
        return Enumeration(0, 0, 0, 0, (), (explored,))
    return _Enumeration(graph, explored, most_operations, options, watch).run()


class _Enumeration:
    def __init__(self, graph: Graph, explored: Exploration, most_operations: int, options: SearchOptions, watch: Watch) -> None:
        self.watch = watch
        self.seconds = options.seconds
        self.started = time.monotonic()
        self.spent = False
        """Whether nothing more may be tried."""
        self.written = graph
        self.explored = explored
        self.graph = explored.graph
        self.space = explored.egraph.space
        self.most = most_operations
        self.verifier = Verifier(graph, options.seed)
        self.e = EGraph(self.space)
        self.dimension: dict[Key, Dimension] = {}
        self.recipe: dict[Key, Recipe] = {}
        self.known: dict[Key, None] = {}
        """The values that may be operands."""
        self.positive: set[Key] = set()
        self.divisors: set[Key] = set()
        self.detours: dict[tuple[Key, ...], Detour] = {}
        self.ways = self.tried = self.elsewhere = self.factors = 0
        self.joining: dict[Key, None] = {}
        self.count = sum(op.kind not in FREE for op in self.graph.ops)
        self._made: dict[Recipe, Key | None] = {}
        self._within: dict[Dimension, bool] = {}
        self.caps: list[str] = []
        self.trivial = {self.e.constant(Fraction(number)) for number in (0, 1)}
        self.place = self.as_written()
        self.exponentials = list(dict.fromkeys(self.dimension[key] for key in self.place if self.recipe[key].kind == "exp"))
        columns = [[self.dimension[key][i] for key in self.place] for i in range(self.factors)]
        self.low = tuple(min(column) for column in columns)
        self.high = tuple(max(column) for column in columns)
        self.of_rules = {self.e.intern(entry.value) for entry in explored.egraph.classes}
        coefficients = [key for key in self.known if self.coefficient(key) and key not in self.trivial]
        self.multiples = Multiples(self.space, [self.e.value(key) for key in coefficients], map(self.e.value, self.of_rules))
        kinds = {op.kind for op in self.graph.ops}
        self.subtracts = not kinds.isdisjoint(("sub", "neg"))
        self.unary = tuple(kind for kind in UNARY if kind in kinds)
        sums = [op.attr[-1] for op in self.graph.ops if op.kind in ("reduce", "contract")]
        self.summed = self.graph.ordered({str(axis) for axes in sums if isinstance(axes, tuple) for axis in axes})

    def as_written(self) -> list[Key]:
        """The values of the program, casts between floats left out."""
        found, self.factors = dimensions(self.graph)
        values = evaluate(self.graph, self.space)
        place: list[Key] = []
        for op, dimension, value in zip(self.graph.ops, found, values, strict=True):
            if op.kind == "cast" and not truncates(self.graph, op):
                place.append(place[op.args[0]])
                continue
            key = self.e.intern(value)
            place.append(key)
            self.dimension.setdefault(key, dimension)
            self.recipe.setdefault(key, Recipe(op.kind, op.attr, tuple(place[arg] for arg in op.args), op.dtype))
            if op.dtype in FLOATS or op.kind == "size":
                self.known[key] = None
            if op.kind == "div":
                self.divisors.add(place[op.args[1]])
            self.note_positive(key)
        return place

    def note_positive(self, key: Key) -> None:
        """Records that a value is positive by its form, so that it may be divided by."""
        kind, attr, args, _ = self.recipe[key]
        given = bool(args) and all(arg in self.positive for arg in args)
        constant = kind == "constant" and isinstance(attr[0], float) and attr[0] > 0
        if (
            kind in ("exp", "size", "sigmoid")
            or constant
            or (given and kind in ("add", "mul", "div", "contract", "reduce", "sqrt", "rsqrt"))
        ):
            self.positive.add(key)

    def run(self) -> Enumeration:
        for _ in range(ROUNDS):
            self.joining = {}
            found = list(self.landings())
            for number, (last, key) in enumerate(found):
                if self.late():
                    self.cap(f"stopped after {self.seconds:g} s, {len(found) - number} of {len(found)} ways were not looked at")
                    break
                self.follow(last, key)
            if not self.joining or self.spent:
                break
            self.known |= self.joining
        else:
            self.cap(f"{len(self.joining)} values that joined in round {ROUNDS} were not operands any more")
        return Enumeration(self.tried, len(self.known), self.ways, self.elsewhere, tuple(self.detours.values()), tuple(self.caps))

    # What may be spent.

    def late(self, share: float = 1.0) -> bool:
        """Whether a share of the seconds is over."""
        return time.monotonic() - self.started > self.seconds * share

    def exhausted(self) -> bool:
        """Whether nothing more may be tried; notes why."""
        if not self.spent and self.tried >= MOST_TRIED:
            self.spent = True
            self.cap(f"stopped after {self.tried} operations")
        elif not self.spent and self.late(TRYING):
            self.spent = True
            self.cap(f"trying stopped after {self.tried} operations, as most of the {self.seconds:g} s were over")
        return self.spent

    # Ways between known values.

    def follow(self, last: Recipe, key: Key) -> None:
        """Takes the values on the way to a known one among the known ones; records those that the rules lack."""
        new = self.new_values(last)
        if not new or self.undone(last, [self.recipe[value] for value in new]) or any(self.cancels(value) for value in new):
            return
        program = self.program(last, key)
        count = 0 if program is None else sum(op.kind not in FREE for op in program.ops)
        if program is None or count > self.most:
            return
        self.ways += 1
        missing = tuple(value for value in new if value not in self.of_rules)
        if count <= self.count + SLACK:
            self.joining |= dict.fromkeys(new)
        new_to_rules = tuple(value for value in missing if not self.multiples.has(self.e.value(value)))
        self.elsewhere += bool(missing) and not new_to_rules
        if new_to_rules and new_to_rules not in self.detours and self.verifier.problem(program) is None:
            ratio = work(program, hinted_sizes(program)) / work(self.written, hinted_sizes(self.written))
            self.detours[new_to_rules] = Detour(program, count, ratio, tuple(self.text(value) for value in new_to_rules))

    def cancels(self, value: Key) -> bool:
        """Whether a value multiplies another one with its inverse, or a power of it: such as v rsqrt(v)^2."""
        signs: dict[Key, set[bool]] = {}

        def visit(key: Key, inverse: bool) -> None:
            kind, _, args, _ = self.recipe[key]
            if kind in ("mul", "div", "sqrt", "rsqrt"):
                for at, arg in enumerate(args):
                    visit(arg, inverse != (kind == "rsqrt" or (kind == "div" and at == 1)))
            else:
                signs.setdefault(key, set()).add(inverse)

        visit(value, False)
        return any(len(found) == 2 for found in signs.values())

    def undone(self, last: Recipe, before: Sequence[Recipe]) -> bool:
        """Whether an operation takes back an operand that an earlier one has put in."""
        for recipe in before:
            meets = bool(set(last.args) & self.put_in(recipe))
            if meets and (OPPOSITE.get(recipe.kind) == last.kind or (last.kind == recipe.kind and last.kind in ("sub", "div"))):
                return True
        return False

    def put_in(self, recipe: Recipe) -> set[Key]:
        """The operands of an operation; a contraction over axes that one operand lacks multiplies by the sum of the other over them."""
        found = set(recipe.args)
        if recipe.kind == "contract":
            mask = self.e.mask_of(axis_names(recipe.attr[0]))
            for alone, other in (recipe.args, recipe.args[::-1]):
                total = self._made.get(Recipe("reduce", ("sum", *recipe.attr), (alone,)))
                if total is not None and not self.e.mask(other) & mask:
                    found.add(total)
        return found

    def coefficient(self, value: Key) -> bool:
        """Whether a value is made of constants and sizes alone."""
        kind, _, args, _ = self.recipe[value]
        return kind in ("constant", "size") if not args else all(self.coefficient(arg) for arg in args)

    def new_values(self, last: Recipe) -> tuple[Key, ...]:
        """The values that an operation needs and that are not known, operands first."""
        found: dict[Key, None] = {}

        def visit(key: Key) -> None:
            if key not in self.known and key not in found and key not in self.place:
                for arg in self.recipe[key].args:
                    visit(arg)
                found[key] = None

        for arg in last.args:
            visit(arg)
        return tuple(found)

    def program(self, last: Recipe, key: Key) -> Graph | None:
        """The program with a value made by that operation; None where it would need itself."""
        recipes = self.recipe | {key: last}
        builder = Builder(self.graph.name, self.graph.symbols, self.graph.axes, self.graph.inputs)
        place: dict[Key, int] = {}
        active: set[Key] = set()

        def make(key: Key) -> int | None:
            if key in place:
                return place[key]
            if key in active:
                return None
            active.add(key)
            kind, attr, args, dtype = recipes[key]
            made = [make(arg) for arg in args]
            operands = [position for position in made if position is not None]
            if len(operands) < len(made):
                return None
            place[key] = int(str(attr[0])) if kind == "input" else builder.add(kind, *operands, attr=attr, dtype=dtype)
            active.discard(key)
            return place[key]

        outputs: list[Output] = []
        for output in self.graph.outputs:
            made = make(self.place[output.value])
            if made is None:
                return None
            outputs.append(replace(output, value=made))
        return builder.finish(outputs)

    def text(self, key: Key, depth: int = 6) -> str:
        """A value as a nested expression."""
        kind, attr, args, _ = self.recipe[key]
        if kind == "input":
            return self.graph.inputs[int(str(attr[0]))].name
        if kind == "constant":
            return f"{attr[0]}"
        if depth == 0:
            return "..."
        inner = ", ".join(self.text(arg, depth - 1) for arg in args)
        axes = " ".join(str(name) for part in attr if isinstance(part, tuple) for name in part)
        return f"{kind}({inner}{f' over {axes}' if axes else ''})"

    # Trying operations.

    def landings(self) -> Iterator[tuple[Recipe, Key]]:
        """Every operation on new values that gives a known one."""
        known = list(self.known)
        pool: dict[Key, None] = dict.fromkeys(known)
        frontier = known
        for _ in range(DEPTH):
            others = list(pool)
            if len(frontier) * len(others) > MOST_PAIRS:
                self.cap(f"of {len(frontier)} values those with one of {len(known)} known ones were tried, not all pairs")
                others = known
            fresh: dict[Key, None] = {}
            for recipe, key in self.results(frontier, others):
                if key in self.known:
                    yield recipe, key
                elif key not in pool:
                    fresh[key] = None
            pool |= fresh
            frontier = list(fresh)
        last_layer = set(frontier)
        goals = {(self.e.mask(key), self.dimension[key]) for key in known}
        index: dict[Dimension, list[Key]] = {}
        for key in [key for key in pool if key not in last_layer]:
            index.setdefault(self.dimension[key], []).append(key)
        for key in frontier:
            if self.exhausted():
                break
            for recipe, value in self.results([key], self.partners(key, goals, index), goals):
                if value in self.known:
                    yield recipe, value

    def cap(self, text: str) -> None:
        """Notes what was left out, once."""
        if text not in self.caps:
            self.caps.append(text)

    def partners(self, key: Key, goals: Collection[tuple[int, Dimension]], index: dict[Dimension, list[Key]]) -> list[Key]:
        """The values that may give a goal together with one, by their dimensions."""
        mine = self.dimension[key]
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
            if self.exhausted():
                return
            for recipe, mask, dimension in self.alone(a):
                if self.reducible(mask, dimension) and (goals is None or (mask, dimension) in goals):
                    yield from self.made(recipe, dimension)
            for b in right:
                if self.spent:
                    return
                for recipe, mask, dimension in self.pairs(a, b):
                    if self.reducible(mask, dimension) and (goals is None or (mask, dimension) in goals):
                        yield from self.made(recipe, dimension)

    def alone(self, a: Key) -> Iterator[tuple[Recipe, int, Dimension]]:
        """Operations of one operand, with the axes and dimension of the result."""
        mask, dimension = self.e.mask(a), self.dimension[a]
        for axes in self.subsets(mask):
            yield Recipe("reduce", ("sum", axes), (a,)), mask & ~self.e.mask_of(axes), dimension
        for kind in self.unary:
            if kind in ("sqrt", "rsqrt"):
                if a in self.positive:
                    power = Fraction(1, 2) if kind == "sqrt" else Fraction(-1, 2)
                    yield Recipe(kind, (), (a,)), mask, tuple(exponent * power for exponent in dimension)
            elif kind == "exp" and not any(dimension) and len(self.exponentials) == 1:
                yield Recipe(kind, (), (a,)), mask, self.exponentials[0]
            elif kind != "exp" and not any(dimension) and (kind != "log" or a in self.positive):
                yield Recipe(kind, (), (a,)), mask, dimension

    def pairs(self, a: Key, b: Key) -> Iterator[tuple[Recipe, int, Dimension]]:
        """Operations of two operands."""
        mask = self.e.mask(a) | self.e.mask(b)
        first, second = self.dimension[a], self.dimension[b]
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
                if below in self.divisors:
                    gap = tuple(x - y for x, y in zip(self.dimension[above], self.dimension[below], strict=True))
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
        if recipe in self._made:
            key = self._made[recipe]
        elif self.spent:
            return
        else:
            self.tried += 1
            if self.tried % 256 == 0 and not self.exhausted():
                self.watch(f"enumeration, {self.tried} operations tried, {len(self.e.classes)} classes")
            key = self._made[recipe] = self.evaluated(recipe, dimension)
        if key is not None:
            yield recipe, key

    def trivial_below(self, key: Key) -> bool:
        """Whether a value that is not known on the highest level, as those of logarithms, is 0 or 1 on those where it is."""
        value = self.e.value(key)
        if value.highest == self.space.top or self.e.mask(key) or not value.bounded:
            return False
        top = value.residues[value.highest]
        return bool((top == 0).all() or (top == 1).all())

    def value(self, recipe: Recipe, args: Sequence[Value]) -> Value:
        """What an operation gives; differences are many, and those of finite values need no more than a subtraction."""
        if recipe.kind != "sub":
            return operation(self.graph, self.space, Op(recipe.kind, (), (), recipe.dtype, recipe.attr), args)
        a, b = args
        return Value((a.residues - b.residues) % self.space.primes, max(a.lowest, b.lowest), min(a.highest, b.highest))

    def evaluated(self, recipe: Recipe, dimension: Dimension) -> Key | None:
        """The value of an operation that was not tried before."""
        args = [self.e.value(arg) for arg in recipe.args]
        if len(args) > 1 and not all(arg.bounded for arg in args):
            return None
        value = self.value(recipe, args)
        if bool(self.space.spoiled.any()):
            self.space.spoiled[:] = False
            return None
        key = self.e.intern(value)
        if key in self.trivial or self.trivial_below(key):
            return None
        if key not in self.recipe:
            self.recipe[key], self.dimension[key] = recipe, dimension
            self.note_positive(key)
        return key
