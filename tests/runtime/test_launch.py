"""Library products as products of matrices."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from cleave.extents import extent
from cleave.layouts import contiguous_strides
from cleave.runtime.execute import executable
from cleave.runtime.launch import Bound, Launch, Step
from cleave.schedule.program import Buffer, LibraryCall, Program

SIZES = {"b": 2, "m": 3, "n": 5, "k": 7, "r": 4}


class NoKernels:
    """For plans of library calls alone."""

    def step(self, launch: Launch) -> Step:
        raise AssertionError(launch)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("left", "right", "out", "over", "matrices"),
    [
        ("mk", "nk", "mn", "k", True),
        ("mk", "kn", "mn", "k", True),
        ("km", "nk", "mn", "k", True),
        ("km", "kn", "nm", "k", True),
        ("bmk", "nk", "bmn", "k", True),
        ("bmk", "nk", "nbm", "k", True),
        ("mkr", "krn", "mn", "kr", True),
        ("mkr", "rkn", "mn", "kr", False),
        ("bmk", "kn", "bnm", "k", False),
        ("bmk", "bkn", "bmn", "k", False),
    ],
)
def test_products_in_every_layout(
    monkeypatch: pytest.MonkeyPatch, left: str, right: str, out: str, over: str, matrices: bool, turned: bool
) -> None:
    """One product of matrices, into the result, where memory allows that; the sum over axes either way."""
    a, b, y = (_buffer(name, axes) for name, axes in (("a", left), ("b", right), ("y", out)))
    sizes = tuple((axis, extent(SIZES[axis])) for axis in sorted({*left, *right}))
    step = LibraryCall("matmul", "y", ("b", "a") if turned else ("a", "b"), tuple(over))
    program = Program("product", (a, b), (y,), tuple(" ".join(axes) for axes in (left, right, out)), sizes, (), (step,))
    inputs = [torch.randn([SIZES[axis] for axis in axes], requires_grad=True) for axes in (left, right)]
    calls: list[torch.Tensor] = []
    multiply = torch.mm

    def watched(*args: torch.Tensor, **options: Any) -> torch.Tensor:
        calls.append(options["out"])
        return multiply(*args, **options)

    monkeypatch.setattr(torch, "mm", watched)
    with torch.no_grad() if not matrices else torch.enable_grad():
        (found,) = Bound(executable(program).plan, NoKernels(), inputs)(*inputs)
    assert [entry.data_ptr() for entry in calls] == ([found.data_ptr()] if matrices else [])
    with torch.no_grad():
        torch.testing.assert_close(found, torch.einsum(f"{left},{right}->{out}", *inputs))


def _buffer(name: str, axes: str) -> Buffer:
    return Buffer(name, tuple(axes), "f32", tuple(contiguous_strides([SIZES[axis] for axis in axes])))
