"""Folding axes of size 1 keeps every value, and leaves none that could go."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context

from cleave.algebra import stabilized, without_unit_axes
from cleave.bridge.alg import alternatives_of, graph_of
from cleave.dialects.alg import GraphOp
from cleave.extents import extent
from cleave.graph import Attr, Graph
from cleave.layouts import layout_axes, memory_shape, without_axes
from cleave.parsing import verify
from cleave.passes.alg_bind import AlgBindPass
from cleave.passes.alg_fold_unit_axes import AlgFoldUnitAxesPass
from cleave.reference import evaluate
from cleave.reference.memory import to_memory
from tests.alg_programs import ALTERNATIVES, graph_from, parsed
from tests.strategies import alg_programs, random_inputs, symbol_sizes

REARRANGING = ("rename", "split", "merge", "slice", "index", "concat", "pad", "gather")


def folded(text: str) -> GraphOp:
    module = parsed(text)
    AlgFoldUnitAxesPass().apply(Context(), module)
    verify(module)
    graph = module.body.block.first_op
    assert isinstance(graph, GraphOp)
    return graph


def kept(graph: Graph) -> set[str]:
    """The axes that must stay whatever their size: those that operations rearrange, and those of chunks."""

    def named(attr: Attr) -> set[str]:
        return set[str]().union(*map(named, attr)) if isinstance(attr, tuple) else {attr} if isinstance(attr, str) else set()

    out = {name for axis in graph.axes if axis.chunk_of is not None for name in (axis.name, *axis.chunk_of)}
    return out.union(*(named(op.attr) for op in graph.ops if op.kind in REARRANGING))


@settings(max_examples=150)
@given(alg_programs(), symbol_sizes(), st.sets(st.sampled_from(["m", "d", "e", "k"]), min_size=1), st.booleans(), st.integers(0, 9))
def test_folding_keeps_the_value(text: str, sizes: dict[str, int], chosen: set[str], shifted: bool, seed: int) -> None:
    """In memory, to the bit: a product of one element is what a sum of one is. Also where exponentials are shifted."""
    written = stabilized(graph_from(text)).graph if shifted else graph_from(text)
    single = chosen - kept(written)
    before = replace(written, axes=tuple(replace(axis, extent=extent(1)) if axis.name in single else axis for axis in written.axes))
    (after,) = without_unit_axes([before])
    assert (after is before) == (not single)
    assert [axis.name for axis in after.axes] == [axis.name for axis in before.axes if axis.name not in single]
    assert not any(single.intersection(op.axes) for op in after.ops)
    assert without_unit_axes([after])[0] is after
    inputs = random_inputs(before, sizes, seed)
    extents = before.sizes(sizes)
    fitting = [data.reshape([extents[axis] for axis in entry.axes]) for data, entry in zip(inputs, after.inputs, strict=True)]
    for old, new in zip(before.inputs, after.inputs, strict=True):
        assert memory_shape(new.layout, extents) == memory_shape(old.layout, extents)
    found, wanted = evaluate(after, fitting, sizes), evaluate(before, inputs, sizes)
    for own, other, new, old in zip(found, wanted, after.outputs, before.outputs, strict=True):
        one, two = (
            to_memory(data, graph.ops[output.value].axes, output.layout, extents)
            for data, graph, output in ((own, after, new), (other, before, old))
        )
        np.testing.assert_array_equal(one, two)


def test_every_alternative_is_folded_and_keeps_its_name_and_cost() -> None:
    module = parsed(ALTERNATIVES)
    graph = module.body.block.first_op
    assert isinstance(graph, GraphOp)
    AlgBindPass(sizes="m=1").apply(Context(), module)
    before = alternatives_of(graph)
    AlgFoldUnitAxesPass().apply(Context(), module)
    verify(module)
    graph = module.body.block.first_op
    assert isinstance(graph, GraphOp)
    after = alternatives_of(graph)
    assert [(entry.name, entry.flops, entry.bytes) for entry in after] == [(entry.name, entry.flops, entry.bytes) for entry in before]
    assert all(any(axis.name == "m" for axis in entry.graph.axes) for entry in before)
    assert not any("m" in (*(axis.name for axis in entry.graph.axes), *op.axes) for entry in after for op in entry.graph.ops)


@pytest.mark.parametrize("order", [1, -1])
def test_alternatives_lose_the_same_axes(order: int) -> None:
    """They share arguments and results: what one of them rearranges stays in all."""
    alternatives = [
        """alternative "whole" flops "1" bytes "8" {
      %a = alg.reduce sum %x over [n, o] : f32
      alg.yield %a : !alg.tensor<[], f32>
    }""",
        """alternative "renamed" flops "2" bytes "8" {
      %y = alg.rename %x [n -> k] : !alg.tensor<[k, o], f32>
      %a = alg.reduce sum %y over [k, o] : f32
      alg.yield %a : !alg.tensor<[], f32>
    }""",
    ]
    graph = folded(f"""
alg.graph @f axes [n = 1, o = 1, k = 1] (%x: !alg.tensor<[n, o], f32>) -> (!alg.tensor<[], f32>) {{
  alg.alternatives
    {" ".join(alternatives[::order])}
}}""")
    assert [entry.graph.inputs[0].axes for entry in alternatives_of(graph)] == [("n",), ("n",)]


@pytest.mark.parametrize(("layout", "names", "wanted"), [
    ("b (h a) m d", ("m",), "b (h a) 1 d"),
    ("b (h a) m d", ("a",), "b h m d"),
    ("b (h a) m d", ("h", "a", "b"), "1 1 m d"),
    ("(h a c)", ("a",), "(h c)"),
    ("m 1", (), "m 1"),
    ("", ("m",), ""),
])  # fmt: skip
def test_layouts_keep_their_dimensions(layout: str, names: tuple[str, ...], wanted: str) -> None:
    found = without_axes(layout, names)
    assert found == wanted
    assert layout_axes(found) == tuple(axis for axis in layout_axes(layout) if axis not in names)
    sizes = {axis: 1 if axis in names else 2 + place for place, axis in enumerate(layout_axes(layout))}
    assert memory_shape(found, sizes) == memory_shape(layout, sizes)


def test_a_product_is_computed_in_the_type_of_the_contraction() -> None:
    """Factors in f16 whose product f16 cannot hold."""
    graph = graph_of(
        folded("""
alg.graph @outer axes [m = 3, n = 1] (%x: !alg.tensor<[m, n], f16>, %y: !alg.tensor<[n], f16>) -> (!alg.tensor<[m], f32>) {
  %o = alg.contract %x, %y over [n] : !alg.tensor<[m], f32>
  alg.yield %o : !alg.tensor<[m], f32>
}""")
    )
    assert [op.dtype for op in graph.ops if op.kind == "cast"] == ["f32", "f32"]
    (found,) = evaluate(graph, [np.full(3, 300.0), np.array(300.0)], {})
    np.testing.assert_array_equal(found, np.full(3, 90000.0))
