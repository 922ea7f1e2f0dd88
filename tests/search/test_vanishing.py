"""Quotients, roots and logarithms of what is 0 by a choice keep their infinities: no program takes the choice for granted."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import cleave
from cleave.frontend import capture
from cleave.reference import evaluate
from cleave.search import SearchOptions, superoptimize
from cleave.search.bounded import bounds, opaque
from cleave.search.verify import Verifier
from tests.search.test_unlucky_draws import features

CASES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "bit": lambda x, y: x / (y > 0).float(),
    "bits": lambda x, y: (x > 0).float() / (y > 0).float(),
    "both": lambda x, y: x / ((y > 0) & (x > 0)).float(),
    "relu": lambda x, y: x / torch.relu(y),
    "maximum": lambda x, y: x / torch.maximum(y, torch.zeros(())),
    "clamp": lambda x, y: x / y.clamp(max=0),
    "selection": lambda x, y: x / torch.where(y > 0, y, 0.0),
    "product": lambda x, y: x / (torch.relu(y) * x),
    "reciprocal": lambda x, y: torch.reciprocal(torch.relu(y)) * x,
    "root": lambda x, y: x * torch.rsqrt(torch.relu(y)),
    "power": lambda x, y: torch.relu(y) ** -1 * x,
    "logarithm": lambda x, y: torch.log(torch.relu(y)) + x,
    "masked mean": lambda x, y: (x * (y > 0)).sum(-1) / (y > 0).sum(-1),
}


@pytest.mark.parametrize("name", CASES)
def test_infinities_stay(name: str) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(6, 5), torch.randn(6, 5)
    y[2] = -y[2].abs()
    wanted = CASES[name](x, y)
    assert not wanted.isfinite().all()
    torch.testing.assert_close(cleave.compile(CASES[name], x, y)(x, y), wanted, equal_nan=True)


def test_squares_of_choices_are_still_products() -> None:
    def program(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (features(q) ** 2 @ (features(k) ** 2).T) @ v

    graph = capture(program, [torch.empty(1024, 64) for _ in range(3)]).graph
    found = superoptimize(graph, SearchOptions(split=False)).alternatives
    assert any(not any({"m", "n"} <= set(op.axes) for op in entry.graph.ops) for entry in found)


GUARDED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "masked mean": lambda x, m: torch.where(m.sum(-1, keepdim=True) > 0, (x * m) / m.sum(-1, keepdim=True), 0.0) @ x.T,
    "norm": lambda x, m: torch.where((x * x).sum(-1, keepdim=True) > 0, x * torch.rsqrt((x * x).sum(-1, keepdim=True)), 0.0) @ x.T,
    "sum": lambda x, m: torch.where(x.sum(-1, keepdim=True) != 0, x / x.sum(-1, keepdim=True), 0.0) @ x.T,
    "root": lambda x, m: torch.where(x > 0, x.sqrt(), 0.0) @ x.T,
    "logarithm": lambda x, m: torch.where(x > 0, x * x.log(), 0.0).sum(-1),
    "selection": lambda x, m: torch.where(m > 0, x / x.sum(-1, keepdim=True), 0.0) @ x.T,
}


@pytest.mark.parametrize("name", GUARDED)
def test_guarded_divisions_stay_guarded(name: str) -> None:
    """0 times infinity is no number: every alternative selects where the program does. Rows of zeros, and masks of nothing."""
    torch.manual_seed(0)
    x, m = torch.randn(8, 64), (torch.rand(8, 64) > 0.5).float()
    x[2], m[2], m[5] = 0.0, 0.0, 0.0
    wanted = GUARDED[name](x, m).double()
    assert wanted.isfinite().all()
    graph = capture(GUARDED[name], (x, m)).graph
    inputs = [value.double().numpy() for value in (x, m)][: len(graph.inputs)]
    for entry in superoptimize(graph, SearchOptions(split=False)).alternatives:
        (found,) = evaluate(entry.graph, inputs, {})
        torch.testing.assert_close(torch.as_tensor(found).double(), wanted, rtol=1e-4, atol=1e-4)


def test_an_epsilon_may_move_under_a_guard() -> None:
    """What is finite as written is finite where an epsilon comes from another sum, which no form shows."""

    def written(x: Tensor, y: Tensor) -> Tensor:
        mean = (x * x).sum(-1, keepdim=True)
        return torch.where(x > y, x * torch.rsqrt(mean + 1e-6), 0.0)

    def moved(x: Tensor, y: Tensor) -> Tensor:
        mean, other = (x * x).sum(-1, keepdim=True), (y * y).sum(-1, keepdim=True)
        return torch.where(x > y, x * torch.rsqrt((mean - other) + (other + 1e-6)), 0.0)

    def unguarded(x: Tensor, y: Tensor) -> Tensor:
        return (x > y) * x * torch.rsqrt((x * x).sum(-1, keepdim=True) - (y * y).sum(-1, keepdim=True))

    def guarded(x: Tensor, y: Tensor) -> Tensor:
        difference = (x * x).sum(-1, keepdim=True) - (y * y).sum(-1, keepdim=True)
        return torch.where(x > y, x * torch.rsqrt(difference), 0.0)

    graphs = [capture(function, (torch.empty(5, 7), torch.empty(5, 7))).graph for function in (written, moved, guarded, unguarded)]
    assert Verifier(graphs[0], 0).problem(graphs[1]) is None
    assert Verifier(graphs[2], 0).problem(graphs[2]) is None
    assert Verifier(graphs[2], 0).problem(graphs[3]) is not None


SIGNS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "root of a product": lambda x, y: torch.sqrt(x.sum(-1, keepdim=True) * y).sum(-1),
    "root of a quotient": lambda x, y: torch.sqrt(x / y.sum(-1, keepdim=True)).sum(-1),
    "inverse root": lambda x, y: (torch.rsqrt(x.sum(-1, keepdim=True) * y) * x).sum(-1),
    "power": lambda x, y: ((x * y.sum(-1, keepdim=True)) ** 1.5).sum(-1),
    "logarithm": lambda x, y: torch.log(x * y.sum(-1, keepdim=True)).sum(-1),
}


@pytest.mark.parametrize("name", SIGNS)
def test_roots_and_logarithms_of_products_of_negative_factors(name: str) -> None:
    """They are not products and sums of those of the factors."""
    x, y = -torch.rand(6, 9) - 0.1, -torch.rand(6, 9) - 0.1
    wanted = SIGNS[name](x, y).double()
    assert wanted.isfinite().all()
    graph = capture(SIGNS[name], (x, y)).graph
    for entry in superoptimize(graph, SearchOptions(split=False)).alternatives:
        (found,) = evaluate(entry.graph, [x.double().numpy(), y.double().numpy()], {})
        torch.testing.assert_close(torch.as_tensor(found).double(), wanted, rtol=1e-4, atol=1e-4)


QUESTIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "is no number": lambda x, w: torch.where((x / x.sum(-1, keepdim=True)).isnan(), 0.0, x / x.sum(-1, keepdim=True)) @ w,
    "replaced": lambda x, w: torch.nan_to_num(x / x.sum(-1, keepdim=True)) @ w,
    "is finite": lambda x, w: torch.where(torch.isfinite(1 / x), 1 / x, 0.0) @ w,
    "is infinite": lambda x, w: torch.where(torch.isinf(1 / x), 0.0, 1 / x) @ w,
    "equals itself": lambda x, w: torch.where((x / x) == (x / x), x / x, 0.0) @ w,
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_guards_against_what_is_no_number(name: str) -> None:
    """They stay, but for those of a softmax, whose empty rows are zeros."""
    torch.manual_seed(1)
    x, w = torch.randn(6, 9), torch.randn(9, 4)
    x[2], x[:, 3] = 0.0, 0.0
    wanted = QUESTIONS[name](x, w)
    torch.testing.assert_close(cleave.compile(QUESTIONS[name], x, w)(x, w), wanted, rtol=1e-4, atol=1e-4)
    graph = capture(QUESTIONS[name], (x, w)).graph
    for entry in superoptimize(graph, SearchOptions(split=False)).alternatives:
        (found,) = evaluate(entry.graph, [x.double().numpy(), w.double().numpy()], {})
        torch.testing.assert_close(torch.as_tensor(found).float(), wanted, rtol=1e-4, atol=1e-4)


def correlation(x: Tensor, y: Tensor) -> Tensor:
    a, b = x - x.mean(-1, keepdim=True), y - y.mean(-1, keepdim=True)
    return (a * b).sum(-1) / torch.sqrt((a * a).sum(-1) * (b * b).sum(-1) + 1e-8)


def entropy(x: Tensor, y: Tensor) -> Tensor:
    p = torch.softmax(x, -1)
    return -(p * torch.log(p)).sum(-1) + y.sum()


@pytest.mark.parametrize("function", [correlation, entropy])
def test_every_alternative_is_right(function: Callable[[Tensor, Tensor], Tensor]) -> None:
    """What two points of an axis cannot tell apart, and what would be spread along an axis more."""
    torch.manual_seed(2)
    x, y = torch.randn(6, 9), torch.randn(6, 9)
    wanted = function(x.double(), y.double())
    for entry in superoptimize(capture(function, (x, y)).graph, SearchOptions(split=False)).alternatives:
        (found,) = evaluate(entry.graph, [x.double().numpy(), y.double().numpy()], {})
        assert found.shape == tuple(wanted.shape)
        torch.testing.assert_close(torch.as_tensor(found.copy()).double(), wanted, rtol=1e-6, atol=1e-6)


def test_what_is_above_zero_may_be_zero_as_an_integer() -> None:
    """exp(x) is above 0, and 0 where it is truncated below 1: a guard against that stays."""

    def guarded(x: Tensor, y: Tensor) -> Tensor:
        count = torch.exp(x).to(torch.int32).float()
        return torch.where(count > 0, y / count, 0.0).sum(-1)

    x, y = torch.tensor([[-3.0, 1.0, 2.0], [0.5, -1.0, 3.0]]), torch.ones(2, 3)
    graph = capture(guarded, (x, y)).graph
    for entry in superoptimize(graph, SearchOptions(split=False)).alternatives:
        (found,) = evaluate(entry.graph, [x.double().numpy(), y.double().numpy()], {})
        torch.testing.assert_close(torch.as_tensor(found.copy()).float(), guarded(x, y))
    (division, selection) = (next(op for op in graph.ops if op.kind == kind) for kind in ("div", "select"))
    known = bounds(graph)
    assert not known[division.args[1]].above and opaque(graph, selection, known)
