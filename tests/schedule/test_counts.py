"""Numbers of chunks that are found when a program runs: from the sizes, or as a caller says, and never of what the results depend on."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from cleave.extents import extent, open_symbols, sizes_of
from cleave.graph import Graph, Symbol
from cleave.runtime.execute import execute
from cleave.schedule import ScheduleOptions, space
from cleave.schedule.counts import most_chunks
from cleave.schedule.program import Allocate, Last, Load, Program, walk

from .programs import H200, agrees, split_attention
from .test_last import split_matmul

FEW = ScheduleOptions(plans=12, ranked=3)
SYMBOLS = (Symbol("M", (4,)), Symbol("N", (2048,)))


def dynamic_attention(mask: str = "", lse: bool = False) -> Graph:
    return split_attention("M", "N", mask=mask, lse=lse, symbols=SYMBOLS)


def programs(graph: Graph, sizes: Mapping[str, int], options: ScheduleOptions = FEW) -> list[Program]:
    """The ways to run a graph of M and N: in one launch, in two, and with other tiles."""
    found = space([graph], sizes, frozenset(sizes), H200, options)
    return [found.program(trial) for trial in found.trials(4)]


def in_one_launch(made: Sequence[Program]) -> Program:
    """The first whose last programs to arrive combine chunks of a run-time number."""
    return next(program for program in made if len(program.kernels) == 1 and "s" in dict(program.sizes))


def extents_of(program: Program, sizes: Mapping[str, int]) -> dict[str, int]:
    return sizes_of(program.sizes, sizes)


@pytest.mark.parametrize("kind", ["attention", "causal", "product", "highest"])
@pytest.mark.parametrize("seed", range(2))
def test_any_number_of_chunks_gives_the_same(kind: str, seed: int) -> None:
    """
    As many as the program finds, one, and more than there are tiles or elements; in any order of programs. Logits are large, so that a
    level of chunks which are not there would take all weight from those that are.
    """
    rng = random.Random(f"{kind} {seed}")
    if kind in ("product", "highest"):
        graph = split_matmul("M", "40", "N", normed=kind == "highest", symbols=SYMBOLS)
    else:
        graph = dynamic_attention(mask="causal" if kind == "causal" else "", lse=seed == 0)
    made = programs(graph, {"M": rng.choice([1, 4, 20]), "N": rng.choice([512, 2048])})
    assert any("s" in dict(program.sizes) for program in made)
    for program in rng.sample(made, min(2, len(made))):
        most = min(16, most_chunks(2)) if any(isinstance(each, Last) for kernel in program.kernels for each in walk(kernel.body)) else 16
        for rows, keys in ((1, rng.choice([0, 1])), (rng.choice([0, 1, 5]), 17), (3, rng.choice([127, 300]))):
            sizes = {"M": rows, "N": keys}
            own = extents_of(program, sizes)["s"]
            for count in {own, 1, most}:
                given = sizes if count == own else {**sizes, "s": count}
                shuffled = rng.choice([None, seed])
                agrees(graph, program, {**sizes, "s": count}, 1e-7, scale=60.0, seed=seed, shuffled=shuffled, given=given)


def test_the_number_follows_the_sizes() -> None:
    """As the machine is filled at the hints, so elsewhere; no chunk is without a tile, and there is always one."""
    graph = dynamic_attention()
    hints = {"M": 4, "N": 4096}
    program = max(programs(graph, hints), key=lambda program: extents_of(program, hints).get("s", 0))
    count = {(rows, keys): extents_of(program, {"M": rows, "N": keys})["s"] for rows in (0, 4, 4000) for keys in (0, 1, 300, 4096, 10**6)}
    assert count[4, 4096] > 4
    assert 1 < count[4, 300] < count[4, 4096] <= count[4, 10**6]
    assert all(count[4000, keys] == 1 for keys in (0, 1, 300, 4096))
    assert all(count[rows, keys] == 1 for rows in (0, 4, 4000) for keys in (0, 1))
    assert open_symbols(program.sizes) == ("M", "N")


def test_the_last_programs_skip_parts_that_there_are_not() -> None:
    """Parts are single elements, all but the first within a bound that the run tells."""
    hints = {"M": 4, "N": 4096}
    program = in_one_launch(programs(dynamic_attention(), hints))
    (last,) = [each for each in walk(program.kernels[0].body) if isinstance(each, Last)]
    loads = [each for each in walk(last.body) if isinstance(each, Load) and each.fresh]
    parts = {name: [each for each in loads if each.buffer.name == name] for name in {each.buffer.name for each in loads}}
    assert len(parts) == 3
    most = most_chunks(extents_of(program, hints)["s"])
    assert most > 1
    for own in parts.values():
        assert len(own) == most
        assert sum("s" in each.check for each in own) == most - 1
    assert any(isinstance(step, Allocate) and "s" in step.buffer.axes for step in program.steps)


def test_known_sizes_have_a_known_number() -> None:
    found = space([split_attention(m="1", n="4096", d="64", e="64")], {}, frozenset(), H200, FEW)
    for trial in found.trials(4):
        assert all(size.constant is not None for _, size in found.program(trial).sizes)


def test_a_prediction_chooses_the_number() -> None:
    """No more chunks than the program would have, and what is chosen is predicted to be as fast at least."""
    found = space([dynamic_attention()], {"M": 4, "N": 4096}, frozenset(("M", "N")), H200, FEW)
    trial = next(trial for trial in found.trials(6) if "s" in dict(found.program(trial).sizes))
    prediction = found.prediction(trial, H200)
    chosen: set[int] = set()
    for keys in (1, 700, 4096):
        sizes = {"M": 4, "N": keys}
        seconds, counts = prediction.fewer(sizes)
        assert seconds == prediction.seconds({**sizes, **counts}) <= prediction.seconds(sizes)
        assert 1 <= counts["s"] <= extents_of(found.program(trial), sizes)["s"]
        chosen.add(counts["s"])
    assert len(chosen) > 1


def test_the_interpreter_runs_any_number() -> None:
    graph = split_attention("M", "N", d="16", e="16", g="1", symbols=SYMBOLS)
    program = in_one_launch(programs(graph, {"M": 4, "N": 2048}))
    rng = np.random.default_rng(0)
    for rows, keys in ((2, 0), (3, 150)):
        q, k, v = (np.asarray(rng.standard_normal((1, size, 16)), np.float16) for size in (rows, keys, keys))
        logits = q.astype(np.float64) @ k.astype(np.float64).swapaxes(1, 2) * 0.125
        weights = np.exp(logits - logits.max(-1, initial=-1e4, keepdims=True))
        expected = weights @ v.astype(np.float64) / np.maximum(weights.sum(-1, keepdims=True), 1e-300)
        for given in ({}, {"s": 4}):
            (out,) = execute(program, [q, k, v], given)
            np.testing.assert_allclose(np.asarray(out, np.float64), expected, rtol=2e-3, atol=2e-3)


def test_sizes_in_terms_of_axes_before() -> None:
    sizes = [("n", extent("n")), ("s", extent("max(1, 8 // (n + 1))")), ("ni", extent("ceildiv(n, s)"))]
    assert open_symbols(sizes) == ("n",)
    assert sizes_of(sizes, {"n": 3}) == {"n": 3, "s": 2, "ni": 2}
    assert sizes_of(sizes, {"n": 3, "s": 5}) == {"n": 3, "s": 5, "ni": 1}
