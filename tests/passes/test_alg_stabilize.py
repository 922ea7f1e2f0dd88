"""Laws of `alg-stabilize` on random programs as text, and what it does for large arguments."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from cleave.algebra import degrees
from cleave.algebra.probes import Probe, results
from cleave.bridge.alg import graphs_of
from cleave.dialects.alg import GraphOp
from cleave.graph import Graph
from cleave.parsing import verify
from cleave.passes.alg_stabilize import AlgStabilizePass
from tests.alg_programs import parsed
from tests.strategies import alg_programs, random_inputs, symbol_sizes

SHAPED = ("weights", "weights", "unary", "binary", "reduce", "contract", "select", "chunks")


def only_graph(module: ModuleOp) -> Graph:
    """The graph of a module's one `alg.graph`."""
    return graphs_of(next(op for op in module.walk() if isinstance(op, GraphOp)))[0]


def stabilized(text: str) -> tuple[Graph, Graph]:
    """The graph before the pass and after."""
    module = parsed(text)
    before = only_graph(module)
    AlgStabilizePass().apply(Context(), module)
    verify(module)
    return before, only_graph(module)


@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(alg_programs(pieces=SHAPED, most=6), symbol_sizes(), st.integers(0, 2**16))
def test_random_programs_keep_their_value(text: str, sizes: dict[str, int], seed: int) -> None:
    """Values are bounded by 1000 and divisors away from 0: float64 keeps ten digits. Results do not depend on a shift."""
    before, after = stabilized(text)
    inputs = random_inputs(before, sizes, seed)
    expected = results(Probe(before, sizes), inputs, np.float64)
    for found, wanted in zip(results(Probe(after, sizes), inputs, np.float64), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)
    found = degrees(after)
    assert not any(found[output.value] for output in after.outputs)


AVERAGE = """
alg.graph @average axes [m = ?, n = ?, e = 4]
    (%x: !alg.tensor<[m, n], f32>, %v: !alg.tensor<[n, e], f32>)
    -> (!alg.tensor<[m, e], f32>, !alg.tensor<[m], f32>, !alg.tensor<[m, n], f32>) {
  %p = alg.exp %x : !alg.tensor<[m, n], f32>
  %z = alg.reduce sum %p over [n] : !alg.tensor<[m], f32>
  %u = alg.div %p, %z : !alg.tensor<[m, n], f32>
  %o = alg.contract %u, %v over [n] : !alg.tensor<[m, e], f32>
  %l = alg.log %z : !alg.tensor<[m], f32>
  %g = alg.sub %x, %l : !alg.tensor<[m, n], f32>
  alg.yield %o, %l, %g : !alg.tensor<[m, e], f32>, !alg.tensor<[m], f32>, !alg.tensor<[m, n], f32>
}
"""


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 2**16), st.integers(1, 5), st.integers(1, 9), st.sampled_from([np.float32, np.float64]))
def test_large_arguments(seed: int, rows: int, columns: int, dtype: type[np.floating]) -> None:
    """
    Arguments of up to 1e4 on either side, rows masked throughout, against float64 with the maximum written out.

    The arguments are exact in float32, which keeps six digits of averages and of numbers as large as the arguments.
    """
    _, graph = stabilized(AVERAGE)
    rng = np.random.default_rng(seed)
    x = rng.integers(-80000, 80000, (rows, columns)) / 8.0
    x[rng.random(x.shape) < 0.2] = -np.inf
    v = rng.normal(size=(columns, 4))
    average, log_sum, logs = results(Probe(graph, {"m": rows, "n": columns}), [x, v], dtype)
    top = x.max(1, keepdims=True)
    live = np.isfinite(top)
    weights = np.exp(x - np.where(live, top, 0))
    total = weights.sum(1, keepdims=True)
    room = 1e-5 if dtype is np.float32 else 1e-12
    np.testing.assert_allclose(average, (weights / np.where(live, total, 1)) @ v, rtol=room, atol=room)
    with np.errstate(divide="ignore", invalid="ignore"):
        wanted = (np.where(live, top, 0) + np.log(total))[:, 0]
        np.testing.assert_allclose(log_sum, wanted, rtol=room)
        np.testing.assert_allclose(logs, x - wanted[:, None], rtol=room, atol=1e4 * room)
    assert (average[~live[:, 0]] == 0).all() and (log_sum[~live[:, 0]] == -np.inf).all()
