"""Loops that branch past their masks where these are known to hold throughout a tile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleave.algebra import degrees
from cleave.graph import Graph, Input, Symbol
from cleave.reference.evaluate import evaluate
from cleave.reference.sched import run_program
from cleave.runtime.compile import compile_module
from cleave.runtime.execute import executable, execute
from cleave.schedule import ScheduleOptions, space
from cleave.schedule.chunks import aligned
from cleave.schedule.cost import Cost
from cleave.schedule.emit import MOST
from cleave.schedule.fusion import Candidate
from cleave.schedule.kernels import Choice
from cleave.schedule.measure import BRANCHES, Measure, measure
from cleave.schedule.partition import items, problem_of, source_of
from cleave.schedule.problem import Problem
from cleave.schedule.program import For, Kernel, Let, Load, Program, Statement, TileType, Var, When, walk
from cleave.schedule.roles import Dim, Plan
from cleave.schedule.scheduler import assemble
from cleave.schedule.sizes import Sizes
from cleave.schedule.whole import KernelEmitter

from .programs import H200, INFINITY, Sketch, agrees, attention, scheduled, split_attention

NO_COST = Cost(0.0, 0.0, 0.0, 0.0, 0.0, 1, 1, 1, 1, "")
Rule = tuple[str, int]
"""What a row m sees of columns n: "past" n <= m + c, "near" m - n < c, "ahead" n - m < c, "from" n >= c, "length" n < a number given."""


def seen(s: Sketch, rule: Rule) -> int:
    kind, c = rule
    row, column = (s.op("iota", attr=(axis,)) for axis in ("m", "n"))
    number = s.builder.add("constant", attr=(abs(c),))
    match kind:
        case "past":
            return s.op("compare", column, s.op("add" if c >= 0 else "sub", row, number), attr=("le",))
        case "near":
            return s.op("compare", s.op("sub", row, column), number, attr=("lt",))
        case "ahead":
            return s.op("compare", s.op("sub", column, row), number, attr=("lt",))
        case "from":
            return s.op("compare", column, number, attr=("ge",))
        case _:
            return s.op("compare", s.cast(column, "i32"), 3, attr=("lt",))


def masked(m: str, n: str, masks: Sequence[Sequence[Rule]], symbols: Sequence[Symbol] = ()) -> Graph:
    """Attention whose logits each mask hides but where all of its rules hold, one mask after another."""
    inputs = [Input("q", ("m", "d"), "f16", "m d"), Input("k", ("n", "d"), "f16", "n d"), Input("v", ("n", "e"), "f16", "n e")]
    if any(kind == "length" for rules in masks for kind, _ in rules):
        inputs.append(Input("length", ("m",), "i32", "m"))
    s = Sketch("attend", f"m={m} n={n} d=16 e=16", inputs, symbols)
    x = s.contract(0, 1, over="d")
    for first, *more in masks:
        live = seen(s, first)
        for rule in more:
            live = s.op("and", live, seen(s, rule))
        x = s.op("select", live, x, -INFINITY)
    top = s.shift(x, "n")
    p = s.op("exp", s.op("sub", x, top))
    s.output(s.op("div", s.contract(s.cast(p, "f16"), 2, over="n"), s.reduce("sum", p, "n"), attr=("guarded",)), "m e")
    return s.graph()


def plan_of(rows: int, keys: int, branching: bool = True) -> Plan:
    """Tiles of so many rows and keys."""
    over = (Dim("d", ("d",), "full", 16), Dim("n", ("n",), "loop", keys), Dim("e", ("e",), "grid", 16))
    return Plan((Dim("m", ("m",), "grid", rows), *over), ("m", "e"), branching=branching)


def work_of(graph: Graph, hints: Mapping[str, int] | None = None) -> Problem:
    """All of a graph as one kernel."""
    source = source_of(aligned(graph, degrees(graph)), Sizes(graph, hints or {}, frozenset(hints or ())))
    return problem_of(source, graph.name, items(source, ()), {})


def planned(graph: Graph, plan: Plan, hints: Mapping[str, int] | None = None) -> Program:
    """The program of one kernel under a plan."""
    source = source_of(aligned(graph, degrees(graph)), Sizes(graph, hints or {}, frozenset(hints or ())))
    group = items(source, ())
    choice = Choice(plan, KernelEmitter(problem_of(source, graph.name, group, {}), plan).kernel(), NO_COST)
    return assemble(Candidate(source, [group], [choice], {}, [], ()), [choice], [])


def branches(program: Program) -> list[When]:
    """The branches of a program."""
    return [statement for kernel in program.kernels for statement in walk(kernel.body) if isinstance(statement, When)]


def forced(program: Program, held: bool) -> Program:
    """The program with every branch run in all steps, or in none."""
    known = Var("known", TileType((), "i1"))

    def through(body: Sequence[Statement]) -> tuple[Statement, ...]:
        out: list[Statement] = []
        for statement in body:
            if isinstance(statement, When):
                statement = replace(statement, condition=known)
            if isinstance(statement, For | When):
                statement = replace(statement, body=through(statement.body))
            out.append(statement)
        return tuple(out)

    def changed(kernel: Kernel) -> Kernel:
        return replace(kernel, body=(Let(known, "constant", (), (held,)), *through(kernel.body)))

    return replace(program, kernels=tuple(changed(kernel) for kernel in program.kernels))


def outputs_of(program: Program, graph: Graph, sizes: Mapping[str, int], lengths: np.ndarray | None, seed: int) -> np.ndarray:
    """What a program computes of random inputs."""
    extents = graph.sizes(sizes)
    rng = np.random.default_rng(seed)
    data = [rng.standard_normal([extents[axis] for axis in entry.axes]) for entry in graph.inputs[:3]]
    (out,) = run_program(program, [*data, *([] if lengths is None else [lengths])], sizes)
    return out


rules = st.one_of(
    st.tuples(st.just("past"), st.sampled_from([-70, -5, 0, 3, 41, 200])),
    st.tuples(st.sampled_from(["near", "ahead", "from"]), st.sampled_from([1, 5, 16, 40, 100])),
    st.just(("length", 0)),
)


@settings(max_examples=60, deadline=None)
@given(
    masks=st.lists(st.lists(rules, min_size=1, max_size=3, unique_by=lambda rule: rule[0]), min_size=1, max_size=2),
    m=st.sampled_from([1, 16, 45, 100]),
    n=st.sampled_from([1, 16, 77, 128]),
    rows=st.sampled_from([16, 64]),
    keys=st.sampled_from([1, 16, 32]),
    dynamic=st.booleans(),
    seed=st.integers(0, 2**31),
)
def test_branches_change_nothing(masks: list[list[Rule]], m: int, n: int, rows: int, keys: int, dynamic: bool, seed: int) -> None:
    """
    Masks of several rules, which hold in many tiles, few or none, are done where they are needed: a program gives what the graph does,
    and to the last bit what it gives when its branches are run in all steps.
    """
    symbols = (Symbol("M", (4096,)), Symbol("N", (4096,))) if dynamic else ()
    graph = masked("M" if dynamic else str(m), "N" if dynamic else str(n), masks, symbols)
    program = planned(graph, plan_of(rows, keys), {"M": 4096, "N": 4096} if dynamic else None)
    sizes = {"M": m, "N": n} if dynamic else {}
    lengths = np.random.default_rng(seed).integers(-3, n + 5, m) if len(graph.inputs) > 3 else None
    agrees(graph, program, sizes, seed=seed, changed={} if lengths is None else {"length": lengths})
    found, always = (outputs_of(each, graph, sizes, lengths, seed) for each in (program, forced(program, True)))
    np.testing.assert_array_equal(found, always)


@pytest.mark.parametrize(
    "masks",
    [
        [[("past", 0)]],
        [[("past", 28)]],
        [[("past", 0), ("near", 20)]],
        [[("near", 90), ("ahead", 90)]],
        [[("past", 0)], [("near", 50)]],
        [[("length", 0)]],
        [[("from", 40)]],
    ],
    ids=str,
)
@pytest.mark.parametrize(("m", "n"), [("100", "128"), ("100", "117"), ("M", "N")])
def test_masks_of_each_kind_have_branches(masks: list[list[Rule]], m: str, n: str) -> None:
    """One loop, with a branch for each choice by a mask, that does what is not done elsewhere: it matters."""
    hints = {"M": 100, "N": 117} if m == "M" else {}
    graph = masked(m, n, masks, [Symbol(name, (size,)) for name, size in hints.items()])
    program = planned(graph, plan_of(16, 16), hints)
    (loop,) = [statement for statement in program.kernels[0].body if isinstance(statement, For)]
    own = [statement for statement in loop.body if isinstance(statement, When)]
    assert len(own) == len(branches(program)) == len(masks)
    choices = [each for each in loop.body if isinstance(each, Let) and each.kind == "select" and len(each.out.type.dims) == 2]
    assert not choices, "no logit is chosen in every step"
    lengths = np.random.default_rng(0).integers(20, 60, 100) if len(graph.inputs) > 3 else None
    found, never = (outputs_of(each, graph, hints, lengths, 0) for each in (program, forced(program, False)))
    assert not np.array_equal(found, never)


@pytest.mark.parametrize("masks", [[[("ahead", 500), ("near", 500)]], [[("from", 0)]]], ids=str)
def test_masks_that_hide_nothing_run_no_branch(masks: list[list[Rule]]) -> None:
    """Whatever is in the branch: where tiles are whole, no step is at an edge."""
    graph = masked("96", "128", masks)
    program = planned(graph, plan_of(16, 16))
    assert branches(program)
    found, never = (outputs_of(each, graph, {}, None, 0) for each in (program, forced(program, False)))
    np.testing.assert_array_equal(found, never)


def not_decided(s: Sketch) -> int:
    """Whether two numbers that are given are equal."""
    return s.op("compare", 3, 4, attr=("eq",))


def test_a_mask_that_nothing_is_known_of_has_no_branch() -> None:
    inputs = [Input("q", ("m", "d"), "f16", "m d"), Input("k", ("n", "d"), "f16", "n d"), Input("v", ("n", "e"), "f16", "n e")]
    s = Sketch("attend", "m=64 n=64 d=16 e=16", [*inputs, Input("rows", ("m",), "i32", "m"), Input("keys", ("n",), "i32", "n")])
    x = s.op("select", not_decided(s), s.contract(0, 1, over="d"), -INFINITY)
    p = s.op("exp", s.op("sub", x, s.shift(x, "n")))
    s.output(s.op("div", s.contract(s.cast(p, "f16"), 2, over="n"), s.reduce("sum", p, "n"), attr=("guarded",)), "m e")
    program = planned(s.graph(), plan_of(16, 16))
    assert not branches(program)


def test_the_guard_of_dead_rows_stays() -> None:
    """Rows before the first key that they may see give 0, as their level of -inf is replaced in every step."""
    graph = masked("100", "128", [[("past", -40)]])
    program = planned(graph, plan_of(16, 16))
    out = outputs_of(program, graph, {}, None, 0)
    assert (out[:40] == 0).all() and (out[40:] != 0).all()


def test_the_last_tile_is_masked_in_the_branch() -> None:
    """Where keys are no multiple of a tile, no step but the last masks those that do not exist."""
    program = planned(masked("100", "117", [[("near", 90)]]), plan_of(16, 16))
    (loop,) = [statement for statement in program.kernels[0].body if isinstance(statement, For)]
    (branch,) = branches(program)
    assert not any(isinstance(each, Let) and each.kind == "compare" and each.out.type.names == ("n",) for each in loop.body)
    assert any(isinstance(each, Let) and each.kind == "compare" and each.out.type.names == ("n",) for each in branch.body)


def counted(masks: Sequence[Sequence[Rule]], branching: bool, places: tuple[float, ...] = (0.5,)) -> Measure:
    """The counts of a kernel with 4096 rows and keys in tiles of 64."""
    work = work_of(masked("4096", "4096", masks))
    kernel = KernelEmitter(work, plan_of(64, 64, branching)).kernel()
    return Measure(kernel, work.sizes, places) if len(places) > 1 else measure(kernel, work.sizes)


def test_a_branch_costs_what_it_does_in_its_steps() -> None:
    """Under a causal mask the last step of each program compares and chooses; in others that is two operations an element less."""
    places = (0.0, 0.5, 1.0)
    plain, branching = (counted([[("past", 0)]], with_branches, places) for with_branches in (False, True))
    steps = (1, 33, 64)
    assert plain.steps == branching.steps == steps
    saved = (plain.counts.work - branching.counts.work) / (2 * 64 * 64)
    assert saved == pytest.approx(sum(step - 1 for step in steps) / 3, rel=0.01)


def test_what_is_not_known_of_a_branch_is_stated() -> None:
    """Lengths are data: the share of steps that need them is an estimate."""
    plain, branching = (counted([[("length", 0)]], with_branches) for with_branches in (False, True))
    assert plain.counts.steps == branching.counts.steps == 64
    saved = (plain.counts.work - branching.counts.work) / (2 * 64 * 64)
    assert saved == pytest.approx(64 * (1 - BRANCHES), rel=0.05)


@pytest.mark.parametrize("axes", ["m n", "n h"])
@pytest.mark.parametrize("d", ["full", "loop"])
def test_a_condition_may_need_loops(axes: str, d: str) -> None:
    """Sums of rows are made before the loop over keys, those of keys in the branch that looks at them."""
    inputs = [Input("q", ("m", "d"), "f16", "m d"), Input("k", ("n", "d"), "f16", "n d"), Input("v", ("n", "e"), "f16", "n e")]
    own, other = axes.split()
    limit = "n" if own == "m" else "m"
    inputs += [Input("x", (own, other), "f32", axes), Input("y", (limit,), "f32", limit)]
    s = Sketch("attend", "m=45 n=77 d=40 e=16 h=50", inputs)
    past = seen(s, ("past", 0))
    live = s.op("and", s.op("compare", s.reduce("sum", 3, other), 4, attr=("gt",)), past)
    live = s.op("or", s.op("and", live, past, attr=("ranged",)), seen(s, ("from", 1000)), attr=("ranged",))
    p = s.op("select", live, s.contract(0, 1, over="d"), -INFINITY)
    p = s.op("exp", s.op("sub", p, s.shift(p, "n")))
    s.output(s.op("div", s.contract(s.cast(p, "f16"), 2, over="n"), s.reduce("sum", p, "n"), attr=("guarded",)), "m e")
    graph = s.graph()
    dims = [Dim("d", ("d",), "loop", 16) if d == "loop" else Dim("d", ("d",), "full", 64), Dim("n", ("n",), "loop", 16)]
    dims += [Dim("h", ("h",), "loop", 16)] if other == "h" else []
    plan = Plan((Dim("m", ("m",), "grid", 16), *dims, Dim("e", ("e",), "grid", 16)), ("m", "e"), branching=True)
    program = planned(graph, plan)
    (branch,) = branches(program)
    assert any(isinstance(each, For) for each in walk(branch.body)) == (other == "h")
    agrees(graph, program)
    rng = np.random.default_rng(0)
    extents = graph.sizes({})
    data = [rng.standard_normal([extents[axis] for axis in entry.axes]).astype(np.float16) for entry in graph.inputs]
    (found,) = execute(program, data)
    (wanted,) = run_program(program, data, {}, rounding=True)
    np.testing.assert_allclose(found, wanted, rtol=4e-3, atol=4e-3)


@pytest.mark.parametrize("persistent", [0, 8])
@pytest.mark.parametrize("rule", [("past", 3), ("length", 0)])
def test_masked_rows_of_products_agree(rule: Rule, persistent: int) -> None:
    """What is chosen may be 0, and loaded; programs may run tiles in turn."""
    inputs = [Input("x", ("m", "n"), "f16", "m n"), Input("w", ("n", "c"), "f16", "n c"), Input("g", ("m",), "f16", "m")]
    s = Sketch("product", "m=45 n=77 c=40", [*inputs, Input("length", ("m",), "i32", "m")])
    x = s.cast(s.op("select", seen(s, rule), s.cast(0, "f32"), 0.0), "f16")
    s.output(s.op("mul", s.contract(x, 1, over="n"), s.cast(2, "f32")), "m c")
    graph = s.graph()
    dims = (Dim("m", ("m",), "grid", 16), Dim("n", ("n",), "loop", 16), Dim("c", ("c",), "grid", 16))
    program = planned(graph, Plan(dims, ("m", "c"), branching=True, persistent=persistent))
    assert len(branches(program)) == 1
    rng = np.random.default_rng(0)
    data = [rng.standard_normal(shape).astype(np.float16) for shape in ((45, 77), (77, 40), (45,))]
    lengths = rng.integers(-1, 80, 45).astype(np.int32)
    agrees(graph, program, changed={"length": lengths})
    (found,) = execute(program, [*data, lengths])
    (wanted,) = run_program(program, [*data, lengths], {}, rounding=True)
    np.testing.assert_allclose(found, wanted, rtol=4e-3, atol=4e-3)


@cache
def found_with_branches(graph: Graph, sizes: tuple[tuple[str, int], ...] = ()) -> tuple[Program, ...]:
    """The programs with branches among what may be tried."""
    options = ScheduleOptions(plans=60, ranked=400, peel=True, boxes=True, compare=True)
    found = space([graph], dict(sizes), frozenset(), H200, options)
    return tuple(found.program(trial) for trial in found.trials(1000) if "branching at masks" in found.text(trial))


def test_branches_are_tried() -> None:
    """With loads by descriptor and without; where nothing is to be timed there are none."""
    graph = masked("1024", "1024", [[("past", 0), ("near", 300)]])
    found = found_with_branches(graph)
    assert {any(isinstance(each, Load) and each.descriptor for each in walk(program.kernels[0].body)) for program in found} == {True, False}
    assert all(branches(program) for program in found)
    assert not branches(scheduled(graph))


def test_chunks_of_keys_have_branches() -> None:
    """What a chunk begins with bounds its loop and its branch alike."""
    graph = split_attention(m="40", n="300", mask="causal")
    found = found_with_branches(graph, (("s", 4),))
    assert found
    for program in found[:3]:
        agrees(graph, program, {"s": 4})


@pytest.mark.parametrize("masks", [[[("past", 0)]], [[("past", 17), ("near", 30)]], [[("length", 0)]]], ids=str)
@pytest.mark.parametrize("size", [1, 45, 128])
def test_interpreted_kernels_agree(masks: list[list[Rule]], size: int) -> None:
    """Triton's `if` does what the branch does."""
    graph = masked("M", "N", masks, [Symbol("M", (4096,)), Symbol("N", (4096,))])
    program = planned(graph, plan_of(16, 16), {"M": 4096, "N": 4096})
    assert branches(program)
    rng = np.random.default_rng(size)
    data = [rng.standard_normal((size, 16)).astype(np.float16) for _ in range(3)]
    lengths = [rng.integers(0, size + 1, size).astype(np.int32)] if len(graph.inputs) > 3 else []
    ready = executable(program)
    assert " if " in ready.file.text
    (found,) = execute(ready, [*data, *lengths])
    (wanted,) = run_program(program, [*data, *lengths], {"M": size, "N": size}, rounding=True)
    np.testing.assert_allclose(found, wanted, rtol=4e-3, atol=4e-3)


