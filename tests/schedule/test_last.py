"""Kernels whose last programs to arrive do what would be a second kernel."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from cleave.bridge.sched import module_of, program_of
from cleave.dialects import tt
from cleave.dialects.sched import ProgramOp
from cleave.graph import Graph, Input, Symbol
from cleave.layouts import memory_shape
from cleave.reference.sched import run_program
from cleave.runtime.compile import SHARED_LIMITS, compile_module, compile_ttir
from cleave.runtime.execute import executable, execute
from cleave.runtime.plan import calls
from cleave.schedule import TARGETS, ScheduleOptions, Target, space
from cleave.schedule.program import Allocate, Last, Launch, Load, Program, walk
from cleave.schedule.scheduler import assemble

from .programs import H200, Sketch, agrees, norm_linear, split_attention

FEW = ScheduleOptions(plans=32, ranked=12)


def joined(
    graph: Graph, sizes: Mapping[str, int] | None = None, dynamic: Sequence[str] = (), target: Target = H200, options: ScheduleOptions = FEW
) -> list[Program]:
    """The programs with a kernel whose last programs combine, of all ways to run that kernel."""
    out: list[Program] = []
    for name, candidate in space([graph], sizes or {}, frozenset(dynamic), target, options).divisions:
        for place, ways in enumerate(candidate.ranked):
            for way in ways if ways[0].counter is not None else ():
                choices = [*candidate.choices[:place], way, *candidate.choices[place + 1 :]]
                out.append(assemble(candidate, choices, (name,)))
    return out


def split_matmul(m: str = "20", c: str = "40", k: str = "300", normed: bool = False, symbols: Sequence[Symbol] = ()) -> Graph:
    """A product whose summed axis is split; with `normed` its rows are divided by their largest value."""
    s = Sketch(
        "product", f"m={m} c={c} k={k} s=s ki=ceildiv({k},s)",
        [Input("x", ("m", "k"), "f16", "m k"), Input("w", ("k", "c"), "f16", "c k")], [Symbol("s", positive=True), *symbols],
        {"ki": ("k", "s")},
    )  # fmt: skip
    x, w = (s.op("split", arg, attr=("k", "s", "ki")) for arg in (0, 1))
    y = s.reduce("sum", s.contract(x, w, over="ki"), "s")
    if normed:
        y = s.op("div", y, s.op("add", s.reduce("max", s.op("abs", y), "c"), 1.0))
    s.output(s.op("silu", y), "m c")
    return s.graph()


def random_split(seed: int) -> tuple[Graph, dict[str, int], tuple[str, ...]]:
    """A split program, its sizes, and which of these are known at run time alone."""
    rng = random.Random(seed)
    m, n, d, e = (rng.choice(sizes) for sizes in ((1, 3, 5, 16, 33), (1, 17, 64, 130), (1, 16, 24), (1, 16, 40)))
    count = rng.choice([1, 2, 3, 4, 7])
    dynamic = rng.random() < 0.4
    symbols = (Symbol("M", (m,)), Symbol("N", (n,))) if dynamic else ()
    sizes = {"s": count, **({"M": m, "N": n} if dynamic else {})}
    rows, keys = ("M", "N") if dynamic else (str(m), str(n))
    if rng.random() < 0.5:
        graph = split_matmul(rows, str(e), keys, symbols=symbols)
    else:
        mask, lse = rng.choice(["", "causal"]), rng.random() < 0.5
        graph = split_attention(rows, keys, str(d), str(e), mask, lse, g=str(rng.choice([1, 2])), symbols=symbols)
    return graph, sizes, ("M", "N", *(("s",) if rng.random() < 0.5 else ())) if dynamic else ()


@pytest.mark.parametrize("seed", range(24))
def test_random_split_programs(seed: int) -> None:
    """In any order of programs; dynamic ones also at other sizes, 0 and 1 among them."""
    graph, sizes, dynamic = random_split(seed)
    programs = joined(graph, sizes, dynamic, options=ScheduleOptions(plans=12, ranked=4))
    assert programs
    rng = random.Random(seed)
    for number, program in enumerate(programs[:4]):
        assert any(isinstance(step, Allocate) and step.zeroed for step in program.steps)
        agrees(graph, program, sizes, seed=seed)
        agrees(graph, program, sizes, seed=seed, shuffled=number)
        if dynamic:
            for one in (0, 1, rng.choice([2, 19, 70])):
                other = {**sizes, "M": rng.choice([0, 1, 2, 18]), "N": one}
                agrees(graph, program, {**other, "s": rng.choice([1, 5])} if "s" in dynamic else other, seed=seed, shuffled=number)


def test_rows_are_walked_in_smaller_tiles_than_the_first_part_has() -> None:
    graph = split_attention(m="70", n="300", e="64", g="2", lse=True)
    programs = [program for program in joined(graph, {"s": 32}) if any("m loop" in note for note in program.notes)]
    assert programs
    for program in programs:
        agrees(graph, program, {"s": 32})


def test_few_parts_are_single_elements_and_many_a_loop() -> None:
    """Never a tile of three dimensions: all loads of one part have at most rows and columns."""
    graph = split_attention(m="70", n="300", e="64", g="2", lse=True)
    for count, unrolled in ((4, True), (16, True), (32, False)):
        for program in joined(graph, {"s": count}):
            (last,) = [statement for kernel in program.kernels for statement in walk(kernel.body) if isinstance(statement, Last)]
            loads = [statement for statement in walk(last.body) if isinstance(statement, Load) and statement.fresh]
            assert len(loads) >= 3 * count if unrolled else len(loads) < 3 * count
            assert all(len(load.out.type.dims) <= 2 for load in loads)
            agrees(graph, program, {"s": count})


def test_the_result_does_not_depend_on_the_order_of_programs() -> None:
    """To the last bit, in the types of the program."""
    graph = split_attention(m="5", n="130", lse=True)
    program = joined(graph, {"s": 4})[0]
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(shape) for shape in ((2, 5, 32), (2, 130, 32), (2, 130, 32))]
    expected = run_program(program, inputs, {"s": 4}, rounding=True)
    for seed in range(5):
        for one, other in zip(run_program(program, inputs, {"s": 4}, rounding=True, seed=seed), expected, strict=True):
            np.testing.assert_array_equal(one, other)


def test_both_forms_are_offered() -> None:
    divisions = space([split_attention(m="4", n="4096", d="64", e="64")], {}, frozenset(), H200).divisions
    forms = {(len(candidate.choices), candidate.choices[0].counter is not None) for _, candidate in divisions}
    assert {(1, True), (2, False)} <= forms


def test_a_second_kernel_that_needs_all_tiles_stays_one() -> None:
    """Rows are normalised over columns, which are tiles of the first kernel's grid."""
    for program in joined(split_matmul("20", "400", normed=True), {"s": 4}):
        for kernel in program.kernels:
            assert "c" not in {dim.dim for dim in kernel.grid if any(isinstance(each, Last) for each in walk(kernel.body))}
    graph = split_matmul("20", "40", normed=True)
    for program in joined(graph, {"s": 4}):
        agrees(graph, program, {"s": 4})


