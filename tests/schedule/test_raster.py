"""Orders in which the tiles of a grid are run."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from cleave.graph import Graph, Input, Symbol
from cleave.reference.sched import run_program
from cleave.runtime.execute import execute
from cleave.schedule import space
from cleave.schedule.program import Program
from cleave.schedule.raster import covered, places
from tests.tile_programs import CASES

from .programs import H200, Sketch
from .test_plans import every_plan


def matmul(m: str, n: str, k: str, b: str = "", symbols: tuple[Symbol, ...] = ()) -> Graph:
    """A product of f16 matrices, or one for each b."""
    lead = ("b",) if b else ()
    inputs = [Input(name, (*lead, *axes.split()), "f16", " ".join([*lead, axes])) for name, axes in (("x", "m k"), ("w", "k n"))]
    s = Sketch("matmul", f"m={m} n={n} k={k}" + (f" b={b}" if b else ""), inputs, symbols)
    s.output(s.contract(0, 1, over="k"), " ".join([*lead, "m n"]))
    return s.graph()


def test_groups_of_two_rows() -> None:
    """As drawn at the top of the module."""
    numbers = {place: number for number, place in enumerate(places((4, 3), 2))}
    assert [[numbers[row, column] for column in range(3)] for row in range(4)] == [[0, 2, 4], [1, 3, 5], [6, 8, 10], [7, 9, 11]]
    numbers = {place: number for number, place in enumerate(places((4, 3)))}
    assert [[numbers[row, column] for column in range(3)] for row in range(4)] == [[0, 4, 8], [1, 5, 9], [2, 6, 10], [3, 7, 11]]


@pytest.mark.parametrize("counts", [(5, 3), (8, 2), (1, 4), (7, 1), (4, 3, 2), (5, 2, 3), (0, 4)])
@pytest.mark.parametrize("group", [0, 1, 3, 4, 16])
def test_every_tile_has_one_program(counts: tuple[int, ...], group: int) -> None:
    found = list(places(counts, group))
    assert sorted(found) == sorted(product(*(range(count) for count in counts)))


def test_groups_read_less() -> None:
    """What 132 programs in a row read of 32 x 32 tiles: rows and columns, and as many of a third dimension as is left."""
    assert covered((32, 32), 132) == [32, 4]
    assert covered((32, 32), 132, 8) == [8, 16]
    assert covered((32, 4), 132, 8) == [32, 4]
    assert covered((4, 4, 9), 132, 8) == [4, 4, 8]


@pytest.mark.parametrize("name", ["plain", "batched"])
def test_every_plan_in_groups(name: str) -> None:
    graph = matmul("150", "200", "70", "" if name == "plain" else "3")
    assert every_plan(graph, 6, lambda plan: plan.dims[0].tile < 128, lambda plan: replace(plan, group=3)) >= 6


def reordered(program: Program, **fields: int) -> Program:
    """A program whose kernels all have these fields."""
    return replace(program, kernels=tuple(replace(kernel, **fields) for kernel in program.kernels))


@pytest.mark.parametrize("group", [1, 2, 3])
@pytest.mark.parametrize("name", ["matmul", "streamed"])
def test_programs_of_any_size_in_groups(name: str, group: int) -> None:
    """Counts of programs are arguments; the last group is ragged."""
    case = CASES[name]
    program = reordered(case.program(), group=group)
    inputs = case.inputs()
    expected = run_program(program, inputs, case.symbols)
    np.testing.assert_array_equal(expected[0], run_program(case.program(), inputs, case.symbols)[0])
    (found,) = execute(program, inputs, case.symbols)
    np.testing.assert_allclose(np.asarray(found, np.float64), expected[0], rtol=2e-3, atol=2e-3)


def test_large_products_are_timed_in_groups() -> None:
    """The model alone takes the simpler order; small products have no other."""
    found = space([matmul("4096", "4096", "1024")], {}, frozenset(), H200)
    trials = found.trials(32)
    groups = [[choice.plan.group for choice in found.choices(trial)] for trial in trials]
    assert groups[0] == [0] and any(any(entry) for entry in groups)
    small = space([matmul("512", "1024", "1024")], {}, frozenset(), H200)
    assert not any(choice.plan.group for trial in small.trials(64) for choice in small.choices(trial))
