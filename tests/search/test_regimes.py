"""Programs are compared at more sizes than the hinted ones."""

from __future__ import annotations

from cleave.graph import Symbol
from cleave.search import SearchOptions, superoptimize
from cleave.search.regimes import FEW, MANY, NEAR, cover, regimes
from cleave.search.verify import Verifier
from cleave.search.work import work
from tests.search.programs import Write, linear_attention


def test_every_symbol_is_looked_at_short_and_long() -> None:
    """One symbol at a time: all hints, a few elements that its divisor divides, and many; then all of them."""
    symbols = (Symbol("m", (512, 8), multiple_of=8), Symbol("n", (100,), multiple_of=20))
    w = Write({"m": "m", "n": "n", "k": 64}, {"x": "m k", "y": "n k"}, symbols)
    graph = w.done(w.dot("k", *w.args))
    found = [(sizes["m"], sizes["n"]) for sizes in regimes(graph)]
    assert found == [(512, 100), (8, 100), (FEW, 100), (512 * MANY, 100), (512, 20), (512, 100 * MANY), (FEW, 20), (512 * MANY, 100 * MANY)]


def test_known_sizes_are_one_regime() -> None:
    """Nothing but the declared extents is looked at."""
    w = Write({"m": 64, "k": 64}, {"x": "m k"})
    assert regimes(w.done(w.sum("k", w.args[0]))) == [{"m": 64, "k": 64}]


def test_a_cover_has_what_wins_somewhere() -> None:
    """The best at the hinted sizes, then what is cheaper by more than a tenth in another regime than all that precede it."""
    given = [9.8, 9.8, 9.8]
    assert cover([[9.0, 9.0, 9.0], [8.0, 12.0, 12.0]], given) == ([1], [0]), "the program as written is as good elsewhere"
    assert cover([[9.0, 5.0, 9.0], [8.0, 12.0, 12.0]], given) == ([1, 0], [])
    assert cover([[9.0, 5.0, 5.0], [8.0, 12.0, 12.0], [8.5, 5.0 * (1 + NEAR / 2), 12.0]], given) == ([1, 0], [2])
    assert cover([], given) == ([], [])


def test_a_product_that_pays_for_long_rows_alone_comes_second() -> None:
    """At 32 rows (q k^T) v takes less work than q (k^T v), at many rows more: the second is there, verified, whatever the hint."""
    w = Write({"m": "m", "n": "m2", "d": 128, "e": 128}, {"q": "m d", "k": "n d", "v": "n e"}, [Symbol("m", (32,)), Symbol("m2", (32,))])
    q, k, v = w.args
    graph = w.done(w.dot("n", w.dot("d", q, k), v))
    result = superoptimize(graph, SearchOptions(cost_factor=1.0))
    late = [entry.graph for entry in result.alternatives[1:3] if not any({"m", "n"} <= set(op.axes) for op in entry.graph.ops)]
    assert late and Verifier(graph, 5).problem(late[0]) is None
    hinted, *others = regimes(graph)
    assert work(late[0], hinted) > work(graph, hinted)
    assert any(work(late[0], sizes) < work(graph, sizes) for sizes in others)


def test_what_is_dear_everywhere_is_left_out() -> None:
    """All but the first few keep to the cost factor at the hinted sizes."""
    graph = linear_attention()
    sizes = regimes(graph)
    for entry in superoptimize(graph, SearchOptions(split=False)).alternatives[1:]:
        assert min(work(entry.graph, each) / work(graph, each) for each in sizes) <= 2.0
