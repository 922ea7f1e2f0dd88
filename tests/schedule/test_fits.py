"""Every program has a plan that fits, on every machine; where there is none, the message says of what there is too little, and where."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from cleave.algebra import degrees, stabilize
from cleave.errors import CleaveError
from cleave.graph import Graph, Input
from cleave.schedule import TARGETS, ScheduleOptions, schedule
from cleave.schedule.chunks import aligned
from cleave.schedule.fusion import Candidate, Fusion
from cleave.schedule.kernels import Choice
from cleave.schedule.partition import items, problem_of, source_of
from cleave.schedule.plans import least_plans
from cleave.schedule.program import Dot, walk
from cleave.schedule.scheduler import assemble
from cleave.schedule.sizes import Sizes
from cleave.schedule.whole import KernelEmitter

from .programs import Sketch, agrees, attention, linear_attention, norm_linear
from .test_plans import NO_COST


def products(seed: int, small: bool = False) -> Graph:
    """Random f32 contractions over one to three axes, of which one may count the parts of a concatenation, and what follows them."""
    rng = random.Random(seed)
    sizes = {"m": rng.choice([1, 7, 16, 40]), "n": rng.choice([16, 17, 64, 300]), "e": rng.choice([5, 16, 64])}
    over = {"h": rng.choice([1, 2, 3, 8]), "d": rng.choice([8, 32, 48, 64]), "g": rng.choice([2, 5])}
    if small:
        sizes, over = {"m": 3, "n": 17, "e": 5}, {"h": 2, "d": 6, "g": 3}
    summed = [*(["h"] if rng.random() < 0.8 else []), "d", *(["g"] if rng.random() < 0.3 else [])]
    inputs = [
        Input("q", ("m", *summed), "f32", " ".join(("m", *summed))),
        Input("k", ("n", *summed), "f32", " ".join(("n", *summed))),
        Input("v", ("n", "e"), "f32", "n e"),
        Input("w", ("m", "d"), "f32", "m d"),
    ]
    s = Sketch("products", " ".join(f"{axis}={size}" for axis, size in {**sizes, **over}.items()), inputs)
    q = 0
    if "h" in summed and rng.random() < 0.5:
        first = s.op("compare", s.op("iota", attr=("h",)), s.builder.add("constant", attr=(0,)), attr=("eq",))
        q = s.op("select", first, 3, s.op("neg", 0))
    x = s.contract(q, 1, over=" ".join(summed))
    if rng.random() < 0.3:
        x = s.op("mul", x, s.reduce("max", 0, rng.choice(summed[:1])) if len(summed) == 1 else 0.5)
    match rng.choice(["max", "weights", "stored", "norm"]):
        case "max":
            s.output(s.reduce("max", x, "n"), "m", "f32")
        case "weights":
            p = s.op("exp", x)
            s.output(s.contract(s.op("div", p, s.reduce("sum", p, "n")), 2, over="n"), "m e", "f32")
        case "stored":
            s.output(x, "m n", "f32")
        case _:
            s.output(s.op("mul", x, s.op("rsqrt", s.op("add", s.reduce("sum", s.op("mul", x, x), "n"), 1.0))), "m n", "f32")
    return stabilize(s.graph())


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seed", range(12))
def test_contractions_over_several_axes(seed: int, target: str) -> None:
    graph = products(seed)
    program = schedule([graph], {}, frozenset(), TARGETS[target], ScheduleOptions(plans=24))
    if target == "h200":
        agrees(graph, program, tolerance=1e-7, scale=0.2)


@pytest.mark.parametrize("sizes", ["h=2 d=32", "h=4 d=64", "h=2 d=16", "h=8 d=32", "h=16 d=64"])
def test_an_exact_contraction_over_two_axes_is_dots(sizes: str) -> None:
    q, k = (Input(name, (axis, "h", "d"), "f32", f"{axis} h d") for name, axis in (("q", "m"), ("k", "n")))
    s = Sketch("similar", f"m=64 n=48 {sizes}", [q, k])
    s.output(s.reduce("max", s.contract(0, 1, over="h d"), "n"), "m", "f32")
    graph = s.graph()
    program = schedule([graph], {}, frozenset(), TARGETS["h200"])
    (kernel,) = program.kernels
    assert any(isinstance(statement, Dot) for statement in walk(kernel.body))
    agrees(graph, program)


GRAPHS = {
    "attention": attention(g="2", r="2", m="5", n="20", d="6", e="5", mask="window"),
    "weights": attention(m="7", n="20", d="6", e="5", mask="dead", lse=True),
    "norm": norm_linear(m="5", k="20", c="6", gated=True),
    "reassociated": linear_attention(h="2", m="5", n="20", d="6", e="5"),
    **{f"products {seed}": products(seed, small=True) for seed in (1, 5, 7)},
}


@pytest.mark.parametrize("name", GRAPHS)
def test_plans_that_hold_little_give_the_same(name: str) -> None:
    graph = GRAPHS[name]
    source = source_of(aligned(graph, degrees(graph)), Sizes(graph, {}, frozenset()))
    group = items(source, ())
    problem = problem_of(source, graph.name, group, {})
    found = list(least_plans(problem, 1000))
    assert found
    for plan in found[:: max(1, len(found) // 5)]:
        choice = Choice(plan, KernelEmitter(problem, plan).kernel(), NO_COST)
        agrees(graph, assemble(Candidate(source, [group], [choice], {}, [], ()), [choice], []), tolerance=1e-7, scale=0.3)


@pytest.mark.parametrize("name", GRAPHS)
def test_little_memory_takes_plans_that_hold_little(name: str) -> None:
    """A machine whose shared memory holds next to nothing has no room for the operands of the usual dots."""
    small = replace(TARGETS["h200"], shared=3500)
    agrees(GRAPHS[name], schedule([GRAPHS[name]], {}, frozenset(), small), tolerance=1e-7, scale=0.3)


@pytest.mark.parametrize("count, planned", [(3, 2), (14, 1)])
def test_large_programs_that_hold_little_are_planned_with_all_cuts_only(count: int, planned: int) -> None:
    """A product after the other with a norm of each: of many those with fewest kernels are not planned, which takes long."""
    s = Sketch("chain", "m=5 a=6 b=6", [Input("x", ("m", "a"), "f32", "m a"), Input("w", ("a", "b"), "f32", "a b")])
    value = 0
    for _ in range(count):
        product = s.contract(value, 1, over="a")
        value = s.op("rename", s.op("tanh", product), attr=((("b", "a"),),))
    s.output(value, "m a", "f32")
    graph = s.graph()
    source = source_of(aligned(graph, degrees(graph)), Sizes(graph, {}, frozenset()))
    fusion = Fusion(source, replace(TARGETS["h200"], shared=3100), ScheduleOptions(plans=4))
    found = fusion.rough()
    assert fusion.frugal and len(found) == len(fusion.tried) == planned
    assert len(found[-1].groups) > 2 * count and all(set(found[-1].cuts) >= set(candidate.cuts) for candidate in found)
    agrees(graph, assemble(found[-1], found[-1].choices, []), tolerance=1e-7, scale=0.3)


def test_what_does_not_fit_is_told_with_its_place() -> None:
    graph = products(1)
    graph = replace(graph, places=tuple(f"model.py:{place}:1" for place in range(len(graph.ops))))
    said = r"no plan fits h200: its smallest kernel needs \d+ bytes of shared memory of 10;"
    with pytest.raises(CleaveError, match=rf"^model\.py:\d+:1: .*{said}"):
        schedule([graph], {}, frozenset(), replace(TARGETS["h200"], shared=10))