@pytest.mark.parametrize("walked", ["", "peeled", "branching"])
@pytest.mark.parametrize(
    "rule", [(kind, MOST - less) for kind in ("ahead", "near", "from") for less in (0, 3, 2**30)] + [("past", -MOST)], ids=str
)
def test_windows_without_an_end_bound_no_loop_by_what_overflows(rule: Rule, walked: str) -> None:
    """Only Triton's integers overflow."""
    graph = masked("40", "77", [[rule]])
    plan = replace(plan_of(16, 16, walked == "branching"), peeled=walked == "peeled")
    rng = np.random.default_rng(0)
    data = [rng.standard_normal(shape).astype(np.float16) for shape in ((40, 16), (77, 16), (77, 16))]
    (found,) = execute(planned(graph, plan), data)
    np.testing.assert_allclose(found, evaluate(graph, data, {})[0], rtol=4e-3, atol=4e-3)


@pytest.mark.parametrize("mask", ["causal", "window"])
def test_branches_compile_for_hopper(mask: str) -> None:
    """One loop with its products and a branch, without spills, in no more registers than with the mask in every step."""
    graph = attention(g="16", m="4096", n="4096", d="128", e="128", mask=mask)
    over = (Dim("d", ("d",), "full", 128), Dim("n", ("n",), "loop", 64), Dim("e", ("e",), "grid", 128), Dim("g", ("g",), "grid", 1))
    plan = Plan((Dim("m", ("m",), "grid", 64), *over), ("m", "e", "g"))
    registers: list[int] = []
    for branching in (False, True):
        (kernel,) = compile_module(executable(planned(graph, replace(plan, branching=branching))).module, "sm_90")
        assert kernel.spills == 0
        registers.append(kernel.registers)
    assert registers[1] <= registers[0]
