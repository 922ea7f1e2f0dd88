"""Two axes in chunks at once, each with a number of chunks that need not divide it."""

from __future__ import annotations

import numpy as np
import pytest

from cleave.algebra.stabilize import stabilize
from cleave.bench.judging import oracle
from cleave.bench.search_programs import attention, latent_attention
from cleave.bench.writing import Write
from cleave.graph import Builder, Graph, Output
from cleave.schedule.kernels import ScheduleOptions
from cleave.schedule.scheduler import schedule
from cleave.schedule.targets import target
from cleave.search import SearchOptions, superoptimize
from cleave.search.split import dependent_reductions, split_axes, splittable
from cleave.search.verify import Verifier
from tests.acceptance.pipeline import exact, run_tiles, scheduled


def gated(m: int = 5, k: int | str = "k", n: int | str = "n") -> Graph:
    """silu(x a) b: everything reduces over k and then over n."""
    w = Write({"m": m, "k": k, "n": n, "p": 16}, {"x": "m k", "a": "k n", "b": "n p"})
    x, a, b = w.args
    return w.done(w.dot("n", w.half(w("silu", w.dot("k", x, a))), b))


def norms(axes: str) -> Graph:
    """The sum over both axes at once, and a quotient by it."""
    w = Write({"m": "m", "k": "k", "n": "n"}, {"x": "m k n", "y": "m k n"})
    x, y = w.args
    return w.done(w("div", w.sum(axes, w("mul", x, y)), w("add", w.sum(axes, w("mul", x, x)), 1.0)))


@pytest.mark.parametrize("graph", [gated(), norms("k n"), norms("n k"), attention(), latent_attention(False)])
def test_every_pair_keeps_the_value(graph: Graph) -> None:
    """In fields with ragged chunks and one point an axis, and in float64 at sizes 1 to 7; in either order."""
    first, second = splittable(graph)[:2]
    for axes in ((first, second), (second, first)):
        split = split_axes(graph, axes)
        chunks = {axis.chunk_of for axis in split.axes if axis.chunk_of is not None}
        assert {whole for whole, _ in chunks} == {first, second} and len({outer for _, outer in chunks}) == 2
        assert Verifier(graph, 7).problem(split) is None
        assert oracle(graph, split) is True


def test_pairs_come_after_single_axes() -> None:
    """Named by both axes, one a pair, with a symbol for every number of chunks; the second program of a kind comes last."""
    names = [entry.name for entry in superoptimize(gated()).alternatives if "split" in entry.name]
    assert names == ["1 split k", "1 split n", "1 split k n", "as written split k", "as written split n"]
    (pair,) = [entry.graph for entry in superoptimize(gated()).alternatives if entry.name.endswith("split k n")]
    assert [symbol.name for symbol in pair.symbols] == ["k", "n", "s", "s2"]
    assert dependent_reductions(pair, "s") == dependent_reductions(pair, "s2") == 1


def test_one_axis_at_a_time_if_asked() -> None:
    found = superoptimize(gated(), SearchOptions(split_at_once=1)).alternatives
    assert [entry.name for entry in found if entry.name.endswith("split k n")] == []
    assert any(entry.name.endswith("split n") for entry in found)
    assert not any("split" in entry.name for entry in superoptimize(gated(), SearchOptions(split=False)).alternatives)


def test_pairs_that_are_left_out_are_said() -> None:
    """Of six pairs of four axes three are split."""
    w = Write({"m": "m", **dict.fromkeys("abcd", 512)}, {"x": "m a b c d"})
    result = superoptimize(w.done(w.sum("a b c d", w("mul", *w.args, *w.args))))
    pairs = [entry.name for entry in result.alternatives if len(entry.name.split(" split ")[-1].split()) == 2 and "split" in entry.name]
    assert len(pairs) == 3
    assert result.caps == ("of 6 pairs of axes that may be split at once the first 3 were",)


@pytest.mark.parametrize("wrong", ["", "k", "n", "k n"])
def test_a_mean_of_means_over_either_axis_is_refused(wrong: str) -> None:
    """Dividing by the size of a chunk is wrong where the last one is short, whichever axis it is."""
    w = Write({"m": "m", "k": "k", "n": "n"}, {"x": "m k n"})
    whole = w.done(w.mean("k", w.mean("n", w.args[0])))
    split = split_axes(whole, ("k", "n"))
    assert Verifier(whole, 0).problem(split) is None
    builder = Builder("f", split.symbols, split.axes, split.inputs)
    value = 0
    chunks = [(*axis.chunk_of, axis.name) for axis in split.axes if axis.chunk_of is not None]
    for axis, outer, inner in chunks:
        value = builder.add("split", value, attr=(axis, outer, inner), dtype="f32")
    for axis, outer, inner in chunks:
        value = builder.add("reduce", value, attr=("sum", (inner,)), dtype="f32")
        if axis in wrong:
            value = builder.add("div", value, builder.add("size", attr=(inner,)), dtype="f32")
        value = builder.add("reduce", value, attr=("sum", (outer,)), dtype="f32")
        value = builder.add("div", value, builder.add("size", attr=(outer if axis in wrong else axis,)), dtype="f32")
    problem = Verifier(whole, 0).problem(builder.finish([Output(value, "m", "f16")]))
    assert (problem is not None) == bool(wrong)


def test_the_scheduler_runs_a_pair() -> None:
    """Partial results over both, with 3 chunks of 100 and 70 elements, computed tile by tile; float32 sums of at most 100 terms."""
    graph = gated(k=100, n=70)
    pair = stabilize(split_axes(graph, ("k", "n")))
    sizes = {"s": 3, "s2": 3}
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=(5, 100)), rng.normal(size=(100, 70)) / 10, rng.normal(size=(70, 16))]
    program = scheduled([pair], sizes)
    (out,) = run_tiles(program, pair, inputs, sizes)
    (wanted,) = exact(graph, inputs, {})
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4)


def test_every_kind_of_split_comes_early() -> None:
    """Behind the three best programs, so that who tries only so many programs tries one of every kind."""
    names = [entry.name for entry in superoptimize(latent_attention(decode=False)).alternatives]
    assert names[:4] == ["as written", "1", "2", "3"]
    assert {name.split(" split ")[1] for name in names[:10] if " split " in name} == {"n", "l", "n l"}
    whole = [name for name in names[1:] if " split " not in name]
    assert whole == [str(at + 1) for at in range(len(whole))]


def test_the_scheduler_says_what_it_leaves_out() -> None:
    graph = gated(k=100, n=70)
    graphs = [stabilize(entry.graph) for entry in superoptimize(graph).alternatives]
    assert len(graphs) > 1
    few = schedule(graphs, {}, frozenset(), target("h200"), ScheduleOptions(alternatives=1))
    assert any(f"alternatives 1 to {len(graphs) - 1}: not tried" in note for note in few.notes)
    every = schedule(graphs, {"s": 2}, frozenset(), target("h200"), ScheduleOptions(alternatives=len(graphs)))
    assert not any("not tried" in note for note in every.notes)
