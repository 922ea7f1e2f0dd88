"""Laws of `alg-concat-weights` on random programs with several products of one operand, and which products it leaves alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from torch import Tensor
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

import cleave
from cleave import choosing
from cleave.algebra.probes import Probe, results
from cleave.beside import beside
from cleave.bridge.alg import alternatives_of, graphs_of
from cleave.dialects.alg import GraphOp
from cleave.graph import Graph
from cleave.parsing import verify
from cleave.passes.alg_concat_weights import AlgConcatWeightsPass
from cleave.passes.alg_stabilize import AlgStabilizePass
from cleave.weights import divided
from tests.alg_programs import graph_from, parsed
from tests.random_programs.test_random_programs import close
from tests.strategies import random_inputs


def graphs(module: ModuleOp) -> tuple[Graph, ...]:
    return graphs_of(next(op for op in module.walk() if isinstance(op, GraphOp)))


@st.composite
def projections(draw: st.DrawFn) -> str:
    """
    Products of one or two operands with up to four weights each, of which some are computed, some cast from another type and some of one
    axis, each read by another operation.
    """
    count = draw(st.integers(2, 4))
    sizes = [draw(st.integers(1, 5)) for _ in range(count)]
    dtype = draw(st.sampled_from(("f16", "f32")))
    weights: list[str] = []
    lines: list[str] = []
    outs: list[tuple[str, str]] = []
    for number in range(count):
        axis = f"n{draw(st.integers(0, number))}"
        own = draw(st.sampled_from((dtype, dtype, "f16", "f64", "i32", "i1")))
        weights.append(f'%w{number}: !alg.tensor<[d, {axis}], {own}> layout "{draw(st.sampled_from((f"d {axis}", f"{axis} d")))}" weight')
        weight = f"%w{number}"
        if own != dtype:
            lines.append(f"%c{number} = alg.cast {weight} : !alg.tensor<[d, {axis}], {dtype}>")
            weight = f"%c{number}"
        if draw(st.booleans()):
            lines.append(f"%v{number} = alg.{draw(st.sampled_from(('neg', 'relu')))} {weight} : !alg.tensor<[d, {axis}], {dtype}>")
            weight = f"%v{number}"
        operand = draw(st.sampled_from(("%x", "%x", "%y")))
        lines.append(f"%p{number} = alg.contract {operand}, {weight} over [d] : !alg.tensor<[m, {axis}], f32>")
        kind = draw(st.sampled_from(("silu", "neg", "tanh")))
        lines.append(f"%q{number} = alg.{kind} %p{number} : !alg.tensor<[m, {axis}], f32>")
        outs.append((f"%q{number}", f"!alg.tensor<[m, {axis}], f32>"))
    axes = ", ".join(f"n{number} = {size}" for number, size in enumerate(sizes))
    names, types = zip(*outs, strict=True)
    rows, summed = draw(st.sampled_from((("?", "4"), ("3", "4"), ("3", "?"))))
    inputs = f"%x: !alg.tensor<[m, d], {dtype}>, %y: !alg.tensor<[m, d], {dtype}>, {', '.join(weights)}"
    body = "\n  ".join(lines)
    return f"""
alg.graph @projections axes [m = {rows}, d = {summed}, {axes}] ({inputs}) -> ({", ".join(types)}) {{
  {body}
  alg.yield {", ".join(names)} : {", ".join(types)}
}}
"""


def test_random_products_keep_their_value() -> None:
    """In float64 the two sides differ by the order of sums at most; so do the two parts that weights divide a program into."""
    found: list[bool] = []

    @settings(
        max_examples=300,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=(HealthCheck.too_slow,),
        phases=[Phase.generate],
    )
    @given(projections(), st.integers(0, 99))
    def law(text: str, seed: int) -> None:
        module = parsed(text)
        (written,) = graphs(module)
        sizes = {symbol.name: 3 for symbol in written.symbols}
        inputs = random_inputs(written, sizes, seed)
        wanted = results(Probe(written, sizes), inputs, np.float64)
        AlgConcatWeightsPass().apply(Context(), module)
        AlgStabilizePass().apply(Context(), module)
        verify(module)
        after = graphs(module)
        found.append(len(after) > 1)
        for graph in after:
            assert close(results(Probe(graph, sizes), inputs, np.float64), wanted)
        parts = divided(after) if len(after) > 1 else None
        assert (parts is not None) == (len(after) > 1), "what is put together is prepared"
        if parts is not None:
            assert all(op.kind != "concat" for body in parts.rest for op in body.ops)
            first = results(Probe(parts.first, {}), [inputs[place] for place in parts.inputs], np.float64)
            for body in parts.rest:
                assert close(results(Probe(body, sizes), [*inputs, *map(np.asarray, first)], np.float64), wanted)

    law()
    assert 100 < sum(found) < len(found)


GATED = """
alg.graph @gated axes [m = 3, d = 4, n = 5, h = 2]
    (%x: !alg.tensor<[m, d], f16>, %a: !alg.tensor<[d, n], f16> layout "d n"{first},
     %b: !alg.tensor<[{axes}], f16> layout "{axes_in_memory}" weight)
    -> (!alg.tensor<[m, n], f32>, !alg.tensor<[{out}], f32>) {{
  %p = alg.contract %x, %a over [d] : !alg.tensor<[m, n], f32>
  %q = alg.contract %x, %b over [{over}] : !alg.tensor<[{out}], f32>
  alg.yield %p, %q : !alg.tensor<[m, n], f32>, !alg.tensor<[{out}], f32>
}}
"""


def gated(first: str = " weight", axes: str = "d, n", out: str = "m, n", over: str = "d") -> Graph:
    return graph_from(GATED.format(first=first, axes=axes, axes_in_memory=axes.replace(",", ""), out=out, over=over))


def test_two_weights_become_one_that_lies_as_they_do() -> None:
    made = beside(gated())
    assert made is not None
    kinds = [op.kind for op in made.ops]
    assert kinds.count("contract") == 1 and kinds.count("slice") == 2
    parts = divided((made,))
    assert parts is not None
    entry = parts.rest[0].inputs[-1]
    assert (entry.layout, entry.dtype, made.axis("n_1").extent.constant) == ("d n_1", "f16", 10)
    # A product of matrices of 16 bits is stored in these.
    product = next(at for at, op in enumerate(made.ops) if op.kind == "contract")
    assert [made.ops[user].dtype for user in made.users()[product]] == ["f16"]


@pytest.mark.parametrize(
    "graph",
    [
        gated(first=""),
        gated(axes="h, d, n", out="m, n, h"),
        gated(axes="m, d, n", out="m, n"),
        gated(axes="d", out="m"),
        gated(axes="d, n", out="n", over="m, d"),
    ],
    ids=["one is no weight", "another has two axes", "a batch axis", "a vector", "another sum"],
)
def test_other_products_are_left_alone(graph: Graph) -> None:
    assert beside(graph) is None


def test_a_weight_that_is_used_twice_is_there_once() -> None:
    text = """
