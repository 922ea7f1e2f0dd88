"""Enumeration as a check on the rules, and the dimensions that prune it."""

from __future__ import annotations

from fractions import Fraction

import pytest

from cleave.bench.search_programs import attention, linear_attention, low_rank, root_norm_linear
from cleave.bench.writing import Write
from cleave.graph import Graph
from cleave.search import SearchOptions, effort
from cleave.search.dimensions import dimensions
from cleave.search.enumerate import Enumeration, enumerate_values
from cleave.search.equivalence import equivalence


@pytest.mark.parametrize(
    "graph",
    [linear_attention(), low_rank(True), low_rank(False), attention(False, False, False)],
    ids=["linear attention", "low rank, merged", "low rank, paths", "attention"],
)
def test_rules_miss_nothing(graph: Graph) -> None:
    """Up to a coefficient, which programs with constants have at other places too."""
    found = enumerate_values(graph, 8)
    assert found.ways > 0
    assert found.detours == ()
    assert (found.elsewhere > 0) == any(op.kind == "constant" for op in graph.ops)


def without_rules(graph: Graph) -> Enumeration:
    """What is found beyond an e-graph that was not closed."""
    return enumerate_values(graph, 8, SearchOptions(applications=0))


def test_without_rules_enumeration_finds_the_forms_by_itself() -> None:
    """q (k^T v), and x w + 2 (x a) b from x (w + 2 a b): what the rules would have found is missed and reported."""
    (detour,) = (found for found in without_rules(linear_attention()).detours if found.missing == ("contract(k, v over n)",))
    assert detour.work < 0.5
    assert equivalence(linear_attention(), detour.program).equivalent is True
    missing = {value for detour in without_rules(low_rank(True)).detours for value in detour.missing}
    assert {"contract(x, a over k)", "contract(x, w over k)"} <= missing


def test_fewer_operations_allowed_are_fewer_detours() -> None:
    counts = [len(enumerate_values(low_rank(True), most, SearchOptions(applications=0)).detours) for most in (4, 8)]
    assert counts[0] <= counts[1] > 0


def test_every_detour_has_no_more_operations_than_allowed() -> None:
    """And is a program for the same value: float64 agrees with the verifier."""
    for detour in without_rules(low_rank(True)).detours:
        assert detour.operations <= 8
        assert equivalence(low_rank(True), detour.program).equivalent is True


def test_dimensions_are_powers_of_free_factors() -> None:
    """Logits and probabilities have none, an epsilon that of the square it is added to, the root of both its inverse root."""
    found, factors = dimensions(attention(False, False, False))
    assert factors == 4
    graph = attention(False, False, False)
    exponential = next(position for position, op in enumerate(graph.ops) if op.kind == "exp")
    assert not any(found[graph.ops[exponential].args[0]])
    assert any(found[exponential])
    assert not any(found[next(position for position, op in enumerate(graph.ops) if op.kind == "div")])
    assert found[graph.outputs[0].value] == found[2] != found[0]
    norm = root_norm_linear()
    found, factors = dimensions(norm)
    assert factors == 3
    kinds = {op.kind: position for position, op in enumerate(norm.ops)}
    square, root = found[norm.ops[kinds["reduce"]].args[0]], found[kinds["rsqrt"]]
    assert found[kinds["constant"]] == square
    assert square == tuple(2 * power for power in found[0])
    assert root == tuple(-power for power in found[0])
    assert found[kinds["size"]] == (Fraction(0),) * 3


def test_an_argument_of_a_function_has_no_dimension() -> None:
    w = Write({"m": "m"}, {"x": "m", "y": "m"})
    x, y = w.args
    found, factors = dimensions(w.done(w("tanh", w("div", x, y))))
    assert factors == 1
    assert found[0] == found[1] != found[2]
    found, factors = dimensions(w.done(w("tanh", w("add", x, y))))
    assert factors == 0


def entropy() -> Graph:
    """-sum p log p of a softmax: no value but the exponentials and their sum has a dimension, so nothing is pruned by it."""
    w = Write({"m": 5, "n": 7}, {"x": "m n"})
    plain = w("exp", w("sub", *w.args, w("reduce", *w.args, attr=("max", ("n",)))))
    p = w("div", plain, w("reduce", plain, attr=("sum", ("n",))))
    return w.done(w("neg", w("reduce", w("mul", p, w("log", p)), attr=("sum", ("n",)))))


def test_seconds_end_the_trying() -> None:
    """Which is said, whatever else of the search they ended."""
    found = enumerate_values(entropy(), 8, SearchOptions(seconds=1.0))
    assert f"trying stopped after {found.tried} operations, as most of the 1 s were over" in found.caps


def test_no_seconds_are_none() -> None:
    found = enumerate_values(entropy(), 8, SearchOptions(seconds=0.0))
    assert (found.tried, found.ways) == (0, 0)
    assert any("as most of the 0 s were over" in cap for cap in found.caps)


def test_operations_are_counted_and_capped(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found by then is the same each time, and none of it is 0 log p, which is 0."""
    monkeypatch.setattr(effort, "MOST_TRIED", 20_000)
    first, second = (enumerate_values(entropy(), 8) for _ in range(2))
    assert first == second
    assert 20_000 <= first.tried < 20_300
    assert first.caps == (f"stopped after {first.tried} operations",)
    assert first.ways > 0
    assert first.detours == ()
