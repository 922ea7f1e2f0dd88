"""The cost model: what it counts, and its limits against what Triton's compiler reports."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cleave.algebra import degrees
from cleave.graph import Graph
from cleave.runtime.compile import compile_module
from cleave.runtime.execute import lowered
from cleave.runtime.versions import triton_version
from cleave.schedule import TARGETS
from cleave.schedule.chunks import Aligned
from cleave.schedule.cost import DESCRIBE, START, estimate
from cleave.schedule.descriptors import described
from cleave.schedule.measure import Measure, measure
from cleave.schedule.partition import items, problem_of, source_of
from cleave.schedule.problem import Problem
from cleave.schedule.roles import Dim, Plan
from cleave.schedule.sizes import Sizes
from cleave.schedule.whole import KernelEmitter

from .programs import H200, Input, Sketch, attention, norm_linear, scheduled


def problem(graph: Graph) -> Problem:
    """All of a graph as one kernel."""
    source = source_of(Aligned(graph, degrees(graph), (), frozenset()), Sizes(graph, {}, frozenset()))
    return problem_of(source, graph.name, items(source, ()), {})


def matmul(m: int, k: int, c: int) -> Graph:
    s = Sketch("matmul", f"m={m} k={k} c={c}", [Input("x", ("m", "k"), "f16", "m k"), Input("w", ("k", "c"), "f16", "k c")])
    s.output(s.contract(0, 1, over="k"), "m c")
    return s.graph()


def test_counts_of_a_matrix_product() -> None:
    """Tiles of 128 x 64 x 32 on 256 x 512 x 128: each operand is read once for every tile of the other."""
    work = problem(matmul(256, 512, 128))
    plan = Plan((Dim("m", ("m",), "grid", 128), Dim("k", ("k",), "loop", 32), Dim("c", ("c",), "grid", 64)), ("m", "c"))
    counted = measure(KernelEmitter(work, plan).kernel(), work.sizes)
    assert counted.grid == {"m": 2, "c": 2}
    assert counted.flops == 2 * 128 * 64 * 512
    assert counted.counts.reads == {"x": 128 * 512 * 2, "w": 64 * 512 * 2}
    assert counted.counts.writes == {"out": 128 * 64 * 2}
    assert counted.counts.steps == 16
    cost = estimate(counted, 4, 3, H200)
    assert cost is not None
    assert cost.memory_bytes == 2 * (256 * 512 + 512 * 128 + 256 * 128)
    assert cost.cache_bytes == 4 * 2 * (128 * 512 + 64 * 512 + 128 * 64)


def test_a_causal_mask_halves_the_work() -> None:
    over = (Dim("d", ("d",), "full", 64), Dim("n", ("n",), "loop", 64))
    plan = Plan((Dim("m", ("m",), "grid", 128), *over, Dim("e", ("e",), "grid", 64)), ("m", "e"))
    flops: list[float] = []
    for mask in ("", "causal"):
        work = problem(attention(m="4096", n="4096", mask=mask))
        flops.append(measure(KernelEmitter(work, plan).kernel(), work.sizes).flops)
    assert 0.45 < flops[1] / flops[0] < 0.6


def over_keys(rows: int, keys: int) -> Measure:
    """Attention of 64 rows a program; each takes so many registers and so much shared memory that two run at once."""
    over = (Dim("d", ("d",), "full", 128), Dim("n", ("n",), "loop", 64))
    plan = Plan((Dim("m", ("m",), "grid", 64), *over, Dim("e", ("e",), "full", 128)), ("m",))
    work = problem(attention(m=str(rows), n=str(keys), d="128", e="128"))
    return measure(KernelEmitter(work, plan).kernel(), work.sizes)


def test_twice_as_many_programs_hide_more_where_two_run_at_once() -> None:
    """A program that has a multiprocessor to itself waits alone: 132 programs take more than half as long as 264."""
    found: list[float] = []
    for rows in (132 * 64, 264 * 64):
        cost = estimate(over_keys(rows, 65536), 4, 3, H200)
        assert cost is not None and cost.waves == 1
        found.append(cost.seconds)
    assert 1.0 < found[1] / found[0] < 1.9


@pytest.mark.parametrize("waves", [1, 3, 5])
def test_every_wave_makes_its_descriptors(waves: int) -> None:
    """But for what runs its tiles in turn, which makes them once."""
    counted = over_keys(264 * 64 * waves, 1024)
    costs: dict[tuple[bool, bool], float] = {}
    for boxed in (False, True):
        for persistent in (False, True):
            kernel = replace(counted.kernel, persistent=264 if persistent else 0)
            kernel = described(kernel, {"m": 264 * 64 * waves, "n": 1024, "d": 128, "e": 128}) if boxed else kernel
            walk = measure(kernel, problem(attention(m=str(264 * 64 * waves), n="1024", d="128", e="128")).sizes)
            assert len(walk.descriptors) == (2 if boxed else 0)
            # What loads cost otherwise is no matter here.
            walk.counts = counted.counts
            cost = estimate(walk, 4, 2, H200)
            assert cost is not None and cost.waves == waves
            costs[boxed, persistent] = cost.seconds
    for persistent, times in ((False, waves), (True, 1)):
        assert costs[True, persistent] - costs[False, persistent] == pytest.approx(2 * times * DESCRIBE)


def test_programs_in_turn_do_not_wait_for_waves_where_memory_is_the_bound() -> None:
    """A product over few elements stores much for what it computes; all that wave after wave takes longer is how long each begins."""
    work = problem(matmul(65536, 64, 1024))
    plan = Plan((Dim("m", ("m",), "grid", 128), Dim("k", ("k",), "loop", 64), Dim("c", ("c",), "grid", 128)), ("m", "c"))
    plain = measure(KernelEmitter(work, plan).kernel(), work.sizes)
    apart, turn = (estimate(walk, 8, 3, H200) for walk in (plain, measure(replace(plain.kernel, persistent=132), work.sizes)))
    assert apart is not None and turn is not None and apart.bound == turn.bound == "memory" and apart.waves > 1
    assert turn.seconds < apart.seconds
    assert apart.seconds > apart.memory_bytes / H200.bandwidth + (apart.waves - 1) * START / 3, "at most three run at once"


def test_one_program_more_is_not_faster_where_the_longest_come_first() -> None:
    over = (Dim("d", ("d",), "full", 64), Dim("n", ("n",), "loop", 64))
    plan = Plan((Dim("m", ("m",), "grid", 64), *over, Dim("e", ("e",), "full", 64)), ("m",))
    found: list[float] = []
    for rows in (132, 133, 140, 200, 264, 265):
        work = problem(attention(m=str(rows * 64), n=str(rows * 64), mask="causal"))
        walk = measure(KernelEmitter(work, plan).kernel(), work.sizes)
        walk.sorted = True
        cost = estimate(walk, 4, 3, H200)
        assert cost is not None
        found.append(cost.seconds)
    assert found == sorted(found)


def test_what_does_not_fit_has_no_cost() -> None:
    """Four stages of 256 x 256 tiles need more shared memory than there is."""
    work = problem(matmul(4096, 4096, 4096))
    plan = Plan((Dim("m", ("m",), "grid", 256), Dim("k", ("k",), "loop", 128), Dim("c", ("c",), "grid", 256)), ("m", "c"))
    counted = measure(KernelEmitter(work, plan).kernel(), work.sizes)
    assert estimate(counted, 8, 4, H200) is None
    assert estimate(counted, 4, 2, H200) is None


@pytest.mark.parametrize(
    "graph",
    [
        attention(b="4", g="8", m="4096", n="4096", d="128", e="128"),
        norm_linear(m="512", k="4096", c="14336", gated=True),
        pytest.param(
            norm_linear(m="16", k="4096", c="6144"),
            marks=pytest.mark.xfail(triton_version() < (3, 9), strict=True, reason="the estimate of registers is fitted to Triton 3.9"),
        ),
    ],
    ids=["attention", "gated", "decode"],
)
def test_limits_agree_with_the_compiler(graph: Graph) -> None:
    """Shared memory within a tenth and 3 KiB, registers within a third; nothing spills, and rows of 64 or more are warp-group dots."""
    program = scheduled(graph)
    (kernel,) = program.kernels
    (compiled,) = compile_module(lowered(program), "sm_90")
    cost = program.notes[-1]
    registers = int(cost.split(" registers")[0].rsplit(" ", 1)[1])
    shared = int(cost.split(" KiB")[0].rsplit(" ", 1)[1]) * 1024
    assert compiled.spills == 0
    assert abs(compiled.shared - shared) <= 0.1 * compiled.shared + 3072
    assert abs(compiled.registers - registers) <= 0.34 * compiled.registers
    assert (compiled.wgmma > 0) == any(dim.tile >= 64 and dim.dim == "m" for dim in kernel.grid)


def test_every_target_fits_its_own_limits() -> None:
    graph = attention(m="1024", n="1024", d="128", e="128")
    for name, machine in TARGETS.items():
        from cleave.schedule import schedule

        program = schedule([graph], {}, frozenset(), machine)
        shared = int(program.notes[-1].split(" KiB")[0].rsplit(" ", 1)[1]) * 1024
        assert shared <= machine.shared, name


@pytest.mark.parametrize("graph", [attention(b="4", g="8", m="512", n="512", dtype="f32")], ids=["attention"])
def test_exact_dots_do_not_spill(graph: Graph) -> None:
    """Dots of f32 run on the multiply-add units, with their operands in registers."""
    (compiled,) = compile_module(lowered(scheduled(graph)), "sm_90")
    assert compiled.spills == 0
