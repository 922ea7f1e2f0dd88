"""Launches that begin before the one before has ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
import torch

from cleave.bridge.sched import module_of, program_of
from cleave.dialects.sched import ProgramOp
from cleave.graph import Graph
from cleave.reference.sched import TileFault, run_program
from cleave.runtime.compile import compile_module, compile_ttir
from cleave.runtime.execute import executable, execute
from cleave.runtime.launch import Launch as RunTimeLaunch
from cleave.runtime.launch import bind
from cleave.runtime.plan import calls
from cleave.schedule import ScheduleOptions, space
from cleave.schedule.overlap import may_overlap, overlapped
from cleave.schedule.program import Dot, Launch, Program, Release, Wait, walk
from tests.tile_programs import CASES

from .programs import H200, agrees, norm_linear
from .test_last import random_split

FEW = ScheduleOptions(plans=12, ranked=3)


def several(graph: Graph, sizes: Mapping[str, int] | None = None, dynamic: tuple[str, ...] = ()) -> list[Program]:
    """Programs of a graph with launches that may overlap, one of each way to divide it."""
    found = space([graph], sizes or {}, frozenset(dynamic), H200, FEW)
    first = {trial.division: trial for trial in reversed(found.trials(40))}
    return [program for trial in first.values() if may_overlap(program := found.program(trial))]


def early(program: Program) -> list[Launch]:
    return [step for step in program.steps if isinstance(step, Launch) and step.early]


@pytest.mark.parametrize("release", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_random_split_programs(seed: int, release: bool) -> None:
    """The reference refuses what touches memory of the launch before without waiting."""
    graph, sizes, dynamic = random_split(seed)
    programs = several(graph, sizes, dynamic)
    assert programs
    for program in programs[:2]:
        made = overlapped(program, release)
        assert early(made)
        agrees(graph, made, sizes, seed=seed, shuffled=seed)
        (host,) = [op for op in module_of(made).ops if isinstance(op, ProgramOp)]
        assert early(program_of(host)) == early(made), "they survive as IR"


def test_without_its_wait_a_launch_is_refused() -> None:
    """Of every kernel that waits for what it reads."""
    case = CASES["split_sum"]
    made = overlapped(case.program(), True)
    inputs = case.inputs()
    run_program(made, inputs, case.symbols)
    for place, kernel in enumerate(made.kernels):
        if any(isinstance(statement, Wait) for statement in kernel.body):
            body = tuple(statement for statement in kernel.body if not isinstance(statement, Wait))
            kernels = (*made.kernels[:place], replace(kernel, body=body), *made.kernels[place + 1 :])
            with pytest.raises(TileFault, match="without waiting"):
                run_program(replace(made, kernels=kernels), inputs, case.symbols)
            late = (*body, Wait())
            with pytest.raises(TileFault, match="reads what a launch before stores, without waiting for it"):
                run_program(replace(made, kernels=(*made.kernels[:place], replace(kernel, body=late))), inputs, case.symbols)


def test_a_product_of_inputs_comes_before_the_wait() -> None:
    """A norm's scale is awaited when the linear layer behind it is summed."""
    made = [overlapped(program, True) for program in several(norm_linear(m="33", k="600", c="72"))]
    kernels = [kernel for program in made for kernel in program.kernels if any(isinstance(statement, Wait) for statement in kernel.body)]
    before: list[bool] = []
    for kernel in kernels:
        place = next(place for place, statement in enumerate(kernel.body) if isinstance(statement, Wait))
        before.append(any(isinstance(statement, Dot) for statement in walk(kernel.body[:place])))
    assert any(before)


def test_every_launch_waits_and_lets_the_next_one_begin() -> None:
    for program in several(norm_linear(m="33", k="600", c="72")):
        released, held = overlapped(program, True), overlapped(program, False)
        launches = [step for step in program.steps if isinstance(step, Launch)]
        for made in (released, held):
            kernels = {kernel.name: kernel for kernel in made.kernels}
            for launch in early(made):
                assert sum(isinstance(statement, Wait) for statement in walk(kernels[launch.kernel].body)) == 1
        first = {kernel.name: kernel for kernel in released.kernels}[launches[0].kernel]
        assert isinstance(first.body[0], Release)
        assert not any(isinstance(statement, Release) for kernel in held.kernels for statement in walk(kernel.body))


def test_what_follows_a_library_call_is_not_early() -> None:
    program = CASES["library"].program()
    assert not may_overlap(program)
    assert overlapped(program, True) == program


def test_the_interpreter_runs_them() -> None:
    case = CASES["split_sum"]
    ready = executable(overlapped(case.program(), True))
    assert "gdc_wait()" in ready.file.text and "launch_pdl" in ready.file.text
    inputs = case.inputs()
    (result,) = execute(ready, inputs)
    np.testing.assert_allclose(result, case.expected(*inputs), rtol=1e-5, atol=1e-6)


def test_ahead_of_time() -> None:
    """Both ways to machine code have the instructions, and nothing else is lost."""
    ready = executable(overlapped(CASES["split_sum"].program(), True))
    found = compile_module(ready.module, "sm_90")
    texts = [str(kernel.asm["ptx"]) for kernel in found]
    assert ["griddepcontrol.launch_dependents" in text for text in texts] == [True, False]
    assert ["griddepcontrol.wait" in text for text in texts] == [False, True]
    (plan,) = ready.file.plans
    for call, text in zip(calls(plan), texts, strict=True):
        func = next(op for op in ready.module.ops if getattr(getattr(op, "sym_name", None), "data", "") == call.kernel)
        ttir = str(compile_ttir(ready.module, func, call, "sm_90").asm["ptx"])  # pyright: ignore[reportArgumentType]
        assert ttir.count("griddepcontrol") == text.count("griddepcontrol") == 1


def test_nothing_before_means_not_early() -> None:
    """Where the launch before has no programs, what comes before on the stream is not the program's own and may make its inputs."""
    ready = executable(overlapped(CASES["split_sum"].program(), True))
    (plan,) = ready.file.plans
    for columns, wanted in ((50, [False, True]), (0, [False])):
        bound = bind(plan, ready.file.text, ready.file.kernels, [torch.zeros(11, columns)])
        assert [step.early for step in bound.steps if isinstance(step, RunTimeLaunch)] == wanted
