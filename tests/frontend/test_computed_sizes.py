"""What a program computes of dynamic sizes: a size where sizes can hold it, else an error at the user's line."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from cleave.errors import CleaveError
from cleave.frontend import capture
from tests.frontend.agreement import agrees

Tensor = torch.Tensor
X = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))

HELD: Mapping[str, Callable[[Tensor], Tensor]] = {
    "floor": lambda x: x[: math.floor(x.shape[0] / 2)] * 2,
    "ceil": lambda x: x[: math.ceil(x.shape[0] / 3)] * 2,
    "trunc": lambda x: x[: math.trunc((x.shape[0] + 3) / 4)] * 2,
    "floor_of_a_difference": lambda x: x.new_ones(math.floor((2 * x.shape[0] - 1) / 3)),
    "ceil_of_a_sum": lambda x: x.new_ones(math.ceil((x.shape[0] + x.shape[0] // 2) / 4)),
    "ceil_of_a_slice": lambda x: x[1:][: math.ceil((x.shape[0] - 1) / 2)] * 2,
    "number": lambda x: x + math.ceil(x.shape[0] / 2),
    "branch": lambda x: x * 2 if x.shape[0] > 1 else x,
}


@pytest.mark.parametrize("name", HELD)
def test_sizes_that_are_computed(name: str) -> None:
    agrees(HELD[name], (X,), ({0: "m"},), [(torch.randn(size, 3),) for size in (4, 5, 6, 7, 9)])


def attention(x: Tensor) -> Tensor:
    keys = x.new_zeros(1, 1, round(x.shape[0] / 2), 3)
    return F.scaled_dot_product_attention(x[None, None], keys, keys)


REFUSED: Mapping[str, tuple[Callable[[Tensor], Any], str]] = {
    "part": (lambda x: x[: int(x.shape[0] * 1.25) // 2] * 2, "needs int(1.25*m) to be 10; compute sizes by + - * // % only"),
    "part_as_a_number": (lambda x: x * int(x.shape[0] * 1.25), "needs int(1.25*m) to be 10"),
    "branch_on_a_part": (lambda x: x * 2 if int(x.shape[0] * 1.25) == 10 else x, "needs int(1.25*m) to be 10"),
    "trunc_of_a_part": (lambda x: x[: math.trunc(x.shape[0] * 0.5)] * 2, "slice: size 'int(0.5*m)' is not made of"),
    "trunc_below_0": (lambda x: x[: math.trunc((x.shape[0] - 20) / 3)] * 2, "slice: size 'int((m - 20) / 3)' is not made of"),
    "ceil_by_less_than_0": (lambda x: x[: math.ceil(x.shape[0] / -3)] * 2, "slice: size 'ceil(m / (-3))' is not made of"),
    "round": (lambda x: x[: round(x.shape[0] / 2)] * 2, "slice: size 'round(m / 2)' is not made of"),
    "root": (lambda x: x.new_zeros(math.trunc(x.shape[0] ** 0.5)), "size 'int(m ** 0.5)' is not made of"),
    "power": (lambda x: x.new_zeros(2 ** x.shape[0]), "pow: size '2 ** m' is not made of"),
    "bits": (lambda x: x.new_zeros(x.shape[0] & 3), "and_: size 'm & 3' is not made of"),
    "split": (lambda x: x.split([round(x.shape[0] / 2), x.shape[0] - round(x.shape[0] / 2)])[0] * 2, "size 'round(m / 2)' is not made of"),
    "attention": (lambda x: attention(x), "size 'round(m / 2)' is not made of"),
    "branch": (lambda x: x * 2 if x.shape[0] * 1.5 > 7 else x, "branches on sizes by 1.5*m > 7; branch on a comparison of two sizes"),
    "comparison_in_a_product": (lambda x: x * (x.shape[0] > 3), "mul: takes a comparison of sizes as a number; branch on it instead"),
    "equality_in_a_sum": (lambda x: x + (x.shape[0] == 8), "add: takes a comparison of sizes as a number"),
    "comparison_in_where": (lambda x: torch.where(x > 0, x, x.shape[0] > 3), "where: takes a comparison of sizes as a number"),
    "comparison_in_full": (lambda x: torch.full((3,), x.shape[0] > 3), "full: takes a comparison of sizes as a number"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_sizes_cannot_hold_is_refused_at_its_line(name: str) -> None:
    function, message = REFUSED[name]
    with pytest.raises(CleaveError) as caught:
        capture(function, (X,), ({0: "m"},))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert re.match(rf"{re.escape(__file__)}:\d+: error: ", str(caught.value))
