"""The dtypes of programs that leave the algebra."""

from __future__ import annotations

from dataclasses import replace

from cleave.algebra.dtypes import assign_types, widest, widest_input_type
from cleave.bridge.alg import Alternative, alternatives_op
from tests.search.programs import Write, attention
from tests.search.questions import ops_of


def test_contractions_get_the_type_asked_for_and_everything_else_f32() -> None:
    """Operands are cast before and results declared; old casts between floats are gone."""
    typed = assign_types(attention(), lambda _: "bf16")
    for i in ops_of(typed, "contract"):
        assert [typed.ops[arg].dtype for arg in typed.ops[i].args] == ["bf16", "bf16"]
        assert typed.ops[i].dtype == "f32"
    assert all(typed.ops[arg].dtype == "f32" for kind in ("exp", "div", "mul") for i in ops_of(typed, kind) for arg in typed.ops[i].args)
    assert typed.ops[typed.outputs[0].value].dtype == "f16"


def test_integers_and_truth_values_keep_theirs() -> None:
    """Indices are compared as they are; an index that meets real arithmetic is cast."""
    w = Write({"m": "m", "n": "n"}, {"x": "m n"})
    i, j = (w("iota", attr=(axis,), dtype="index") for axis in ("m", "n"))
    mask = w("compare", j, i, attr=("le",), dtype="i1")
    slope = w("mul", w("sub", j, i, dtype="index"), w.args[0])
    typed = assign_types(w.done(w("select", mask, slope, float("-inf"))), lambda _: "f32")
    (compare,), (product,) = ops_of(typed, "compare"), ops_of(typed, "mul")
    assert {typed.ops[arg].dtype for arg in typed.ops[compare].args} == {"index"}
    assert {typed.ops[arg].dtype for arg in typed.ops[product].args} == {"f32"}


def test_a_program_on_doubles_stays_in_doubles() -> None:
    graph = attention()
    graph = replace(
        graph,
        inputs=tuple(replace(entry, dtype="f64") for entry in graph.inputs),
        ops=tuple(replace(op, dtype="f64") if op.kind == "input" else op for op in graph.ops),
    )
    typed = assign_types(graph, lambda _: "f64")
    assert {typed.ops[i].dtype for i in ops_of(typed, "exp")} == {"f64"}
    assert widest_input_type(graph) == "f64"


def test_the_widest_of_two_half_types_is_f32() -> None:
    assert widest(["f16", "bf16"]) == "f32"
    assert widest(["bf16", "i1", "bf16"]) == "bf16"
    assert widest([]) == "f32"


def test_numbers_become_truth_values_and_integers_where_these_are_asked_for() -> None:
    """0.0 as a condition is false; a number as a truth value asks whether it is not 0; the number 3.0 is compared with an index as 3."""
    w = Write({"m": "m"}, {"x": "m"})
    never = w("select", w("constant", attr=(0.0,), dtype="f32"), w.args[0], 1.0)
    mask = w("cast", w("compare", w("iota", attr=("m",), dtype="index"), w("constant", attr=(3.0,), dtype="f32"), attr=("lt",), dtype="i1"))
    both = w(
        "and", w("mul", mask, 2.0), w("compare", w.args[0], w("constant", attr=(0,), dtype="i64"), attr=("gt",), dtype="i1"), dtype="i1"
    )
    typed = assign_types(w.done(w("select", both, never, 0.0)), lambda _: "f32")
    types = {
        kind: [[typed.ops[arg].dtype for arg in typed.ops[i].args] for i in ops_of(typed, kind)] for kind in ("select", "compare", "and")
    }
    assert types == {"select": [["i1", "f32", "f32"]] * 2, "compare": [["index", "index"], ["f32", "f32"]], "and": [["i1", "i1"]]}
    assert False in [op.attr[0] for op in typed.ops if op.kind == "constant" and op.dtype == "i1"]
    alternatives_op([Alternative("typed", typed)]).verify()
