"""Large programs are searched in pieces and put together again."""

from __future__ import annotations

from cleave.graph import Graph
from cleave.search import SearchOptions, superoptimize
from cleave.search.segments import joined, segments, unnamed
from cleave.search.verify import Verifier
from tests.search.programs import Write, attention
from tests.search.questions import needs, ops_of, phases


def layers(count: int) -> Graph:
    """x <- x + W norm(x), over and over."""
    weights = {f"w{i}": "c f" for i in range(count)}
    w = Write({"m": "m", "c": 512, "f": 512}, {"x": "m c", **weights})
    x = w.args[0]
    for weight in w.args[1:]:
        y = w.dot("c", w("cast", w("mul", x, w.root_mean_square("c", x)), dtype="f16"), weight)
        x = w("cast", w("add", x, w.rename(y, f="c")), dtype="f16")
    return w.done(x)


def test_a_stack_is_cut_between_its_layers() -> None:
    """Every piece but the first reads one value of the piece before; inner pieces are alike."""
    graph = layers(6)
    pieces = segments(graph, 12)
    assert len(pieces) == 6
    assert [piece.sources.count(None) for piece in pieces] == [0, 1, 1, 1, 1, 1]
    assert len({unnamed(piece) for piece in pieces[1:]}) == 1
    assert joined(graph, pieces, [piece.graph for piece in pieces]) == graph


def test_a_small_program_and_one_without_a_narrow_place_stay_whole() -> None:
    """Two values side by side all the way are no place for a cut."""
    assert len(segments(attention(), 64)) == 1
    w = Write({"m": "m", "k": "k"}, {"x": "m k", "y": "m k"})
    a, b = w.args
    for _ in range(20):
        a, b = w("exp", w("add", a, b)), w("exp", w("sub", a, b))
    assert len(segments(w.done(a, b), 32)) == 1


def test_pieces_together_keep_the_value() -> None:
    """Every alternative of the whole, and in the best one every layer has one phase."""
    graph = layers(4)
    found = superoptimize(graph, SearchOptions(piece=12)).alternatives
    verifier = Verifier(graph, seed=3)
    assert len(found) > 2
    assert [verifier.problem(entry.graph) for entry in found] == [None] * len(found)
    best = found[1].graph
    assert (phases(graph), phases(best)) == (8, 4)
    first = min(ops_of(best, "contract"))
    assert not any(root in needs(best, first) for root in ops_of(best, "rsqrt"))


def test_more_axes_than_can_be_told_apart_leave_the_program_as_it_is() -> None:
    """A layer for every axis: pieces have few axes each and are searched, the whole is not."""
    names = [f"a{i}" for i in range(70)]
    w = Write(dict.fromkeys(names, 8), {"x": names[0], **{f"w{i}": f"{names[i]} {names[i + 1]}" for i in range(69)}})
    x, *weights = w.args
    for i, weight in enumerate(weights):
        x = w("tanh", w.dot(names[i], x, weight))
    whole = superoptimize(w.done(x), SearchOptions(piece=1000))
    assert len(whole.alternatives) == 1
    assert "nothing was searched" in whole.caps[0]
    pieces = superoptimize(w.done(x), SearchOptions(piece=20))
    assert pieces.alternatives[0].graph == w.done(x)
    assert pieces.caps == ()
