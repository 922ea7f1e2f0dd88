"""
Values: what a tensor program computes, as residues at a few random points of a tower of prime fields.

The law: two programs that are equal as formal expressions have equal residues, and two that are not differ with
probability at least 1 - d/p for each sample, with d the degree of their difference and p > 2^25 (Schwartz-Zippel; above 2^21
where discrete logarithms are taken). Three samples, each of several points, make an accidental equality of two given values
less likely than 10^-12, and no graph is handed out without `verify`. What counts as a formal identity:

- **Random points** (`draws`): fields p_0 < p_1 < ... with p_{i+1} = k p_i + 1; a value knows its lowest and highest valid level.
- **Random measure** (`measure`): linearity of sums over axes, exchange, pulling factors out; no size is a number of points.
- **Arithmetic** (`arithmetic`): on every level; exp a level up and log a level down, where the tower reaches. Roots have squares
  that are +-x: callers add exponents before they evaluate. Other functions are unknown, equal for equal arguments.
- **Order** (`order`): maxima, and comparisons that agree with each other; every value is taken to be a number, so guards against
  NaN fold away.
- **Moves** (`moves`): renames, splits, slices, positions and concatenations; others are functions of whole lines.
- **-inf and +inf** are formal: flags beside the residue. exp of -inf is 0, a maximum ignores it, a sum absorbs either.

A division by 0 (or -inf - -inf) spoils the sample; the caller draws others.
"""

from __future__ import annotations

from .draws import Bools, Value
from .moves import Moves

__all__ = ["Bools", "Space", "Value"]


class Space(Moves):
    """The points at which programs are evaluated, with all that can be done to values there."""
