"""Loads by descriptor: where there may be some, that values stay, and what Triton makes of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from cleave.bridge.sched import module_of, program_of
from cleave.dialects.sched import ProgramOp
from cleave.graph import Graph, Input
from cleave.runtime.compile import compile_module, compile_ttir
from cleave.runtime.execute import executable, execute
from cleave.runtime.plan import calls
from cleave.schedule import TARGETS, ScheduleOptions, space
from cleave.schedule.descriptors import has_boxes
from cleave.schedule.program import Buffer, Load, Program, walk

from .programs import H200, Sketch, agrees, attention, norm_linear, split_attention
from .test_hazards import double_uses, two_products

BOXES = ScheduleOptions(plans=80, ranked=400, peel=True, boxes=True)


def product(m: str = "100", k: str = "200", c: str = "136", layout: str = "c k", dtype: str = "f16") -> Graph:
    """x times w, whose rows or columns lie together."""
    s = Sketch("product", f"m={m} k={k} c={c}", [Input("x", ("m", "k"), dtype, "m k"), Input("w", ("k", "c"), dtype, layout)])
    s.output(s.contract(0, 1, over="k"), "m c")
    return s.graph()


def by_descriptor(graph: Graph, options: ScheduleOptions = BOXES, count: int = 3) -> list[Program]:
    """The first programs of a graph with loads by descriptor."""
    found = space([graph], {}, frozenset(), H200, options)
    wanted = [trial for trial in found.trials(5000) if "by descriptor" in found.text(trial)]
    programs = [found.program(trial) for trial in wanted[:count]]
    assert all(map(boxes, programs))
    return programs


def boxes(program: Program) -> list[Load]:
    return [load for kernel in program.kernels for load in walk(kernel.body) if isinstance(load, Load) and load.descriptor]


@pytest.mark.parametrize(
    "make",
    [
        product,
        lambda: product(layout="k c"),
        lambda: product(m="64", k="64", c="64"),
        lambda: attention(b="2", m="120", n="100", d="72", e="80"),
        lambda: attention(m="128", n="192", mask="causal"),
        lambda: split_attention(m="64", n="300"),
        lambda: norm_linear(m="70", k="200", c="72"),
        two_products,
    ],
)
def test_values_stay(make: Callable[[], Graph]) -> None:
    """Also of tiles that end past an extent, and through the text of the IR."""
    graph = make()
    programs = by_descriptor(graph)
    assert programs
    for program in programs:
        agrees(graph, program)
        (host,) = [op for op in module_of(program).ops if isinstance(op, ProgramOp)]
        assert len(boxes(program_of(host))) == len(boxes(program))


@pytest.mark.parametrize("make", [product, two_products, lambda: attention(b="2", m="120", n="100", d="72", e="80")])
def test_only_dots_read_them(make: Callable[[], Graph]) -> None:
    """What registers read as well has a load of its own: in a pipelined loop it might be overwritten."""
    programs = by_descriptor(make())
    assert programs
    for program in programs:
        for kernel in program.kernels:
            assert not double_uses(kernel)


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("layout", ["c k", "k c"])
def test_the_interpreter_runs_them(layout: str, dtype: str) -> None:
    """Small integers, whose sums of products are exact."""
    (program, *_) = by_descriptor(product(layout=layout, dtype=dtype))
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-3, 4, shape).astype(np.float32) for shape in ((100, 200), (136, 200) if layout == "c k" else (200, 136))]
    (found,) = execute(program, inputs)
    np.testing.assert_array_equal(found, inputs[0] @ (inputs[1].T if layout == "c k" else inputs[1]))


def test_ahead_of_time() -> None:
    """Both ways to machine code copy boxes, the operands of all products, and ask for the memory of two descriptors."""
    (program, *_) = by_descriptor(product(m="256", k="512", c="256"))
    ready = executable(program)
    (kernel,) = compile_module(ready.module, "sm_90")
    text = str(kernel.asm["ptx"])
    assert "cp.async.bulk.tensor" in text and "cp.async.cg" not in text
    assert kernel.wgmma and not kernel.spills and kernel.scratch == 256
    (plan,) = ready.file.plans
    (call,) = calls(plan)
    func = next(op for op in ready.module.ops if getattr(getattr(op, "sym_name", None), "data", "") == call.kernel)
    other = compile_ttir(ready.module, func, call, "sm_90")  # pyright: ignore[reportArgumentType]
    assert str(other.asm["ptx"]).count("cp.async.bulk.tensor") == text.count("cp.async.bulk.tensor")


def test_machines_without() -> None:
    found = space([product()], {}, frozenset(), TARGETS["a100"], BOXES)
    assert not any(boxes(found.program(trial)) for trial in found.trials(100))


def test_small_dots_have_none() -> None:
    assert not by_descriptor(product(m="16"))
    assert by_descriptor(product(m="64", c="32"))


def buffer(strides: tuple[int | None, ...], dtype: str = "f16", divisor: int = 1, aligned: bool = True) -> Buffer:
    return Buffer("x", tuple("bmk"[3 - len(strides) :]), dtype, strides, divisor, aligned)


@pytest.mark.parametrize(
    ("of", "may"),
    [
        (buffer((64, 1)), True),
        (buffer((1, 64)), True),
        (buffer((4096, 64, 1)), True),
        (buffer((None, 64, 1), divisor=8), True),
        (buffer((None, 64, 1), divisor=4), False),
        (buffer((None, 1), divisor=8), False),
        (buffer((60, 1)), False),
        (buffer((0, 1)), False),
        (buffer((128, 2)), False),
        (buffer((64, 1), dtype="f32"), False),
        (buffer((64, 1), dtype="i32"), False),
        (buffer((64, 1), aligned=False), False),
    ],
)
def test_what_has_boxes(of: Buffer, may: bool) -> None:
    """Addresses and strides are multiples of 16 bytes, elements along one tile lie together."""
    assert has_boxes(of, frozenset("mk")) == may
