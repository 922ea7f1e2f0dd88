"""Slices, positions and concatenations: exact values, the forms found with them, and wrong programs that must be refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cleave.graph import Graph, Symbol
from cleave.search import SearchOptions, superoptimize
from cleave.search.convert import copies
from cleave.search.pieces import pieces
from cleave.search.verify import Verifier
from tests.search.programs import Write
from tests.search.questions import contractions, ops_of, phases

WHOLE = SearchOptions(split=False)
STACKED = {"m": 512, "n": 512, "a": 64, "b": 192, "t": 256}
STACKED_INPUTS = {"x": "m a", "y": "m b", "w": "t n"}


def stacked(swapped: bool = False) -> Graph:
    """[x y] w, or [y x] w."""
    w = Write(STACKED, STACKED_INPUTS)
    x, y, k = w.args
    joined = w("concat", y, x, attr=(("b", "a"), "t")) if swapped else w("concat", x, y, attr=(("a", "b"), "t"))
    return w.done(w.dot("t", joined, k))


def in_pieces(first: int = 0, second: int = 64, sign: str = "add") -> Graph:
    """x w_a + y w_b with the runs of w that start there."""
    w = Write(STACKED, STACKED_INPUTS)
    x, y, k = w.args
    left = w.dot("a", x, w("slice", k, attr=("t", "a", first, 1)))
    right = w.dot("b", y, w("slice", k, attr=("t", "b", second, 1)))
    return w.done(w(sign, left, right))


def rotated(normed: bool, swapped: bool = False, sign: str = "sub") -> Graph:
    """Scores of rotated queries and keys, normed before."""
    leaves = {"q": "h m d", "k": "h n d", "cm": "m p", "sm": "m p", "cn": "n p", "sn": "n p"}
    w = Write({"h": 32, "m": "m", "n": "n", "d": 128, "p": 64}, leaves)
    q, k, cm, sm, cn, sn = w.args

    def turned(x: int, cosine: int, sine: int) -> int:
        if normed:
            x = w("mul", x, w.root_mean_square("d", x))
        a, b = (w("slice", x, attr=("d", "p", start, 1)) for start in ((64, 0) if swapped else (0, 64)))
        left = w(sign, w("mul", a, cosine), w("mul", b, sine))
        return w("concat", left, w("add", w("mul", b, cosine), w("mul", a, sine)), attr=(("p", "p"), "d"))

    return w.done(w.dot("d", turned(q, cm, sm), turned(k, cn, sn)))


def unrolled(positions: tuple[int, ...]) -> Graph:
    """The sum of the elements of x at these positions, and the rest of its axis."""
    w = Write({"m": 64, "d": 8, "r": 6}, {"x": "m d"})
    (x,) = w.args
    total = w.sum("r", w("slice", x, attr=("d", "r", 2, 1)))
    for position in positions:
        total = w("add", total, w("index", x, attr=("d", position)))
    return w.done(total)


def total_of_line() -> Graph:
    w = Write({"m": 64, "d": 8, "r": 6}, {"x": "m d"})
    return w.done(w.sum("d", w.args[0]))


def agrees(first: Graph, second: Graph) -> bool:
    return Verifier(first, 0).problem(second) is None


def test_a_contraction_over_a_stacked_axis_is_a_sum_of_contractions() -> None:
    """[x y] w = x w_a + y w_b is found, and the concatenation is gone."""
    forms = [entry.graph for entry in superoptimize(stacked(), WHOLE).alternatives[1:]]
    assert any(not ops_of(form, "concat") and [axes for axes, _ in contractions(form)] == [("a",), ("b",)] for form in forms)


def test_norms_move_behind_the_product_of_rotated_queries_and_keys() -> None:
    """The factors of the norms lack the axis that is taken apart and joined, so all sums become independent."""
    best = superoptimize(rotated(normed=True), WHOLE).alternatives[1].graph
    assert phases(rotated(normed=True)) == 2
    assert phases(best) == 1
    assert any(
        not ops_of(entry.graph, "concat") and [axes for axes, _ in contractions(entry.graph)] == [("p",), ("p",)]
        for entry in superoptimize(rotated(normed=True), WHOLE).alternatives[1:]
    )


def test_wrong_pieces_are_refused() -> None:
    """Runs from elsewhere, exchanged operands and a wrong sign are other programs."""
    assert agrees(stacked(), in_pieces())
    assert not agrees(stacked(), in_pieces(first=192))
    assert not agrees(stacked(), in_pieces(second=0))
    assert not agrees(stacked(), in_pieces(second=63))
    assert not agrees(stacked(), in_pieces(sign="sub"))
    assert not agrees(stacked(), stacked(swapped=True))
    assert not agrees(rotated(True), rotated(False))
    assert not agrees(rotated(False), rotated(False, swapped=True))
    assert not agrees(rotated(False), rotated(False, sign="add"))


def test_positions_add_up_to_the_line() -> None:
    """x[0] + x[1] + sum x[2:] is the sum of x; with another position, or one twice, it is not."""
    assert agrees(total_of_line(), unrolled((0, 1)))
    assert not agrees(total_of_line(), unrolled((0, 0)))
    assert not agrees(total_of_line(), unrolled((0,)))
    assert not agrees(total_of_line(), unrolled((0, 1, 1)))
    assert not agrees(total_of_line(), unrolled((0, 2)))
    assert not agrees(unrolled((0,)), unrolled((1,)))


@pytest.mark.parametrize("kind", ["exp", "tanh", "relu"])
def test_functions_commute_with_slices(kind: str) -> None:
    """f(x)[a:b] = f(x[a:b]) for any elementwise function, and not f(x[b:c])."""

    def program(after: bool, start: int = 64) -> Graph:
        w = Write({"m": 64, "d": 128, "p": 64}, {"x": "m d"})
        (x,) = w.args
        attr = ("d", "p", start, 1)
        return w.done(w("slice", w(kind, x), attr=attr) if after else w(kind, w("slice", x, attr=attr)))

    assert agrees(program(True), program(False))
    assert not agrees(program(True), program(False, start=0))


def test_maxima_of_pieces_and_their_masks_are_exact() -> None:
    """The maximum of a concatenation is that of the maxima, also where one operand is masked by -inf."""

    def program(apart: bool) -> Graph:
        w = Write({"m": 64, "a": 64, "b": 192, "t": 256}, {"x": "m a", "y": "m b"})
        x, y = w.args
        masked = w.causal("m", "a", x)
        if apart:
            return w.done(w("max", w.max("a", masked), w.max("b", y)))
        return w.done(w.max("t", w("concat", masked, y, attr=(("a", "b"), "t"))))

    assert agrees(program(False), program(True))


def test_axes_of_unknown_length_fall_into_pieces() -> None:
    """Old keys and new ones, both of any number."""
    w = Write({"m": 64, "a": "a", "b": "b", "t": "a + b"}, {"x": "m a", "y": "m b"}, [Symbol("a", (512,)), Symbol("b", (16,))])
    x, y = w.args
    whole = w.done(w.sum("t", w("concat", x, y, attr=(("a", "b"), "t"))))
    assert any(not ops_of(entry.graph, "concat") for entry in superoptimize(whole, WHOLE).alternatives[1:])
    assert [piece.start.text for piece in pieces((whole,), copies(whole))["t"]] == ["0", "a"]


def test_what_cannot_be_cut_stays_opaque() -> None:
    """A shift by one would cut an axis at every element, also where every other element of it is taken: it has no pieces."""
    w = Write({"m": 64, "d": 128, "c": 127, "h": 64}, {"x": "m d"})
    (x,) = w.args
    ahead, behind = (w("slice", x, attr=("d", "c", start, 1)) for start in (1, 0))
    even = w("slice", x, attr=("d", "h", 0, 2))
    graph = w.done(w("add", w.sum("c", w("mul", ahead, behind)), w.sum("h", even)))
    assert all(len(found) <= 6 for found in pieces((graph,), copies(graph)).values())
    assert "c" not in pieces((graph,), copies(graph))
    assert superoptimize(graph, WHOLE).alternatives[0].graph == graph
    odd = replace(graph, ops=tuple(replace(op, attr=("d", "h", 1, 2)) if op.attr == ("d", "h", 0, 2) else op for op in graph.ops))
    assert not agrees(graph, odd)


def test_what_was_found_by_pieces_of_an_axis_is_split_along_it() -> None:
    """sum_p (x f)[p] z = f sum_p x[p] z, then with p in chunks: the pieces are gone there, yet the split program is given."""
    w = Write({"m": 64, "d": 1024, "p": 512}, {"x": "m d", "f": "m", "z": "m p"})
    x, f, z = w.args
    graph = w.done(w.sum("p", w("mul", w("slice", w("mul", x, f), attr=("d", "p", 512, 1)), z)))
    found = superoptimize(graph)
    assert not any("refused" in cap for cap in found.caps)
    late = [entry for entry in found.alternatives if entry.name != "as written split p" and entry.name.endswith("split p")]
    assert late
    assert any(phases(entry.graph) == 2 and not agrees(graph, entry.graph) for entry in late)
