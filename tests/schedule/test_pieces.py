"""Axes that are no powers of two, in pieces."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from cleave.bridge.sched import module_of, program_of
from cleave.dialects import tt
from cleave.dialects.sched import ProgramOp
from cleave.extents import extent
from cleave.graph import Graph, Input
from cleave.layouts import memory_shape
from cleave.reference.sched import run_program
from cleave.runtime.compile import SHARED_LIMITS, compile_module, compile_ttir
from cleave.runtime.execute import executable, execute
from cleave.runtime.plan import calls
from cleave.schedule import TARGETS, ScheduleOptions, schedule, space
from cleave.schedule.pieces import binary, worthwhile
from cleave.schedule.program import Dot, Program, walk
from cleave.schedule.scheduler import assemble

from .programs import H200, Sketch, agrees, attention, norm_linear, scheduled, split_attention

FEW = ScheduleOptions(plans=24, ranked=24)


def latent(b: str = "2", h: str = "16", n: str = "70", c: str = "512", r: str = "64") -> Graph:
    """Decode with keys of c + r elements, of which the first c are the values."""
    sizes = {"b": b, "h": h, "n": n, "d": str(int(c) + int(r)), "e": c}
    inputs = [Input("q", ("b", "h", "d"), "f16", "b h d"), Input("kv", ("b", "n", "d"), "f16", "b n d")]
    s = Sketch("latent", " ".join(f"{axis}={size}" for axis, size in sizes.items()), inputs)
    x = s.op("mul", s.contract(0, 1, over="d"), 0.07)
    p = s.op("exp", s.op("sub", x, s.shift(x, "n")))
    z = s.reduce("sum", p, "n")
    values = s.op("slice", 1, attr=("d", "e", extent(0), 1))
    s.output(s.op("div", s.contract(s.cast(p, "f16"), values, over="n"), z, attr=("guarded",)), "b h e")
    return s.graph()


def matmul(m: str, k: str, c: str) -> Graph:
    s = Sketch("matmul", f"m={m} k={k} c={c}", [Input("x", ("m", "k"), "f16", "m k"), Input("w", ("k", "c"), "f16", "c k")])
    s.output(s.op("silu", s.contract(0, 1, over="k")), "m c")
    return s.graph()


def forms(graph: Graph, sizes: Mapping[str, int] | None = None, options: ScheduleOptions = FEW) -> tuple[list[Program], list[Program]]:
    """The programs with and without axes in pieces."""
    found: tuple[list[Program], list[Program]] = ([], [])
    for name, candidate in space([graph], sizes or {}, frozenset(), H200, options).divisions:
        for place, ways in enumerate(candidate.ranked):
            for way in ways:
                choices = [*candidate.choices[:place], way, *candidate.choices[place + 1 :]]
                found[not way.plan.pieces].append(assemble(candidate, choices, (name,)))
    return found


@pytest.mark.parametrize(
    ("size", "parts"),
    [(80, (64, 16)), (96, (64, 32)), (192, (128, 64)), (576, (512, 64)), (72, (64, 16)), (100, (64, 32, 16)), (64, (64,))],
)
def test_pieces_are_powers_of_two(size: int, parts: Sequence[int]) -> None:
    assert binary(size) == parts
    assert worthwhile(size) == (len(parts) > 1)


@pytest.mark.parametrize("size", [1, 17, 63, 120, 127, 128, 250])
def test_sizes_that_gain_too_little_are_padded(size: int) -> None:
    assert not worthwhile(size)


@pytest.mark.parametrize("mask", ["", "causal"])
@pytest.mark.parametrize("d", [80, 96, 192])
def test_head_dimensions(d: int, mask: str) -> None:
    """Both forms compete and are right; the tiles of one have no padding."""
    graph = attention(m="33", n="50", d=str(d), e=str(d), mask=mask, lse=True)
    pieced, padded = forms(graph)
    assert pieced and padded
    for program in (*pieced[:3], *padded[:1]):
        agrees(graph, program)
        agrees(graph, program, shuffled=1)
    dots = [statement for statement in walk(pieced[0].kernels[0].body) if isinstance(statement, Dot)]
    assert {dict(dot.a.type.dims)[dot.over] for dot in dots if dot.over.startswith("d")} == set(binary(d))
    assert {dot.out.type.dims[1][1] for dot in dots if dot.out.type.names[1].startswith("e")} == set(binary(d))


def test_a_dot_over_pieces_starts_from_the_one_before() -> None:
    program = scheduled(attention(m="64", n="64", d="192", e="64"))
    dots = [statement for statement in walk(program.kernels[0].body) if isinstance(statement, Dot) and statement.over.startswith("d")]
    assert len(dots) == 2 and [dot.acc is not None for dot in dots] == [False, True]


def test_keys_that_hold_the_values() -> None:
    """576 elements of a key, the first 512 a value."""
    graph = latent()
    pieced, _ = forms(graph)
    assert pieced
    for program in pieced[:4]:
        agrees(graph, program)


def test_a_last_piece_may_be_ragged() -> None:
    for d in ("72", "100"):
        graph = attention(m="20", n="33", d=d, e=d)
        pieced, _ = forms(graph)
        for program in pieced[:2]:
            agrees(graph, program)


def test_tiles_of_a_grid() -> None:
    """Columns in tiles of 192, which are 128 and 64."""
    graph = matmul("40", "70", "576")
    pieced, _ = forms(graph, options=ScheduleOptions(plans=24, ranked=400))
    tiled = [program for program in pieced if any("c_tile grid" in note for note in program.notes)]
    assert tiled
    for program in tiled[:3]:
        agrees(graph, program)


def test_norm_and_pieces() -> None:
    """A sum and a product over an axis in pieces, whose elements are also used one by one."""
    graph = norm_linear(m="20", k="96", c="80", gated=True)
    for program in forms(graph)[0][:3]:
        agrees(graph, program)


def test_pieces_and_chunks() -> None:
    """Partial results in pieces, combined by a kernel or by the last program."""
    graph = split_attention(m="20", n="300", d="80", e="96", lse=True)
    pieced, _ = forms(graph, {"s": 4})
    lasts = [program for program in pieced if len(program.kernels) == 1]
    assert lasts and len(lasts) < len(pieced)
    for program in (*lasts[:2], *[each for each in pieced if each not in lasts][:2]):
        agrees(graph, program, {"s": 4}, shuffled=3)


@pytest.mark.parametrize("seed", range(16))
def test_random_products(seed: int) -> None:
    """Chains of products and sums over axes of all sizes."""
    rng = random.Random(seed)
    sizes = {axis: rng.choice([1, 7, 33, 48, 72, 80, 96, 100]) for axis in "mkne"}
    inputs = [Input("x", ("m", "k"), "f16", "m k"), Input("w", ("k", "n"), "f16", "n k"), Input("v", ("n", "e"), "f16", "n e")]
    s = Sketch("chain", " ".join(f"{axis}={size}" for axis, size in sizes.items()), inputs)
    y = s.op(rng.choice(["silu", "tanh", "abs"]), s.contract(0, 1, over="k"))
    if rng.random() < 0.5:
        y = s.op("add", y, s.reduce(rng.choice(["sum", "max", "min"]), y, "n"))
    if rng.random() < 0.7:
        y = s.contract(s.cast(y, "f16"), 2, over="n")
        s.output(s.op("sub", y, s.reduce("max", y, "e")) if rng.random() < 0.5 else y, "m e", "f32")
    else:
        s.output(y, "n m", "f32")
    graph = s.graph()
    pieced, padded = forms(graph, options=ScheduleOptions(plans=8, ranked=8))
    for program in (*pieced[:3], *padded[:1]):
        agrees(graph, program, seed=seed)


def test_text_and_interpreter() -> None:
    graph = attention(m="20", n="50", d="80", e="96", lse=True)
    program = forms(graph)[0][0]
    extents = {axis: size.evaluate({}) for axis, size in program.sizes}
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(memory_shape(layout, extents)).astype(np.float16).astype(np.float64) for layout in program.layouts[:3]]
    expected = run_program(program, inputs, {}, rounding=True)
    (host,) = [op for op in module_of(program).ops if isinstance(op, ProgramOp)]
    for one, other in zip(run_program(program_of(host), inputs, {}, rounding=True), expected, strict=True):
        np.testing.assert_array_equal(one, other)
    for one, other in zip(execute(program, inputs), expected, strict=True):
        np.testing.assert_allclose(np.asarray(one, np.float64), other, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("machine", ["a100", "h200", "b200", "mi300x"])
@pytest.mark.parametrize("d", [80, 96, 192, 576])
def test_kernels_compile_and_fit(d: int, machine: str) -> None:
    """What is chosen, without spilling, from Python and from TTIR."""
    architecture = {"a100": "sm_80", "h200": "sm_90", "b200": "sm_100", "mi300x": "gfx942"}[machine]
    if d == 576:
        graph = latent("64", "16", "1024")
    else:
        graph = attention(g="8", m="512", n="512", d=str(d), e=str(d), mask="causal")
    program = schedule([graph], {}, frozenset(), TARGETS[machine])
    ready = executable(program)
    functions = {op.sym_name.data: op for op in ready.module.ops if isinstance(op, tt.FuncOp)}
    made = [*compile_module(ready.module, architecture)]
    made += [compile_ttir(ready.module, functions[call.kernel], call, architecture) for call in calls(ready.plan)]
    for kernel in made:
        assert kernel.spills == 0
        assert 0 <= kernel.shared <= SHARED_LIMITS[architecture]
