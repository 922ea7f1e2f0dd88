"""Calls that are one in Python are one for what is compiled, and what differs is named."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

import cleave
from cleave.errors import CleaveError
from cleave.frontend import Captured, capture

Tensor = torch.Tensor
X, Y = (torch.randn(4, 3, generator=torch.Generator().manual_seed(seed)) for seed in range(2))


def masked(x: Tensor, mask: Tensor | None = None, scale: float = 2.0) -> Tensor:
    return x * scale if mask is None else x * mask * scale


def scaled(x: Tensor, *, scale: float = 1.0, kind: tuple[str, int] = ("a", 1)) -> Tensor:
    return x * scale


def spread(x: Tensor, *rest: Tensor, factor: int = 2, **other: Any) -> Tensor:
    return functools.reduce(torch.add, rest, x * factor)


class Masked(torch.nn.Module):
    def forward(self, x: Tensor, mask: Tensor | None = None, *, scale: float = 1.0) -> Tensor:
        return x * scale if mask is None else x * mask


def as_leaves(captured: Captured, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """The flat arguments of a call that is accepted."""
    flat = captured.bindings.flatten(args, kwargs)
    captured.bindings.sizes(flat)
    return flat


ALIKE: Sequence[tuple[Any, Sequence[Any], Sequence[tuple[tuple[Any, ...], dict[str, Any]]]]] = [
    (masked, (X,), [((X, None), {}), ((), {"x": X}), ((X,), {"mask": None}), ((X,), {"scale": 2.0}), ((X, None, 2.0), {})]),
    (masked, (X, None), [((X,), {}), ((), {"x": X}), ((), {"mask": None, "x": X}), ((X, None, 2.0), {}), ((X,), {"scale": 2.0})]),
    (masked, (X, None, 3.0), [((X,), {"scale": 3.0}), ((), {"scale": 3.0, "x": X})]),
    (masked, (X, Y), [((X,), {"mask": Y}), ((), {"mask": Y, "x": X}), ((X, Y), {"scale": 2.0}), ((X, Y, 2.0), {})]),
    (scaled, (X,), [((X,), {"scale": 1.0}), ((), {"x": X, "kind": ("a", 1)})]),
    (spread, (X, Y), [((X, Y), {"factor": 2})]),
    (functools.partial(masked, mask=Y), (X,), [((X,), {"mask": Y}), ((X,), {"scale": 2.0, "mask": Y})]),
    (Masked(), (X,), [((X, None), {}), ((X,), {"mask": None, "scale": 1.0})]),
    (Masked(), (X, Y), [((X,), {"mask": Y}), ((), {"scale": 1.0, "mask": Y, "x": X})]),
]


@pytest.mark.parametrize("function, example, calls", ALIKE)
def test_calls_that_are_alike(function: Any, example: Sequence[Any], calls: Sequence[tuple[tuple[Any, ...], dict[str, Any]]]) -> None:
    captured = capture(function, example)
    wanted = as_leaves(captured, example, {})
    for args, kwargs in calls:
        assert all(one is other or one == other for one, other in zip(as_leaves(captured, args, kwargs), wanted, strict=True))


DIFFERENT: Sequence[tuple[Any, Sequence[Any], tuple[Any, ...], dict[str, Any], str]] = [
    (masked, (X,), (X, Y), {}, "argument 'mask' is a tensor, compiled for its default None; give it when compiling"),
    (masked, (X,), (X,), {"mask": Y}, "argument 'mask' is a tensor, compiled for its default None; give it when compiling"),
    (masked, (X,), (X, None, 3.0), {}, "argument 'scale' is 3.0, compiled for its default 2.0; give it when compiling"),
    (masked, (X,), (X, None, 2), {}, "argument 'scale' is 2, compiled for its default 2.0"),
    (masked, (X,), (X, None, 2.0, 1), {}, "4 arguments are given; compiled for 1: x"),
    (masked, (X,), (), {}, "argument 'x' is missing; compiled for 1: x"),
    (masked, (X,), (), {"mask": None}, "argument 'x' is missing; compiled for 1: x"),
    (masked, (X,), (X,), {"other": Y}, "there is no argument 'other'; they are x, mask, scale"),
    (masked, (X, None), (X, Y), {}, "argument 'mask' is a tensor, compiled for None; compile again"),
    (masked, (X, None), (X, [Y, Y]), {}, "argument 'mask' is [one value, one value], compiled for one value"),
    (masked, (X, Y), (X,), {}, "argument 'mask' is None, compiled for a tensor"),
    (masked, (X, Y), (X, Y), {"mask": Y}, "argument 'mask' is given twice"),
    (masked, (X,), (X, None), {"mask": None}, "argument 'mask' is given twice"),
    (masked, (X, Y), (X, Y), {"x": X}, "argument 'x' is given twice"),
    (
        scaled,
        (X,),
        (X,),
        {"scale": 2.0},
        "argument 'scale' is 2.0, compiled for its default 1.0; fix it before compiling, as by functools.partial",
    ),
    (scaled, (X,), (X,), {"scale": X}, "argument 'scale' is a tensor, compiled for its default 1.0"),
    (scaled, (X,), (X,), {"kind": ("a", 2)}, "argument 'kind' is ('a', 2), compiled for its default ('a', 1)"),
    (scaled, (X,), (X,), {"kind": [X] * 9}, "argument 'kind' is of type list, compiled for its default"),
    (scaled, (X,), (X, 1.0), {}, "2 arguments are given; compiled for 1: x"),
    (lambda: torch.ones(3), (), (X,), {}, "1 argument is given; compiled for 0: none"),
    (spread, (X, Y), (X,), {}, "argument 'rest0' is missing; compiled for 2: x, rest0"),
    (spread, (X, Y), (X, Y), {"other": 1}, "argument 'other' is 1, compiled without it; fix it before compiling"),
    (lambda x, n: x * n, (X, 3), (X, Y), {}, "argument 'n' is a tensor, compiled for 3"),
    (lambda d: d["a"] * 2, ({"a": X},), ({"b": X},), {}, "argument 'd' is {'b': one value}, compiled for {'a': one value}"),
]


@pytest.mark.parametrize("function, example, args, kwargs, message", DIFFERENT)
def test_calls_that_differ(function: Any, example: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any], message: str) -> None:
    captured = capture(function, example)
    with pytest.raises(CleaveError) as caught:
        as_leaves(captured, args, kwargs)
    assert message in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "function, example, other",
    [
        (lambda d: d["a"] - d["b"], {"a": X, "b": Y}, {"b": Y, "a": X}),
        (lambda d: d["a"]["c"] - d["a"]["b"] * d["n"], {"a": {"b": X, "c": Y}, "n": 2}, {"n": 2, "a": {"c": Y, "b": X}}),
        (lambda d: d[0]["a"] - d[0]["b"] * d[1], ({"a": X, "b": Y}, 3), ({"b": Y, "a": X}, 3)),
        (lambda d: d[0]["a"] - d[0]["b"], [{"a": X, "b": Y}], [{"b": Y, "a": X}]),
    ],
)
def test_keys_in_any_order(function: Callable[[Any], Tensor], example: Any, other: Any) -> None:
    captured = capture(function, (example,))
    given = zip(as_leaves(captured, (other,), {}), as_leaves(captured, (example,), {}), strict=True)
    assert all(one is another for one, another in given)


def test_the_order_of_an_ordered_dict_counts() -> None:
    captured = capture(lambda d: d["a"] - d["b"], (OrderedDict(a=X, b=Y),))
    with pytest.raises(CleaveError, match="give it the structure of the example"):
        as_leaves(captured, (OrderedDict(b=Y, a=X),), {})


def test_a_compiled_function_is_called_as_the_original() -> None:
    compiled = cleave.compile(masked, X, None)
    for result in (compiled(X), compiled(x=X), compiled(X, None), compiled(X, scale=2.0, mask=None)):
        assert torch.equal(result, X * 2)


@pytest.mark.parametrize("shapes", [({0: "m"}, {0: "n"}), ({0: "m"}, {0: "m"})])
def test_sizes_that_have_to_be_equal_name_each_other(shapes: Any) -> None:
    captured = capture(lambda x, y: x + y, (X, Y), shapes)
    with pytest.raises(CleaveError, match="dimension 0 of argument 'y' has size 6, compiled for m; m is 5 by dimension 0 of 'x'"):
        as_leaves(captured, (torch.ones(5, 3), torch.ones(6, 3)), {})


def test_weights_in_an_argument_are_named() -> None:
    compiled = cleave.compile(lambda x, w: x @ w["a"] @ w["b"], X, {"a": torch.ones(3, 3), "b": torch.ones(3, 3)}, weights=("w_a", "w_b"))
    with pytest.raises(CleaveError, match="1 weight is given; compiled for 2: w_a, w_b"):
        compiled.prepare(X)
