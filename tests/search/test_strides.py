"""Steps, paddings and merged axes: exact values, the forms found with them, and wrong programs that must be refused."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from cleave.bench.forms import deferred, maxima
from cleave.frontend import capture
from cleave.graph import Graph
from cleave.reference import evaluate
from cleave.search import SearchOptions, superoptimize
from cleave.search.equivalence import equivalence
from cleave.search.verify import Verifier
from tests.search.programs import Write
from tests.search.questions import contractions, ops_of, phases

WHOLE = SearchOptions(split=False)
Tensor = torch.Tensor


def agrees(first: Graph, second: Graph) -> bool:
    return Verifier(first, 0).problem(second) is None


def rotated(interleaved: bool, merged: bool, first: int = 0, normed: bool = True) -> Graph:
    """
    Scores of rotated queries and keys, normed before. The pairs that are turned are neighbours or d/2 apart; `merged` stacks the results
    and merges the axes, else they are concatenated.
    """
    leaves = {"q": "h m d", "k": "h n d", "cm": "m p", "sm": "m p", "cn": "n p", "sn": "n p"}
    w = Write({"h": 32, "m": "m", "n": "n", "d": 128, "p": 64, "r": 2, "u": 1, "t": 128}, leaves)
    q, k, cm, sm, cn, sn = w.args
    places = ((first, 2), (1 - first, 2)) if interleaved else ((0, 1), (64, 1))

    def turned(x: int, cosine: int, sine: int) -> int:
        if normed:
            x = w("mul", x, w.root_mean_square("d", x))
        a, b = (w("slice", x, attr=("d", "p", start, step)) for start, step in places)
        left = w("sub", w("mul", a, cosine), w("mul", b, sine))
        right = w("add", w("mul", b, cosine), w("mul", a, sine))
        if not merged:
            return w("concat", left, right, attr=(("p", "p"), "t"))
        here = w("compare", w("iota", attr=("r",), dtype="index"), w("constant", attr=(0,), dtype="index"), attr=("eq",), dtype="i1")
        return w("merge", w("select", here, left, right), attr=(("p", "r"), "t"))

    return w.done(w.dot("t", turned(q, cm, sm), turned(k, cn, sn)))


@pytest.mark.parametrize("merged", [False, True])
def test_norms_move_behind_the_product_of_neighbours_in_turn(merged: bool) -> None:
    """As for pairs half the axis apart: all sums become independent."""
    assert phases(rotated(True, merged)) == 2
    best = superoptimize(rotated(True, merged), WHOLE).alternatives[1].graph
    assert phases(best) == 1


def test_steps_are_told_from_runs() -> None:
    """Neighbours or halves, and which of the two comes first, are different programs; how results are joined does not matter to the sum."""
    assert not agrees(rotated(True, False), rotated(False, False))
    assert not agrees(rotated(True, False), rotated(True, False, first=1))
    assert agrees(rotated(True, False), rotated(True, False))


def sums(positions: tuple[tuple[int, int], ...], extent: int = 8) -> Graph:
    """The sum of runs of half of x, each from a start and in a step."""
    w = Write({"m": 64, "d": extent, "p": extent // 2}, {"x": "m d"})
    (x,) = w.args
    total = None
    for start, step in positions:
        part = w.sum("p", w("slice", x, attr=("d", "p", start, step)))
        total = part if total is None else w("add", total, part)
    assert total is not None
    return w.done(total)


def total_of_line(extent: int = 8) -> Graph:
    w = Write({"m": 64, "d": extent, "p": extent // 2}, {"x": "m d"})
    return w.done(w.sum("d", w.args[0]))


def test_even_and_odd_elements_add_up_to_the_line() -> None:
    assert agrees(total_of_line(), sums(((0, 2), (1, 2))))
    assert agrees(total_of_line(), sums(((0, 1), (4, 1))))
    for wrong in (((0, 2), (0, 2)), ((0, 2),), ((0, 1), (1, 2)), ((0, 2), (4, 1)), ((0, 1), (0, 1))):
        assert not agrees(total_of_line(), sums(wrong))
    assert not agrees(sums(((0, 2),)), sums(((0, 1),)))
    assert not agrees(sums(((1, 2),)), sums(((4, 1),)))


def test_halves_and_steps_of_one_axis_are_not_confused() -> None:
    """x[:4] x[1::2] is not x[::2] x[4:], though both kinds of pieces have four elements."""

    def product(first: tuple[int, int], second: tuple[int, int]) -> Graph:
        w = Write({"m": 64, "d": 8, "p": 4}, {"x": "m d"})
        a, b = (w("slice", w.args[0], attr=("d", "p", start, step)) for start, step in (first, second))
        return w.done(w.sum("p", w("mul", a, b)))

    kinds = ((0, 1), (4, 1), (0, 2), (1, 2))
    programs = [(first, second) for at, first in enumerate(kinds) for second in kinds[at:]]
    for one in programs:
        for other in programs:
            assert agrees(product(*one), product(*other)) == (one == other)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_programs_of_moves_are_judged_as_the_reference_judges(data: st.DataObject) -> None:
    """
    Two random ways to take a line apart and put it together again, weighted on the way: what the verifier takes for equal is equal
    in float64. Six operations, values below 100: 1e-9 is ample.
    """
    first, second = data.draw(moves()), data.draw(moves())
    if agrees(first, second):
        rng = np.random.default_rng(0)
        inputs = [rng.normal(size=(3, 8)), rng.normal(size=(4,))]
        np.testing.assert_allclose(evaluate(first, inputs, {})[0], evaluate(second, inputs, {})[0], rtol=1e-9)
    assert agrees(first, first)


@st.composite
def moves(draw: st.DrawFn) -> Graph:
    """Halves or every other element of x, weighted, then joined, padded or merged, and summed against x or squares of themselves."""
    w = Write({"m": 3, "d": 8, "p": 4, "r": 2, "t": 8, "e": 11}, {"x": "m d", "g": "p"}, dtype="f64")
    x, gain = w.args
    halves = [
        w("slice", x, attr=("d", "p", start, step), dtype="f64")
        for start, step in draw(st.sampled_from((((0, 2), (1, 2)), ((0, 1), (4, 1)), ((1, 2), (0, 2)), ((4, 1), (0, 1)))))
    ]
    turned = [w("mul", half, gain, dtype="f64") if draw(st.booleans()) else half for half in halves]
    match draw(st.sampled_from(("concat", "merge", "stack", "product", "split", "pad"))):
        case "concat":
            out = w("concat", *turned, attr=(("p", "p"), "t"), dtype="f64")
            out = w.sum("t", w("mul", out, out, dtype="f64"))
        case "merge" | "stack" as kind:
            here = w("compare", w("iota", attr=("r",), dtype="index"), w("constant", attr=(0,), dtype="index"), attr=("eq",), dtype="i1")
            order = ("p", "r") if kind == "merge" else ("r", "p")
            out = w("merge", w("select", here, *turned, dtype="f64"), attr=(order, "t"), dtype="f64")
            out = w.sum(
                "p", w("mul", w("slice", out, attr=("t", "p", *draw(st.sampled_from(((0, 2), (0, 1))))), dtype="f64"), gain, dtype="f64")
            )
        case "split":
            order = draw(st.sampled_from((("p", "r"), ("r", "p"))))
            out = w("index", w("split", x, attr=("d", *order), dtype="f64"), attr=("r", draw(st.integers(0, 1))), dtype="f64")
            out = w.sum("p", w("mul", out, turned[0], dtype="f64"))
        case "pad":
            filled = w("pad", turned[0], attr=("p", "e", draw(st.integers(0, 2)), 0.0), dtype="f64")
            out = w.sum("e", w("mul", filled, filled, dtype="f64"))
        case _:
            out = w.sum("p", w("mul", turned[0], turned[1], dtype="f64"))
    return w.done(out, dtype="f64")


def padded_sum(low: int, filling: float, function: str = "") -> Graph:
    """The sum over a padded axis of x times w."""
    w = Write({"m": "m", "n": 60, "t": 70, "o": 80}, {"x": "m n", "w": "t o"})
    x, weight = w.args
    padded = w("pad", x, attr=("n", "t", low, filling))
    return w.done(w.dot("t", w(function, padded) if function else padded, weight))


def test_a_sum_over_a_padded_axis_is_one_over_the_axis() -> None:
    found = superoptimize(padded_sum(4, 0.0), WHOLE).alternatives[1:]
    assert any(not ops_of(entry.graph, "pad") and [axes for axes, _ in contractions(entry.graph)] == [("n",)] for entry in found)


def test_what_is_padded_with_minus_infinity_is_no_part_of_a_sum_of_exponentials() -> None:
    found = superoptimize(padded_sum(4, -math.inf, "exp"), WHOLE).alternatives[1:]
    assert any(not ops_of(entry.graph, "pad") and [axes for axes, _ in contractions(entry.graph)] == [("n",)] for entry in found)


def test_wrong_paddings_are_refused() -> None:
    assert not agrees(padded_sum(4, 0.0), padded_sum(5, 0.0))
    assert not agrees(padded_sum(4, 0.0), padded_sum(4, 1.0))
    assert not agrees(padded_sum(4, 0.0, "exp"), padded_sum(4, -math.inf, "exp"))
    assert not agrees(padded_sum(0, 0.0), padded_sum(10, 0.0))


@pytest.mark.parametrize("low", [0, 3, 10])
def test_the_part_of_a_padding_that_is_not_filled_is_what_was_padded(low: int) -> None:
    def program(padded: bool, start: int) -> Graph:
        w = Write({"m": "m", "n": 60, "t": 70}, {"x": "m n"})
        (x,) = w.args
        out = w("slice", w("pad", x, attr=("n", "t", low, 0.0)), attr=("t", "n", start, 1)) if padded else x
        return w.done(w("exp", out))

    assert agrees(program(False, 0), program(True, low))
    assert not agrees(program(False, 0), program(True, (low + 1) % 11))


def neighbours(x: Tensor, c: Tensor, s: Tensor) -> Tensor:
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack((a * c - b * s, b * c + a * s), -1).flatten(-2)


def halves(x: Tensor, c: Tensor, s: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return torch.cat((a * c - b * s, b * c + a * s), -1)


def rotate_half(x: Tensor, c: Tensor, s: Tensor) -> Tensor:
    a, b = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return x * torch.cat((c, c), -1) + torch.cat((-b, a), -1) * torch.cat((s, s), -1)


@pytest.mark.parametrize("turn", [neighbours, halves, rotate_half])
def test_attention_with_a_rotation_written_in_pytorch(turn: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
    """However the pairs are taken and put together: no maximum, and the division behind the product with the values."""

    def program(q: Tensor, k: Tensor, v: Tensor, cm: Tensor, sm: Tensor, cn: Tensor, sn: Tensor) -> Tensor:
        scores = turn(q, cm, sm) @ turn(k, cn, sn).transpose(-1, -2) / 8
        mask = torch.ones(scores.shape[-2], scores.shape[-1], dtype=torch.bool).tril()
        return torch.softmax(scores.masked_fill(~mask, float("-inf")), -1) @ v

    shapes = [(8, 512, 64)] * 3 + [(512, 32)] * 4
    graph = capture(program, [torch.zeros(shape, dtype=torch.float16) for shape in shapes]).graph
    best = superoptimize(graph, WHOLE).alternatives[1].graph
    assert not maxima(best)
    assert deferred(best, "n")
    assert phases(best) == 2


def test_attention_with_padded_keys_written_in_pytorch() -> None:
    """Keys and values are padded to a multiple, and what is padded is masked."""

    def program(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        k, v = F.pad(k, (0, 0, 0, 12)), F.pad(v, (0, 0, 0, 12))
        scores = q @ k.transpose(-1, -2)
        scores = scores.masked_fill(torch.arange(scores.shape[-1]) >= 500, float("-inf"))
        return torch.softmax(scores, -1) @ v

    graph = capture(program, [torch.zeros(8, 512, 64), torch.zeros(8, 500, 64), torch.zeros(8, 500, 64)]).graph
    result = superoptimize(graph, WHOLE)
    best = result.alternatives[1].graph
    assert not maxima(best)
    assert phases(best) == 2
    assert equivalence(graph, best).equivalent is not False


def test_a_padded_convolution_written_in_pytorch_is_searched() -> None:
    """Three shifted slices of a padded line, weighted; a shift is a function of the line, so other shifts are other programs."""

    def program(shifts: tuple[int, int, int]) -> Graph:
        def convolution(x: Tensor, w: Tensor) -> Tensor:
            y = F.pad(x, (1, 1))
            total = torch.zeros_like(x)
            for at, shift in enumerate(shifts):
                total = total + w[at] * y[:, shift : shift + x.shape[1]]
            return total

        return capture(convolution, [torch.zeros(4, 100), torch.zeros(3)]).graph

    assert len(superoptimize(program((0, 1, 2))).alternatives) > 1
    assert agrees(program((0, 1, 2)), program((0, 1, 2)))
    assert not agrees(program((0, 1, 2)), program((2, 1, 0)))
    assert not agrees(program((0, 1, 2)), program((0, 1, 1)))
