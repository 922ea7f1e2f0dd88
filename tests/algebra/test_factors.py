"""Factors that hide exponentials from the maximum: which do, that what they leave keeps its value, and that nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pytest
import torch

import cleave
from cleave.algebra import stabilize
from cleave.extents import extent
from cleave.graph import Axis, Builder, Graph, Input, Output

from .programs import Array, Program, arguments_of, expression, kinds, run

Form: TypeAlias = "Callable[[Program], tuple[int, int]]"
SIZES = {"m": 6, "n": 6, "e": 2, "d": 3}
INPUTS = {"s": "m n", "f": "m n", "v": "n e", "g": "n", "t": "n", "u": "m d", "w": "m"}
S, F, V, G, T, U, W = range(7)
MASKED = "select(compare(f, 0.0/ne), s, -inf)"


def product(p: Program) -> tuple[int, int]:
    weights = p("mul", p("exp", S), F)
    return p.contract(weights, V, over="n"), p.sum(weights, "n")


def contraction(p: Program) -> tuple[int, int]:
    e = p("exp", S)
    return p.contract(V, e, F, over="n"), p.contract(F, e, over="n")


def product_and_contraction(p: Program) -> tuple[int, int]:
    e = p("exp", S)
    return p.contract(p("mul", F, V), e, over="n"), p("add", p.sum(p("mul", e, F), "n"), p.number(1e-30))


def rounded(p: Program) -> tuple[int, int]:
    weights = p("mul", p("neg", p("cast", p("exp", S), dtype="f32")), p("cast", F, dtype="f32"))
    return p.contract(weights, V, over="n"), p.sum(weights, "n")


def divided(p: Program) -> tuple[int, int]:
    """The factor comes after a quotient and a sum over an axis that it lacks."""
    e = p("exp", p("add", S, U))
    sums = p("mul", p("div", p.sum(e, "d"), p.number(3.0)), F)
    return p.contract(sums, V, over="n"), p.sum(sums, "n")


def own_maximum(p: Program) -> tuple[int, int]:
    weights = p("mul", p("exp", p("sub", S, p.max(S, "n"))), F)
    return p.contract(weights, V, over="n"), p.sum(weights, "n")


def two_factors(p: Program) -> tuple[int, int]:
    e = p("exp", S)
    return p.contract(e, p("mul", F, G), V, over="n"), p.contract(p("mul", e, G), F, over="n")


def shorter(p: Program) -> tuple[int, int]:
    e = p("exp", S)
    return p.contract(e, G, V, over="n"), p.contract(e, G, over="n")


def longer(p: Program) -> tuple[int, int]:
    e = p("exp", T)
    return p.contract(e, F, V, over="n"), p.contract(e, F, over="n")


def integers(p: Program) -> tuple[int, int]:
    kept = p("cast", p("cast", p("compare", F, p.number(0.0), attr=("ne",)), dtype="i32"), dtype="f32")
    weights = p("mul", p("cast", p("exp", S), dtype="f32"), kept)
    return p.contract(weights, V, over="n"), p.sum(weights, "n")


def condition_and_value(p: Program) -> tuple[int, int]:
    kept = p("select", p("compare", F, p.number(0.0), attr=("ne",)), G, p.number(0.0))
    weights = p("mul", p("exp", S), kept)
    return p.contract(weights, V, over="n"), p.sum(weights, "n")


FORMS: dict[Form, str] = {
    product: MASKED,
    contraction: MASKED,
    product_and_contraction: f"max({MASKED}, 0.0)",
    rounded: "select(compare(cast(f), 0.0/ne), s, -inf)",
    divided: "select(compare(f, 0.0/ne), add(s, u), -inf)",
    own_maximum: MASKED,
    two_factors: "select(compare(f, 0.0/ne), select(compare(g, 0.0/ne), s, -inf), -inf)",
    shorter: "select(compare(g, 0.0/ne), s, -inf)",
    longer: "select(compare(f, 0.0/ne), t, -inf)",
    integers: MASKED,
    condition_and_value: "select(compare(f, 0.0/ne), select(compare(g, 0.0/ne), s, -inf), -inf)",
}


def quotient(form: Form, guard: bool = False) -> Graph:
    p = Program(SIZES, INPUTS)
    top, bottom = form(p)
    ratio = p("div", top, bottom)
    kept = p("compare", p("abs", bottom), p.number(0.0), attr=("gt",))
    return p.graph(p("select", kept, ratio, p.number(0.0)) if guard else ratio)


def data(rng: np.random.Generator) -> list[Array]:
    """Arguments from -30 to 80, the large ones where a factor hides them; values and factors that are not 0 are about 1."""
    f, g = (rng.uniform(0.5, 2, size) * (rng.random(size) < rng.choice([0.2, 0.6])) for size in ((6, 6), (6,)))
    s = np.where((f == 0) | (g == 0), rng.uniform(40, 80, (6, 6)), rng.uniform(-30, -20, (6, 6)))
    t = np.where((f == 0).all(0), 80, rng.uniform(-30, 60, 6))
    inputs = s, f, rng.uniform(1, 2, (6, 2)), g, t, rng.uniform(-1, 1, (6, 3)), rng.uniform(1, 2, 6)
    return [value.astype(np.float32) for value in inputs]


@pytest.mark.parametrize("guard", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_what_is_hidden_does_not_count(form: Form, guard: bool) -> None:
    """In f32 every result has the value that the program as written has in f64, whatever is masked."""
    graph = quotient(form, guard)
    out = stabilize(graph)
    assert arguments_of(out, "shift") == [FORMS[form]]
    assert kinds(out).count("exp") == (2 if "max(" in FORMS[form] else 1)
    finite = 0
    for seed in range(100):
        inputs = data(np.random.default_rng(seed))
        with np.errstate(all="ignore"):
            expected = run(graph, *inputs)
            found = run(out, *inputs, dtype=np.float32)
        sound = np.isfinite(expected) & (np.abs(expected) > 1e-25 if guard else True)
        finite += int(sound.sum())
        np.testing.assert_allclose(found[sound], expected[sound], rtol=2e-5, err_msg=f"seed {seed}")
    assert finite > 200


def test_logarithm_of_what_is_not_hidden() -> None:
    """The log of a sum of products, -inf on a row that is hidden throughout."""
    p = Program(SIZES, INPUTS)
    graph = p.graph(p("log", p.sum(p("mul", p("exp", S), F), "n")))
    out = stabilize(graph)
    assert expression(out, out.outputs[0].value).endswith(f"shift({MASKED}/n))")
    inputs = data(np.random.default_rng(1))
    inputs[F][2] = 0
    with np.errstate(divide="ignore"):
        expected, found = run(graph, *inputs), run(out, *inputs, dtype=np.float32)
    assert found[2] == -np.inf
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def without_factor(p: Program) -> tuple[int, int]:
    e = p("exp", S)
    return p.contract(e, F, V, over="n"), p.sum(e, "n")


def added_after(p: Program) -> tuple[int, int]:
    """A use that is neither a factor nor linear."""
    e = p("exp", S)
    weights = p("mul", e, F)
    return p("add", p.contract(weights, V, over="n"), p.sum(p("max", e, p.number(0.0)), "n")), p.sum(weights, "n")


def constant_along_the_sum(p: Program) -> tuple[int, int]:
    e = p("mul", p("exp", S), W)
    return p.contract(e, V, over="n"), p.sum(e, "n")


def after_the_sum(p: Program) -> tuple[int, int]:
    """The factor has the axis of the sum again, but it is not the axis that was summed over."""
    e = p("exp", T)
    weights = p("mul", p.sum(e, "n"), F)
    return p.contract(weights, V, over="n"), p.sum(weights, "n")


def product_of_matrices(p: Program) -> tuple[int, int]:
    """Masking exp(s) by v would sum over n without a product of matrices."""
    products = p.contract(p("exp", S), V, over="n")
    return products, p.sum(products, "e")


def never_zero(p: Program) -> tuple[int, int]:
    """An exponential and a number."""
    weights = p("mul", p("exp", S), p("mul", p.number(2.0), p("cast", p("exp", T), dtype="f32")))
    return weights, p.sum(weights, "n")


@pytest.mark.parametrize("form", [without_factor, added_after, constant_along_the_sum, after_the_sum, product_of_matrices, never_zero])
def test_what_does_not_hide(form: Form) -> None:
    """A use lacks the factor, or the factor does not vary along the maximum, or is never 0."""
    out = stabilize(quotient(form))
    assert "shift" in kinds(out)
    assert not {"select", "compare"} & set(kinds(out))


def test_a_condition_is_used_as_it_is() -> None:
    """A mask that is there already is not put twice, and stays around tests of values."""
    p = Program(SIZES, INPUTS)
    weights = p("mul", p("mul", p("cast", p("exp", p.causal(S, -np.inf)), dtype="f32"), F), p("cast", p.causal_mask(), dtype="f32"))
    out = stabilize(p.graph(p("div", p.contract(weights, V, over="n"), p.sum(weights, "n"))))
    assert arguments_of(out, "shift") == [f"select(compare(iota(/n), iota(/m)/le), {MASKED}, -inf)"]


def test_factors_made_from_each_other() -> None:
    """Two exponentials each of which is in the factor of the other: one of them is masked."""
    p = Program(SIZES, INPUTS)
    weights = p("mul", p("add", p("exp", S), G), p("add", p("exp", F), G))
    graph = p.graph(p("div", weights, p.sum(weights, "n")))
    out = stabilize(graph)
    assert kinds(out).count("select") == 1
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=[SIZES[axis] for axis in entry.axes]) for entry in graph.inputs]
    np.testing.assert_allclose(run(out, *inputs), run(graph, *inputs), rtol=1e-9)


def test_whole_and_split_are_hidden_alike() -> None:
    """A sum over the whole axis and one over its chunks, each with the factor in its own form, share a shift."""
    axes = [Axis("m", extent(3)), Axis("n", extent(8)), Axis("o", extent(4)), Axis("i", extent("ceildiv(8, 4)"), ("n", "o"))]
    b = Builder("f", [], axes, [Input(name, ("m", "n"), "f32", "m n") for name in "sf"])
    parts = [b.add("split", at, attr=("n", "o", "i")) for at in (0, 1)]
    whole = b.add("mul", b.add("exp", 0), 1)
    split = b.add("mul", b.add("exp", parts[0]), parts[1])
    z = b.add("reduce", split, attr=("sum", ("o", "i")))
    graph = b.finish([Output(b.add("div", b.add("reduce", whole, attr=("sum", ("n",))), z), "m", "f32")])
    out = stabilize(graph)
    assert arguments_of(out, "shift") == [MASKED]
    rng = np.random.default_rng(3)
    f = (rng.random((3, 8)) < 0.5).astype(np.float32)
    f[:, 0] = 1
    s = np.where(f == 0, 80, rng.uniform(-30, -20, (3, 8))).astype(np.float32)
    np.testing.assert_allclose(run(out, s, f, dtype=np.float32), np.ones(3), rtol=1e-5)


def test_a_masked_program_is_one_loop() -> None:
    """The selection is part of the loop that finds the maximum, the sum and the product; the program is right in f32."""

    def weighted(s: torch.Tensor, f: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        e = torch.exp(s) * f
        return (e / e.sum(-1, keepdim=True)) @ v

    torch.manual_seed(0)
    f = (torch.rand(64, 64) < 0.4).float()
    arguments = (torch.where(f == 0, 80.0, torch.randn(64, 64) - 30), f, torch.rand(64, 64) + 1)
    compiled = cleave.compile(weighted, *arguments)
    text = compiled.text("triton")
    assert text.count("@triton.jit") == 1
    assert text.count("    for ") == 1
    expected = weighted(*(argument.double() for argument in arguments))
    np.testing.assert_allclose(compiled(*arguments).numpy(), expected.numpy(), rtol=1e-5)
