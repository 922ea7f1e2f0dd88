"""The interpreter of the alg dialect against the evaluator of graphs, and in finite fields."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.interpreter import Interpreter

from cleave.bridge.alg import graphs_of
from cleave.graph import Graph
from cleave.reference import evaluate
from cleave.reference.alg import AlgFieldFunctions, AlgFunctions, run
from cleave.reference.dtypes import Array
from cleave.reference.memory import from_memory, to_memory
from cleave.search.fields import SHORT_TOWER
from cleave.search.values import Space, Value
from tests.alg_programs import ALTERNATIVES, CAUSAL, EVERYTHING, graph_from, graph_op_of, parsed


def arrays(graph: Graph, symbols: dict[str, int]) -> list[Array]:
    """Random inputs of the declared shapes; integers are below 3."""
    rng = np.random.default_rng(3)
    sizes = graph.sizes(symbols)
    shapes = [[sizes[axis] for axis in entry.axes] for entry in graph.inputs]
    return [
        rng.integers(0, 3, shape) if entry.dtype.startswith("i") else rng.normal(size=shape)
        for entry, shape in zip(graph.inputs, shapes, strict=True)
    ]


@pytest.mark.parametrize(("text", "name", "symbols"), [(CAUSAL, "causal", {"m": 5, "n": 16}), (EVERYTHING, "everything", {"N": 4, "s": 3})])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("respect_dtypes", [False, True])
def test_the_interpreter_agrees_with_the_evaluator(
    text: str, name: str, symbols: dict[str, int], dtype: type[np.floating], respect_dtypes: bool
) -> None:
    graph = graph_from(text)
    inputs = arrays(graph, symbols)
    found = run(parsed(text), name, inputs, AlgFunctions(symbols, dtype, respect_dtypes=respect_dtypes))
    wanted = evaluate(graph, inputs, symbols, dtype, respect_dtypes=respect_dtypes)
    outputs = graph_op_of(text).output_types
    for ours, theirs, output, entry in zip(found, wanted, outputs, graph.outputs, strict=True):
        axes = graph.ops[entry.value].axes
        lacking = [axis for axis in output.axes if axis not in axes]
        assert ours.shape == tuple(graph.sizes(symbols)[axis] for axis in output.axes)
        some = ours[tuple(0 if axis in lacking else slice(None) for axis in output.axes)]
        order = [[axis for axis in output.axes if axis not in lacking].index(axis) for axis in axes]
        np.testing.assert_array_equal(some.transpose(order), theirs)
        assert ours.dtype == theirs.dtype


def test_symbols_come_from_the_shapes_of_arguments() -> None:
    graph = graph_from(CAUSAL)
    inputs = arrays(graph, {"m": 3, "n": 7})
    found = run(parsed(CAUSAL), "causal", inputs)
    np.testing.assert_array_equal(found[0], evaluate(graph, inputs, {"m": 3, "n": 7})[0])
    inputs[1] = inputs[1][:, :, :6]
    with pytest.raises(ValueError, match="symbol 'n' is 6 in one argument and 7 in another"):
        run(parsed(CAUSAL), "causal", inputs)


def test_each_alternative_can_run_and_gives_the_same() -> None:
    x = np.random.default_rng(5).normal(size=(3, 10))
    written, split = (run(parsed(ALTERNATIVES), "mean", [x], AlgFunctions({"s": 4}, alternative=at))[0] for at in (0, 1))
    np.testing.assert_allclose(written, x.mean(1))
    np.testing.assert_allclose(split, written, rtol=1e-14)


def test_alternatives_agree_in_finite_fields() -> None:
    op = graph_op_of(ALTERNATIVES)
    points = {"m": 2, "n": 3, "k": 2, "ni": 2}
    space = Space(op.declared(), points, 3, 11, SHORT_TOWER)
    results: list[Value] = []
    for at in range(len(graphs_of(op))):
        interpreter = Interpreter(parsed(ALTERNATIVES))
        interpreter.register_implementations(AlgFieldFunctions(space, at))
        results.append(interpreter.call_op("mean", ())[0])
    np.testing.assert_array_equal(results[0].residues, results[1].residues)
    assert results[0].residues.shape[:2] == (3, 3) and len(np.unique(results[0].residues)) > 10


def test_memory_layouts() -> None:
    sizes = {"b": 2, "g": 3, "r": 2, "m": 4}
    stored = np.arange(48).reshape(2, 6, 4)
    over = from_memory(stored, "b (g r) m", ("m", "g", "r", "b"), sizes)
    assert over[1, 2, 0, 1] == stored[1, 4, 1]
    np.testing.assert_array_equal(to_memory(over, ("m", "g", "r", "b"), "b (g r) m", sizes), stored)
    repeated = to_memory(np.arange(4), ("m",), "g 1 m", sizes)
    np.testing.assert_array_equal(repeated, np.broadcast_to(np.arange(4), (3, 1, 4)))
    with pytest.raises(ValueError, match=r"shape \[2, 6, 5\] does not have layout 'b \(g r\) m', which is \[2, 6, 4\]"):
        from_memory(np.zeros((2, 6, 5)), "b (g r) m", ("m",), sizes)
