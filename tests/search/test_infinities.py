"""+inf in programs: minima over masked values, exponentials of what is masked, and wrong programs that must be refused."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from cleave.algebra.stabilize import stabilize
from cleave.bench.writing import Write
from cleave.frontend import capture
from cleave.graph import Graph
from cleave.reference import evaluate
from cleave.search import SearchOptions, superoptimize
from cleave.search.equivalence import equivalence
from cleave.search.split import split_axes
from cleave.search.verify import Verifier
from tests.acceptance.pipeline import run_tiles, scheduled

INF = math.inf


def program(make: Callable[[Write, int, int], int]) -> Graph:
    """A program of a causal mask and a tensor, both over m and n."""
    w = Write({"m": "m", "n": "n"}, {"x": "m n"}, dtype="f32")
    rows, columns = (w("iota", attr=(axis,), dtype="index") for axis in "mn")
    return w.done(make(w, w("compare", columns, rows, attr=("le",), dtype="i1"), w.args[0]), dtype="f32")


def least(w: Write, x: int) -> int:
    return w("reduce", x, attr=("min", ("n",)))


def masked_least(filling: float = INF) -> Graph:
    """The least of what a mask leaves."""
    return program(lambda w, keep, x: least(w, w("select", keep, x, filling)))


def weights(negated: bool) -> Graph:
    """exp(-x) over its sum, where what is masked is +inf below the sign, or -inf above it."""

    def make(w: Write, keep: int, x: int) -> int:
        z = w("select", keep, w("neg", x), -INF) if negated else w("neg", w("select", keep, x, INF))
        e = w("exp", z)
        return w("div", e, w.sum("n", e))

    return program(make)


def agrees(first: Graph, second: Graph) -> bool:
    return Verifier(first, 0).problem(second) is None


@pytest.mark.parametrize(
    "make",
    [
        lambda w, keep, x: w("neg", w.max("n", w("select", keep, w("neg", x), -INF))),
        lambda w, keep, x: w("neg", w.max("n", w("neg", w("select", keep, x, INF)))),
        lambda w, keep, x: least(w, w("select", w("not", keep, dtype="i1"), INF, x)),
        lambda w, keep, x: least(w, w("min", w("select", keep, x, INF), INF)),
        lambda w, keep, x: w("min", INF, least(w, w("select", keep, x, INF))),
        lambda w, keep, x: least(w, w("add", w("select", keep, x, 0.0), w("select", keep, 0.0, INF))),
    ],
    ids=["negated", "negated inside", "mask turned round", "least of all", "of all outside", "added mask"],
)  # fmt: skip
def test_other_programs_for_a_masked_minimum_are_accepted(make: Callable[[Write, int, int], int]) -> None:
    assert agrees(masked_least(), program(make))
    assert equivalence(masked_least(), program(make)).equivalent is True


@pytest.mark.parametrize(
    "make",
    [
        lambda w, keep, x: least(w, w("select", keep, x, 0.0)),
        lambda w, keep, x: least(w, w("select", keep, x, -INF)),
        lambda w, keep, x: least(w, w("select", keep, INF, x)),
        lambda w, keep, x: least(w, x),
        lambda w, keep, x: w.max("n", w("select", keep, x, INF)),
        lambda w, keep, x: least(w, w("add", w("select", keep, x, INF), 3.0)),
    ],
    ids=["0", "-inf", "branches swapped", "no mask", "maximum", "shifted"],
)  # fmt: skip
def test_wrong_programs_for_a_masked_minimum_are_refused(make: Callable[[Write, int, int], int]) -> None:
    assert not agrees(masked_least(), program(make))
    assert equivalence(masked_least(), program(make)).equivalent is False


def test_a_masked_minimum_may_be_in_chunks() -> None:
    """A chunk may be masked throughout, or the last one be short."""
    assert agrees(masked_least(), split_axes(masked_least(), ("n",)))
    result = superoptimize(masked_least(), SearchOptions(split_at_least=2))
    assert any(entry.name.endswith("split n") for entry in result.alternatives)
    assert not result.caps


@pytest.mark.parametrize(("m", "n", "chunks"), [(5, 7, 4), (20, 70, 3), (3, 9, 8)])
def test_chunks_of_a_minimum_may_be_empty_when_run(m: int, n: int, chunks: int) -> None:
    """Tile by tile: more chunks than there are elements for, and tiles that reach past the end. A minimum rounds nothing."""
    split = stabilize(split_axes(masked_least(), ("n",)))
    sizes = {"s": chunks, "m": m, "n": n}
    inputs = [np.random.default_rng(0).normal(size=(m, n)).astype(np.float32) + 3]
    (out,) = run_tiles(scheduled([split], sizes), split, inputs, sizes)
    (wanted,) = evaluate(masked_least(), inputs, sizes)
    np.testing.assert_array_equal(out, wanted)


def test_an_exponential_of_what_is_below_everything_is_zero() -> None:
    assert agrees(weights(True), weights(False))
    assert agrees(weights(False), weights(True))
    best = superoptimize(weights(False), SearchOptions(split=False)).alternatives[1].graph
    assert agrees(weights(True), best)


def test_infinities_of_both_signs_decide_nothing() -> None:
    """inf - inf is not a number: programs are compared where there is a number, and a program without any has no other form."""
    both = program(lambda w, keep, x: w("add", w("select", keep, INF, x), w("select", keep, -INF, x)))
    assert agrees(both, program(lambda w, keep, x: w("add", x, x)))
    assert not agrees(both, program(lambda w, keep, x: x))
    nowhere = program(lambda w, keep, x: w.sum("n", w("add", w("select", keep, INF, x), -INF)))
    assert not agrees(nowhere, program(lambda w, keep, x: w.sum("n", x)))


def test_one_over_infinity_is_zero() -> None:
    """A selection of a quotient that may be infinite guards it, and is more than the sum of its branches."""
    graph = program(lambda w, keep, x: w.sum("n", w("div", 1.0, w("select", keep, w("exp", x), INF))))
    assert agrees(graph, program(lambda w, keep, x: w.sum("n", w("select", keep, w("div", 1.0, w("exp", x)), 0.0))))
    assert not agrees(graph, program(lambda w, keep, x: w.sum("n", w("select", keep, w("div", 1.0, w("exp", x)), 1.0))))
    guarded = program(lambda w, keep, x: w.sum("n", w("select", keep, w("div", 1.0, x), 0.0)))
    assert not agrees(guarded, program(lambda w, keep, x: w.sum("n", w("mul", w("cast", keep, dtype="f32"), w("div", 1.0, x)))))


def test_a_distance_written_in_pytorch() -> None:
    """The least masked distance, and weights by distances to it: all that is found agrees with the program in float64."""

    def nearest(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mask = torch.ones(x.shape[-2], x.shape[-1], dtype=torch.bool).tril()
        z = x.masked_fill(~mask, float("inf"))
        p = torch.exp(z.amin(-1, keepdim=True) - z)
        return z.amin(-1), p / p.sum(-1, keepdim=True)

    graph = capture(nearest, [torch.zeros(5, 4)]).graph
    result = superoptimize(graph, SearchOptions(split_at_least=2))
    assert len(result.alternatives) > 1
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=(5, 4))]
    wanted = evaluate(graph, inputs, {})
    for entry in result.alternatives[1:]:
        if not entry.graph.symbols:
            for got, want in zip(evaluate(entry.graph, inputs, {}), wanted, strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-9)
