"""Integers made of positions, sizes and numbers are PyTorch's int64, however large: nothing wraps at 32 bits."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

import cleave
from cleave.frontend import capture
from cleave.frontend.reach import INDEX, LONGEST

LARGEST = INDEX[1]
Tensor = torch.Tensor
NUMBERS = ("1", "7", "-3", "1000", "1000003", "2**30", "2**31 - 1", "-(2**31)", "2**33")
FORMS = (
    "{0} + {1}", "{0} - {1}", "{0} * {n}", "{0} + {n}", "{n} - {0}", "-{0}", "{0}.abs()", "torch.maximum({0}, {1})", "{0} % 65536",
    "{0} // 1000", "torch.where(mask, {0}, {1})", "torch.where(mask, {n}, {1})", "torch.where(mask, {n}, 2000000000)", "{0}.clamp(min={n})",
    "torch.full((8,), {n}) + {0}", "torch.arange(8) * {n}", "torch.arange(8)[:, None].sum(1) + {0}", "{0} + size * {n}", "{0} * size",
)  # fmt: skip
RESULTS = ("{0}", "{0} % 1000003", "{0} > {1}", "{0} + given", "({0} * 2.0**-20).float()", "{0}.sum() % 1009", "{0} <= {n}")


def drawn(seed: int) -> tuple[str, Any, tuple[Tensor, Tensor]]:
    """A program of up to six lines on what it makes itself, and its arguments: a mask, and integers for its results."""
    draw = random.Random(seed)
    names = ["torch.arange(8)", "t"]
    lines = ["    size = given.shape[0]", "    t = torch.arange(size)"]
    for at in range(draw.randint(1, 6)):
        lines.append(f"    t{at} = " + draw.choice(FORMS).format(draw.choice(names[-3:]), draw.choice(names), n=draw.choice(NUMBERS)))
        names.append(f"t{at}")
    results = ", ".join(draw.choice(RESULTS).format(names[-1], draw.choice(names), n=draw.choice(NUMBERS)) for _ in range(2))
    text = "\n".join(["def program(mask, given):", *lines, f"    return {results}"])
    scope: dict[str, Any] = {"torch": torch}
    exec(compile(text, "<random program>", "exec"), scope)
    chance = torch.Generator().manual_seed(seed)
    return text, scope["program"], (torch.rand(8, generator=chance) > 0.4, torch.randint(-9, 9, (8,), generator=chance))


@pytest.mark.parametrize("dynamic", [False, True])
def test_random_programs_on_integers(dynamic: bool) -> None:
    wide = 0
    for seed in range(40):
        text, program, arguments = drawn(seed)
        dims = {"n": torch.export.Dim.AUTO}
        try:
            wanted = program(*arguments)
        except RuntimeError:
            continue
        shapes = ({0: dims["n"]}, {0: dims["n"]}) if dynamic and "8" not in text else None
        wide += any(value.dtype == torch.int64 and bool((value.abs() > LARGEST).any()) for value in wanted)
        try:
            found = cleave.compile(program, *arguments, cache=False, dynamic_shapes=shapes)(*arguments)
            for one, other in zip(found, wanted, strict=True):
                assert one.dtype == other.dtype
                torch.testing.assert_close(one, other, rtol=1e-6, atol=0)
        except Exception as error:
            raise AssertionError(f"seed {seed}:\n{text}") from error
    assert wide > 3


def test_a_product_of_sizes_is_right_where_it_is_large() -> None:
    def program(x: Tensor) -> tuple[Tensor, Tensor]:
        n, k = x.shape
        return x.sum() / (n * n * n * n * n * n * n * n * k), torch.arange(3) + n * k * 1000000007

    x = torch.ones(16, 5)
    ready = cleave.compile(program, x, dynamic_shapes=({0: torch.export.Dim("n"), 1: torch.export.Dim("k")},), cache=False)
    for shape in ((16, 5), (31, 2), (1, 1)):
        given = torch.ones(shape)
        for one, other in zip(ready(given), program(given), strict=True):
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize("last", [LARGEST // 7, LARGEST // 7 + 1])
def test_what_fits_is_an_index(last: int) -> None:
    graph = capture(lambda x: torch.arange(8) * last < x, (torch.zeros(8, dtype=torch.int64),)).graph
    product = next(op for op in graph.ops if op.kind == "mul")
    assert product.dtype == ("index" if 7 * last <= LARGEST else "i64")


def test_masks_of_dynamic_sizes_are_of_indices() -> None:
    """Corners, windows and steps of what is not longer than 2^28."""
    m, n = torch.export.Dim("m"), torch.export.Dim("n")

    def masked(x: Tensor) -> Tensor:
        rows, columns = torch.arange(x.shape[0])[:, None], torch.arange(x.shape[1])
        held = (columns <= rows + (x.shape[1] - x.shape[0])) & (columns > rows - 1024) & (rows * 2 < columns * 4 + 3)
        return x.masked_fill(~held, 0.0)

    graph = capture(masked, (torch.zeros(5, 7),), dynamic_shapes=({0: m, 1: n},)).graph
    assert 4 * LONGEST <= LARGEST
    assert not [op for op in graph.ops if op.dtype == "i64"]
