"""Calls that are not passed on as one like them before: each is counted with its reason, which the report tells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import cleave
from cleave import calls
from cleave.compiled import ENTRIES, Compiled
from cleave.runtime import workspaces
from tests.runtime.made_up_machine import TORCH, Machine, long_way, on_gpu, rows, scaled, sums

NEW = f"none of the last {ENTRIES} kinds of calls was like it"
KEYWORDS = "arguments are given by name"


def compiled_for(function: Callable[..., Any], *inputs: Any, **options: Any) -> Compiled:
    return cleave.compile(function, *inputs, tune=False, target="h200", alternatives=0, **options)


def nested(pair: list[torch.Tensor], y: torch.Tensor) -> torch.Tensor:
    return pair[0] * pair[1] + y


class Subclass(torch.Tensor):
    pass


def shifted(tensor: torch.Tensor, aligned: bool = False) -> torch.Tensor:
    """A copy at an address that is aligned or not."""
    wide = torch.empty(tensor.numel() + 8)
    first = next(at for at in range(8) if ((wide.data_ptr() + 4 * at) % 16 == 0) is aligned)
    return wide[first : first + tensor.numel()].view(tensor.shape).copy_(tensor)


x, g, y = rows()
# What is compiled, the call, and why it goes the long way each time.
REASONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], tuple[Any, ...], dict[str, Any], str]] = {
    "keywords": (scaled, (x, g, y), (x, g), {"y": y}, KEYWORDS),
    "nested": (nested, ([x, g], y), ([x, g], y), {}, "arguments are nested"),
    "subclass": (scaled, (x, g, y), (x.as_subclass(Subclass), g, y), {}, "a tensor is a Subclass"),
    "negated": (scaled, (x, g, y), (TORCH._neg_view(x), g, y), {}, "an input is negated when it is read"),
    "gradient": (scaled, (x, g, y), (x.clone().requires_grad_(), g, y), {}, "an argument requires a gradient"),
    "address": (scaled, (x, g, y), (shifted(x), g, y), {}, "an input is copied, as its strides or its address are not"),
    "strides": (scaled, (x, g, y), (x.t().contiguous().t(), g, y), {}, "an input is copied, as its strides or its address are not"),
}


@pytest.mark.parametrize("name", REASONS)
def test_why_a_call_goes_the_long_way_is_counted(machine: Machine, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    function, example, args, kwargs, why = REASONS[name]
    compiled = compiled_for(function, *example)
    call = long_way(monkeypatch, compiled)
    for _ in range(3):
        call(*args, **kwargs)
    ((found, count),) = compiled.report().long.items()
    assert found.startswith(why) and count == 3 and not compiled._entries
    assert f"calls that went the long way: 3, as {why}" in str(compiled.report())


def test_what_kernels_and_libraries_have_no_short_way_for(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, bound = on_gpu(scaled, x, g, y)
    given = (x, g, y)

    def entry() -> calls.Entry | str:
        return calls.entry_of(compiled.bindings, bound, given, given, compiled.bindings.views(given, {}))

    assert isinstance(entry(), calls.Entry)
    bound.direct = False
    assert entry() == "a library call is no product of matrices"
    unbound: Any = object()
    assert calls.entry_of(compiled.bindings, unbound, given, given, given) == "kernels are launched by Triton"
    w = torch.randn(48, 64)
    compiled, bound = on_gpu(lambda x, w: x @ w, torch.randn(16, 48), w, library=True)
    given = torch.randn(16, 48), w
    views = [given[0], torch.randn(49, 64)[1:]]
    assert calls.entry_of(compiled.bindings, bound, given, given, views) == "a library reads a part of an argument"


def test_the_first_call_of_a_kind_is_counted_once(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless there are more kinds than are remembered, and they take turns."""
    m = torch.export.Dim("m", min=2)
    compiled = compiled_for(scaled, x, g, y, dynamic_shapes=({0: m}, None, {0: m}))
    call = long_way(monkeypatch, compiled)

    def calling(count: int) -> None:
        for size in range(2, 2 + count):
            args = torch.zeros(size, 512), g, torch.zeros(size, 512)
            if all(entry.call(args) is NotImplemented for entry in compiled._entries):
                call(*args)

    for _ in range(3):
        calling(ENTRIES)
    assert compiled.report().long == {NEW: ENTRIES}
    for _ in range(2):
        calling(ENTRIES + 1)
    assert compiled.report().long[NEW] > ENTRIES + 2


def test_one_kind_of_calls_has_one_entry(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights that are changed in place make a call go the long way; what it finds then takes the place of the entry before."""
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    weight = g.clone()
    compiled = compiled_for(lambda x, g: x * (g.exp() + 1), x, weight, weights=(1,))
    call = long_way(monkeypatch, compiled)
    for _ in range(3):
        weight.add_(1)
        assert all(entry.call((x, weight)) is NotImplemented for entry in compiled._entries)
        call(x, weight)
        assert len(compiled._entries) == 1 and compiled._entries[0].call((x, weight)) is not NotImplemented
    assert compiled.report().long == {NEW: 1, "weights were changed": 2}


def test_kinds_of_calls_have_entries_of_their_own(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """One tensor in two places and two tensors have one bound program."""
    compiled = compiled_for(lambda x, y: x + 2 * y, x, y)
    call = long_way(monkeypatch, compiled)
    for args in ((x, x), (x, y), (torch.nn.Parameter(x, requires_grad=False), y)):
        call(*args)
    assert len(compiled._entries) == 3 and len(compiled._bounds) == 1 and compiled.report().long == {NEW: 3}


def test_a_shape_first_met_at_another_address_gets_its_short_way(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = compiled_for(scaled, x, g, y)
    call = long_way(monkeypatch, compiled)
    call(shifted(x), g, y)
    assert not compiled._entries
    call(shifted(x, aligned=True), g, y)
    (entry,) = compiled._entries
    assert entry.call((x, g, y)) is not NotImplemented and entry.call((shifted(x), g, y)) is NotImplemented
    assert compiled.report().copies == 1


def test_captured_runs_that_clear_their_memory_are_told_of(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = torch.randn(4, 1 << 18), torch.randn(4, 1 << 18), torch.randn(4)
    compiled = compiled_for(sums, *inputs)
    call = long_way(monkeypatch, compiled)
    machine.stream = 3
    call(*inputs)
    machine.captured = True
    for captures in range(1, workspaces.SPARE + 3):
        compiled._entries[0].call(inputs)
        more = captures - workspaces.SPARE
        assert (f"{more} captured runs clear workspaces in their graph, which takes longer" in str(compiled.report())) is (more > 0)


def test_calls_on_the_cpu_have_no_short_way_to_miss() -> None:
    compiled = compiled_for(scaled, x, g, y)
    compiled(x, g, y=y)
    assert not compiled.report().long and "long way" not in str(compiled.report())
