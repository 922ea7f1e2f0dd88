"""The dtypes of programs that leave the algebra."""

from __future__ import annotations

from dataclasses import replace

from cleave.algebra.dtypes import assign_types, widest, widest_input_type
from tests.search.programs import Write, attention, ops_of


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
