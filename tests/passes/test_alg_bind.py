"""Binding symbols to sizes keeps the value at those sizes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context

from cleave.bridge.alg import alternatives_of, graph_of
from cleave.dialects.alg import GraphOp
from cleave.errors import CleaveError
from cleave.extents import extent
from cleave.graph import Symbol
from cleave.parsing import verify
from cleave.passes.alg_bind import AlgBindPass
from cleave.reference import evaluate
from tests.alg_programs import ALTERNATIVES, CAUSAL, EVERYTHING, parsed
from tests.strategies import alg_programs, random_inputs, symbol_sizes


def bound(text: str, sizes: str = "", hints: str = "") -> GraphOp:
    module = parsed(text)
    AlgBindPass(sizes=sizes, hints=hints).apply(Context(), module)
    verify(module)
    graph = module.body.block.first_op
    assert isinstance(graph, GraphOp)
    return graph


@settings(max_examples=60)
@given(alg_programs(), symbol_sizes(), st.sets(st.sampled_from(["m", "n", "s"])), st.integers(0, 9))
def test_binding_keeps_the_value(text: str, sizes: dict[str, int], chosen: set[str], seed: int) -> None:
    """Nothing but extents changes, so results are the same to the bit."""
    before = graph_of(bound(text))
    after = graph_of(bound(text, ",".join(f"{name}={sizes[name]}" for name in sorted(chosen))))
    rest = {name: size for name, size in sizes.items() if name not in chosen}
    assert [symbol.name for symbol in after.symbols] == [symbol.name for symbol in before.symbols if symbol.name in rest]
    inputs = random_inputs(before, sizes, seed)
    for found, wanted in zip(evaluate(after, inputs, rest), evaluate(before, inputs, sizes), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_extents_in_operations_and_costs_are_bound() -> None:
    graph = graph_of(bound(EVERYTHING, "N=8"))
    position = next(op for op in graph.ops if op.kind == "index").attr[1]
    assert position == extent(2)
    assert [axis.extent.text for axis in graph.axes][:3] == ["3", "8", "17"]
    split = alternatives_of(bound(ALTERNATIVES, "m=64"))[1]
    assert split.flops == "64*n + 128" and split.bytes == "256*n + 256"


def test_hints_replace_hints() -> None:
    graph = graph_of(bound(CAUSAL, hints="n=16, n=4096"))
    assert graph.symbols == (Symbol("m", (512,)), Symbol("n", (16, 4096), 16, True))


def test_sizes_that_make_an_extent_negative_are_refused() -> None:
    text = """
alg.graph @cut axes [m = ?, r = m - 2] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[r], f32>) {
  %y = alg.slice %x m into r from 2 step 1 : !alg.tensor<[r], f32>
  alg.yield %y : !alg.tensor<[r], f32>
}"""
    with pytest.raises(CleaveError, match=r"program.mlir:2:1: error: alg.graph: axis 'r' is m - 2: extent -1 is negative at these sizes"):
        bound(text, "m=1")


@pytest.mark.parametrize(("sizes", "message"), [
    ("n=17", "program.mlir:2:1: error: alg.graph: size 17 of symbol 'n' is not a multiple of 16; give one that is"),
    ("n=0", "size 0 of symbol 'n', which is positive; give a positive size"),
    ("q=1", r"no graph declares symbol 'q' \(there are m, n\); correct the name"),
    ("n", "error: alg-bind: 'n' is not a size; write name=integer"),
    ("n=-1", "'n=-1' is not a size"),
])  # fmt: skip
def test_sizes_that_cannot_be_are_refused(sizes: str, message: str) -> None:
    with pytest.raises(CleaveError, match=message):
        bound(CAUSAL, sizes)
