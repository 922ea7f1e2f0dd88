"""
Programs by enumeration, as a check on the rules.

The law: from the values that a program computes as written, every operation is tried on every operand, blindly, `DEPTH`
of `trying` operations deep; where the next gives a value that is known already, this is another way to compute that value, and the values
between join the known ones (`ROUNDS`, `SLACK` of `detours`). No rule takes part. What the rules should have found, and have not, are
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

from dataclasses import dataclass

from ..graph import Graph
from .detours import Detour, Detours
from .effort import Effort
from .explore import explore
from .options import SearchOptions
from .recipes import Recipes
from .trying import Trying
from .watch import Watch, unwatched

ROUNDS = 2
"""How often the values of detours join the known ones, of which more is tried then."""


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
    effort = Effort(options.seconds)
    recipes = Recipes(explored.graph, explored.egraph.space)
    detours = Detours(graph, explored, recipes, most_operations, options.seed)
    trying = Trying(explored, recipes, effort, watch)
    for _ in range(ROUNDS):
        detours.joining = {}
        found = list(trying.landings())
        for number, (last, key) in enumerate(found):
            if effort.late():
                effort.cap(f"stopped after {options.seconds:g} s, {len(found) - number} of {len(found)} ways were not looked at")
                break
            detours.follow(last, key)
        if not detours.joining or effort.spent:
            break
        recipes.known |= detours.joining
    else:
        effort.cap(f"{len(detours.joining)} values that joined in round {ROUNDS} were not operands any more")
    ways = tuple(detours.found.values())
    return Enumeration(effort.tried, len(recipes.known), detours.ways, detours.elsewhere, ways, tuple(effort.caps))
