"""A made-up machine: compiled calls on CPU tensors reach a driver that runs nothing and remembers what it was asked."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import cleave
from cleave import calls
from cleave import compiled as compiled_module
from cleave.api import Compiled
from cleave.calls import Entry
from cleave.runtime import cuda, driver, guards
from cleave.runtime.binary import Binary
from cleave.runtime.cuda import CudaBound
from cleave.runtime.execute import Executable
from cleave.runtime.plan import Call, Plan
from cleave.runtime.versions import Shortcuts, tried
from cleave.schedule.program import LibraryCall
from tests.runtime.made_up import FakeDriver


class Loading(FakeDriver):
    """A driver that loads any code, and lets a test act in the middle of a launch."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], object] | None = None

    def loaded(self, *_: Any) -> int:
        return 0

    cuModuleLoadData = cuModuleGetFunction = cuFuncSetAttribute = cuFuncSetCacheConfig = cuFuncGetAttribute = loaded

    def _act(self) -> None:
        act, self.meanwhile = self.meanwhile, None
        if act is not None:
            act()

    def cuLaunchKernelEx(self, configuration: Any, function: Any, arguments: Any, extra: None) -> int:
        self._act()
        return super().cuLaunchKernelEx(configuration, function, arguments, extra)

    def _launch_kernel(self, *given: Any) -> None:
        self._act()
        super()._launch_kernel(*given)


TORCH: Any = torch


@dataclass
class Machine:
    """A machine whose device is the CPU: its current stream and whether that is captured."""

    driver: Loading = field(default_factory=Loading)
    stream: int = 0
    captured: bool = False
    quick: Shortcuts | str = "not tried"
    static: bool = False
    own: threading.local = field(default_factory=threading.local)
    """Streams of threads that have one of their own, as `stream`."""

    def passed(self) -> list[tuple[int, list[int]]]:
        """The stream and the values of every launch since asked last."""
        seen, self.driver.seen = self.driver.seen, []
        return [(stream or 0, values) for _, _, _, stream, values in seen]


def made_machine(monkeypatch: pytest.MonkeyPatch, static: bool) -> Machine:
    """A machine whose device is the CPU, for as long as the patches last; `static` has torch's launcher."""
    made = Machine(static=static)
    driver.longest_window.cache_clear()
    found = TORCH._C._dynamo.guards
    launch = tried("2.13", SimpleNamespace(_StaticCudaLauncher=made.driver) if made.static else None)
    made.quick = Shortcuts(found.TensorGuards, found._empty_strided_cpu, launch)
    for place, name, value in (
        (driver, "_library", lambda: made.driver),
        (driver, "_functions", {}),
        (torch.cuda, "init", lambda: None),
        (torch.cuda, "device", lambda _: contextlib.nullcontext()),
        (torch.cuda, "is_current_stream_capturing", lambda: made.captured),
        (torch.cuda, "current_stream", lambda _: SimpleNamespace(synchronize=lambda: None)),
        (cuda, "raw_stream", lambda: lambda _: getattr(made.own, "stream", made.stream)),
        (cuda, "capturing", lambda: lambda: made.captured),
        (cuda, "shortcuts", lambda: made.quick),
        (guards, "shortcuts", lambda: made.quick),
        (compiled_module, "shortcuts", lambda: made.quick),
        (calls, "current_device", lambda: lambda: None),
    ):
        monkeypatch.setattr(place, name, value)
    return made


def made_up_code(plan: Plan, scratch: int = 0) -> dict[str, Binary]:
    """Code for the kernels of a plan, which the driver takes and does not look at."""
    return {
        step.kernel: Binary(step.kernel, "sm_90", step.kernel, b"", 128, 0, 32, 0, len(step.buffers) + len(step.scalars), 1, scratch)
        for step in plan.steps
        if isinstance(step, Call)
    }


def long_way(monkeypatch: pytest.MonkeyPatch, compiled: Compiled) -> Callable[..., Any]:
    """What a call does on a GPU after its arguments were checked, on CPU tensors: binds to their shapes, runs, and makes a short way."""

    def bind(self: Executable, inputs: Sequence[torch.Tensor], symbols: Any = None, shapes: Any = None) -> CudaBound:
        return CudaBound(self.plan, made_up_code(self.plan), inputs, symbols, shapes)

    def call(*args: Any, **kwargs: Any) -> Any:
        flat = compiled.bindings.flatten(args, kwargs)
        symbols = compiled.bindings.sizes(flat)
        views = compiled.bindings.views(flat, symbols)
        if compiled._prepared is not None:
            views += compiled._prepared.ready(flat)
        return compiled._on_gpu(args, kwargs, flat, views, symbols)

    monkeypatch.setattr(Executable, "bind", bind)
    return call


def on_gpu(
    function: Callable[..., Any], *inputs: torch.Tensor, scratch: int = 0, streaming: str = "", library: bool = False, **options: Any
) -> tuple[Compiled, CudaBound]:
    """
    The function compiled, with a short way for calls like this one; launches that take a buffer of that name stream it. With `library` a
    function that is a product of its two inputs is left to a library.
    """
    compiled = cleave.compile(function, *inputs, tune=False, target="h200", alternatives=0, **options)
    (ready,) = compiled._executables
    plan = ready.plan
    steps = [replace(step, streaming=streaming) if isinstance(step, Call) and streaming in step.buffers else step for step in plan.steps]
    if library:
        left, right = plan.inputs
        over = tuple(axis for axis in left.axes if axis in right.axes)
        steps = [LibraryCall("matmul", plan.outputs[0].name, (left.name, right.name), over)]
    plan = replace(plan, steps=tuple(steps))
    binaries = made_up_code(plan, scratch)
    flat = compiled.bindings.flatten(inputs)
    symbols = compiled.bindings.sizes(flat)
    views = compiled.bindings.views(flat, symbols)
    prepared = compiled._prepared
    if prepared is not None:
        views += prepared.prepare(flat)
    bound = CudaBound(plan, binaries, views, symbols, [output.sizes(symbols) for output in compiled.bindings.outputs])
    entry = calls.entry_of(compiled.bindings, bound, inputs, flat, views, prepared)
    assert isinstance(entry, Entry)
    compiled._entries = (entry,)
    return compiled, bound


def refused(compiled: Compiled, args: Sequence[Any]) -> bool:
    return compiled._entries[0].call(tuple(args)) is NotImplemented


def scaled(x: torch.Tensor, g: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """One kernel without workspaces."""
    return x * g + y


def sums(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    """Few rows: the sum is split, so that there are workspaces and a counter."""
    return (x * y).sum(-1) + z


def rows() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return torch.randn(16, 512), torch.randn(512), torch.randn(16, 512)
