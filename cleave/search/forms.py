"""
The forms that an expression may have: tuples, sorted and hashable, over classes of equal values.

Forms are flat, so no rule has to know about associativity:

- `product`: coefficient * class ** exponent * ..., exponents rational
- `sum`: constant + coefficient * class + ...
- `reduce`: sum over axes of a class
- `exp` of a class
- `leaf`: an operation without operands
- `op`: any other operation of the graph language, with its attribute and dtype

A class is an integer; an axis set is a bit mask in the graph's order.
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple, TypeAlias

from ..graph import Attr


class Product(NamedTuple):
    """coefficient * product of class ** exponent, factors sorted by class."""

    coefficient: Fraction
    factors: tuple[tuple[int, Fraction], ...]


class Sum(NamedTuple):
    """constant + sum of coefficient * class, terms sorted by class."""

    constant: Fraction
    terms: tuple[tuple[int, Fraction], ...]


class Reduce(NamedTuple):
    """Sum of a class over the axes of a mask."""

    mask: int
    body: int


class Exp(NamedTuple):
    """exp of a class."""

    body: int


class Leaf(NamedTuple):
    """An input, constant, size or iota."""

    kind: str
    attr: tuple[Attr, ...]
    dtype: str


class Call(NamedTuple):
    """Any other operation."""

    kind: str
    attr: tuple[Attr, ...]
    dtype: str
    args: tuple[int, ...]


Node: TypeAlias = Product | Sum | Reduce | Exp | Leaf | Call


def operands(node: Node) -> tuple[int, ...]:
    """The classes a form is made of."""
    match node:
        case Product(_, pairs) | Sum(_, pairs):
            return tuple(child for child, _ in pairs)
        case Reduce(_, body) | Exp(body):
            return (body,)
        case Leaf():
            return ()
        case Call(args=args):
            return args
