"""Arrays with no dimensions and with no elements, as inputs and as results; rows named by an integer tensor."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch

import cleave
from cleave.runtime.launch import fitting
from cleave.schedule.program import Buffer

EXTENTS = (0, 1, 3)


def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x @ y


def weighted(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1) @ y


def agrees(function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], m: int, k: int, n: int) -> None:
    draw = torch.Generator().manual_seed(m * 9 + k * 3 + n)
    x, y = torch.randn(m, k, generator=draw), torch.randn(k, n, generator=draw)
    torch.testing.assert_close(cleave.compile(function, x, y)(x, y), function(x, y))


@pytest.mark.parametrize(("m", "k", "n"), list(itertools.product(EXTENTS, repeat=3)))
def test_a_product_of_every_extent(m: int, k: int, n: int) -> None:
    """Extents of 1 leave arrays without dimensions, extents of 0 arrays without elements, whose strides say nothing."""
    agrees(product, m, k, n)


@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (0, 3, 3), (3, 0, 3), (3, 3, 0)])
def test_a_weighted_sum_of_degenerate_extents(m: int, k: int, n: int) -> None:
    agrees(weighted, m, k, n)


def test_a_number_in_a_tensor() -> None:
    x, p = torch.arange(6.0).view(2, 3), torch.tensor(2.0)
    compiled = cleave.compile(torch.mul, x, p)
    torch.testing.assert_close(compiled(x, torch.tensor(3.0)), 3.0 * x)


@pytest.mark.parametrize("shape", [shape for shape in itertools.product((0, 2), repeat=3) if 0 in shape])
def test_no_elements_fit_any_strides(shape: tuple[int, int, int]) -> None:
    sizes = dict(zip("abc", shape, strict=True))
    buffer = Buffer("x", ("a", "b", "c"), "f32", (40, 8, 1))
    empty = torch.empty(shape)
    assert fitting(empty, buffer, "a b c", sizes) is empty


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
@pytest.mark.parametrize("width", [7, 64])
def test_rows_by_an_integer_tensor(width: int, dtype: torch.dtype) -> None:
    """The index is a scalar beside a tile of columns. Outside of the table nothing is read, whatever the result is then."""
    table, places = torch.randn(5, width), torch.tensor([0, -1, 4, -5], dtype=dtype)
    compiled = cleave.compile(lambda table, places: table[places], table, places)
    torch.testing.assert_close(compiled(table, places), table[places])
    outside = torch.tensor([10**6, -(10**6), 5, -6], dtype=dtype)
    assert compiled(table, outside).shape == (4, width)
