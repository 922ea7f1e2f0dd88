"""
Random programs of every operation, the whole way: each alternative of the search, with safe exponentials, and its tile
programs for known and for run-time sizes keep the value of the program as written.
"""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from cleave.algebra import stabilize
from cleave.algebra.probes import Probe, results
from cleave.errors import CleaveError
from cleave.reference.dtypes import Array
from cleave.schedule import ScheduleOptions
from cleave.search import SearchOptions
from tests.acceptance.pipeline import alternatives, run_tiles, scheduled
from tests.alg_programs import graph_from
from tests.strategies import alg_programs, random_inputs, symbol_sizes

SMALL = SearchOptions(classes=150, steps=5000, alternatives=2, split_at_least=4, split_each=1)
ROOM = 1e-6
"""Values are bounded by 1000 and divisors away from 0: float64 keeps ten digits, and alternatives may lose some more."""


def close(found: list[Array], wanted: list[Array]) -> bool:
    return all(np.allclose(value, expected, rtol=ROOM, atol=ROOM) for value, expected in zip(found, wanted, strict=True))


def check(text: str, sizes: dict[str, int], seed: int, options: SearchOptions | None) -> None:
    """Runs a program every way there is; without options, without a search. Some alternatives are for other machines."""
    graph = graph_from(text)
    inputs = random_inputs(graph, sizes, seed)
    wanted = results(Probe(graph, sizes), inputs, np.float64)
    for number, found in enumerate((stabilize(graph),) if options is None else alternatives(graph, options)):
        known = {symbol.name: 2 for symbol in found.symbols} | sizes
        assert close(results(Probe(found, known), inputs, np.float64), wanted), f"alternative {number}"
        for dynamic in ((), tuple(known)):
            try:
                program = scheduled([found], known, dynamic, ScheduleOptions(plans=6))
            except CleaveError:
                assert number > 0, "the program as written has no schedule"
                continue
            assert close(run_tiles(program, graph, inputs, known), wanted), f"alternative {number}, run-time sizes {dynamic}"


DRAWS = settings(deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow], phases=[Phase.generate])
"""Without shrinking, which would search and schedule for minutes: the text of a failure is short as it is."""


@settings(DRAWS, max_examples=300)
@given(alg_programs(most=8), symbol_sizes(), st.integers(0, 9))
def test_as_written(text: str, sizes: dict[str, int], seed: int) -> None:
    check(text, sizes, seed, None)


@settings(DRAWS, max_examples=60)
@given(alg_programs(most=5), symbol_sizes(), st.integers(0, 9))
def test_alternatives(text: str, sizes: dict[str, int], seed: int) -> None:
    check(text, sizes, seed, SMALL)


def test_a_wrong_rewrite_is_caught() -> None:
    """A sum by chunks that forgets the last one."""
    graph = graph_from(
        """
alg.graph @sum axes [n = ?, s = ?(positive), ni = ceildiv(n, s) chunk of n by s] (%x: !alg.tensor<[n], f32>) -> (!alg.tensor<[], f32>) {
  %y = alg.split %x n into [s, ni] : !alg.tensor<[s, ni], f32>
  %a = alg.reduce sum %y over [ni] : !alg.tensor<[s], f32>
  %b = alg.reduce sum %a over [s] : f32
  alg.yield %b
}
"""
    )
    wrong = graph_from(
        """
alg.graph @sum axes [n = ?, s = ?(positive), ni = ceildiv(n, s) chunk of n by s] (%x: !alg.tensor<[n], f32>) -> (!alg.tensor<[], f32>) {
  %y = alg.split %x n into [s, ni] : !alg.tensor<[s, ni], f32>
  %a = alg.reduce sum %y over [ni] : !alg.tensor<[s], f32>
  %b = alg.index %a s at 0 : f32
  alg.yield %b
}
"""
    )
    told = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        sizes = {"n": int(rng.integers(1, 8)), "s": int(rng.integers(1, 5))}
        inputs = random_inputs(graph, sizes, seed)
        values = [results(Probe(program, sizes), inputs, np.float64) for program in (graph, wrong)]
        told += not close(*values)
    assert told > 5
