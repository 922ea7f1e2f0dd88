"""Orders in which the tiles of a grid are run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from cleave.algebra import stabilize
from cleave.bridge.sched import module_of, program_of
from cleave.dialects.sched import ProgramOp
from cleave.graph import Graph, Input, Symbol
from cleave.layouts import memory_shape
from cleave.reference.sched import run_program
from cleave.runtime.execute import executable, execute
from cleave.runtime.plan import calls, programs
from cleave.schedule import ScheduleOptions, space
from cleave.schedule.cost import Cost, estimate
from cleave.schedule.measure import measure
from cleave.schedule.overlap import overlapped
from cleave.schedule.problem import Problem
from cleave.schedule.program import Program, Wait
from cleave.schedule.raster import covered, group_of, places
from cleave.schedule.roles import Dim, Plan
from cleave.schedule.whole import KernelEmitter
from tests.tile_programs import CASES

from .programs import H200, Sketch, agrees, scheduled
from .test_cost import problem as problem_of_all
from .test_plans import every_plan
from .test_random import random_graph


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


def test_groups_suit_tiles_and_machine() -> None:
    """132 programs of tiles of 128 x 256 read least of both sides as 16 x 8, of 256 x 128 as 8 x 16; of few rows they do without groups."""
    problem = problem_of_all(matmul("4096", "4096", "512"))
    few = problem_of_all(matmul("512", "4096", "512"))

    def group(work: Problem, rows: int, columns: int, programs: int) -> int:
        plan = Plan((Dim("m", ("m",), "grid", rows), Dim("k", ("k",), "loop", 64), Dim("n", ("n",), "grid", columns)), ("m", "n"))
        return group_of(KernelEmitter(work, plan).kernel(), {}, programs)

    assert [group(problem, *tiles) for tiles in ((128, 256, 132), (256, 128, 132), (128, 128, 264), (64, 64, 528))] == [16, 8, 16, 32]
    assert group(few, 128, 128, 132) == 0


@pytest.mark.parametrize("name", ["plain", "batched"])
def test_every_plan_in_groups(name: str) -> None:
    graph = matmul("150", "200", "70", "" if name == "plain" else "3")
    assert every_plan(graph, 6, lambda plan: plan.dims[0].tile < 128, lambda plan: replace(plan, group=3)) >= 6


def reordered(program: Program, **fields: int) -> Program:
    """A program whose kernels all have these fields."""
    return replace(program, kernels=tuple(replace(kernel, **fields) for kernel in program.kernels))


@pytest.mark.parametrize("fields", [{"group": 1}, {"group": 2}, {"group": 3}, {"persistent": 4}, {"group": 2, "persistent": 5}], ids=str)
@pytest.mark.parametrize("name", ["matmul", "streamed", "rows"])
def test_programs_of_any_size(name: str, fields: Mapping[str, int]) -> None:
    """Counts of programs are arguments, the last group is ragged, programs have one tile more than others, and there may be fewer."""
    case = CASES[name]
    if name == "rows" and "group" in fields:
        fields = {"persistent": 2}
    program = reordered(case.program(), **fields)
    inputs = case.inputs()
    expected = run_program(program, inputs, case.symbols)
    np.testing.assert_array_equal(expected[0], run_program(case.program(), inputs, case.symbols)[0])
    (found,) = execute(program, inputs, case.symbols)
    np.testing.assert_allclose(np.asarray(found, np.float64), expected[0], rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("seed", range(8))
def test_random_programs_in_turn(seed: int) -> None:
    """Whatever the kernels do, their tiles may be run in turn by few programs; as IR and back they still are."""
    graph, _ = random_graph(seed)
    program = scheduled(stabilize(graph), options=ScheduleOptions(plans=24))
    made = replace(
        program, kernels=tuple(replace(kernel, persistent=1 + seed % 3) if kernel.grid else kernel for kernel in program.kernels)
    )
    (host,) = [op for op in module_of(made).ops if isinstance(op, ProgramOp)]
    assert [kernel.persistent for kernel in program_of(host).kernels] == [kernel.persistent for kernel in made.kernels]
    agrees(graph, made, seed=seed)
    rng = np.random.default_rng(seed)
    extents = {axis: size.evaluate({}) for axis, size in made.sizes}
    inputs = [rng.standard_normal(memory_shape(layout, extents)) for layout in made.layouts[: len(made.inputs)]]
    for one, other in zip(execute(made, inputs), execute(program, inputs), strict=True):
        np.testing.assert_array_equal(one, other)


def test_no_more_programs_than_tiles() -> None:
    """A launch has as many programs as it may have, or as there are tiles; of none there is no launch."""
    case = CASES["matmul"]
    ready = executable(reordered(case.program(), persistent=4))
    assert "programs = min(triton.cdiv(n, 16) * triton.cdiv(m, 16), 4)" in ready.file.text
    (call,) = calls(ready.plan)
    assert [programs(call, {"m": m, "n": 16, "k": 8}) for m in (0, 16, 48, 64, 640)] == [0, 1, 3, 4, 4]


@pytest.mark.parametrize("release", [False, True])
def test_a_persistent_kernel_waits_before_its_tiles(release: bool) -> None:
    """What one tile reads may be loaded ahead while the one before is computed."""
    case = CASES["split_sum"]
    program = overlapped(reordered(case.program(), persistent=1), release)
    assert isinstance(program.kernels[1].body[0], Wait)
    inputs = case.inputs()
    expected = run_program(program, inputs, case.symbols)
    ready = executable(program)
    (found,) = execute(ready, inputs)
    np.testing.assert_allclose(found, expected[0], rtol=1e-5, atol=1e-6)
    before = ready.file.text.split("def combine")[1].split("for tile in")[0]
    assert "gdc_wait()" in before


def test_large_products_are_timed_in_other_orders() -> None:
    """The model alone takes the simpler order; small products have no other, nor has anything where nothing is timed."""
    found = space([matmul("4096", "4096", "1024")], {}, frozenset(), H200)
    plans = [choice.plan for trial in found.trials(32) for choice in found.choices(trial)]
    assert not plans[0].reordered
    assert any(plan.group and not plan.persistent for plan in plans) and any(plan.group and plan.persistent == 132 for plan in plans)
    for plan in plans:
        if plan.persistent:
            tiles = {dim.name: dim.tile for dim in plan.dims}
            assert -(-4096 // tiles["m"]) * -(-4096 // tiles["n"]) > plan.persistent
    small = space([matmul("512", "1024", "1024")], {}, frozenset(), H200)
    untimed = space([matmul("4096", "4096", "1024")], {}, frozenset(), H200, ScheduleOptions())
    for other in (small, untimed):
        assert not any(choice.plan.reordered for trial in other.trials(64) for choice in other.choices(trial))


def test_fewer_starts_and_fewer_bytes() -> None:
    """What the model says of other orders of 32 x 16 tiles of a product whose operands are larger than the second-level cache."""
    problem = problem_of_all(matmul("4096", "4096", "16384"))
    plan = Plan((Dim("m", ("m",), "grid", 128), Dim("k", ("k",), "loop", 64), Dim("n", ("n",), "grid", 256)), ("m", "n"), 8)
    costs: list[Cost] = []
    for way in (plan, replace(plan, group=16), replace(plan, group=16, persistent=132)):
        cost = estimate(measure(KernelEmitter(problem, way).kernel(), problem.sizes), way.num_warps, way.num_stages, H200)
        assert cost is not None
        costs.append(cost)
    plain, grouped, turns = costs
    assert grouped.memory_bytes < 0.9 * plain.memory_bytes and grouped.waves == plain.waves == turns.waves == 4
    assert turns.shared > plain.shared and turns.registers > plain.registers and turns.programs == plain.programs == 512
    assert turns.seconds < grouped.seconds
    assert turns.flops == plain.flops
