"""
Truth values, integers and floats that are equal in the algebra share a class; every place still gets the type it takes.

Random programs mix them: masks as numbers, numbers as masks, conditions that never or always hold, positions compared with constants.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from cleave.algebra.probes import Probe, random_inputs, results
from cleave.bridge.alg import Alternative, alternatives_op
from cleave.frontend import capture
from cleave.graph import Graph
from cleave.search import SearchOptions, superoptimize

Tensor = torch.Tensor
OPTIONS = SearchOptions(alternatives=8, classes=120)
CONDITIONS = (
    "{f} > {f}", "{f} <= 0.5", "{f} != {f}", "l > l", "{i} < 3", "{i} == {i}", "{i} >= 0", "{c} & {c}", "{c} | {c}", "~{c}",
    "{c}.float() > 0.5", "{c} & (l != l)", "{c} == {c}",
)  # fmt: skip
NUMBERS = (
    "torch.where({c}, {f}, {f})", "torch.where({c}, {f}, 0.0)", "torch.where({c}, 1.0, 0.0)", "torch.where({c}, 0.0, {f})",
    "{c}.float() * {f}", "{c}.float()", "{i}.float() * {f}", "{f} * 3", "{f} + 3", "{f} * 0", "{f}.exp() * 0.01", "{f} - {f}",
    "{f}.sum(-1, keepdim=True)", "{c}.sum(-1, keepdim=True).float()", "torch.logsumexp({f} * 0.1, -1, keepdim=True)",
)  # fmt: skip
INTEGERS = ("{i} + 3", "{i} * 2", "{i} - {i}", "{c}.long()", "{i} * {c}", "torch.where({c}, {i}, 0)", "{i} // 2")
START = {"f": ["x", "y"], "i": ["n", "torch.arange(5)"], "c": ["b", "(x > 0)"]}


def drawn(seed: int) -> tuple[str, Callable[..., Any]]:
    """A program of ten lines and the function that it is the text of; it returns values of every type."""
    draw = random.Random(seed)
    known = {kind: list(names) for kind, names in START.items()}
    lines = ["l = torch.logsumexp(x, -1, keepdim=True)"]
    for at in range(10):
        kind, forms = draw.choice((("c", CONDITIONS), ("f", NUMBERS), ("f", NUMBERS), ("i", INTEGERS)))
        text = draw.choice(forms)
        while "{" in text:
            asked = text[text.index("{") + 1]
            text = text.replace(f"{{{asked}}}", draw.choice(known[asked][-4:]), 1)
        lines.append(f"{kind}{at} = {text}")
        known[kind].append(f"{kind}{at}")
    found = [names[-1] for names in known.values()]
    body = "\n".join(f"    {line}" for line in lines)
    text = f"def program(x, y, n, b):\n{body}\n    return torch.where({found[2]}, {found[0]}, 0.5), {found[1]} + 0, ~{found[2]}\n"
    scope: dict[str, Any] = {"torch": torch}
    exec(compile(text, "<random program>", "exec"), scope)
    return text, scope["program"]


def check(graph: Graph) -> int:
    """Every alternative that the search finds is a valid program of the same results; returns how many there are."""
    found = superoptimize(graph, OPTIONS).alternatives
    alternatives_op([Alternative(entry.name, entry.graph) for entry in found]).verify()
    rng = np.random.default_rng(3)
    inputs = random_inputs(Probe(graph, {}), rng)
    wanted = results(Probe(graph, {}), inputs, np.float64, respect_dtypes=True)
    for entry in found[1:]:
        if " split " in entry.name:
            continue
        for one, other in zip(results(Probe(entry.graph, {}), inputs, np.float64, respect_dtypes=True), wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
    return len(found)


@pytest.mark.parametrize("start", range(0, 40, 10))
def test_random_programs_of_mixed_types(start: int) -> None:
    count = 0
    for seed in range(start, start + 10):
        text, program = drawn(seed)
        arguments = (torch.randn(3, 5), torch.randn(3, 5), torch.arange(15).reshape(3, 5), torch.rand(3, 5) > 0.5)
        try:
            count += check(capture(program, arguments).graph)
        except Exception as error:
            raise AssertionError(f"seed {seed}:\n{text}") from error
    assert count > 20


def guarded(x: Tensor) -> Tensor:
    total = torch.logsumexp(x, -2)
    return torch.where(total > total, total * 2, 0.5)


def with_nan_guard(x: Tensor) -> Tensor:
    total = torch.logsumexp(x, -2)
    return torch.where(total != total, total * 2, total * 0)


@pytest.mark.parametrize("program", [guarded, with_nan_guard])
def test_a_condition_that_never_holds_is_false(program: Callable[[Tensor], Tensor]) -> None:
    check(capture(program, (torch.randn(6, 5),)).graph)


def test_large_integers_are_compared_as_integers() -> None:
    """2^24 + 1 is no f32, though the same number may occur as a float elsewhere in the program."""

    def program(x: Tensor, i: Tensor) -> Tensor:
        return torch.where(i == 16777217, x + 16777217.0, 0.0) * torch.where(i > 3, x * 3.0, 1.0)

    graph = capture(program, (torch.randn(7), torch.arange(7))).graph
    for entry in superoptimize(graph, OPTIONS).alternatives:
        for op in entry.graph.ops:
            assert op.kind != "compare" or {entry.graph.ops[arg].dtype for arg in op.args} == {"i64"}
