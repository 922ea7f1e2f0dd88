"""The algebra as IR and as plain values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cleave.bridge.alg import Alternative, alternatives_of, alternatives_op, graph_of, graph_op, graphs_of
from cleave.dialects.alg import OPERATIONS, GraphOp
from cleave.errors import CleaveError
from cleave.extents import Extent
from cleave.graph import Axis, Symbol
from tests.alg_programs import ALTERNATIVES, CAUSAL, EVERYTHING, graph_from, graph_op_of, parsed, printed


@pytest.mark.parametrize("text", [CAUSAL, EVERYTHING])
def test_a_graph_survives_the_way_into_ir_and_back(text: str) -> None:
    graph = graph_from(text)
    op = graph_op(graph)
    op.verify()
    assert graph_of(op) == graph
    assert graph_from(printed(op)) == graph
    assert graph_from(printed(op, generic=True)) == graph


def test_every_kind_of_operation_is_covered() -> None:
    assert {op.kind for op in graph_from(EVERYTHING).ops} == {"input", *OPERATIONS}


def test_values_and_declarations_are_those_of_the_text() -> None:
    graph = graph_from(CAUSAL)
    assert graph.symbols == (Symbol("m", (512,)), Symbol("n", (4096,), 16, True))
    assert [axis.name for axis in graph.axes] == list("bgrmnde")
    assert graph.inputs[2].weight and graph.inputs[2].layout == "b g n e" and graph.inputs[2].dtype == "f16"
    assert [op.kind for op in graph.ops[3:]] == [
        "contract", "iota", "iota", "compare", "constant", "select", "exp", "reduce", "div", "contract", "cast",
    ]  # fmt: skip
    assert graph.ops[7].attr == (float("-inf"),)
    assert graph.ops[11].attr == ("guarded",)
    assert graph.ops[12].axes == ("b", "g", "r", "m", "e")


def test_source_locations_go_both_ways() -> None:
    graph = graph_from(CAUSAL)
    assert graph.places[3] == "program.mlir:5:3"
    assert graph_of(graph_op(graph)).places[3:] == graph.places[3:]
    moved = replace(graph, places=("model.py:7",) * len(graph.ops))
    assert graph_of(graph_op(moved)).places[5] == "model.py:7:1"


def test_alternatives_come_with_the_axes_they_use() -> None:
    op = graph_op_of(ALTERNATIVES)
    written, split = alternatives_of(op)
    assert written.name == "as written" and split.phases == 2 and split.flops == "m*n + 2*m"
    assert [axis.name for axis in written.graph.axes] == ["m", "n"]
    assert [symbol.name for symbol in written.graph.symbols] == ["m", "n"]
    assert [axis.name for axis in split.graph.axes] == ["m", "n", "k", "ni"]
    assert [symbol.name for symbol in split.graph.symbols] == ["s", "m", "n"]
    reordered = replace(split.graph, symbols=(*written.graph.symbols, Symbol("s", (4,), 1, True)))
    assert graphs_of(alternatives_op([written, split])) == (written.graph, reordered)


def test_alternatives_survive_printing() -> None:
    op = alternatives_op(alternatives_of(graph_op_of(ALTERNATIVES)))
    op.verify()
    assert alternatives_of(graph_op_of(printed(op))) == alternatives_of(op)
    assert alternatives_of(graph_op_of(printed(op, generic=True))) == alternatives_of(op)


def test_a_graph_with_alternatives_is_no_single_graph() -> None:
    with pytest.raises(CleaveError, match=r"program.mlir:2:1: error: alg.graph: the graph has alternatives; run alg-select first"):
        graph_of(graph_op_of(ALTERNATIVES))


def test_alternatives_may_not_declare_an_axis_differently() -> None:
    graph = graph_from(CAUSAL)
    other = replace(graph, axes=(Axis("b", Extent("3")), *graph.axes[1:]))
    with pytest.raises(ValueError, match="'b' is declared differently"):
        alternatives_op([Alternative("one", graph), Alternative("other", other)])


def test_a_foreign_operation_is_refused_where_it_stands() -> None:
    module = parsed(
        """
        alg.graph @f axes [m = 3] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[m], f32>) {
          builtin.module { }
          alg.yield %x : !alg.tensor<[m], f32>
        }
        """
    )
    graph = module.body.block.first_op
    assert isinstance(graph, GraphOp)
    with pytest.raises(CleaveError, match=r"program.mlir:3:11: error: builtin.module: is no operation of the algebra"):
        graph_of(graph)


def test_an_alternative_keeps_what_its_chunks_are_of() -> None:
    """Also where no operation of its own uses that, nor the chunks."""
    op = graph_op_of("""
alg.graph @f axes [n = ?(hint 7), s = ?(hint 2, positive), k = n, ni = ceildiv(n, s) chunk of n by s]
    (%x: !alg.tensor<[k], f32>) -> (!alg.tensor<[k], f32>) {
  alg.alternatives
    alternative "as written" {
      %dead = alg.rename %x [k -> n] : !alg.tensor<[n], f32>
      alg.yield %x
    }
    alternative "other" {
      alg.yield %x
    }
}
""")
    for graph in graphs_of(op):
        graph_op(graph).verify()
        declared = {axis.name for axis in graph.axes}
        assert declared.issuperset(other for axis in graph.axes for other in axis.chunk_of or ())
