"""Scheduling keeps values, for plain graphs and for what comes out of the search's pipeline."""

from __future__ import annotations

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from cleave.bridge.alg import graph_op
from cleave.bridge.sched import program_of
from cleave.dialects.sched import ProgramOp
from cleave.errors import CleaveError
from cleave.graph import Graph
from cleave.passes.convert_alg_to_sched import ConvertAlgToSchedPass, hinted_sizes
from cleave.schedule.program import Program
from tests.schedule.programs import Symbol, agrees, attention, norm_linear, split_attention


def converted(graph: Graph, target: str = "h200") -> Program:
    """The program the pass makes of a graph."""
    module = ModuleOp([graph_op(graph)])
    ConvertAlgToSchedPass(target=target).apply(Context(), module)
    module.verify()
    return program_of(next(op for op in module.walk() if isinstance(op, ProgramOp)))


@pytest.mark.parametrize(
    "graph", [attention(m="20", n="50", mask="causal"), norm_linear(), split_attention(n="300", lse=True)], ids=["causal", "norm", "split"]
)
def test_the_program_has_the_values_of_the_graph(graph: Graph) -> None:
    agrees(graph, converted(graph))


def test_symbols_stay_run_time_sizes() -> None:
    graph = attention(m="M", n="N", symbols=(Symbol("M", (64,)), Symbol("N", (512,), multiple_of=16)))
    program = converted(graph)
    for sizes in ({"M": 1, "N": 16}, {"M": 70, "N": 208}):
        agrees(graph, program, sizes)


def test_hints_or_a_default_that_the_known_divisor_divides() -> None:
    graph = attention(m="M", n="N", symbols=(Symbol("M", (64, 1)), Symbol("N", multiple_of=48)))
    assert hinted_sizes((graph,)) == {"M": 64, "N": 1056}


def test_every_target_has_a_plan() -> None:
    graph = attention(m="64", n="256", d="128", e="128")
    for name in ("a100", "h100", "h200", "b200", "rtx4090", "mi300x"):
        assert converted(graph, name).kernels


def test_an_unknown_target_is_named() -> None:
    with pytest.raises(CleaveError, match="unknown target 'abacus'"):
        converted(attention(), "abacus")
