"""The figures of the argument in `cleave.search.verify`, from the constants that the code uses."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from cleave.extents import extent
from cleave.graph import Axis
from cleave.search.fields import LOG_TOWER, LONG_TOWER, SHORT_TOWER
from cleave.search.values import Space
from cleave.search.verify import ROUNDS, SAMPLES

DEGREE = 1000
CLASSES = 4000


@pytest.mark.parametrize(("tower", "passes"), [(SHORT_TOWER, -280), (LONG_TOWER, -239), (LOG_TOWER, -165)])
def test_a_wrong_graph_passes_all_rounds_with_the_stated_probability(tower: tuple[int, ...], passes: int) -> None:
    assert SAMPLES * len(ROUNDS) * math.log2(DEGREE / tower[0]) < passes
    assert all((high - 1) % low == 0 for low, high in pairwise(tower)), "a subgroup has as many elements as the field below"


@pytest.mark.parametrize(("tower", "confused"), [(SHORT_TOWER, -39), (LONG_TOWER, -39), (LOG_TOWER, -16)])
def test_classes_are_confused_with_the_stated_probability(tower: tuple[int, ...], confused: int) -> None:
    assert math.log2(CLASSES**2 / 2) + 3 * math.log2(DEGREE / tower[-1]) < confused


def test_masks_have_the_stated_number_of_elements() -> None:
    assert SAMPLES * sum(round_.points**2 for round_ in ROUNDS) == 81
    assert SAMPLES * sum(round_.points for round_ in ROUNDS) == 33


def test_a_polynomial_is_zero_as_often_as_its_degree_allows() -> None:
    """x (x - 1) ... (x - 40) at 60000 points of a small field: 41 roots in p, so 1.2 zeros are expected; bits are fair."""
    axes = [Axis("m", extent("m"))]
    space = Space(axes, {"m": 60000}, 1, 1, LOG_TOWER, symbols={"m": 60000})
    x = space.leaf("x", ("m",), False)
    product = space.constant(Fraction(1))
    for root in range(41):
        product = space.multiply(product, space.add(x, space.constant(Fraction(-root))))
    zeros = int((product.residues[0] == 0).sum())
    assert zeros <= 8, "more than eight would happen once in 10^5 draws"
    bits = space.compare("le", x, space.constant(Fraction(0)), False).residues[0]
    assert abs(float(np.mean(bits)) - 0.5) < 0.01
