"""Reductions of integers: what they start from, and what fills lanes that do not exist."""

from __future__ import annotations

import numpy as np
import pytest

from cleave.reference.sched import run_program

from .programs import Input, Sketch, agrees, scheduled


@pytest.mark.parametrize("dtype", ["i32", "i64"])
@pytest.mark.parametrize("kind", ["sum", "max", "min"])
@pytest.mark.parametrize("width", ["1", "7", "300", "5000"])
def test_reductions(dtype: str, kind: str, width: str) -> None:
    s = Sketch("top", f"m=5 n={width}", [Input("x", ("m", "n"), dtype, "m n")])
    s.output(s.reduce(kind, 0, "n"), "m", dtype)
    graph = s.graph()
    data = np.random.default_rng(0).integers(-1000, 1000, (5, int(width)))
    for values in (data, np.full_like(data, -7), np.full_like(data, 7)):
        agrees(graph, scheduled(graph), changed={"x": values})


def test_large_integers_keep_all_digits_beside_lanes_that_do_not_exist() -> None:
    """A float64 holds 53 bits of them."""
    s = Sketch("top", "m=5 n=7", [Input("x", ("m", "n"), "i64", "m n")])
    s.output(s.reduce("max", 0, "n"), "m", "i64")
    graph = s.graph()
    (found,) = run_program(scheduled(graph), [np.full((5, 7), 2**62 + 1)], {})
    assert (found == 2**62 + 1).all()
