"""Values up to a coefficient: what is alike, and what is not."""

from __future__ import annotations

from fractions import Fraction

from cleave.extents import extent
from cleave.graph import Axis
from cleave.search.multiples import Multiples
from cleave.search.values import Space, Value


def made() -> tuple[Space, Value, Value, Value]:
    """A space over symbolic axes, two tensors in it and a constant."""
    space = Space([Axis("m", extent("m")), Axis("n", extent("n"))], {"m": 2, "n": 2}, 3, 0)
    return space, space.leaf("x", ("m", "n"), False), space.leaf("y", ("m", "n"), False), space.constant(Fraction(3, 10))


def test_powers_of_constants_and_sizes_are_coefficients() -> None:
    space, x, _, c = made()
    multiples = Multiples(space, [c, space.size("n")], [x])
    inverse = space.raise_to(space.size("n"), Fraction(-1))
    root = space.raise_to(space.size("n"), Fraction(-1, 2))
    for factor in (c, inverse, root, space.multiply(c, inverse), space.multiply(c, c), space.constant(Fraction(-1))):
        assert multiples.has(space.multiply(x, factor))
    assert multiples.has(space.multiply(c, root))


def test_anything_else_is_another_value() -> None:
    """A size that is no coefficient, a nudged constant, a factor with axes, a sum over axes, another tensor."""
    space, x, y, c = made()
    multiples = Multiples(space, [c], [x])
    assert not multiples.has(y)
    assert not multiples.has(space.multiply(x, y))
    assert not multiples.has(space.multiply(x, space.size("n")))
    assert not multiples.has(space.scale(x, Fraction(301, 1000)))
    assert not multiples.has(space.multiply(x, space.sum_over(x, ("m", "n"))))
    assert not multiples.has(space.add(x, c))


def test_masked_values_have_multiples_too() -> None:
    """0 in some places, -inf in others: only what is so in the same places is alike."""
    space, x, y, c = made()
    mask = space.compare("le", space.leaf("i", ("m",), False), space.leaf("j", ("n",), False), integers=False)
    masked = space.multiply(mask, x)
    multiples = Multiples(space, [c], [masked, space.select(mask, y, space.negative_infinity())])
    assert multiples.has(space.multiply(masked, c))
    assert multiples.has(space.select(mask, space.multiply(y, c), space.negative_infinity()))
    assert not multiples.has(x)
    assert not multiples.has(y)
