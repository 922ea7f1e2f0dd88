"""Launches that stream their largest input through the second-level cache."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cleave.bridge.plan import plan_of
from cleave.bridge.sched import module_of, program_of
from cleave.dialects.sched import ProgramOp
from cleave.passes.convert_sched_to_tt import ConvertSchedToTtPass
from cleave.runtime.plan import calls
from cleave.schedule import TARGETS, ScheduleOptions, space
from cleave.schedule.measure import BYTES
from cleave.schedule.program import Launch, Program
from cleave.schedule.streaming import streamed
from tests.tile_programs import CASES

from .programs import H200, agrees, norm_linear
from .test_last import random_split

FEW = ScheduleOptions(plans=12, ranked=3)


def launches(program: Program) -> list[Launch]:
    return [step for step in program.steps if isinstance(step, Launch)]


@pytest.mark.parametrize("seed", range(6))
def test_random_split_programs(seed: int) -> None:
    """Values stay the same, the text has what streams, and it reaches the plan that is run."""
    graph, sizes, dynamic = random_split(seed)
    found = space([graph], sizes, frozenset(dynamic), H200, FEW)
    for trial in found.trials(3):
        program = found.program(trial)
        values = found.divisions[trial.division][1].source.sizes.values
        made = streamed(program, values, 0)
        inputs = {buffer.name for buffer in program.inputs}
        assert [bool(launch.streaming) for launch in launches(made)] == [bool(inputs & set(launch.buffers)) for launch in launches(made)]
        assert (
            replace(made, steps=tuple(replace(step, streaming="") if isinstance(step, Launch) else step for step in made.steps)) == program
        )
        agrees(graph, made, sizes, seed=seed, shuffled=seed)
        module = module_of(made)
        (host,) = [op for op in module.ops if isinstance(op, ProgramOp)]
        assert [launch.streaming for launch in launches(program_of(host))] == [launch.streaming for launch in launches(made)]
        ConvertSchedToTtPass().apply(None, module)  # pyright: ignore[reportArgumentType]
        (host,) = [op for op in module.ops if isinstance(op, ProgramOp)]
        assert [call.streaming for call in calls(plan_of(host))] == [launch.streaming for launch in launches(made)]


def test_the_largest_that_is_large_enough() -> None:
    """Of a norm and a product of 33 rows, the weights of 600 times 72 elements."""
    graph = norm_linear(m="33", k="600", c="72")
    found = space([graph], {}, frozenset(), H200, FEW)
    program = found.program(found.trials(1)[0])
    (weights,) = (buffer for buffer in program.inputs if set(buffer.axes) == {"k", "c"})
    size = 600 * 72 * BYTES[weights.dtype]
    assert weights.name in {launch.streaming for launch in launches(streamed(program, {}, size))}
    assert streamed(program, {}, size + 1) is program


def test_workspaces_and_what_a_library_reads_do_not_stream() -> None:
    program = CASES["library"].program()
    made = streamed(program, CASES["library"].symbols, 0)
    inputs = {buffer.name for buffer in program.inputs}
    assert {launch.streaming for launch in launches(made)} <= inputs | {""}


def test_programs_that_wait_for_products_do_not_stream() -> None:
    """The same weights, with 16 rows and with 8192."""
    for rows, streams in (("16", True), ("8192", False)):
        found = space([norm_linear(m=rows, k="4096", c="4096")], {}, frozenset(), H200, ScheduleOptions(ranked=3))
        assert {found.streams(trial) is not None for trial in found.trials(4)} == {streams}


def test_machines_that_cannot_say_so() -> None:
    assert {name for name, target in TARGETS.items() if not target.streams} == {"mi300x"}
    graph = norm_linear(m="33", k="6000", c="7200")
    for name in ("h200", "mi300x"):
        found = space([graph], {}, frozenset(), TARGETS[name], FEW)
        streams = [found.streams(trial) for trial in found.trials(4)]
        assert [trial is not None for trial in streams] == [name == "h200"] * len(streams)
        for trial in streams:
            if trial is not None:
                notes = found.program(trial).notes
                assert any(" streams " in note for note in notes) and found.text(trial).endswith("; the largest input streams")
                assert found.streams(trial) is None
