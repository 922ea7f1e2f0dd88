"""How coefficients are written: exactly, and so that nothing overflows."""

from __future__ import annotations

from fractions import Fraction

import pytest

from cleave.search import SearchOptions, superoptimize

from .programs import Write


@pytest.mark.parametrize("number", [11.313708498984761, 0.1, 3.0, 1e-5, 1000.3, -7.1])
def test_coefficients_keep_their_size(number: float) -> None:
    """A quotient by a float is no product with its inverse; the exact fraction has parts that a 16-bit type cannot hold."""
    w = Write({"m": 8, "n": 8, "d": 64}, {"q": "m d", "k": "n d"})
    q, k = w.args
    graph = w.done(w("div", w.dot("d", q, k), number))
    for entry in superoptimize(graph, SearchOptions(split=False)).alternatives:
        constants = [op.attr[0] for op in entry.graph.ops if op.kind == "constant"]
        assert constants and all(isinstance(value, float) for value in constants)
        assert all(abs(float(str(value))) <= 2 * max(abs(number), 1 / abs(number), 1) for value in constants)
        product = Fraction(1)
        for op in entry.graph.ops:
            found = [entry.graph.ops[arg].attr[0] for arg in op.args if entry.graph.ops[arg].kind == "constant"]
            for value in found:
                exact = Fraction(float(str(value)))
                product = product * exact if op.kind == "mul" else product / exact
        assert abs(product) == abs(1 / Fraction(number))
