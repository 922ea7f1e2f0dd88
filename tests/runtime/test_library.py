"""Library calls on torch tensors: every order of axes gives what an einsum gives, by a product of matrices where it is one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
import torch

from cleave.layouts import axis_strides, contiguous_strides
from cleave.runtime.library import Product, library
from cleave.schedule.program import LibraryCall

SIZES = {"a": 2, "b": 3, "m": 5, "n": 7, "k": 11, "l": 4}


@dataclass(frozen=True)
class Held:
    layout: str
    strides: Mapping[str, int]
    dtype: torch.dtype = torch.float32


def held(layout: str, dtype: torch.dtype = torch.float32) -> Held:
    return Held(layout, axis_strides(layout, SIZES, contiguous_strides([SIZES[axis] for axis in layout.split()])), dtype)


@pytest.mark.parametrize(
    ("left", "right", "out", "matrices"),
    [
        ("m k", "k n", "m n", True),
        ("k m", "k n", "m n", True),
        ("m k", "n k", "m n", True),
        ("n k", "m k", "m n", True),
        ("a m k l", "k l n", "a m n", True),
        ("m k", "k b n", "m b n", True),
        ("m k", "k n", "n m", True),
        ("a m k", "k n", "m a n", False),
        ("a m k", "a k n", "a m n", False),
        ("m k l", "l k n", "m n", False),
    ],
)
def test_products(left: str, right: str, out: str, matrices: bool) -> None:
    places = [held(layout) for layout in (left, right, out)]
    over = tuple(axis for axis in left.split() if axis in right.split() and axis not in out.split())
    call = LibraryCall("matmul", "out", ("left", "right"), over)
    step = library(call, {"left": 0, "right": 1, "out": 2}, places, SIZES)
    assert isinstance(step, Product) == matrices
    torch.manual_seed(0)
    tensors = [torch.randn([SIZES[axis] for axis in layout.split()]) for layout in (left, right)]
    wanted = torch.einsum(f"{left.replace(' ', '')},{right.replace(' ', '')}->{out.replace(' ', '')}", *tensors)
    result = torch.full(wanted.shape, torch.nan)
    step((*tensors, result))
    torch.testing.assert_close(result, wanted)


def test_other_types_and_strides_are_no_product_of_matrices() -> None:
    call = LibraryCall("matmul", "out", ("left", "right"), ("k",))
    slots = {"left": 0, "right": 1, "out": 2}
    mixed = library(call, slots, [held("m k"), held("k n", torch.float16), held("m n")], SIZES)
    assert not isinstance(mixed, Product)
    x, y, out = torch.randn(5, 11), torch.randn(11, 7).half(), torch.empty(5, 7)
    mixed((x, y, out))
    torch.testing.assert_close(out, x @ y.float())
    gaps = Held("m k", {"m": 22, "k": 1})
    assert not isinstance(library(call, slots, [gaps, held("k n"), held("m n")], SIZES), Product)
