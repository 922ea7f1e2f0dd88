"""Reductions of integers: what they start from, and what fills lanes that do not exist."""

from __future__ import annotations

import numpy as np
import pytest

from cleave.reference.evaluate import evaluate
from cleave.reference.sched import run_program
from cleave.runtime.execute import execute
from cleave.schedule.measure import Measure
from cleave.schedule.roles import Dim, Plan
from cleave.schedule.whole import KernelEmitter

from .programs import INFINITY, Input, Sketch, Symbol, agrees, scheduled
from .test_branching import planned, work_of

FAR = (2**62 + 1, 2**40 + 3, 2**32, 2**31, 2**31 - 1, 78, 77, 5, 0, -1, -(2**31), -(2**32), -(2**40), -(2**63))
"""Integers that 32 bits hold, and such that differ in others."""


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


@pytest.mark.parametrize("dtype", ["i32", "i64"])
@pytest.mark.parametrize("width", ["1", "7", "300"])
@pytest.mark.parametrize("operands", [1, 2, 3])
def test_sums_of_products_are_made_of_integers(dtype: str, width: str, operands: int) -> None:
    """Floats hold fewer digits than these have, and do not wrap around."""
    inputs = [
        Input("x", ("m", "k"), dtype, "m k"),
        Input("y", ("k", "n"), "i32", "k n"),
        Input("z", ("k",), "i1", "k"),
    ]
    s = Sketch("product", f"m=33 n=40 k={width}", inputs[:operands])
    s.output(s.op("contract", *range(operands), attr=(("k",),), dtype=dtype), "m n" if operands > 1 else "m", dtype)
    graph = s.graph()
    draw = np.random.default_rng(0)
    x = draw.integers(-(2**31) if dtype == "i32" else -(2**62), 2**31 - 1, (33, int(width)))
    data = [x, draw.integers(-(2**31), 2**31 - 1, (int(width), 40)), draw.integers(0, 2, int(width))][:operands]
    (expected,) = evaluate(graph, data, {})
    wrapped = np.multiply.reduce(np.broadcast_arrays(x[:, :, None], *[a.reshape(1, int(width), -1) for a in data[1:]])).sum(1)
    np.testing.assert_array_equal(expected, (wrapped.astype("i4") if dtype == "i32" else wrapped).reshape(expected.shape))
    program = scheduled(graph)
    (found,) = run_program(program, data, {})
    np.testing.assert_array_equal(found, expected)
    (found,) = execute(program, data)
    np.testing.assert_array_equal(found, expected)


def test_sums_of_products_of_places_leave_out_lanes_that_do_not_exist() -> None:
    """Nothing is loaded there, so nothing is 0 by itself."""
    s = Sketch("product", "m=5 k=77", [Input("y", ("m",), "i64", "m")])
    place = s.op("add", s.cast(s.op("iota", attr=("k",)), "i64"), s.builder.add("constant", attr=(3,), dtype="i64"))
    s.output(s.op("mul", s.op("contract", place, place, attr=(("k",),), dtype="i64"), 0), "m", "i64")
    agrees(s.graph(), scheduled(s.graph()))


@pytest.mark.parametrize("predicate", ["lt", "le", "gt", "ge", "eq", "ne"])
def test_kernels_compare_all_bits_of_integers(predicate: str) -> None:
    """Only Triton's integers have as many as their type says."""
    s = Sketch("pick", "m=14 n=14", [Input("a", ("m",), "i64", "m"), Input("b", ("n",), "i64", "n")])
    s.output(s.op("select", s.op("compare", 0, 1, attr=(predicate,)), 1.0, 2.0), "m n", "f32")
    graph, data = s.graph(), [np.array(FAR)] * 2
    (found,) = execute(scheduled(graph), data)
    np.testing.assert_array_equal(found, evaluate(graph, data, {})[0])


