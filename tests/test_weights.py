"""Dividing programs by what depends on weights alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from cleave.algebra.probes import Probe, results
from cleave.bridge.alg import graph_op, graphs_of
from cleave.dialects.alg import GraphOp
from cleave.graph import FLOATS, Graph, Input, Op, Output
from cleave.layouts import layout_axes
from cleave.passes.alg_bind import AlgBindPass
from cleave.passes.alg_superoptimize import AlgSuperoptimizePass
from cleave.reference.dtypes import Array
from cleave.weights import divided, restricted
from tests.alg_programs import graph_from, parsed
from tests.random_programs.test_random_programs import close
from tests.strategies import alg_programs, random_inputs, symbol_sizes


def both(bodies: tuple[Graph, ...], inputs: list[Array], chunks: int = 2) -> list[list[Array]]:
    """The results of every body in two parts, where it has chunks in so many."""
    parts = divided(bodies)
    assert parts is not None
    first = results(Probe(parts.first, {}), [inputs[place] for place in parts.inputs], np.float64)
    assert all(sorted(layout_axes(entry.layout)) == sorted(entry.axes) for body in parts.rest for entry in body.inputs)
    return [
        results(Probe(body, {symbol.name: chunks for symbol in body.symbols}), [*inputs, *map(np.asarray, first)], np.float64)
        for body in parts.rest
    ]


def test_two_parts_are_the_program() -> None:
    """In float64, so that the two sides differ by the order of sums at most."""
    found: list[bool] = []

    @settings(
        max_examples=120,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=(HealthCheck.too_slow,),
        phases=[Phase.generate],
    )
    @given(alg_programs(most=12), symbol_sizes(), st.integers(0, 99))
    def law(text: str, sizes: dict[str, int], seed: int) -> None:
        found.extend(agrees(text, sizes, seed))

    law()
    assert sum(found) > 100, "programs with something to compute first"


def agrees(text: str, sizes: dict[str, int], seed: int) -> Iterator[bool]:
    """The results times another input, all inputs but that and each in turn being weights: whether there were two parts."""
    module = parsed(text)
    (written,) = graphs_of(next(op for op in module.walk() if isinstance(op, GraphOp)))
    AlgBindPass(sizes=",".join(f"{symbol.name}={sizes[symbol.name]}" for symbol in written.symbols)).apply(Context(), module)
    (bound,) = graphs_of(next(op for op in module.walk() if isinstance(op, GraphOp)))
    graph = scaled(bound)
    inputs = [*random_inputs(bound, {}, seed), np.asarray(1.5)]
    wanted = results(Probe(graph, {}), inputs, np.float64)
    for other in range(len(graph.inputs)):
        entries = tuple(replace(entry, weight=place not in (other, len(bound.inputs))) for place, entry in enumerate(graph.inputs))
        marked = replace(graph, inputs=entries)
        parts = divided((marked,))
        if parts is not None:
            for part in (parts.first, *parts.rest):
                ModuleOp([graph_op(part)]).verify()
            assert close(both((marked,), inputs)[0], wanted)
        yield parts is not None


def scaled(graph: Graph) -> Graph:
    """The graph with its floating results multiplied by one more input."""
    count = len(graph.ops)
    ops = [*graph.ops, Op("input", (), (), "f32", (len(graph.inputs),))]
    outputs: list[Output] = []
    for output in graph.outputs:
        value = graph.ops[output.value]
        if value.dtype in FLOATS:
            ops.append(Op("mul", (output.value, count), value.axes, value.dtype))
            output = replace(output, value=len(ops) - 1)
        outputs.append(output)
    places = (*graph.places, *[""] * (len(ops) - count)) if graph.places else ()
    return replace(graph, inputs=(*graph.inputs, Input("other", (), "f32", "")), ops=tuple(ops), outputs=tuple(outputs), places=places)


PRODUCT = """
alg.graph @product axes [m = 4, k = 8, l = 2, n = 8]
    (%x: !alg.tensor<[m, k], f32>, %a: !alg.tensor<[k, l], f32> weight, %b: !alg.tensor<[l, n], f32> layout "n l" weight)
    -> (!alg.tensor<[m, n], f32>) {
  %ab = alg.contract %a, %b over [l] : !alg.tensor<[k, n], f32>
  %y = alg.contract %x, %ab over [k] : !alg.tensor<[m, n], f32>
  alg.yield %y : !alg.tensor<[m, n], f32>
}
"""


def kinds(graph: Graph) -> list[str]:
    return [op.kind for op in graph.ops if op.kind != "input"]


def test_a_product_of_weights_is_computed_first() -> None:
    """It lies in memory as the larger of the weights does."""
    graph = graph_from(PRODUCT)
    parts = divided((graph,))
    assert parts is not None and parts.inputs == (1, 2)
    assert kinds(parts.first) == ["contract"] and kinds(parts.rest[0]) == ["contract"]
    assert [entry.name for entry in parts.rest[0].inputs] == ["x", "a", "b", "prepared_0"]
    assert parts.first.outputs[0].layout == parts.rest[0].inputs[3].layout == "n k"


def test_alternatives_share_what_is_computed_first() -> None:
    """Found by the search, that counts it as done; each alternative has the same value, whether it reads the product or not."""
    module = parsed(PRODUCT)
    AlgSuperoptimizePass(hoist=True).apply(Context(), module)
    bodies = graphs_of(next(op for op in module.walk() if isinstance(op, GraphOp)))
    parts = divided(bodies)
    assert len(bodies) > 1 and parts is not None and len(parts.first.outputs) == 1
    read = [any(op.attr == (3,) for op in body.ops if op.kind == "input" and body.users()[body.ops.index(op)]) for body in parts.rest]
    assert read[0] and not all(read)
    inputs = random_inputs(bodies[0], {}, 0)
    for found in both(bodies, inputs):
        assert close(found, results(Probe(bodies[0], {}), inputs, np.float64))


@pytest.mark.parametrize("chunks", [1, 4, 7])
def test_weights_are_cut_into_chunks_afterwards(chunks: int) -> None:
    """The product of gain and weight is computed whole, also where k is in chunks, of which 7 do not divide it."""
    module = parsed(
        """
        alg.graph @gain axes [m = 4, k = 300, n = 8]
            (%x: !alg.tensor<[m, k], f32>, %g: !alg.tensor<[k], f32> weight, %w: !alg.tensor<[k, n], f32> weight)
            -> (!alg.tensor<[m, n], f32>) {
          %gw = alg.mul %g, %w : !alg.tensor<[k, n], f32>
          %y = alg.contract %x, %gw over [k] : !alg.tensor<[m, n], f32>
          alg.yield %y : !alg.tensor<[m, n], f32>
        }
        """
    )
    AlgSuperoptimizePass(hoist=True).apply(Context(), module)
    bodies = graphs_of(next(op for op in module.walk() if isinstance(op, GraphOp)))
    parts = divided(bodies)
    assert parts is not None and [kinds(parts.first), len(parts.first.outputs)] == [["mul"], 1]
    assert any("split" in kinds(body) and "mul" not in kinds(body) for body in parts.rest)
    inputs = random_inputs(bodies[0], {}, 0)
    for found in both(bodies, inputs, chunks):
        assert close(found, results(Probe(bodies[0], {}), inputs, np.float64))


TOGETHER = """
alg.graph @together axes [m = 3, d = 4, n = 5, k = 2, c = 7]
    (%x: !alg.tensor<[m, d], f32>, %w: !alg.tensor<[d, n, k], f32> layout "{layout}" weight, %v: !alg.tensor<[d, k], f32> weight)
    -> (!alg.tensor<[m, c], f32>) {{
  %u = alg.reduce sum %w over [k] : !alg.tensor<[d, n], f32>
  %q = alg.concat %u, %v along [n, k] into c : !alg.tensor<[d, c], f32>
  %y = alg.contract %x, %q over [d] : !alg.tensor<[m, c], f32>
  alg.yield %y : !alg.tensor<[m, c], f32>
}}
"""


@pytest.mark.parametrize(("layout", "wanted"), [("d n k", "d c"), ("n d k", "d c"), ("n k d", "c d"), ("k n d", "c d"), ("(n k) d", "c d")])
def test_what_is_put_together_lies_as_the_largest_weight(layout: str, wanted: str) -> None:
    """Which may have several of the axes that parts are put together along."""
    graph = graph_from(TOGETHER.format(layout=layout))
    inputs = random_inputs(graph, {}, 0)
    (found,) = both((graph,), inputs)
    assert close(found, results(Probe(graph, {}), inputs, np.float64))
    parts = divided((graph,))
    assert parts is not None and parts.rest[0].inputs[-1].layout == wanted


def test_only_what_is_wanted_is_computed() -> None:
    graph = graph_from(
        """
        alg.graph @two axes [m = 4, k = 8]
            (%x: !alg.tensor<[m, k], f32>, %w: !alg.tensor<[k], f32> weight) -> (!alg.tensor<[m, k], f32>, !alg.tensor<[m, k], f32>) {
          %e = alg.exp %w : !alg.tensor<[k], f32>
          %t = alg.tanh %w : !alg.tensor<[k], f32>
          %a = alg.mul %x, %e : !alg.tensor<[m, k], f32>
          %b = alg.mul %x, %t : !alg.tensor<[m, k], f32>
          alg.yield %a, %b : !alg.tensor<[m, k], f32>, !alg.tensor<[m, k], f32>
        }
        """
    )
    parts = divided((graph,))
    assert parts is not None and kinds(parts.first) == ["exp", "tanh"] and kinds(parts.rest[0]) == ["mul", "mul"]
    kept = restricted(parts.first, [1])
    assert kinds(kept) == ["tanh"] and len(kept.inputs) == 1


@pytest.mark.parametrize("dtype, first", [("i32", True), ("i64", True), ("i1", False)])
def test_weights_of_integers_count_as_many_bytes_as_they_have(dtype: str, first: bool) -> None:
    """Their floats are kept where those are not larger."""
    graph = graph_from(
        f"""
        alg.graph @quantized axes [m = 4, k = 8, n = 8]
            (%x: !alg.tensor<[m, k], f32>, %w: !alg.tensor<[k, n], {dtype}> weight, %s: !alg.tensor<[n], f32> weight)
            -> (!alg.tensor<[m, n], f32>) {{
          %f = alg.cast %w : !alg.tensor<[k, n], f32>
          %v = alg.mul %f, %s : !alg.tensor<[k, n], f32>
          %y = alg.contract %x, %v over [k] : !alg.tensor<[m, n], f32>
          alg.yield %y : !alg.tensor<[m, n], f32>
        }}
        """
    )
    parts = divided((graph,))
    assert (parts is not None and kinds(parts.first) == ["cast", "mul"]) is first


STAYS = {
    "nothing is computed": ("%y = alg.mul %x, %w : M",),
    "only moved": ("%s = alg.rename %v [h -> k] : K", "%y = alg.mul %x, %s : M"),
    "larger than its weights": ("%o = alg.mul %w, %v : !alg.tensor<[k, h], f32>", "%y = alg.contract %x, %o over [h] : M"),
    "of unknown size": ("%o = alg.mul %u, %u : !alg.tensor<[d], f32>", "%r = alg.reduce sum %o over [d] : f32", "%y = alg.mul %x, %r : M"),
    "of no weight": ("%o = alg.exp %x : M", "%y = alg.mul %x, %o : M"),
    "a mask": ("%i = alg.iota k : I", "%c = alg.compare lt %i, %i : !alg.tensor<[k], i1>", "%y = alg.select %c, %x, %x : M"),
    "a result": ("%z = alg.exp %w : K", "%y = alg.mul %x, %w : M"),
}  # fmt: skip


@pytest.mark.parametrize("why", STAYS)
def test_what_stays(why: str) -> None:
    results = "%y, %z : M, K" if why == "a result" else "%y : M"
    text = f"""
        alg.graph @stays axes [m = 4, k = 8, h = 8, d = ?]
            (%x: M, %w: K weight, %v: !alg.tensor<[h], f32> weight, %u: !alg.tensor<[d], f32> weight) -> ({results.split(":")[1]}) {{
          {" ".join(STAYS[why])}
          alg.yield {results}
        }}
        """
    text = text.replace("M", "!alg.tensor<[m, k], f32>").replace(" K", " !alg.tensor<[k], f32>").replace(" I", " !alg.tensor<[k], index>")
    assert divided((graph_from(text),)) is None
