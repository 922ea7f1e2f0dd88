"""Coefficients go where they cost least, and only where that is worth something."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleave.bench.search_programs import attention, low_rank
from cleave.bench.writing import Write
from cleave.graph import Graph
from cleave.reference import evaluate
from cleave.search import SearchOptions, superoptimize
from cleave.search.cost import hinted_sizes
from cleave.search.scales import placed
from cleave.search.verify import Verifier
from cleave.search.work import work


def scaled_product(weight: bool = False) -> Graph:
    """0.3 (x w) with few k: scaling the result is a tenth of all work."""
    w = Write({"m": "m", "k": 16, "n": 4096}, {"x": "m k", "w": "k n"}, dtype="f32")
    if weight:
        w.builder.inputs = [w.builder.inputs[0], w.builder.inputs[1].__class__("w", ("k", "n"), "f32", "k n", True)]
    x, weight_ = w.args
    return w.done(w("mul", w.dot("k", x, weight_), 0.3), dtype="f32")


def scaled_operands(graph: Graph) -> list[tuple[str, ...]]:
    """The axes of what is multiplied by a constant."""
    return [op.axes for op in graph.ops if op.kind == "mul" and any(graph.ops[arg].kind == "constant" for arg in op.args)]


def test_the_smallest_operand_takes_the_coefficient() -> None:
    graph = scaled_product()
    found = superoptimize(graph).alternatives[1].graph
    assert scaled_operands(found) == [("m", "k")]
    assert work(found, hinted_sizes(found)) < 0.95 * work(graph, hinted_sizes(graph))


def test_weights_take_it_for_nothing_where_they_are_made_at_load_time() -> None:
    found = superoptimize(scaled_product(weight=True), SearchOptions(hoist=True)).alternatives[1].graph
    assert scaled_operands(found) == [("k", "n")]


def test_there_is_one_form_for_all_coefficients() -> None:
    """Two coefficients have four places each: the list has the program, and the one with both at the best."""
    w = Write({"m": "m", "k": 16, "n": 4096}, {"x": "m k", "w": "k n"}, dtype="f32")
    x, weight = w.args
    graph = w.done(w("div", w("mul", w.dot("k", w("mul", x, 0.7), weight), 0.3), w("size", attr=("n",), dtype="index")), dtype="f32")
    result = superoptimize(graph)
    assert len(result.alternatives) <= 3
    assert {axes for entry in result.alternatives[1:] for axes in scaled_operands(entry.graph)} <= {("m", "k"), ("m", "n")}


@pytest.mark.parametrize("graph", [attention(), low_rank(False)], ids=["attention", "low rank"])
def test_what_is_worth_nothing_is_left_alone(graph: Graph) -> None:
    """An exponential takes the scale of logits in; next to 8192 multiplications a coefficient is none."""
    assert placed(graph, hinted_sizes(graph)) is None


def test_what_others_read_is_not_scaled() -> None:
    w = Write({"m": "m", "k": 16, "n": 4096}, {"x": "m k", "w": "k n"}, dtype="f32")
    x, weight = w.args
    product = w.dot("k", x, weight)
    graph = w.done(w("mul", product, 0.3), product, dtype="f32")
    assert placed(graph, hinted_sizes(graph)) is None


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_the_value_stays(data: st.DataObject) -> None:
    """Random chains of linear operations with coefficients between them; float64 and the verifier agree that nothing changed."""
    w = Write({"m": 512, "k": 4, "n": 512}, {"x": "m k", "w": "k n", "y": "m n"}, dtype="f64")
    x, weight, y = w.args
    value = w.dot("k", x, weight)
    for _ in range(data.draw(st.integers(1, 4))):
        match data.draw(st.sampled_from(("mul", "div", "scale", "over", "neg", "scale below"))):
            case "mul" | "div" as kind:
                value = w(kind, value, y, dtype="f64")
            case "scale":
                value = w("mul", data.draw(st.sampled_from((0.5, -1.5, 3.0))), value, dtype="f64")
            case "over":
                value = w("div", value, w("size", attr=(data.draw(st.sampled_from("mkn")),), dtype="index"), dtype="f64")
            case "neg":
                value = w("neg", value, dtype="f64")
            case _:
                value = w("mul", value, w("mul", y, 0.25, dtype="f64"), dtype="f64")
    graph = w.done(w("mul", value, 0.3, dtype="f64"), dtype="f64")
    found = placed(graph, hinted_sizes(graph))
    if found is None:
        return
    assert work(found, hinted_sizes(found)) < work(graph, hinted_sizes(graph))
    assert Verifier(graph, 0).problem(found) is None
    rng = np.random.default_rng(0)
    inputs = [rng.uniform(0.5, 2.0, [graph.axis(axis).extent.constant or 0 for axis in entry.axes]) for entry in graph.inputs]
    np.testing.assert_allclose(evaluate(found, inputs, {})[0], evaluate(graph, inputs, {})[0], rtol=1e-12)
