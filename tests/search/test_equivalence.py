"""Whether two programs compute the same: names do not matter, differences are shown, doubts are said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from cleave.algebra import stabilize
from cleave.bench import search_programs
from cleave.bench.judging import chunked_attention
from cleave.bench.mutants import changed, mutants
from cleave.graph import Attr, Builder, Graph, Input
from cleave.reference import evaluate
from cleave.search import SearchOptions, superoptimize
from cleave.search.equivalence import equivalence
from cleave.search.matching import Mismatch, matched
from tests.alg_programs import graph_from
from tests.search.programs import Write, attention, low_rank, norm_linear, self_attention_block
from tests.strategies import alg_programs


def renamed(graph: Graph) -> Graph:
    """The same program with all axes under other names and its arguments in reverse. Layouts have one axis a dimension."""
    names = {axis.name: f"{axis.name}_x" for axis in graph.axes}

    def translated(attr: Attr) -> Attr:
        return tuple(translated(part) for part in attr) if isinstance(attr, tuple) else names.get(str(attr), attr)

    def layout(text: str) -> str:
        return " ".join(names[name] for name in text.split())

    axes = [replace(axis, name=names[axis.name]) for axis in graph.axes]
    inputs = [Input(entry.name, tuple(names[a] for a in entry.axes), entry.dtype, layout(entry.layout)) for entry in graph.inputs]
    builder = Builder("other", graph.symbols, axes, inputs[::-1])
    place: list[int] = []
    for op in graph.ops:
        if op.kind == "input":
            place.append(len(inputs) - 1 - int(str(op.attr[0])))
        else:
            attr = tuple(translated(part) for part in op.attr)
            place.append(builder.add(op.kind, *(place[arg] for arg in op.args), attr=attr, dtype=op.dtype))
    return builder.finish([replace(o, value=place[o.value], layout=layout(o.layout)) for o in graph.outputs])


@pytest.mark.parametrize("graph", [attention(True, True, True), norm_linear(), low_rank(), self_attention_block(2)])
def test_names_and_the_order_of_arguments_do_not_matter(graph: Graph) -> None:
    other = renamed(graph)
    assert other != graph
    assert equivalence(graph, other).equivalent is True
    assert equivalence(other, graph).equivalent is True


def test_one_axis_may_stand_for_two() -> None:
    """x y^T over one axis that both arguments share, and over two of which one is renamed."""
    w = Write({"m": "m", "d": 4}, {"x": "m d", "y": "m d"})
    shared = w.done(w.dot("m d", *w.args))
    u = Write({"m": "m", "n": "m", "d": 4}, {"x": "m d", "y": "n d"})
    apart = u.done(u.dot("m d", u.args[0], u.rename(u.args[1], n="m")))
    assert equivalence(shared, apart).equivalent is True
    assert equivalence(apart, shared).equivalent is True
    other = u.done(u.dot("d", u.sum("m", u.args[0]), u.sum("n", u.args[1])))
    assert equivalence(shared, other).equivalent is False


def test_a_counterexample_can_be_checked() -> None:
    """Both programs give what it says on the inputs that it prints."""
    left, right = attention(causal=True), attention(causal=True, scale=0.0884)
    found = equivalence(left, right).counterexample
    assert found is not None
    sizes = {name: found.sizes[name] for name in ("m", "n")}
    small = replace(found.graph, axes=tuple(replace(a, extent=type(a.extent)(str(found.sizes[a.name]))) for a in found.graph.axes))
    (first,) = evaluate(small, found.inputs, sizes)
    (second,) = evaluate(replace(small, ops=matched(left, right)[1].ops, outputs=matched(left, right)[1].outputs), found.inputs, sizes)
    np.testing.assert_array_equal(found.results[0], first)
    np.testing.assert_array_equal(found.results[1], second)
    assert abs(first[found.index] - second[found.index]) > 1e-8
    assert max(array.size for array in found.inputs) <= 16
    text = found.text()
    assert "(declared 128)" in text and "q [m, d] =" in text and f"result 0 differs at m = {found.index[0]}" in text


def test_partial_results_may_be_rescaled_and_joined() -> None:
    """Chunks with maxima of their own are right, the last chunk short or empty; without one rescaling they are not."""
    whole, chunks = search_programs.attention(False, False, False), chunked_attention()
    assert equivalence(whole, chunks).equivalent is True
    (rescaled, other) = [i for i, op in enumerate(chunks.ops) if op.kind == "mul" and "s" in op.axes and "ni" not in op.axes]
    for position in (rescaled, other):
        dropped = changed(chunks, position, lambda b, args: args[0])
        assert dropped is not None
        assert equivalence(whole, dropped).equivalent is False


def test_facts_that_need_counting_are_left_undecided() -> None:
    """The sum of a one-hot is 1: no floats tell the two apart, yet no field knows it."""
    w = Write({"m": "m", "n": "n"}, {"x": "m"})
    i = w("iota", attr=("n",), dtype="index")
    zero = w("constant", attr=(0,), dtype="index")
    hot = w("select", w("compare", i, zero, attr=("eq",), dtype="i1"), 1.0, 0.0)
    counted = w.done(w("mul", w.args[0], w.sum("n", hot)))
    plain = w.done(w.args[0])
    verdict = equivalence(counted, plain)
    assert verdict.equivalent is None
    assert "finite fields" in verdict.reason


def test_what_is_defined_nowhere_is_undecided() -> None:
    w = Write({"m": "m"}, {"x": "m"})
    nothing = w("sub", w.args[0], w.args[0])
    nowhere = w("div", nothing, nothing)
    assert equivalence(w.done(nowhere), w.done(w("neg", nowhere))).equivalent is None


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (Write({"m": "m", "d": 4}, {"x": "m d"}), "1 arguments|2 arguments"),
        (Write({"m": "m", "d": 5}, {"x": "m d", "y": "d"}), "axis 'd' of argument 'x' has extent 4 in one program and 5"),
        (Write({"m": "m", "d": 4}, {"x": "m d", "y": "m d"}), "argument 'y' has layout 'd' in one program and 'm d'"),
        (Write({"m": "m", "d": 4}, {"x": "m d", "y": "d"}, dtype="bf16"), "argument 'x' is f16 in one program and bf16"),
    ],
)
def test_other_arguments_cannot_be_compared(other: Write, said: str) -> None:
    w = Write({"m": "m", "d": 4}, {"x": "m d", "y": "d"})
    with pytest.raises(Mismatch, match=said):
        equivalence(w.done(w.args[0]), other.done(other.args[0]))


def test_other_results_cannot_be_compared() -> None:
    w = Write({"m": "m", "d": 4}, {"x": "m d"})
    with pytest.raises(Mismatch, match="one program has 1 results, the other 2"):
        equivalence(w.done(w.args[0]), w.done(w.args[0], w.args[0]))
    with pytest.raises(Mismatch, match="result 0 is f16 in one program and f32"):
        equivalence(w.done(w.args[0]), w.done(w.args[0], dtype="f32"))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(alg_programs())
def test_a_random_program_is_equivalent_to_what_the_search_makes_of_it(text: str) -> None:
    graph = graph_from(text)
    assert equivalence(graph, graph).equivalent is not False
    for entry in superoptimize(graph, SearchOptions(alternatives=3, classes=300, applications=1000, split_at_least=4)).alternatives:
        verdict = equivalence(graph, entry.graph)
        assert verdict.equivalent is not False, verdict.counterexample and verdict.counterexample.text()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(alg_programs(), st.integers(0, 10**6))
def test_a_mutant_of_a_random_program_is_told_apart_or_agrees(text: str, seed: int) -> None:
    """The verdict is never that a mutant is equivalent where float64 at other sizes and seeds finds a difference."""
    graph = graph_from(text)
    found = list(mutants(graph, seed, 2))
    assume(found)
    for mutant in found:
        verdict = equivalence(graph, mutant.graph)
        if verdict.equivalent:
            assert equivalence(graph, mutant.graph, seed + 1).counterexample is None, mutant.name


@pytest.mark.parametrize("causal", [False, True])
def test_a_shift_may_have_any_value(causal: bool) -> None:
    """A stabilised program is the program, also where its quotients are guarded; beside itself it has shifts of its own."""
    graph = attention(causal, False, False)
    stable = stabilize(graph)
    assert any(op.kind == "shift" for op in stable.ops)
    assert any("guarded" in op.attr for op in stable.ops)
    for first, second in ((graph, stable), (stable, graph), (stable, stable)):
        assert equivalence(first, second).equivalent is True


def test_what_depends_on_a_shift_is_not_said_to_be_equivalent() -> None:
    """Not even to itself, nor to the program with the maximum that a shift has for its meaning."""
    w = Write({"m": "m", "n": "n"}, {"x": "m n"})
    maximum = w.done(w("reduce", *w.args, attr=("max", ("n",))))
    ops = tuple(replace(op, kind="shift", attr=(("n",),)) if op.kind == "reduce" else op for op in maximum.ops)
    shifted = replace(maximum, ops=ops)
    assert equivalence(maximum, maximum).equivalent is True
    for first, second in ((maximum, shifted), (shifted, maximum), (shifted, shifted)):
        verdict = equivalence(first, second)
        assert verdict.equivalent is None
        assert "depends on the value of a shift" in verdict.reason


def test_a_shift_that_is_not_taken_back_changes_the_program() -> None:
    """Without the quotient by a sum of the same exponentials, and with another shift in it."""
    w = Write({"m": "m", "n": "n"}, {"x": "m n"})
    plain = w("exp", *w.args)
    graph = w.done(w("div", plain, w("reduce", plain, attr=("sum", ("n",)))))
    stable = stabilize(graph)
    assert equivalence(graph, stable).equivalent is True
    exponential = next(at for at, op in enumerate(stable.ops) if op.kind == "exp")
    loose = replace(stable, outputs=tuple(replace(output, value=exponential) for output in stable.outputs))
    assert equivalence(loose, loose).equivalent is None


def test_a_guard_matters_where_a_divisor_is_0() -> None:
    w = Write({"m": "m"}, {"x": "m", "y": "m"})
    x, y = w.args
    plain = w.done(w("div", x, w("relu", y)))
    ops = tuple(replace(op, attr=("guarded",)) if op.kind == "div" else op for op in plain.ops)
    assert equivalence(plain, replace(plain, ops=ops)).equivalent is False


@pytest.mark.parametrize(
    "make", [search_programs.residual_on_sphere, lambda: search_programs.layer_norm_linear(False)], ids=["sphere", "norm"]
)
def test_either_program_may_come_first(make: Callable[[], Graph]) -> None:
    """What is known of values is read off one program; the other need not show it."""
    graph = make()
    for entry in superoptimize(graph, SearchOptions(split=False, alternatives=2)).alternatives[1:]:
        assert equivalence(entry.graph, graph).equivalent is True
        assert equivalence(graph, entry.graph).equivalent is True
