"""Memory does not grow with every new shape: bound programs that were not used for long are let go, and what they held with them."""

from __future__ import annotations

import gc
import weakref
from collections import Counter

import pytest
import torch

import cleave
from cleave.api import Compiled
from cleave.bound_programs import BOUNDS, BoundPrograms
from cleave.compiled import ENTRIES
from cleave.runtime import workspaces
from cleave.runtime.cuda import CudaBound
from cleave.runtime.launch import Bound
from tests.runtime.made_up_machine import Machine, long_way, on_gpu, rows, scaled, sums


def of_any_length() -> Compiled:
    """Sums of few rows, split over programs, so that there are workspaces."""
    n = torch.export.Dim("n", min=2)
    inputs = torch.randn(4, 1 << 18), torch.randn(4, 1 << 18), torch.randn(4)
    return cleave.compile(sums, *inputs, dynamic_shapes=({1: n}, {1: n}, None), tune=False, target="h200", alternatives=0)


def of_length(count: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.zeros(4, 16 * count), torch.zeros(4, 16 * count), torch.zeros(4)


def workspaces_of(bound: Bound) -> list[weakref.ref[torch.Tensor]]:
    assert isinstance(bound, CudaBound)
    return [weakref.ref(tensor) for pool in bound.pools.values() for frame in pool for tensor in frame.workspaces]


def test_many_shapes_keep_no_more_than_so_many_programs(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor their workspaces, without waiting for the collector; the report counts what was let go."""
    compiled = of_any_length()
    call = long_way(monkeypatch, compiled)
    held: list[weakref.ref[torch.Tensor]] = []
    gc.collect()
    gc.disable()
    try:
        for count in range(2, 2 + 2 * BOUNDS):
            call(*of_length(count))
            held += workspaces_of(compiled._bounds._recent.values()[-1])
        per = len(held) // (2 * BOUNDS)
        assert per > 1 and sum(one() is not None for one in held) == per * BOUNDS
    finally:
        gc.enable()
    assert len(compiled._bounds) == BOUNDS and compiled._bounds.let_go == BOUNDS
    assert f"{BOUNDS} programs bound to shapes were let go, with their memory, as {BOUNDS} are kept" in str(compiled.report())


def test_a_shape_that_comes_back_is_bound_anew_and_right(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = of_any_length()
    call = long_way(monkeypatch, compiled)
    call(*of_length(2))
    ((_, first),) = machine.passed()
    for count in range(3, 4 + BOUNDS):
        call(*of_length(count))
    machine.passed()
    assert compiled._bounds.let_go == 2
    call(*of_length(2))
    ((_, again),) = machine.passed()
    assert compiled._bounds.let_go == 3 and len(first) == len(again)


def test_what_a_short_way_runs_is_kept(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls by the short way ask for no bound program, so theirs look unused."""
    compiled = of_any_length()
    call = long_way(monkeypatch, compiled)
    call(*of_length(2))
    (bound,) = compiled._bounds._recent.values()
    (kept,) = compiled._entries
    for count in range(3, 3 + 2 * BOUNDS):
        call(*of_length(count))
        # As if calls of one kind had no short way, which would take the place of this one.
        compiled._entries = (kept,)
    assert any(one is bound for one in compiled._bounds._recent.values()) and len(compiled._bounds) == BOUNDS
    assert ENTRIES < BOUNDS


def test_a_captured_run_outlives_its_bound_program(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory that must be zero is the graph's; the rest is from the graph's pool, and no part of the bound program."""
    compiled = of_any_length()
    call = long_way(monkeypatch, compiled)
    machine.stream = 3
    call(*of_length(2))
    (bound,) = compiled._bounds._recent.values()
    assert isinstance(bound, CudaBound) and any(place.zeroed for place in bound.workspaces)
    machine.passed()
    machine.captured = True
    call(*of_length(2))
    ((_, values),) = machine.passed()
    machine.captured = False
    of_graph = {tensor.data_ptr() for tensor in workspaces._of_graphs} & set(values)
    assert len(of_graph) == sum(place.zeroed for place in bound.workspaces)
    gone = weakref.ref(bound)
    del bound
    for count in range(3, 3 + BOUNDS):
        call(*of_length(count))
    compiled._entries = ()
    gc.collect()
    assert gone() is None, "nothing of the graph's keeps it"
    assert of_graph <= {tensor.data_ptr() for tensor in workspaces._of_graphs}
    later = {value for _, passed in machine.passed() for value in passed}
    assert not of_graph & later, "no other run gets the graph's memory"


def test_counts_stay_when_programs_are_let_go(machine: Machine) -> None:
    programs = BoundPrograms(2)
    for number in range(6):
        _, bound = on_gpu(scaled, *rows())
        bound.copies = number
        bound.refused = Counter({"a": number, str(number): 1})
        programs.put(number, bound)
    assert len(programs) == 2 and programs.let_go == 4 and programs.copies == 15
    assert programs.refused == {"a": 15, **{str(number): 1 for number in range(6)}}
    assert programs.refused == programs.refused, "asking does not add"


def test_captured_runs_that_clear_their_memory_are_counted(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where more runs are captured than memory was set aside for."""
    compiled = of_any_length()
    call = long_way(monkeypatch, compiled)
    machine.stream = 3
    call(*of_length(2))
    machine.captured = True
    for _ in range(workspaces.SPARE + 3):
        call(*of_length(2))
    assert compiled._bounds.cleared == 3