@pytest.mark.parametrize("cast", ["", "i32"])
@pytest.mark.parametrize("walked", ["", "peeled", "branching"])
@pytest.mark.parametrize("predicate", ["lt", "le", "gt", "ge"])
def test_lengths_of_64_bits_bound_loops(predicate: str, walked: str, cast: str) -> None:
    """One beyond all indices admits all or none; one that the program cuts to 32 bits bounds as what is left."""
    inputs = [Input("x", ("m", "n"), "f32", "m n"), Input("length", ("m",), "i64", "m")]
    s = Sketch("top", "m=28 n=77", inputs)
    key, length = s.cast(s.op("iota", attr=("n",)), cast or "i64"), s.cast(1, cast) if cast else 1
    s.output(s.reduce("max", s.op("select", s.op("compare", key, length, attr=(predicate,)), 0, -INFINITY), "n"), "m", "f32")
    graph = s.graph()
    dims = (Dim("m", ("m",), "grid", 2), Dim("n", ("n",), "loop", 16))
    program = planned(graph, Plan(dims, ("m",), peeled=walked == "peeled", branching=walked == "branching"))
    rows = np.random.default_rng(0).standard_normal((28, 77)).astype(np.float32)
    data = [rows, np.repeat(np.array(FAR), 2)]
    (found,) = execute(program, data)
    wanted = [rows, data[1].astype(np.int32) if cast else data[1]]
    where = {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}[predicate](np.arange(77), wanted[1][:, None])
    np.testing.assert_array_equal(found, np.where(where, rows, -INFINITY).max(1))


def test_lengths_of_both_types_bound_alike() -> None:
    """What a loop's end depends on is known through 64 bits too."""
    varying: list[frozenset[str]] = []
    for dtype in ("i32", "i64"):
        s = Sketch("top", "m=28 n=77", [Input("x", ("m", "n"), "f32", "m n"), Input("length", ("m",), dtype, "m")])
        seen = s.op("compare", s.cast(s.op("iota", attr=("n",)), dtype), 1, attr=("lt",))
        s.output(s.reduce("max", s.op("select", seen, 0, -INFINITY), "n"), "m", "f32")
        work = work_of(s.graph())
        kernel = KernelEmitter(work, Plan((Dim("m", ("m",), "grid", 1), Dim("n", ("n",), "loop", 16)), ("m",))).kernel()
        varying.append(Measure(kernel, work.sizes).varying)
    assert varying == [frozenset("m")] * 2


@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("dtype", ["i32", "i64", "index"])
@pytest.mark.parametrize("wanted", ["f32", "f64", "i64", "same"])
@pytest.mark.parametrize("size", [0, 5])
def test_what_nothing_is_reduced_to_is_that_of_the_type_of_the_result(kind: str, dtype: str, wanted: str, size: int) -> None:
    """On all levels, for floats an infinity."""
    out = dtype if wanted == "same" else wanted
    s = Sketch("top", "m=m", [Input("x", ("m",), dtype, "m")], [Symbol("m", (7,))])
    s.output(s.op("reduce", 0, attr=(kind, ("m",)), dtype=out), "", out)
    graph, data = s.graph(), [np.arange(3, 3 + size)]
    program = scheduled(graph, {"m": 7}, ["m"])
    bits = 31 if out in ("i32", "index") else 63
    nothing = (INFINITY if out in ("f32", "f64") else 2**bits - 1) * (-1 if kind == "max" else 1)
    if kind == "max" and out not in ("f32", "f64"):
        nothing = -(2**bits)
    expected = nothing if not size else 3 + size - 1 if kind == "max" else 3
    assert evaluate(graph, data, {"m": size})[0] == expected
    assert run_program(program, data, {"m": size})[0] == expected
    assert execute(program, data, {"m": size})[0] == expected


@pytest.mark.parametrize("kind", ["max", "min"])
def test_the_last_place_where_there_may_be_none(kind: str) -> None:
    s = Sketch("top", "m=m", [], [Symbol("m", (7,))])
    s.output(s.op("reduce", s.op("iota", attr=("m",)), attr=(kind, ("m",))), "", "i64")
    program = scheduled(s.graph(), {"m": 7}, ["m"])
    for size in (0, 1, 9):
        (expected,) = evaluate(s.graph(), [], {"m": size})
        assert run_program(program, [], {"m": size})[0] == execute(program, [], {"m": size})[0] == expected
