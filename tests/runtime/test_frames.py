"""Compiled calls on CPU tensors through a made-up driver: which addresses reach it, on which stream, and what takes the long way."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

from cleave import calls
from cleave.runtime.cuda import SCRATCH_ALIGNMENT
from cleave.runtime.driver import DriverError
from cleave.runtime.launch import Launch
from cleave.runtime.versions import Shortcuts, shortcuts
from tests.runtime.made_up_machine import TORCH, Machine, on_gpu, refused, rows, scaled, sums


def long() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.randn(4, 1 << 18), torch.randn(4, 1 << 18), torch.randn(4)


@pytest.mark.parametrize("quick", [True, False])
def test_a_launch_gets_the_addresses_of_this_call(machine: Machine, quick: bool) -> None:
    if not quick:
        machine.quick = "not tried"
    compiled, bound = on_gpu(scaled, *rows())
    for stream in (0, 5, 0):
        machine.stream, inputs = stream, rows()
        result = compiled(*inputs)
        assert isinstance(result, torch.Tensor) and result.shape == (16, 512) and result.dtype == torch.float32
        assert machine.passed() == [(stream, [*(tensor.data_ptr() for tensor in (*inputs, result)), 0])]
    framed = not (quick and machine.static)
    assert bound.kernels_only and len(bound.pools) == 2 * framed and machine.driver.torch == 3 * (not framed)
    report = str(compiled.report())
    assert ("compared in Python" in report) is not quick
    assert ("through ctypes, which takes longer: torch 2.13 has no _StaticCudaLauncher" in report) is (quick and not machine.static)


def test_other_arguments_take_the_long_way(machine: Machine) -> None:
    """Too few, too many, other kinds, shapes and strides, and an address the kernel was promised to be aligned."""
    compiled, bound = on_gpu(scaled, *rows())
    x, g, w = rows()
    wide = torch.zeros(16 * 512 + 1)
    assert wide.data_ptr() % 16 == 0
    for args in (
        (),
        (x, g),
        (x, g, w, w),
        (x, g, None),
        (x[:8], g, w),
        (x.half(), g, w),
        (x.t().contiguous().t(), g, w),
        (x, g, w.clone().requires_grad_()),
        (wide[1:].view(16, 512), g, w),
    ):
        assert refused(compiled, args)
    assert not refused(compiled, (wide[:-1].view(16, 512), g, w))
    assert len(machine.passed()) == 1
    assert [len(pool) for pool in bound.pools.values()] == ([] if machine.static else [1])


def test_parts_of_arguments_and_fixed_values_are_passed(machine: Machine) -> None:
    """Rows of w are another address; y is not read; the number is as it was. There are two kernels, which share their cells."""

    def function(x: torch.Tensor, number: int, w: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x @ w[:16].T * number, x @ w[16:32].T + 1

    x, w, y = torch.randn(16, 32), torch.randn(36, 32), torch.randn(3)
    compiled, _ = on_gpu(function, x, 3, w, y)  # pyright: ignore[reportArgumentType]
    x, w = torch.randn(16, 32), torch.randn(36, 32)
    results = compiled(x, 3, w, y)
    passed = {value for _, values in machine.passed() for value in values} - {0}
    assert passed == {x.data_ptr(), w.data_ptr(), w.data_ptr() + 16 * 32 * 4, *(result.data_ptr() for result in results)}
    for args in ((x, 4, w, y), (x, 3.0, w, y), (x, 3, w, torch.randn(4))):
        assert refused(compiled, args)


def test_parameters_are_read_where_they_are_now(machine: Machine) -> None:
    linear = torch.nn.Linear(64, 32)
    x = torch.randn(16, 64)
    with torch.no_grad():
        compiled, _ = on_gpu(linear, x)
        linear.weight.data = torch.randn(32, 64)
        result = compiled(x)
        ((_, values),) = machine.passed()
        assert {x.data_ptr(), linear.weight.data_ptr(), linear.bias.data_ptr(), result.data_ptr()} <= set(values)
        linear.weight.data = torch.randn(64, 32).t()
        assert refused(compiled, (x,))


def test_one_tensor_for_two_arguments(machine: Machine) -> None:
    """A call whose example had one tensor twice takes its short way; one for which they were two does not, and is right by the long one."""
    x = torch.randn(16, 32)
    compiled, _ = on_gpu(lambda x, y: x + 2 * y, x, x)
    result = compiled(x, x)
    ((_, values),) = machine.passed()
    assert values[:3] == [x.data_ptr(), x.data_ptr(), result.data_ptr()]


def test_what_is_prepared_is_passed_for_the_weights_it_is_of(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights themselves are not; the call takes the long way for others, and when they were changed."""

    def function(x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        return x * (g.exp() + 1)

    # The first part runs in Triton's interpreter.
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    x, g = torch.randn(16, 512), torch.randn(512)
    compiled, _ = on_gpu(function, x, g, weights=(1,))
    prepared = compiled._prepared
    assert prepared is not None
    (known,) = prepared.ready([x, g])
    torch.testing.assert_close(known, g.exp() + 1)
    result = compiled(x, g)
    ((_, values),) = machine.passed()
    assert values[:3] == [x.data_ptr(), known.data_ptr(), result.data_ptr()]
    assert refused(compiled, (x, g.clone())) and refused(compiled, (x.half(), g)) and refused(compiled, (x, None))
    g.add_(1)
    assert refused(compiled, (x, g))
    compiled.prepare(g)
    assert not refused(compiled, (x, g)) and prepared.ready([x, g])[0] is known
    torch.testing.assert_close(known, g.exp() + 1)


def test_workspaces_belong_to_a_stream(machine: Machine) -> None:
    inputs = long()
    compiled, bound = on_gpu(sums, *inputs)
    assert len(bound.workspaces) > 1 and any(place.zeroed for place in bound.workspaces)
    own: list[set[int]] = []
    for stream in (0, 7, 0):
        machine.stream = stream
        result = compiled(*inputs)
        ((_, values),) = machine.passed()
        own.append(set(values) - {tensor.data_ptr() for tensor in (*inputs, result)} - {0})
    assert own[0] == own[2] and len(own[0] & own[1]) < len(bound.workspaces)
    frames = [bound.pools[stream][0] for stream in (0, 7)]
    assert not {tensor.data_ptr() for tensor in frames[0].workspaces} & {tensor.data_ptr() for tensor in frames[1].workspaces}
    assert {tensor.data_ptr() for tensor in frames[0].workspaces} <= own[0]


def test_what_runs_left_can_be_made_unreadable(machine: Machine) -> None:
    """All but what must stay zero."""
    inputs = long()
    _, bound = on_gpu(sums, *inputs)
    bound.spoil()
    bound.run(inputs, bound.results())
    bound.spoil()
    (frame,) = bound.pools[0]
    zeroed = [place.zeroed for place in bound.workspaces]
    assert len(set(zeroed)) == 2
    assert [bool(tensor.isnan().all()) for tensor in frame.workspaces] == [not zero for zero in zeroed]
    assert all(not tensor.any() for tensor, zero in zip(frame.workspaces, zeroed, strict=True) if zero)


def test_a_captured_run_has_workspaces_of_its_own(machine: Machine) -> None:
    """They are not taken again, neither by other captures nor by calls; the default stream cannot be captured, and is not asked."""
    inputs = long()
    compiled, bound = on_gpu(sums, *inputs)
    machine.stream = 3
    compiled(*inputs)
    machine.captured = True
    zeroed = [number for number, place in enumerate(bound.workspaces) if place.zeroed]
    kept: list[set[int]] = []
    for _ in range(2):
        frame = bound.frame(3)
        assert frame.pool is not bound.pools[3]
        kept.append({frame.workspaces[number].data_ptr() for number in zeroed})
        machine.passed()
        compiled(*inputs)
        ((_, values),) = machine.passed()
        assert not {tensor.data_ptr() for tensor in bound.pools[3][0].workspaces} & set(values)
    machine.captured = False
    (frame,) = bound.pools[3]
    kept.append({frame.workspaces[number].data_ptr() for number in zeroed})
    assert len(set.union(*kept)) == 3 * len(zeroed)


@pytest.mark.parametrize("function, inputs", [(scaled, rows), (sums, long)])
def test_a_call_within_a_call_shares_nothing_with_it(machine: Machine, function: Callable[..., Any], inputs: Callable[..., Any]) -> None:
    """Another thread, on the same stream, while the driver has not yet read the arguments of the first."""
    first, second = inputs(), inputs()
    compiled, bound = on_gpu(function, *first)
    results: list[torch.Tensor] = []
    machine.driver.meanwhile = lambda: results.append(compiled(*second))
    results.append(compiled(*first))
    inner, outer = (values for _, values in machine.passed())
    assert {tensor.data_ptr() for tensor in (*second, results[0])} <= set(inner)
    assert {tensor.data_ptr() for tensor in (*first, results[1])} <= set(outer)
    compiled(*first)
    if machine.static and not bound.workspaces:
        assert not bound.pools
        return
    one, other = bound.pools[0]
    assert not {tensor.data_ptr() for tensor in one.workspaces} & {tensor.data_ptr() for tensor in other.workspaces}


def test_threads_pass_their_own_addresses(machine: Machine) -> None:
    """Eight threads, each with a stream and tensors of its own."""
    compiled, _ = on_gpu(scaled, *rows())
    wanted: dict[int, list[list[int]]] = {}

    def work(number: int) -> None:
        machine.own.stream, inputs = number, rows()
        kept = [compiled(*inputs) for _ in range(200)]
        wanted[number] = [[*(tensor.data_ptr() for tensor in (*inputs, result)), 0] for result in kept]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found: dict[int, list[list[int]]] = {}
    for stream, values in machine.passed():
        found.setdefault(stream, []).append(values)
    assert found == wanted


def test_scratch_memory_is_aligned_and_follows_the_scalars(machine: Machine) -> None:
    inputs = rows()
    compiled, bound = on_gpu(scaled, *inputs, scratch=24)
    compiled(*inputs)
    ((_, values),) = machine.passed()
    (frame,) = bound.pools[0]
    (memory,) = frame.workspaces
    programs = next(iter(bound.steps)).programs  # pyright: ignore[reportAttributeAccessIssue]
    end = memory.data_ptr() + memory.numel() * 4
    assert values[-1] % SCRATCH_ALIGNMENT == 0 and memory.data_ptr() <= values[-1] and values[-1] + 24 * programs <= end


@pytest.mark.parametrize("machine", ["static"], indirect=True)
def test_what_torch_refuses_the_driver_launches(machine: Machine) -> None:
    """As in a thread without a context, or if the launcher took other arguments; the report says so. What both refuse is an error."""
    for function, inputs in ((scaled, rows()), (sums, long())):
        compiled, bound = on_gpu(function, *inputs)
        compiled._bounds.put(None, bound)
        compiled(*inputs)
        ((_, wanted),) = machine.passed()
        for problem in (RuntimeError("invalid device context"), TypeError("takes ten arguments")):
            machine.driver.refusals = [problem]
            before, result = machine.driver.current, compiled(*inputs)
            ((_, values),) = machine.passed()
            assert values.count(result.data_ptr()) == 1 and len(set(values) ^ set(wanted)) in (0, 2)
            assert machine.driver.current == before + 1
            assert f"refused 1 launches, which the driver then made: {type(problem).__name__}: {problem}" in str(compiled.report())
        left = [len(pool) for pool in bound.pools.values()]
        machine.driver.codes = [701]
        machine.driver.refusals = [RuntimeError("unknown")]
        with pytest.raises(DriverError, match="out of something"):
            compiled(*inputs)
        # What its workspaces hold is not known.
        assert left == [1] and not bound.pools[0] and len(machine.passed()) == 1


def test_another_device_is_made_current(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are several; the work is the same."""
    entered: list[object] = []

    def entering(index: object) -> contextlib.AbstractContextManager[None]:
        entered.append(index)
        return contextlib.nullcontext()

    now: list[int | None] = [1]
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(calls, "current_device", lambda: lambda: now[0])
    inputs = rows()
    compiled, bound = on_gpu(scaled, *inputs)
    monkeypatch.setattr(torch.cuda, "device", entering)
    compiled, _ = on_gpu(scaled, *inputs)
    entered.clear()
    for device, count in ((1, 1), (None, 1), (0, 2)):
        now[0] = device
        result = compiled(*inputs)
        assert len(entered) == count and set(entered) == {bound.index}
        assert machine.passed() == [(0, [*(tensor.data_ptr() for tensor in (*inputs, result)), 0])]


def test_sizes_are_passed_after_addresses(machine: Machine) -> None:
    """Of a program for any number of rows and columns; the long way passes them alike."""
    m, n = (torch.export.Dim(name, min=2) for name in ("m", "n"))
    inputs = torch.randn(48, 80), torch.randn(80), torch.randn(48, 80)
    compiled, bound = on_gpu(scaled, *inputs, dynamic_shapes=({0: m, 1: n}, {0: n}, {0: m, 1: n}), scratch=8)
    (step,) = bound.steps
    assert isinstance(step, Launch) and step.scalars
    short = compiled(*inputs)
    bound(*inputs)
    (_, quick), (_, slow) = machine.passed()
    at = quick.index(short.data_ptr())
    assert quick[len(step.slots) : -1] == list(step.scalars) and [*quick[:at], *quick[at + 1 :]] == [*slow[:at], *slow[at + 1 :]]


def test_the_long_way_launches_alike(machine: Machine) -> None:
    inputs = long()
    compiled, bound = on_gpu(sums, *inputs)
    short = compiled(*inputs)
    (result,) = bound(*compiled.bindings.views(inputs, {}))
    (_, quick), (_, slow) = machine.passed()
    assert [value if value != short.data_ptr() else result.data_ptr() for value in quick] == slow


def test_the_made_up_shortcuts_are_those_of_torch() -> None:
    found = shortcuts()
    assert isinstance(found, Shortcuts) and found.guards is TORCH._C._dynamo.guards.TensorGuards