alg.graph @twice axes [m = 3, d = 4, n = 5, k = 2]
    (%x: !alg.tensor<[m, d], f32>, %a: !alg.tensor<[d, n], f32> weight, %b: !alg.tensor<[d, k], f32> weight)
    -> (!alg.tensor<[m, n], f32>, !alg.tensor<[m, k], f32>, !alg.tensor<[m, n], f32>) {
  %p = alg.contract %x, %a over [d] : !alg.tensor<[m, n], f32>
  %q = alg.contract %x, %b over [d] : !alg.tensor<[m, k], f32>
  %r = alg.contract %a, %x over [d] : !alg.tensor<[m, n], f32>
  alg.yield %p, %q, %r : !alg.tensor<[m, n], f32>, !alg.tensor<[m, k], f32>, !alg.tensor<[m, n], f32>
}
"""
    graph = graph_from(text)
    made = beside(graph)
    assert made is not None and made.axis("n_k").extent.constant == 7
    inputs = random_inputs(graph, {}, 0)
    assert close(results(Probe(made, {}), inputs, np.float64), results(Probe(graph, {}), inputs, np.float64))


def scaled_inside(x: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    zero = torch.zeros((), dtype=x.dtype)
    return torch.addmm(zero, x, a, alpha=1e-3), torch.addmm(zero, x, b, alpha=1e-3)


def wide(x: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    return torch.mm(x, a, out_dtype=torch.float32) * 1e-3, torch.mm(x, b, out_dtype=torch.float32) * 1e-3


def scaled_before(x: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    return (x * 1e-3) @ a, (x * 5e-4) @ b


def in_f32(x: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    return x.float() @ a.float() * 1e-3, x.float() @ b.float() * 1e-3


@pytest.mark.parametrize("function", [scaled_inside, wide, scaled_before, in_f32])
def test_what_pytorch_keeps_in_more_bits_does_not_overflow(
    function: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The products of the operands are beyond the largest f16, 65504; scaled, which PyTorch does before it rounds, they are not."""
    plain = choosing.searched

    def only_beside(module: ModuleOp, *more: Any) -> tuple[tuple[Graph, ...], dict[str, str], int]:
        _, texts, count = plain(module, *more[:3])
        found = alternatives_of(next(op for op in module.walk() if isinstance(op, GraphOp)))
        return tuple(entry.graph for entry in found if entry.name.endswith(" beside")), texts, count

    monkeypatch.setattr(choosing, "searched", only_beside)
    x = torch.full((4, 32), 3e3, dtype=torch.float16)
    a, b = (torch.full((32, size), 1.0 + size / 16, dtype=torch.float16) for size in (8, 16))
    found = cleave.compile(function, x, a, b, weights=("a", "b"), cache=False)(x, a, b)
    wanted = [x.double() @ weight.double() * scale for weight, scale in ((a, 1e-3), (b, 5e-4 if function is scaled_before else 1e-3))]
    for got, right in zip(found, wanted, strict=True):
        assert torch.allclose(got.double(), right, rtol=2e-3)


def test_without_timing_nothing_is_put_side_by_side() -> None:
    """Only the time it takes can speak for another copy of the weights."""
    x, a, b = (torch.ones(shape, dtype=torch.float16) for shape in ((4, 32), (32, 8), (32, 16)))
    made = cleave.compile(lambda x, a, b: (x @ a, x @ b), x, a, b, weights=(1, 2), cache=False)
    assert "beside" not in made.text("alternatives") and "prepared" not in str(made.report())


def test_products_of_halves_are_stored_in_these(monkeypatch: pytest.MonkeyPatch) -> None:
    """As PyTorch has them, so that a library may make them."""
    plain = choosing.searched
    monkeypatch.setattr(choosing, "searched", lambda module, *more: plain(module, *more[:3]))
    x, a, b = (torch.ones(shape, dtype=torch.float16) for shape in ((4, 32), (32, 8), (32, 16)))
    text = cleave.compile(lambda x, a, b: (x @ a, torch.relu(x @ b)), x, a, b, weights=(1, 2), cache=False).text("alternatives")
    assert re.search(r"alg\.contract %x, %concat.*\n.*alg\.cast %contract\w* : !alg\.tensor<\[m, n_e\], f16>", text)
