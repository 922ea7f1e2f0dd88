"""Quotients by the sums of a softmax: one reciprocal a sum, where a sum is 1 at least."""

from __future__ import annotations

import pytest

from cleave.graph import Graph
from cleave.schedule import TARGETS, schedule
from cleave.schedule.program import Let, Program, walk
from tests.alg_programs import graph_from

from .programs import agrees, attention

PART = """
alg.graph @part axes [m = 20, n = 70, h = 30, e = 16]
    (%x: !alg.tensor<[m, n], f32>, %v: !alg.tensor<[n, e], f32>) -> (!alg.tensor<[m, e], f32>) {
  %s = alg.shift %x over [n] : !alg.tensor<[m], f32>
  %y = alg.sub %x, %s : !alg.tensor<[m, n], f32>
  %p = alg.exp %y : !alg.tensor<[m, n], f32>
  %w = alg.slice %p n into h from 0 step 1 : !alg.tensor<[m, h], f32>
  %z = alg.reduce sum %w over [h] : !alg.tensor<[m], f32>
  %o = alg.contract %p, %v over [n] : !alg.tensor<[m, e], f32>
  %r = alg.div %o, %z guarded : !alg.tensor<[m, e], f32>
  alg.yield %r : !alg.tensor<[m, e], f32>
}
"""

SCALED = """
alg.graph @scaled axes [m = 20, n = 70, e = 16]
    (%x: !alg.tensor<[m, n], f32>, %v: !alg.tensor<[n, e], f32>) -> (!alg.tensor<[m, e], f32>) {{
  %a = alg.constant {of_shift} : f32
  %l = alg.mul %x, %a : !alg.tensor<[m, n], f32>
  %s = alg.shift %l over [n] : !alg.tensor<[m], f32>
  %b = alg.constant {of_terms} : f32
  %w = alg.mul %x, %b : !alg.tensor<[m, n], f32>
  %y = alg.sub %w, %s : !alg.tensor<[m, n], f32>
  %p = alg.exp %y : !alg.tensor<[m, n], f32>
  %z = alg.reduce sum %p over [n] : !alg.tensor<[m], f32>
  %o = alg.contract %p, %v over [n] : !alg.tensor<[m, e], f32>
  %r = alg.div %o, %z guarded : !alg.tensor<[m, e], f32>
  alg.yield %r : !alg.tensor<[m, e], f32>
}}
"""


def divisions(program: Program) -> list[tuple[str, ...]]:
    """The dimensions of the quotients of a program's kernels."""
    every = (statement for kernel in program.kernels for statement in walk(kernel.body))
    return [statement.out.type.names for statement in every if isinstance(statement, Let) and statement.kind == "div"]


@pytest.mark.parametrize("graph", [attention(m="100", n="300"), attention(m="16", n="16")])
def test_one_division_a_row(graph: Graph) -> None:
    program = schedule([graph], {}, frozenset(), TARGETS["h200"])
    found = divisions(program)
    assert found and all("e" not in names for names in found)
    agrees(graph, program)


def test_sums_that_may_be_small_divide() -> None:
    """The largest exponential of a row may be one that is left out of its sum, whose reciprocal might overflow."""
    graph = graph_from(PART)
    program = schedule([graph], {}, frozenset(), TARGETS["h200"])
    assert any("e" in names for names in divisions(program))
    agrees(graph, program)


@pytest.mark.parametrize(("of_shift", "of_terms"), [(1.0, 2.0), (2.0, 1.0), (0.5, 0.125), (3.0, 3.0)])
def test_a_shift_in_another_unit_is_no_largest_term(of_shift: float, of_terms: float) -> None:
    """The largest of exp(2*x - max(x)) is exp(max(x)), the reciprocal of whose sum overflows where all logits are below -88."""
    graph = graph_from(SCALED.format(of_shift=of_shift, of_terms=of_terms))
    program = schedule([graph], {}, frozenset(), TARGETS["h200"])
    assert any("e" in names for names in divisions(program)) == (of_shift != of_terms)
    agrees(graph, program)