def test_machines_whose_barriers_do_not_order_memory_get_two_kernels() -> None:
    assert not joined(split_attention(m="4", n="4096", d="64", e="64"), target=TARGETS["mi300x"])


def test_programs_without_partial_results_have_no_counter() -> None:
    assert not joined(norm_linear())


def test_text_and_interpreter() -> None:
    """Through IR and back the program computes the same; lowered, it does so in Triton's interpreter."""
    graph = split_attention(m="5", n="130", lse=True)
    program = joined(graph, {"s": 4})[0]
    extents = {axis: size.evaluate({"s": 4}) for axis, size in program.sizes}
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(memory_shape(layout, extents)).astype(np.float16).astype(np.float64) for layout in program.layouts[:3]]
    expected = run_program(program, inputs, {"s": 4}, rounding=True)
    (host,) = [op for op in module_of(program).ops if isinstance(op, ProgramOp)]
    for one, other in zip(run_program(program_of(host), inputs, {"s": 4}, rounding=True), expected, strict=True):
        np.testing.assert_array_equal(one, other)
    for one, other in zip(execute(program, inputs), expected, strict=True):
        np.testing.assert_allclose(np.asarray(one, np.float64), other, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("machine", ["a100", "h200", "b200"])
def test_kernels_compile_and_fit(machine: str) -> None:
    """Without spilling, from Python and from TTIR, for a decode step of grouped heads."""
    architecture = {"a100": "sm_80", "h200": "sm_90", "b200": "sm_100"}[machine]
    graph = split_attention(m="64", n="4096", d="128", e="128", g="8")
    program = joined(graph, {"s": 16}, target=TARGETS[machine])[0]
    assert len([step for step in program.steps if isinstance(step, Launch)]) == 1
    ready = executable(program)
    functions = {op.sym_name.data: op for op in ready.module.ops if isinstance(op, tt.FuncOp)}
    made = [*compile_module(ready.module, architecture)]
    made += [compile_ttir(ready.module, functions[call.kernel], call, architecture) for call in calls(ready.plan)]
    for kernel in made:
        assert kernel.spills == 0
        assert 0 < kernel.shared <= SHARED_LIMITS[architecture]


def test_amd_compiles_what_is_written_by_hand() -> None:
    """Nothing of it is offered there, but the code exists."""
    program = joined(split_attention(m="16", n="512", d="64", e="64"), {"s": 4}, target=replace(H200, shared=60000))[0]
    for kernel in compile_module(executable(program).module, "gfx942"):
        assert kernel.spills == 0
