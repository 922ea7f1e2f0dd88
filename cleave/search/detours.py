"""The ways that enumeration finds between known values, and which of them the rules lack."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..graph import Graph
from .attributes import axis_names
from .cost import hinted_sizes
from .explore import Exploration
from .multiples import Multiples
from .recipes import Key, Recipe, Recipes
from .verify import Verifier
from .work import work

SLACK = 1
"""The values of detours join the known ones if the program has at most so many operations more than as written."""
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


class Detours:
    """What was found on the ways between values of a program: `joining` are those to be known from then on."""

    def __init__(self, written: Graph, explored: Exploration, recipes: Recipes, most_operations: int, seed: int) -> None:
        self.written = written
        self.recipes = recipes
        self.e = recipes.e
        self.most = most_operations
        self.verifier = Verifier(written, seed)
        self.found: dict[tuple[Key, ...], Detour] = {}
        self.ways = self.elsewhere = 0
        self.joining: dict[Key, None] = {}
        self.count = sum(op.kind not in FREE for op in recipes.graph.ops)
        self.of_rules = {self.e.intern(entry.value) for entry in explored.egraph.classes}
        coefficients = [key for key in recipes.known if recipes.coefficient(key) and key not in recipes.trivial]
        self.multiples = Multiples(recipes.space, [self.e.value(key) for key in coefficients], map(self.e.value, self.of_rules))

    def follow(self, last: Recipe, key: Key) -> None:
        """Takes the values on the way to a known one among the known ones; records those that the rules lack."""
        new = self.recipes.new_values(last)
        if not new or self.undone(last, [self.recipes.recipe[value] for value in new]) or any(self.cancels(value) for value in new):
            return
        program = self.recipes.program(last, key)
        count = 0 if program is None else sum(op.kind not in FREE for op in program.ops)
        if program is None or count > self.most:
            return
        self.ways += 1
        missing = tuple(value for value in new if value not in self.of_rules)
        if count <= self.count + SLACK:
            self.joining |= dict.fromkeys(new)
        new_to_rules = tuple(value for value in missing if not self.multiples.has(self.e.value(value)))
        self.elsewhere += bool(missing) and not new_to_rules
        if new_to_rules and new_to_rules not in self.found and self.verifier.problem(program) is None:
            ratio = work(program, hinted_sizes(program)) / work(self.written, hinted_sizes(self.written))
            self.found[new_to_rules] = Detour(program, count, ratio, tuple(self.recipes.text(value) for value in new_to_rules))

    def cancels(self, value: Key) -> bool:
        """Whether a value multiplies another one with its inverse, or a power of it: such as v rsqrt(v)^2."""
        signs: dict[Key, set[bool]] = {}

        def visit(key: Key, inverse: bool) -> None:
            kind, _, args, _ = self.recipes.recipe[key]
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
                total = self.recipes.made.get(Recipe("reduce", ("sum", *recipe.attr), (alone,)))
                if total is not None and not self.e.mask(other) & mask:
                    found.add(total)
        return found
