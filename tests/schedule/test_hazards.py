"""Rules for what Triton's compiler gets wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cleave.graph import Graph, Input
from cleave.runtime.compile import compile_module
from cleave.runtime.execute import executable
from cleave.schedule import TARGETS, ScheduleOptions, schedule, space
from cleave.schedule.hazards import is_affected, mended, overwritten, separated
from cleave.schedule.program import Buffer, Dot, Either, For, Kernel, Let, Load, Program, TileType, Var, When, walk
from cleave.schedule.scheduler import assemble
from tests.targets.sass import disassembled, loops, overwrites

from .programs import H200, Sketch, agrees, attention, norm_linear, scheduled, split_attention

OLD, NEW = (3, 6), (3, 9)


def squares_and_product(m: str = "70", k: str = "200", c: str = "72") -> Graph:
    """x in a sum of squares and, as it is, in a product."""
    s = Sketch("both", f"m={m} k={k} c={c}", [Input("x", ("m", "k"), "f16", "m k"), Input("w", ("k", "c"), "f16", "c k")])
    x = s.cast(0, "f32")
    s.output(s.op("mul", s.contract(0, 1, over="k"), s.op("rsqrt", s.op("add", s.contract(x, x, over="k"), 1.0))), "m c")
    return s.graph()


def two_products(m: str = "70", k: str = "200", c: str = "72") -> Graph:
    """x in a product as it is, and scaled in another."""
    inputs = [Input("x", ("m", "k"), "f16", "m k"), Input("g", ("k",), "f16", "k")]
    s = Sketch("two", f"m={m} k={k} c={c}", [*inputs, *(Input(name, ("k", "c"), "f16", "c k") for name in "wu")])
    scaled = s.cast(s.op("mul", s.cast(0, "f32"), s.cast(1, "f32")), "f16")
    s.output(s.op("mul", s.contract(0, 2, over="k"), s.contract(scaled, 3, over="k")), "m c")
    return s.graph()


def normed_rows(m: str = "128", k: str = "512", c: str = "256") -> Graph:
    """Rows scaled by the root of their mean square before they are multiplied: the product is of what registers hold."""
    inputs = [Input("x", ("m", "k"), "f16", "m k"), Input("g", ("k",), "f16", "k"), Input("w", ("k", "c"), "f16", "c k")]
    s = Sketch("normed", f"m={m} k={k} c={c}", inputs)
    x = s.cast(0, "f32")
    scale = s.op("rsqrt", s.op("add", s.contract(x, x, over="k"), 1.0))
    rows = s.cast(s.op("mul", s.op("mul", x, s.cast(1, "f32")), scale), "f16")
    s.output(s.contract(rows, 2, over="k"), "m c")
    return s.graph()


def ways(graph: Graph, options: ScheduleOptions | None = None) -> list[Program]:
    """The programs of all ways to run the kernels of a graph."""
    out: list[Program] = []
    for name, candidate in space([graph], {}, frozenset(), H200, options).divisions:
        for place, ranked in enumerate(candidate.ranked):
            for way in ranked:
                out.append(assemble(candidate, [*candidate.choices[:place], way, *candidate.choices[place + 1 :]], (name,)))
    return out


def double_uses(kernel: Kernel) -> list[Load]:
    """The loads of loops that a dot reads as they are and anything else does too."""
    found: list[Load] = []
    for loop in [statement for statement in walk(kernel.body) if isinstance(statement, For)]:
        for load in [statement for statement in loop.body if isinstance(statement, Load)]:
            same = {id(load.out)}
            same |= {id(each.out) for each in loop.body if isinstance(each, Let) and each.kind == "broadcast" and each.args[0] is load.out}
            dots = [each for each in walk(loop.body) if isinstance(each, Dot) and (id(each.a) in same or id(each.b) in same)]
            others = [
                each for each in walk(loop.body) if isinstance(each, Let) and id(each.out) not in same and same & set(map(id, each.args))
            ]
            if dots and others:
                found.append(load)
    return found


@pytest.mark.parametrize("make", [squares_and_product, two_products, norm_linear, normed_rows, attention])
def test_dots_have_loads_of_their_own(make: Callable[[], Graph]) -> None:
    graph = make()
    for program in ways(graph, ScheduleOptions(plans=24, ranked=12)):
        assert not any(double_uses(kernel) for kernel in program.kernels)


def test_the_second_load_has_another_cache_hint() -> None:
    graph = squares_and_product()
    program = scheduled(graph)
    agrees(graph, program)
    loads = [load for load in walk(program.kernels[0].body) if isinstance(load, Load) and load.buffer.name == "x"]
    assert sorted(load.eviction for load in loads) == ["", "evict_last"]


def test_dots_of_few_rows_and_of_many_have_loads_of_their_own() -> None:
    """The operands of few rows pass through registers: a tile that both read would have too few buffers for a warp-group dot."""
    rows, one = (TileType(((name, 16), ("k", 64)), "f16") for name in "mn")
    x = Buffer("x", ("m", "k"), "f16", (64, 1))
    loaded, turned = Var("x", rows), Var("x", TileType((("k", 64), ("m", 16)), "f16"))
    a, w = Var("a", one), Var("w", TileType((("c", 64), ("k", 64)), "f16"))
    few, wide = (
        Dot(Var("dot", TileType(((name, size), ("m", 16)), "f32")), side, turned, "k") for name, size, side in (("n", 16, a), ("c", 64, w))
    )
    body = (Load(loaded, x, ()), Let(turned, "broadcast", (loaded,)), few, wide)
    index = Var("k0", TileType((), "index"))
    (loop,) = separated((For("k", index, index, index, 64, (), body),))
    assert isinstance(loop, For)
    loads = [statement for statement in loop.body if isinstance(statement, Load)]
    assert [load.eviction for load in loads] == ["", "evict_last"]
    made = {id(statement.out): statement.args[0] for statement in loop.body if isinstance(statement, Let)}
    dots = [statement for statement in loop.body if isinstance(statement, Dot)]
    assert [made[id(dot.b)] for dot in dots] == [load.out for load in loads]


def test_a_branch_that_reads_what_a_dot_does_has_a_load_of_its_own() -> None:
    """It reads registers, in whatever steps it is run."""
    tile = TileType((("k", 64), ("c", 64)), "f16")
    loaded, a = Var("w", tile), Var("a", TileType((("m", 64), ("k", 64)), "f16"))
    index, edge = Var("k0", TileType((), "index")), Var("edge", TileType((), "i1"))
    turned = Var("neg", tile)
    branch = When(edge, (Either(turned, Var("other", tile), Var("out", tile)),), (Let(turned, "neg", (loaded,)),))
    dot = Dot(Var("dot", TileType((("m", 64), ("c", 64)), "f32")), a, loaded, "k")
    (loop,) = separated((For("k", index, index, index, 64, (), (Load(loaded, Buffer("w", ("k", "c"), "f16", (64, 1)), ()), branch, dot)),))
    assert isinstance(loop, For)
    own, twin, kept, moved = loop.body
    assert isinstance(own, Load) and isinstance(twin, Load) and isinstance(moved, Dot)
    assert kept == branch
    assert (own.out, moved.b) == (loaded, twin.out) and (own.eviction, twin.eviction) == ("", "evict_last")


def test_loads_with_one_kind_of_use_stay_single() -> None:
    """Keys and values feed dots alone; what is loaded outside loops is not pipelined."""
    program = scheduled(attention(m="64", n="128"))
    assert not any(load.eviction for load in walk(program.kernels[0].body) if isinstance(load, Load))


def test_affected_versions_and_machines() -> None:
    affected = {name: is_affected(machine, OLD) for name, machine in TARGETS.items()}
    assert affected == {"a100": False, "h100": True, "h200": True, "b200": False, "rtx4090": False, "mi300x": False}
    assert not is_affected(H200, NEW)


@pytest.mark.parametrize("make", [norm_linear, normed_rows, two_products])
def test_products_of_registers_are_found_and_mended(make: Callable[..., Graph], monkeypatch: pytest.MonkeyPatch) -> None:
    """Large tiles have them, with the same value after as before; those of few rows or of one instruction do not."""
    monkeypatch.setattr("cleave.schedule.hazards.triton_version", lambda: NEW)
    graph = make(m="2048", k="2048", c="2048")
    small = make(m="70", k="130", c="72")
    found = 0
    for program in ways(graph, ScheduleOptions(ranked=64)):
        for kernel in program.kernels:
            unsafe = overwritten(kernel)
            found += bool(unsafe)
            assert all(dot.out.type.dims[0][1] >= 64 and dict(dot.a.type.dims)[dot.over] > 16 for dot in unsafe)
            assert mended(kernel, H200, NEW) is kernel
            assert not overwritten(mended(kernel, H200, OLD))
    assert found
    for program in ways(small, ScheduleOptions(plans=64, ranked=8))[:6]:
        changed = replace(program, kernels=tuple(mended(kernel, H200, OLD) for kernel in program.kernels))
        agrees(small, changed)


def test_a_product_that_is_waited_for_is_left_alone() -> None:
    """The accumulator of a loop that carries its level is rescaled, and its left operand is made in registers."""
    for graph in (attention(m="128", n="512", d="64", e="64"), split_attention(m="128", n="512", d="64", e="64")):
        found = [kernel for program in ways(graph, ScheduleOptions(plans=48, ranked=12)) for kernel in program.kernels]
        loops = [(kernel, statement) for kernel in found for statement in kernel.body if isinstance(statement, For)]
        rescaled = [kernel for kernel, loop in loops if any(entry.inner.name == "level" for entry in loop.carried)]
        rescaled = [kernel for kernel in rescaled if sum(isinstance(statement, For) for statement in walk(kernel.body)) == 1]
        assert rescaled
        assert not any(overwritten(kernel) for kernel in rescaled)


def test_what_the_model_chooses_is_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cleave.schedule.hazards.triton_version", lambda: OLD)
    for graph in (norm_linear("512", "4096", "4096"), norm_linear("512", "1024", "1024", gated=True), normed_rows("512", "4096", "4096")):
        program = schedule([graph], {}, frozenset(), H200)
        assert not any(overwritten(kernel) for kernel in program.kernels)


@pytest.mark.parametrize("make", [norm_linear, normed_rows, attention])
def test_machine_code_keeps_operands_of_running_products(make: Callable[..., Graph], tmp_path: Path) -> None:
    """With the installed version of Triton."""
    graph = make(g="8", m="2048", n="512") if make is attention else make(m="512", k="1024", c="1024")
    products = 0
    for program in ways(graph)[:3]:
        for kernel in compile_module(executable(program).module, "sm_90"):
            for body in loops(disassembled(kernel.asm["cubin"], tmp_path)):
                products += sum(name.startswith("HGMMA") for name, _ in body)
                assert not overwrites(body)
    assert products
