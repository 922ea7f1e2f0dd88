"""No text of a user reaches generated code but identifiers."""

from __future__ import annotations

import ast
import keyword

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cleave.targets.names import TAKEN, Names, identifier


@given(st.text())
def test_any_text_becomes_an_identifier(text: str) -> None:
    name = identifier(text)
    assert name.isascii() and name.isidentifier() and not keyword.iskeyword(name) and name not in TAKEN
    assert isinstance(ast.parse(f"{name} = 1").body[0], ast.Assign)


@given(st.lists(st.sampled_from(["x", "x_2", "x_3", "if", "tl", "x: import os", "x\nimport os", "", "é", "9", "print"])))
def test_names_of_a_scope_differ(hints: list[str]) -> None:
    names = Names(frozenset(("x",)))
    given_names = [names.fresh(hint) for hint in hints]
    assert len({*given_names, "x"}) == len(given_names) + 1


@pytest.mark.parametrize(
    ("hint", "name"),
    [("m", "m"), ("lambda", "lambda_"), ("tl", "tl_"), ("x: import os", "x_import_os"), ("3d", "v3d"), ("sum", "sum_"), ("__x", "v__x")],
)
def test_examples(hint: str, name: str) -> None:
    assert identifier(hint) == name
