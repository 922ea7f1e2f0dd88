"""The demo's kernels compile for every architecture when scheduled for a machine of it, from Python and from TTIR, and fit."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from cleave.algebra import gate, stabilize
from cleave.dialects import tt
from cleave.frontend import capture
from cleave.graph import Graph, Input
from cleave.runtime.compile import SHARED_LIMITS, compile_module, compile_ttir
from cleave.runtime.execute import Executable, executable
from cleave.runtime.plan import calls
from cleave.schedule import schedule, space, target
from cleave.schedule.program import Dot, Program, walk
from cleave.search import superoptimize
from cleave.tools import demo
from tests.schedule.programs import Sketch
from tests.tile_programs import CASES

MACHINES = {"a100": "sm_80", "h200": "sm_90", "b200": "sm_100", "mi300x": "gfx942"}


def scheduled(machine: str, *arguments: Tensor) -> tuple[Program, Executable]:
    """The demo's function for arguments of these sizes."""
    graph: Graph = capture(demo.grouped_query, arguments).graph
    found = [entry.graph for entry in superoptimize(graph).alternatives]
    kept = [found[0], *(found[1 + index] for index in gate(graph, found[1:]).kept)]
    program = schedule([stabilize(each) for each in kept], {}, frozenset(), target(machine))
    return program, executable(program)


@pytest.mark.parametrize("machine", MACHINES)
def test_the_demo_compiles_and_fits(machine: str) -> None:
    architecture = MACHINES[machine]
    _, ready = scheduled(machine, *demo.example(64))
    for kernel in compile_module(ready.module, architecture):
        assert kernel.spills == 0
        assert 0 < kernel.shared <= SHARED_LIMITS[architecture]


@pytest.mark.parametrize("machine", MACHINES)
def test_the_demo_compiles_from_its_ttir(machine: str) -> None:
    """Through Triton's own parser."""
    _, ready = scheduled(machine, *demo.example(64))
    functions = {op.sym_name.data: op for op in ready.module.ops if isinstance(op, tt.FuncOp)}
    for call in calls(ready.plan):
        kernel = compile_ttir(ready.module, functions[call.kernel], call, MACHINES[machine])
        assert kernel.spills == 0
        assert 0 < kernel.shared <= SHARED_LIMITS[MACHINES[machine]]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_large_dots_are_wgmma_on_hopper(dtype: torch.dtype) -> None:
    """Both dots of the loop, which have 128 rows at this size."""
    heads = (32, 8, 8)
    program, ready = scheduled("h200", *(torch.empty(1, count, 4096, 128, dtype=dtype) for count in heads))
    (kernel,) = compile_module(ready.module, "sm_90")
    dots = [statement for each in program.kernels for statement in walk(each.body) if isinstance(statement, Dot)]
    assert len(dots) == 2
    assert all(dict(dot.out.type.dims)[dot.out.type.names[0]] >= 64 for dot in dots)
    assert kernel.spills == 0 and kernel.shared <= SHARED_LIMITS["sm_90"]
    steps = [dict(dot.a.type.dims)[dot.over] // 16 for dot in dots]
    assert kernel.wgmma >= sum(steps)


def test_a_persistent_product_is_one_loop_on_hopper() -> None:
    """From Python and TTIR: the loops over tiles and within one are one, of asynchronous products that are waited for where a tile ends."""
    s = Sketch("product", "m=4096 n=4096 k=512", [Input("a", ("m", "k"), "f16", "m k"), Input("b", ("k", "n"), "f16", "k n")])
    s.output(s.contract(0, 1, over="k"), "m n")
    found = space([s.graph()], {}, frozenset(), target("h200"))
    trial = next(
        trial for trial in found.trials(64) if all(choice.plan.persistent and choice.plan.group for choice in found.choices(trial))
    )
    ready = executable(found.program(trial))
    assert "flatten=True" in ready.file.text
    (function,) = [op for op in ready.module.ops if isinstance(op, tt.FuncOp)]
    (call,) = calls(ready.plan)
    (cost,) = [choice.cost for choice in found.choices(trial)]
    for kernel in (*compile_module(ready.module, "sm_90"), compile_ttir(ready.module, function, call, "sm_90")):
        assert kernel.spills == 0 and kernel.wgmma
        assert kernel.shared <= cost.shared <= SHARED_LIMITS["sm_90"] and kernel.registers <= cost.registers + 32
        assert str(kernel.asm["ttgir"]).count("scf.for") == 1
        assert re.findall(r"wgmma\.wait_group\.sync\.aligned (\d)", str(kernel.asm["ptx"])).count("1") == 1


@pytest.mark.parametrize("architecture", MACHINES.values())
def test_programs_in_turn_compile(architecture: str) -> None:
    """A product and a sum of rows, with sizes that are known when they run."""
    for name, group in (("matmul", 2), ("streamed", 3), ("rows", 0)):
        program = CASES[name].program()
        ready = executable(replace(program, kernels=tuple(replace(each, group=group, persistent=7) for each in program.kernels)))
        (function,) = [op for op in ready.module.ops if isinstance(op, tt.FuncOp)]
        (call,) = calls(ready.plan)
        for kernel in (*compile_module(ready.module, architecture), compile_ttir(ready.module, function, call, architecture)):
            assert kernel.spills == 0


@pytest.mark.parametrize("persistent", [0, 7])
@pytest.mark.parametrize("architecture", MACHINES.values())
def test_branches_compile(architecture: str, persistent: int) -> None:
    """From Python, where each result is a variable, and through Triton's own parser."""
    program = CASES["triangle"].program()
    ready = executable(replace(program, kernels=tuple(replace(each, persistent=persistent) for each in program.kernels)))
    (function,) = [op for op in ready.module.ops if isinstance(op, tt.FuncOp)]
    (call,) = calls(ready.plan)
    for kernel in (*compile_module(ready.module, architecture), compile_ttir(ready.module, function, call, architecture)):
        assert kernel.spills == 0
        assert str(kernel.asm["ttgir"]).count("scf.if") == 1


@pytest.mark.parametrize("architecture", MACHINES.values())
def test_the_last_program_to_arrive_compiles(architecture: str) -> None:
    """From Python and through Triton's own parser, with an atomic that orders the GPU and loads that leave out the first-level cache."""
    ready = executable(CASES["last_sum"].program())
    (function,) = [op for op in ready.module.ops if isinstance(op, tt.FuncOp)]
    (call,) = calls(ready.plan)
    for kernel in (*compile_module(ready.module, architecture), compile_ttir(ready.module, function, call, architecture)):
        assert kernel.spills == 0
        if architecture.startswith("sm_"):
            assert "atom.global.gpu.acq_rel.add.u32" in str(kernel.asm["ptx"]) and "ld.global.cg" in str(kernel.asm["ptx"])
