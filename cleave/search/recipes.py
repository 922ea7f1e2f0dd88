"""
The values that a program computes as written, and what is made of them: how each is computed, and the programs that do.

A value is a class in an e-graph of its own; it has a *recipe*, the operation over values that gave it first, and a dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple, TypeAlias

from ..graph import FLOATS, Attr, Builder, Graph, Op, Output
from .dimensions import Dimension, dimensions
from .egraph import EGraph
from .meaning import evaluate, operation, truncates
from .values import Space, Value

Key: TypeAlias = int
"""A value: its class in an e-graph of its own."""


class Recipe(NamedTuple):
    """One operation over values."""

    kind: str
    attr: tuple[Attr, ...]
    args: tuple[Key, ...]
    dtype: str = "f32"


class Recipes:
    """
    The values met so far. `known` are those that may be operands, `place` is where each operation of the program is among all, and `made`
    keeps what every operation that was tried gives, None where that is nothing.
    """

    def __init__(self, graph: Graph, space: Space) -> None:
        self.graph = graph
        self.space = space
        self.e = EGraph(space)
        self.dimension: dict[Key, Dimension] = {}
        self.recipe: dict[Key, Recipe] = {}
        self.known: dict[Key, None] = {}
        self.positive: set[Key] = set()
        self.divisors: set[Key] = set()
        self.made: dict[Recipe, Key | None] = {}
        self.factors = 0
        self.trivial = {self.e.constant(Fraction(number)) for number in (0, 1)}
        self.place = self.as_written()

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

    def coefficient(self, value: Key) -> bool:
        """Whether a value is made of constants and sizes alone."""
        kind, _, args, _ = self.recipe[value]
        return kind in ("constant", "size") if not args else all(self.coefficient(arg) for arg in args)

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
