"""What conditions say of a chunk of rows, against what they say of each row."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleave.graph import PREDICATES, Input, Output
from cleave.reference.dtypes import Array
from cleave.reference.evaluate import evaluate
from cleave.schedule.relaxed import ROWS, Chunks, tells_apart

from .programs import Sketch

Condition: TypeAlias = "tuple[str, ...] | tuple[str, Condition] | tuple[str, Condition, Condition]"
INPUTS = {"row": ("m", "i32"), "column": ("n", "i32"), "open": ("m", "i1"), "seen": ("n", "i1")}


def conditions() -> st.SearchStrategy[Condition]:
    """Comparisons of what rows and columns have, in either order, and truth values of either; joined and negated."""
    sides = st.sampled_from([("row", "column"), ("column", "row"), ("place", "column"), ("row", "at")])
    compared = st.builds(lambda kind, pair: (kind, *pair), st.sampled_from(PREDICATES), sides)
    leaves = st.one_of(compared, st.sampled_from([("open",), ("seen",)]))
    return st.recursive(
        leaves,
        lambda inner: st.one_of(st.tuples(st.just("not"), inner), st.tuples(st.sampled_from(["and", "or"]), inner, inner)),
        max_leaves=4,
    )


def built(s: Sketch, condition: Condition) -> int:
    kind, *args = condition
    if kind in PREDICATES:
        return s.op("compare", *(leaf(s, str(name)) for name in args), attr=(kind,))
    if not args:
        return leaf(s, str(kind))
    return s.op(str(kind), *(built(s, arg) for arg in args if not isinstance(arg, str)))


def leaf(s: Sketch, name: str) -> int:
    """An input, or the index of rows or of columns."""
    place = {"place": "m", "at": "n"}.get(name)
    return list(INPUTS).index(name) if place is None else s.op("iota", attr=(place,))


def sketch(m: int, n: int) -> tuple[Sketch, Chunks]:
    inputs = [Input(name, (axis,), dtype, axis) for name, (axis, dtype) in INPUTS.items()]
    s = Sketch("relaxed", f"m={m} c={-(-m // ROWS)} r={ROWS} n={n}", inputs)
    return s, Chunks(s.builder, "m", "n", "c", "r")


def values(s: Sketch, conditions: list[int], data: list[Array], shape: tuple[int, int]) -> list[Array]:
    """Conditions over all rows or chunks and columns, whichever they have."""
    outputs: list[Array] = []
    for at in conditions:
        axes = s.builder.ops[at].axes
        s.outputs[:] = [Output(at, " ".join(axes), "i1")]
        (value,) = evaluate(s.graph(), data, {})
        rows = shape[0] if "m" in axes else -(-shape[0] // ROWS) if "c" in axes else 1
        outputs.append(np.asarray(value, bool).reshape(rows, shape[1] if "n" in axes else 1))
    return outputs


@settings(max_examples=60, deadline=None)
@given(condition=conditions(), m=st.sampled_from([1, 3, 64, 65, 200]), n=st.sampled_from([1, 7]), seed=st.integers(0, 2**31))
def test_chunks_are_bounds_of_their_rows(condition: Condition, m: int, n: int, seed: int) -> None:
    """Some row having it implies the one, and the other implies that all have; one comparison alone is exact."""
    s, chunks = sketch(m, n)
    at = built(s, condition)
    assert tells_apart(s.builder.ops, at, "m", "n")
    rng = np.random.default_rng(seed)
    most = int(rng.integers(1, 6))
    data = [rng.integers(-most, most, m), rng.integers(-most, most, n), rng.random(m) < 0.9, rng.random(n) < 0.5]
    rows, some, every = values(s, [at, chunks.relaxed(at, "some"), chunks.relaxed(at, "every")], data, (m, n))
    rows = np.broadcast_to(rows, (m, n))
    for chunk in range(-(-m // ROWS)):
        own = rows[chunk * ROWS : (chunk + 1) * ROWS]
        any_row, all_rows = np.broadcast_to(some[chunk % len(some)], n), np.broadcast_to(every[chunk % len(every)], n)
        assert (own.any(0) <= any_row).all() and (all_rows <= own.all(0)).all()
        if condition[0] in PREDICATES and condition[0] not in ("eq", "ne"):
            assert (own.any(0) == any_row).all() and (all_rows == own.all(0)).all()


@pytest.mark.parametrize(("left", "right"), [("both", "column"), ("weight", "column")])
def test_what_cannot_be_told_apart(left: str, right: str) -> None:
    """A number of row and column together, and floats, whose least may be no number."""
    axes = {"both": ("m", "n"), "weight": ("m",)}[left]
    dtype = "i32" if left == "both" else "f32"
    s = Sketch("whole", "m=5 n=7", [Input(left, axes, dtype, " ".join(axes)), Input(right, ("n",), "i32", "n")])
    at = s.op("compare", 0, 1, attr=("lt",))
    assert not tells_apart(s.builder.ops, at, "m", "n")
    assert not tells_apart(s.builder.ops, s.op("not", at), "m", "n")
