"""The kernel whose tiles of rows run longest first."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from cleave.bridge.sched import module_of, program_of
from cleave.dialects.sched import ProgramOp
from cleave.reference.dtypes import Array
from cleave.reference.evaluate import evaluate
from cleave.reference.sched import Machine, TileFault, run_program
from cleave.schedule.overlap import overlapped
from cleave.schedule.program import Allocate, For, Launch, Load, Program, Wait, walk
from cleave.schedule.relaxed import ROWS

from .longest import (
    bounded,
    longest,
)
from .programs import agrees
from .test_ranges import (
    FEW,
    Mask,
    causal_documents,
    documents,
    of_documents,
    ranged,
)


def loops_of(program: Program, inputs: list[Array], monkeypatch: pytest.MonkeyPatch) -> dict[int, tuple[int, int]]:
    """From where to where each program of the kernel launched last walks."""
    name, walk_as_before = bounded(program).name, Machine.loop
    found: dict[int, tuple[int, int]] = {}

    def loop(machine: Machine, op: For) -> None:
        if machine.kernel.name == name:
            found[machine.program] = int(machine.get(op.start)), int(machine.get(op.stop))
        walk_as_before(machine, op)

    monkeypatch.setattr(Machine, "loop", loop)
    run_program(program, inputs, {})
    monkeypatch.undo()
    return found


@pytest.mark.parametrize("mask", [documents, causal_documents])
def test_programs_walk_less_and_less(mask: Mask, monkeypatch: pytest.MonkeyPatch) -> None:
    """All heads of a tile one after another; in the order of the grid they do not."""
    ids = np.repeat(np.arange(5), [30, 270, 64, 400, 5])
    graph = of_documents(str(len(ids)), mask)
    inputs = [*(np.zeros((2, len(ids), 16)) for _ in range(3)), ids]

    def steps(program: Program) -> list[int]:
        step = next(statement.step for statement in bounded(program).body if isinstance(statement, For))
        found = loops_of(program, inputs, monkeypatch)
        return [-(-(found[number][1] - found[number][0]) // step) for number in range(len(found))]

    first, plain = longest(graph), ranged(graph, options=FEW)[0]
    tiles = -(-len(ids) // ROWS)
    walked = steps(first)
    assert len(walked) == 2 * tiles and walked[::2] == walked[1::2]
    assert max(walked) > 2 * min(walked)
    # The first step begins where steps do and not where a range does, so that one more may be needed.
    assert all(later <= earlier + 1 for earlier, later in itertools.combinations(walked, 2))
    in_order = steps(plain)
    assert any(later > earlier + 1 for earlier, later in itertools.combinations(in_order, 2))


def alone(program: Program, sizes: dict[str, Array]) -> tuple[Program, list[Array]]:
    """The last kernel, given what those before would store."""
    kernel = bounded(program)
    buffers = {step.buffer.name: step.buffer for step in program.steps if isinstance(step, Allocate)}
    more = [buffers[name] for name in sizes]
    layouts = [
        *program.layouts[: len(program.inputs)],
        *(" ".join(buffer.axes) for buffer in more),
        *program.layouts[len(program.inputs) :],
    ]
    launch = next(step for step in program.steps if isinstance(step, Launch) and step.kernel == kernel.name)
    steps = (*(Allocate(buffer) for name, buffer in buffers.items() if name not in sizes), launch)
    return replace(program, inputs=(*program.inputs, *more), layouts=tuple(layouts), kernels=(kernel,), steps=steps), [*sizes.values()]


@pytest.mark.parametrize("length", [65, 300])
def test_each_tile_is_run_in_its_place(length: int) -> None:
    """In whatever order is stored: the ragged one too wherever it comes, and none twice, which the reference refuses."""
    graph = of_documents(str(length))
    program = longest(graph)
    rng = np.random.default_rng(length)
    count = -(-length // ROWS)
    ids = np.sort(rng.integers(0, 3, length))
    data = [*(rng.standard_normal((2, length, 16)) for _ in range(3)), ids]
    (wanted,) = evaluate(graph, data, {})
    loads = [statement.buffer for statement in walk(bounded(program).body) if isinstance(statement, Load)]
    stored = {buffer.name: np.zeros(count, np.int64) for buffer in loads if buffer.name not in ("q", "k", "v", "ids")}
    chunks = [np.flatnonzero(np.isin(ids, ids[first : first + ROWS])) for first in range(0, length, ROWS)]
    order, low, high, *_ = stored
    stored[low], stored[high] = np.array([each[0] for each in chunks]), np.array([each[-1] + 1 for each in chunks])
    for turn in range(count):
        stored[order] = np.roll(rng.permutation(count) if turn else np.arange(count)[::-1], turn)
        only, more = alone(program, stored)
        (found,) = run_program(only, [*data, *more], {})
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)
    stored[order] = np.zeros(count, np.int64)
    only, more = alone(program, stored)
    with pytest.raises(TileFault):
        run_program(only, [*data, *more], {})


def test_the_first_load_waits_for_the_kernel_before() -> None:
    """Where launches overlap; the reference refuses what does not wait. The order survives as IR."""
    graph = of_documents("300", causal_documents)
    for release in (False, True):
        made = overlapped(longest(graph), release)
        kinds = [type(statement) for statement in bounded(made).body if isinstance(statement, Wait | Load)]
        assert kinds[0] is Wait and kinds[1] is Load
        agrees(graph, made, changed={"ids": np.repeat([3, 1, 2], [20, 200, 80])}, shuffled=1)
        (host,) = [op for op in module_of(made).ops if isinstance(op, ProgramOp)]
        assert bounded(program_of(host)).grid[-1].dim == "m"
