"""Sizes as extents: the same number for all values of symbols, in the one text that equal extents have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from cleave.extents import extent, symbol
from cleave.frontend.sizes import floor_division, largest, product, remainder, simplified, smallest, to_extent

Of = tuple[Any, Callable[[Mapping[str, int]], int]]
"""A size, and its value by Python for values of the symbols."""

NAMES = ("s0", "s1", "s2")
RENAMED = {"s0": "m", "s1": "n"}


def leaf() -> st.SearchStrategy[Of]:
    def of_symbol(name: str) -> Of:
        return symbol(name), lambda values: values[name]

    def of_number(number: int) -> Of:
        return number, lambda values: number

    return st.sampled_from(NAMES).map(of_symbol) | st.integers(0, 9).map(of_number)


def node(parts: st.SearchStrategy[Of]) -> st.SearchStrategy[Of]:
    def pair(kind: str, a: Of, b: Of, divisor: int) -> Of:
        (left, one), (right, other) = a, b
        match kind:
            case "+":
                return simplified(left + right), lambda values: one(values) + other(values)
            case "*":
                return product((left, right)), lambda values: one(values) * other(values)
            case "//":
                return floor_division(left, divisor), lambda values: one(values) // divisor
            case "%":
                return remainder(left, divisor), lambda values: one(values) % divisor
            case "min":
                return smallest(left, right), lambda values: min(one(values), other(values))
            case _:
                return largest(left, right), lambda values: max(one(values), other(values))

    return st.builds(pair, st.sampled_from(("+", "*", "//", "%", "min", "max")), parts, parts, st.integers(1, 6))


@settings(max_examples=300)
@given(st.recursive(leaf(), node, max_leaves=6), st.tuples(*(st.integers(0, 12) for _ in NAMES)))
def test_the_extent_of_a_size(made: Of, values: tuple[int, ...]) -> None:
    size, value = made
    found = to_extent(size, RENAMED)
    by_name: dict[str, int] = dict(zip(("m", "n", "s2"), values, strict=True))
    assert set(found.symbols) <= set(by_name)
    assert found.evaluate(by_name) == value(dict(zip(NAMES, values, strict=True)))
    assert extent(found.text).text == found.text, "reading it changes nothing"


def test_a_difference_is_an_extent() -> None:
    n = symbol("s1")
    assert to_extent(2 * n - 3, RENAMED).text == "2*n - 3" and to_extent(5 - n, RENAMED).evaluate({"n": 2}) == 3


@pytest.mark.parametrize("size", [1 / symbol("n"), symbol("n") / 2, sympy.sqrt(symbol("n")), symbol("n") ** -2 + 1, sympy.exp(symbol("n"))])
def test_what_is_no_size_is_refused(size: Any) -> None:
    with pytest.raises(ValueError, match="is not an extent"):
        to_extent(size, {})


def test_a_negative_number_is_no_size() -> None:
    with pytest.raises(ValueError, match="extent -1 is negative"):
        to_extent(-1, {})
