"""What is known of lanes past the end of a tile."""

from __future__ import annotations

import pytest

from cleave.schedule.lanes import FINITE, UNKNOWN, Lane, joined, lane_of, product, reduced

INF = float("inf")


@pytest.mark.parametrize(
    ("kind", "args", "expected"),
    [
        ("add", (1.0, 2.0), 3.0),
        ("mul", (0.0, FINITE), 0.0),
        ("mul", (0.0, UNKNOWN), UNKNOWN),
        ("mul", (0.0, INF), UNKNOWN),
        ("exp", (FINITE,), UNKNOWN),
        ("exp2", (-INF,), 0.0),
        ("sub", (-INF, FINITE), -INF),
        ("sub", (-INF, -INF), UNKNOWN),
        ("select", (UNKNOWN, 0.0, 0.0), 0.0),
        ("select", (UNKNOWN, 0.0, 1.0), FINITE),
        ("select", (UNKNOWN, 0.0, -INF), UNKNOWN),
        ("div", (0.0, FINITE), UNKNOWN),
        ("tanh", (FINITE,), FINITE),
        ("sigmoid", (0.0,), 0.5),
        ("cast", (0.0,), 0.0),
        ("or", (0.0, 1.0), 1.0),
        ("and", (0.0, 1.0), 0.0),
        ("and", (0.5, 1.0), UNKNOWN),
        ("not", (0.0,), UNKNOWN),
    ],
)
def test_elementwise(kind: str, args: tuple[Lane, ...], expected: Lane) -> None:
    assert lane_of(kind, (), args) == expected


def test_joins_products_and_reductions() -> None:
    assert joined(0.0, 0.0) == 0.0 and joined(0.0, 1.0) == FINITE and joined(0.0, UNKNOWN) == UNKNOWN
    assert product([0.0, FINITE]) == 0.0 and product([0.0, UNKNOWN]) == UNKNOWN and product([2.0, FINITE]) == FINITE
    assert reduced("sum", 0.0) == 0.0 and reduced("sum", 1.0) == FINITE and reduced("max", 1.0) == 1.0 and reduced("sum", INF) == UNKNOWN
