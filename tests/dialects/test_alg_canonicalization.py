"""Simplifying keeps values, and every kind of wrong pattern would be seen."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker, RewritePattern
from xdsl.transforms.canonicalize import CanonicalizePass

from cleave.bridge.alg import graphs_of
from cleave.dialects.alg import GraphOp, MulOp
from cleave.parsing import verify
from cleave.reference import evaluate
from tests.alg_programs import ALTERNATIVES, CAUSAL, EVERYTHING, graph_from, parsed, printed
from tests.strategies import alg_programs, random_inputs, symbol_sizes


def values(module: ModuleOp, symbols: dict[str, int], seed: int) -> list[np.ndarray]:
    first = module.body.block.first_op
    assert isinstance(first, GraphOp)
    graph = graphs_of(first)[0]
    return list(evaluate(graph, random_inputs(graph, symbols, seed), symbols))


@settings(max_examples=100)
@given(alg_programs(), symbol_sizes(), st.integers(0, 9))
def test_simplifying_keeps_the_value(text: str, sizes: dict[str, int], seed: int) -> None:
    """Patterns drop what is exact and reassociate sums of a few numbers below 1000 at most: 1e-9 is ample."""
    module = parsed(text)
    expected = values(module, sizes, seed)
    CanonicalizePass().apply(Context(), module)
    verify(module)
    for found, wanted in zip(values(module, sizes, seed), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("text", [CAUSAL, EVERYTHING, ALTERNATIVES])
def test_simplifying_twice_changes_nothing_more(text: str) -> None:
    module = parsed(text)
    CanonicalizePass().apply(Context(), module)
    verify(module)
    once = printed(module)
    CanonicalizePass().apply(Context(), module)
    assert printed(module) == once


def test_new_operations_stand_where_the_old_ones_stood() -> None:
    module = parsed(
        """alg.graph @f axes [m = 4] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[m], f32>) {
          %two = alg.constant 2.0 : f32
          %y = alg.pow %x, %two : !alg.tensor<[m], f32>
          alg.yield %y
        }"""
    )
    CanonicalizePass().apply(Context(), module)
    graph = module.body.block.first_op
    assert isinstance(graph, GraphOp)
    (found,) = graphs_of(graph)
    assert [op.kind for op in found.ops] == ["input", "mul"] and found.places[1] == "program.mlir:3:11"


class ForgetFactor(RewritePattern):
    """A wrong pattern: `a * b` becomes `a` where that has all axes."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if isinstance(op, MulOp) and op.lhs.type == op.out.type:
            rewriter.replace(op, [], [op.lhs])


def test_the_law_would_see_a_wrong_pattern() -> None:
    """Of programs in which the wrong pattern applies, nearly all change their value."""
    seen = {"applied": 0, "noticed": 0}

    @settings(max_examples=100, database=None)
    @given(alg_programs(pieces=("binary", "contract"), least=3))
    def attempt(text: str) -> None:
        module = parsed(text)
        sizes = {"m": 3, "n": 5, "s": 2}
        expected = values(module, sizes, 0)
        if PatternRewriteWalker(ForgetFactor()).rewrite_module(module):
            seen["applied"] += 1
            changed = [not np.allclose(a, b, rtol=1e-9, atol=1e-9) for a, b in zip(values(module, sizes, 0), expected, strict=True)]
            seen["noticed"] += int(any(changed))

    attempt()
    assert seen["noticed"] >= 10, seen


def test_folding_uses_double_precision() -> None:
    graph = graph_from(
        """alg.graph @f axes [m = 4] (%x: !alg.tensor<[m], f32>) -> (!alg.tensor<[m], f32>) {
          %tiny = alg.constant 1.0e-06 : f32
          %y = alg.add %x, %tiny : !alg.tensor<[m], f32>
          alg.yield %y
        }"""
    )
    assert graph.ops[1].attr == (1e-6,)
