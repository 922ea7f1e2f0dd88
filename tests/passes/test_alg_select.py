"""Keeping one of several alternatives."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.context import Context

from cleave.bridge.alg import alternatives_of, graph_of
from cleave.dialects.alg import GraphOp
from cleave.errors import CleaveError
from cleave.graph import Graph
from cleave.parsing import verify
from cleave.passes.alg_select import AlgSelectPass
from cleave.reference import evaluate
from tests.alg_programs import ALTERNATIVES, CAUSAL, graph_op_of, parsed, printed


def selected(made: AlgSelectPass, text: str = ALTERNATIVES) -> Graph:
    module = parsed(text)
    made.apply(Context(), module)
    verify(module)
    graph = module.body.block.first_op
    assert isinstance(graph, GraphOp)
    return graph_of(graph)


@pytest.mark.parametrize(("made", "index"), [
    (AlgSelectPass(), 0),
    (AlgSelectPass(index=1), 1),
    (AlgSelectPass(alternative="split"), 1),
    (AlgSelectPass(sizes="m=0"), 0),
])  # fmt: skip
def test_the_graph_kept_is_that_of_the_alternative(made: AlgSelectPass, index: int) -> None:
    graph = selected(made)
    assert graph == alternatives_of(graph_op_of(ALTERNATIVES))[index].graph
    x = np.random.default_rng(1).normal(size=(3, 10))
    np.testing.assert_allclose(evaluate(graph, [x], {"m": 3, "n": 10, "s": 4})[0], x.mean(1))


def test_costs_decide_at_the_sizes_that_are_given() -> None:
    text = ALTERNATIVES.replace('flops "m*n + m"', 'flops "n*n"').replace('flops "m*n + 2*m"', 'flops "1000*n"')
    assert len(selected(AlgSelectPass(), text).axes) == 4
    assert len(selected(AlgSelectPass(sizes="n=10"), text).axes) == 2


@pytest.mark.parametrize("made", [AlgSelectPass(), AlgSelectPass(index=0), AlgSelectPass(alternative="as written")])
def test_graphs_without_alternatives_are_left_alone(made: AlgSelectPass) -> None:
    module = parsed(CAUSAL)
    before = printed(module)
    made.apply(Context(), module)
    assert printed(module) == before


def test_graphs_without_alternatives_are_left_alone_beside_others() -> None:
    assert selected(AlgSelectPass(index=1), ALTERNATIVES + CAUSAL) == alternatives_of(graph_op_of(ALTERNATIVES))[1].graph


@pytest.mark.parametrize(("made", "text", "message"), [
    (AlgSelectPass(index=2), ALTERNATIVES, "program.mlir:2:1: error: alg.graph: there is no alternative 2; choose one of 0 to 1"),
    (AlgSelectPass(index=99), CAUSAL, "there is no alternative 99; the graph is alternative 0, and has no others"),
    (AlgSelectPass(alternative="zz"), CAUSAL, "there is no alternative 'zz'; choose one of as written"),
    (AlgSelectPass(alternative="x"), ALTERNATIVES, "there is no alternative 'x'; choose one of as written, split"),
    (AlgSelectPass(index=0, alternative="split"), ALTERNATIVES, "both an index and a name are given"),
    (AlgSelectPass(), ALTERNATIVES.replace("?(hint 4096)", "?"), "symbol 'n' has no hint to compare costs at; give it in sizes"),
    (AlgSelectPass(), ALTERNATIVES.replace(' flops "m*n + m"', ""), "alternative 'as written' has no FLOPs to compare"),
    (AlgSelectPass(), ALTERNATIVES.replace('"m*n + m"', '"m**n"'), r"the cost of alternative 'as written': unexpected '\*'"),
])  # fmt: skip
def test_what_cannot_be_chosen_is_refused(made: AlgSelectPass, text: str, message: str) -> None:
    with pytest.raises(CleaveError, match=message):
        selected(made, text)
