"""How long slices are."""

from __future__ import annotations

from cleave.extents import symbol
from cleave.frontend.cuts import slice_length, slice_start
from cleave.frontend.sizes import to_extent


def test_lengths_are_those_of_python() -> None:
    ends = [None, *range(-7, 8), 2**63 - 1]
    for size in range(6):
        for start in ends[:-1]:
            for end in ends:
                for step in (1, 2, 3):
                    expected = range(size)[start:end:step]
                    assert slice_length(size, start, end, step) == len(expected), (size, start, end, step)
                    if len(expected):
                        assert slice_start(size, start) == expected[0]


def test_lengths_of_symbolic_sizes_are_those_of_python() -> None:
    n = symbol("n")
    for start, end, step in ((None, 3, 1), (-3, None, 1), (2, -1, 1), (1, None, 2), (None, None, 3), (0, 2**63 - 1, 1)):
        extent = to_extent(slice_length(n, start, end, step), {})
        for size in range(9):
            assert extent.evaluate({"n": size}) == len(range(size)[start:end:step])
