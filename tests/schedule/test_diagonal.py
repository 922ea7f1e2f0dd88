"""Sums of products of two rows as diagonals of dots."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleave.algebra import degrees
from cleave.bridge.sched import module_of, program_of
from cleave.dialects.sched import ProgramOp
from cleave.graph import Graph, Input, Symbol
from cleave.reference.dtypes import Array
from cleave.reference.sched import run_program
from cleave.runtime.compile import compile_module
from cleave.runtime.execute import executable, execute
from cleave.schedule import ScheduleOptions, space
from cleave.schedule.candidates import TIMED
from cleave.schedule.chunks import aligned
from cleave.schedule.diagonal import emitter_of
from cleave.schedule.fusion import Candidate
from cleave.schedule.kernels import Choice, Kernels
from cleave.schedule.partition import items, problem_of, source_of
from cleave.schedule.plans import plans
from cleave.schedule.program import Dot, For, Launch, Load, Program, walk
from cleave.schedule.scheduler import assemble, schedule
from cleave.schedule.sizes import Sizes
from cleave.schedule.statements import InfeasibleError

from .programs import H200, Sketch, agrees
from .test_plans import NO_COST

FEW = ScheduleOptions(plans=40, ranked=16, diagonal=True, gathered=True, compare=True)


def both(
    m: str = "40", k: str = "200", c: str = "72", square: str = "mul", dtype: str = "f16", rows: str = "m", symbols: tuple[Symbol, ...] = ()
) -> Graph:
    """A sum of products of rows and a product with a matrix, over the same axis; `square` says how the sum is written."""
    axes = {"m": m, "k": k, "c": c, **({"b": "3"} if "b" in rows else {})}
    inputs = [
        Input("x", (*rows, "k"), dtype, " ".join([*rows, "k"])),
        Input("w", ("k", "c"), dtype, "k c"),
        Input("z", (*rows, "k"), dtype, " ".join([*rows, "k"])),
    ]
    s = Sketch("both", " ".join(f"{axis}={size}" for axis, size in axes.items()), inputs, symbols)
    x, z = s.cast(0, "f32"), s.cast(2, "f32")
    match square:
        case "mul":
            total = s.reduce("sum", s.op("mul", x, x), "k")
        case "pow":
            total = s.reduce("sum", s.op("pow", x, 2.0), "k")
        case "contract":
            total = s.contract(0, 0, over="k")
        case "two":
            total = s.reduce("sum", s.op("mul", x, z), "k")
        case _:
            total = s.contract(x, s.cast(s.op("mul", x, 0.5), dtype), over="k")
    s.output(s.op("mul", s.contract(0, 1, over="k"), s.op("tanh", s.op("mul", total, 0.01))), " ".join([*rows, "c"]), "f32")
    s.output(total, " ".join(rows), "f32")
    return s.graph()


def normed(m: str = "16", k: str = "4096", c: str = "6144") -> Graph:
    """Rows over the root of their mean square, times a matrix, the summed axis in chunks."""
    inputs = [Input("x", ("m", "k"), "f16", "m k"), Input("w", ("k", "c"), "f16", "k c")]
    s = Sketch("normed", f"m={m} c={c} k={k} s=s ki=ceildiv({k},s)", inputs, [Symbol("s", positive=True)], {"ki": ("k", "s")})
    x, w = (s.op("split", arg, attr=("k", "s", "ki")) for arg in (0, 1))
    wide = s.cast(x, "f32")
    squares = s.reduce("sum", s.reduce("sum", s.op("mul", wide, wide), "ki"), "s")
    scale = s.op("rsqrt", s.op("add", s.op("mul", squares, 1.0 / int(k)), 1e-6))
    s.output(s.op("mul", s.reduce("sum", s.contract(x, w, over="ki"), "s"), scale), "m c")
    return s.graph()


def forced(graph: Graph, most: int, sizes: dict[str, int] | None = None, dynamic: frozenset[str] = frozenset()) -> list[Program]:
    """The graph as one kernel under plans that may have diagonals, evenly thinned."""
    bound = Sizes(graph, sizes or {}, dynamic)
    source = source_of(aligned(graph, degrees(graph)), bound)
    group = [replace(item, repeated=place > 0) for place, item in enumerate(items(source, ()))]
    problem = problem_of(source, graph.name, group, {})
    out: list[Program] = []
    for plan in plans(problem, 100000):
        chosen = replace(plan, diagonal=True)
        try:
            kernel = emitter_of(problem, chosen).kernel()
        except InfeasibleError:
            continue
        choice = Choice(chosen, kernel, NO_COST)
        out.append(assemble(Candidate(source, [group], [choice], {}, [], ()), [choice], []))
    return out[:: max(1, len(out) // most)]


def joined(graph: Graph, count: int, options: ScheduleOptions = FEW) -> list[Program]:
    """The programs of one kernel with diagonals, for a number of chunks, whose last programs combine."""
    made = aligned(graph, degrees(graph))
    source = source_of(made, Sizes(graph, {"s": count}, frozenset()))
    chunked = [at for at, op in enumerate(made.graph.ops) if "s" in op.axes and op.kind in ("reduce", "contract")]
    *parts, last = sorted(items(source, chunked), key=lambda item: (item.buffer in source.results, -len(item.buffer.axes)))
    first = [replace(item, repeated=place > 0) for place, item in enumerate(parts)]
    stored = {item.op: item for item in parts}
    ways = Kernels(source, H200, options).joined(first, [last], stored)
    candidate = Candidate(source, [[*first, last]], [], stored, parts, tuple(chunked))
    return [assemble(candidate, [way], []) for way in ways if way.plan.diagonal]


@pytest.mark.parametrize("square", ["mul", "pow", "contract", "two"])
@pytest.mark.parametrize("rows", ["m", "bm"])
def test_every_form(square: str, rows: str) -> None:
    """With one axis for the rows or two, in tiles that rows fill and that they do not; only dots read what loops load."""
    graph = both(square=square, rows=rows)
    programs = forced(graph, 8)
    assert len(programs) >= 6
    for program in programs:
        for loop in (statement for statement in walk(program.kernels[0].body) if isinstance(statement, For)):
            loaded = [statement.out for statement in loop.body if isinstance(statement, Load)]
            read = [side for statement in loop.body if isinstance(statement, Dot) for side in (statement.a, statement.b)]
            assert all(any(one is side for side in read) for one in loaded)
        agrees(graph, program)


def test_what_is_no_diagonal() -> None:
    """Factors that are computed or wider than 16 bits, a loop without dots, rows that no loop has."""
    assert not forced(both(square="computed"), 4)
    assert not forced(both(dtype="f32"), 4)
    s = Sketch("alone", "m=40 k=4096", [Input("x", ("m", "k"), "f16", "m k")])
    s.output(s.contract(0, 0, over="k"), "m", "f32")
    assert not forced(s.graph(), 4)
    assert not forced(both(m="1", c="1"), 4)


def test_rows_under_two_names_have_none() -> None:
    """A sum that is read as that of rows and of columns has two tiles of rows, of which only one would have its second name."""
    for m in ("40", "130"):
        s = Sketch("cosine", f"m={m} n={m} k=200", [Input("x", ("m", "k"), "f16", "m k")])
        x = s.cast(0, "f32")
        rows = s.reduce("sum", s.op("mul", x, x), "k")
        columns, y = (s.op("rename", value, attr=((("m", "n"),),)) for value in (rows, 0))
        s.output(s.op("mul", s.contract(0, y, over="k"), s.op("add", s.op("mul", rows, 2.0), columns)), "m n", "f32")
        assert not forced(s.graph(), 4)


def test_rows_in_pieces_have_none() -> None:
    """48 rows may be tiles of 32 and 16."""
    found = space([normed("48", "256", "96")], {}, frozenset(), H200)
    assert any(plan.pieces for trial in found.trials(1000) for plan in (choice.plan for choice in found.choices(trial)))


def test_rows_of_dynamic_length() -> None:
    symbols = (Symbol("M", (40,)), Symbol("K", (200,)))
    graph = both("M", "K", symbols=symbols)
    programs = forced(graph, 6, {"M": 40, "K": 200}, frozenset(("M", "K")))
    assert programs
    for program in programs:
        for m, k in ((40, 200), (1, 7), (17, 0), (65, 129)):
            agrees(graph, program, {"M": m, "K": k})


@given(
    m=st.integers(1, 70), k=st.integers(1, 200), c=st.integers(16, 70), square=st.sampled_from(["mul", "pow", "contract", "two"]),
    place=st.integers(0, 1000),
)  # fmt: skip
@settings(max_examples=25)
def test_random_sizes(m: int, k: int, c: int, square: str, place: int) -> None:
    graph = both(str(m), str(k), str(c), square)
    programs = forced(graph, 1000)
    if programs:
        agrees(graph, programs[place % len(programs)], seed=place)


@pytest.mark.parametrize("k, c, m", [("300", "150", "20"), ("1000", "96", "16")])
def test_chunks_are_combined_by_the_last_program(k: str, c: str, m: str) -> None:
    """In any order of programs, each of which stores the same sums of squares."""
    graph = normed(m, k, c)
    programs = joined(graph, 3)
    assert programs
    for program in programs[:6]:
        agrees(graph, program, {"s": 3})
        agrees(graph, program, {"s": 3}, shuffled=1)


def test_decoding_steps_are_offered_as_one_launch() -> None:
    """Of a norm and a product, among what tuning compiles, in one and in several chunks; without timing nothing has diagonals."""
    graph = normed()
    found = space([graph], {}, frozenset(), H200)
    offered = [(trial, found.choices(trial)) for trial in found.trials(32)]
    ones = [choices for _, choices in offered if len(choices) == 1 and choices[0].plan.diagonal]
    assert len(ones) >= 4
    assert all(choices[0].counter is not None for choices in ones)
    assert not any(choice.plan.diagonal for choice in found.choices(found.trials(1)[0]))
    program = schedule([graph], {}, frozenset(), H200)
    assert not any("diagonals" in note for note in program.notes)


def adversarial(kind: str, m: int, k: int) -> Array:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((m, k))
    match kind:
        case "large mean":
            x = 1000.0 + x
        case "tiny":
            x = x * 6e-6
        case "huge":
            x = np.sign(x) * 60000.0
        case "one":
            x = np.where(np.arange(k) == 5, 30000.0, 1e-3 * x)
        case _:
            x = x * np.logspace(-6, 4, m)[:, None]
    return x.astype(np.float16)


@pytest.mark.parametrize("kind", ["large mean", "tiny", "huge", "one", "scales"])
def test_sums_are_as_accurate_as_a_dot(kind: str) -> None:
    """
    In Triton's interpreter, and where each value is rounded to its type: k terms, none negative and each exact, are summed in f32, with an
    error of at most k * 2**-24 of the sum. Rows of other sizes do not disturb it.
    """
    m, k = 20, 1000
    graph = both(str(m), str(k), "32")
    x = adversarial(kind, m, k)
    rng = np.random.default_rng(0)
    w, z = (rng.standard_normal(shape).astype(np.float16) / 1000 for shape in ((k, 32), (m, k)))
    expected = (x.astype(np.float64) ** 2).sum(1)
    programs = forced(graph, 3)
    assert programs
    for program in programs:
        inputs = [array.astype(np.float64) for array in (x, w, z)]
        for found in (run_program(program, inputs, {}, rounding=True)[1], execute(program, inputs)[1]):
            np.testing.assert_allclose(np.asarray(found, np.float64), expected, rtol=k * 2.0**-24, atol=0)


def test_combined_rows_in_the_interpreter() -> None:
    """Within two roundings of a result to f16, and what the sums of f32 lose."""
    graph = normed("20", "1000", "96")
    program = joined(graph, 2)[0]
    x = adversarial("large mean", 20, 1000).astype(np.float64)
    w = np.random.default_rng(1).standard_normal((1000, 96)).astype(np.float16).astype(np.float64)
    expected = x @ w / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6)
    (host,) = [op for op in module_of(program).ops if isinstance(op, ProgramOp)]
    for found in (run_program(program_of(host), [x, w], {"s": 2}, rounding=True)[0], execute(program, [x, w])[0]):
        np.testing.assert_allclose(np.asarray(found, np.float64), expected, rtol=2e-3, atol=2e-2)


@pytest.mark.parametrize("rows_first", [True, False])
def test_all_loads_of_the_loop_are_ahead(rows_first: bool) -> None:
    """
    Asynchronous copies for everything, and no register spilled. What a warp-group dot reads has a buffer more than what registers take: it
    runs on while the next step begins.
    """
    programs = [program for program in joined(normed(), 2, TIMED) if _rows_first(program) is rows_first]
    assert programs
    for program in programs[:2]:
        assert len([step for step in program.steps if isinstance(step, Launch)]) == 1
        (kernel,) = compile_module(executable(program).module, "sm_90")
        assert kernel.spills == 0
        code = str(kernel.asm["ttgir"])
        loop = code[code.index("scf.for") : code.index("scf.yield")]
        # One for the rows in both orders, and one for each part of the matrix; dots of two kinds each have the rows for themselves.
        dots = sum(isinstance(statement, Dot) for statement in walk(program.kernels[0].body))
        assert loop.count("ttg.async_copy_global_to_local") == dots + (not rows_first)
        assert not re.search(r"tt\.load ", loop)
        stages = program.kernels[0].num_stages
        for dot in re.findall(r"ttng\.warp_group_dot .* : (.*) -> ", loop):
            for shape in re.findall(r"memdesc<(\d+x\d+xf16, #\w+)", dot):
                assert f"memdesc<{stages}x{shape}" in code
                assert f"memdesc<{stages - 1}x{shape}" not in code


def _rows_first(program: Program) -> bool:
    dots = [statement for statement in walk(program.kernels[0].body) if isinstance(statement, Dot)]
    return dots[-1].out.type.names[0] == "m"
