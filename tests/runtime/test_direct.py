"""The short way of a call, written out: its text, what streams, and products by a library in it."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from cleave import calls
from cleave.runtime.cuda import CudaBound
from cleave.runtime.launch import Launch
from cleave.runtime.plan import Allocate
from cleave.schedule.program import LibraryCall
from tests.runtime.made_up_machine import Machine, on_gpu, refused, rows, scaled


def products(x: torch.Tensor, g: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """A split sum, with a workspace and a counter."""
    return (x * y).sum(-1) + g[:16]


@pytest.mark.parametrize("function", [scaled, products])
def test_what_streams_is_where_the_tensor_of_the_call_is(machine: Machine, function: Callable[..., torch.Tensor]) -> None:
    """Also of a view of it: from its first element to its last. torch's launcher cannot say so."""
    x, g, y = rows()
    compiled, bound = on_gpu(function, x, g, y, streaming="x")
    for other in (x, torch.randn(16, 512), torch.randn(48, 512)[8:24]):
        machine.driver.attributes.clear()
        assert not refused(compiled, (other, g, y))
        bound.run([other, g, y], bound.results())
        launches = [entry for entry in machine.driver.attributes if entry]
        assert len(launches) == 2, "the short way and the long one, each with one launch that has x"
        for ((kind, value),) in launches:
            assert kind == 1 and struct.unpack("<QQ", value[:16]) == (other.data_ptr(), x.nbytes)
    assert machine.driver.torch == 0


class Linear(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(64, 48))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight


@pytest.mark.parametrize("shape", [(32, 64), (2, 16, 64)])
@pytest.mark.parametrize("module", [False, True])
def test_a_product_by_a_library(machine: Machine, shape: tuple[int, ...], module: bool) -> None:
    """Of tensors that are matrices as they are; others are read as such. Parameters need gradients, and calls record none."""
    layer = Linear()
    x = torch.randn(shape)
    given = (x,) if module else (x, layer.weight.detach())
    compiled, _ = on_gpu(layer if module else torch.matmul, *given, library=True)
    for other in (x, torch.randn(shape)):
        result = compiled._entries[0].call((other, *given[1:]))
        torch.testing.assert_close(result, other @ layer.weight.detach())
        assert not result.requires_grad
    text = compiled._entries[0].text
    assert ("as_strided" in text) is (len(shape) > 2)
    assert len(re.findall(r"mm\(", text)) == 1 and not machine.driver.seen


@pytest.mark.parametrize("first", [False, True])
def test_a_library_writes_to_workspaces_in_any_mode(machine: Machine, first: bool) -> None:
    """Those of a run in inference mode are taken by runs outside of it, and the other way round."""
    x, w = torch.randn(16, 32), torch.randn(32, 16)
    compiled, bound = on_gpu(torch.matmul, x, w, library=True)
    (call,) = bound.plan.steps
    assert isinstance(call, LibraryCall)
    work = replace(bound.plan.outputs[0], name="work")
    plan = replace(bound.plan, steps=(Allocate(work), replace(call, out="work"), call))
    entry_bound = CudaBound(plan, {}, [x, w])
    entry = calls.entry_of(compiled.bindings, entry_bound, (x, w), [x, w], [x, w], None)
    assert isinstance(entry, calls.Entry) and "frame.workspaces[0]" in entry.text
    for mode in (first, not first, first):
        with torch.inference_mode(mode):
            (result,) = results = entry_bound.results()
            entry_bound.run([x, w], results)
            torch.testing.assert_close(result, x @ w)
            short = entry.call((x, w))
            assert short is NotImplemented or torch.equal(short, result)


def test_a_call_is_one_function_without_loops(machine: Machine) -> None:
    """Its text, where torch launches and where the driver does."""
    compiled, _ = on_gpu(scaled, *rows())
    checks = """def call(args):
    if len(args) != 3:
        return NotImplemented
    a0, a1, a2, = args
    if not guarded(a0, a1, a2):
        return NotImplemented
    p0 = a0.data_ptr()
    p1 = a1.data_ptr()
    p2 = a2.data_ptr()
    if (p0 | p1 | p2) & 15:
        return NotImplemented
    stream = current_stream(index)
"""
    make = """    r0 = empty((16, 512), (512, 1), d0)
    q0 = r0.data_ptr()
"""
    static = """    try:
        launch(h0, PROGRAMS, 1, 1, 4, 0, 'OOOOO', (p0, p1, p2, q0, 0,), stream)
    except Exception as problem:
        again(0, problem, stream, None, (p0, p1, p2, q0,))
    return r0
"""
    framed = """    try:
        frame = pools[stream].pop()
    except LookupError:
        frame = taken(stream)
"""
    driven = """    pack(frame.cells, 0, p0, p1, p2, q0)
    s0, = frame.steps
    code = s0.call(*s0.arguments)
    if code:
        s0.again(code)
    frame.pool.append(frame)
    return r0
"""
    text = re.sub(r"launch\(h0, \d+,", "launch(h0, PROGRAMS,", compiled._entries[0].text)
    assert text == (checks + make + static if machine.static else checks + framed + make + driven)


def test_an_early_launch_goes_through_the_driver(machine: Machine) -> None:
    """The other launches of the program do not."""

    def two(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.exp(), y.sum(-1)

    inputs = torch.randn(16, 32), torch.randn(8, 64)
    compiled, bound = on_gpu(two, *inputs)
    launches = [step for step in bound.steps if isinstance(step, Launch)]
    assert len(launches) == 2 and not any(step.early for step in launches)
    compiled(*inputs)
    wanted = machine.passed()
    assert machine.driver.torch == 2 * machine.static
    bound.steps[1] = replace(launches[1], early=True)
    entry = calls.entry_of(compiled.bindings, bound, inputs, inputs, compiled.bindings.views(inputs, {}))
    assert isinstance(entry, calls.Entry)
    first, second = entry.call(inputs)
    found = machine.passed()
    assert machine.driver.torch == 3 * machine.static and len(found) == len(wanted) == 2
    assert first.data_ptr() in found[0][1] and second.data_ptr() in found[1][1]
