"""
Arithmetic, reductions and movement of booleans are those of PyTorch: + and maxima are `or`, * and minima `and`, sums count.

Random programs are compiled and run, so everything below the front end takes them as well.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

import cleave
from cleave.errors import CleaveError
from cleave.frontend import capture
from tests.frontend.agreement import agrees

Tensor = torch.Tensor
FORMS = (
    "{0} + {1}", "{0} * {1}", "{0} & {1}", "{0} | ~{1}", "{0} ^ {1}", "torch.maximum({0}, {1})", "torch.minimum({0}, {1})",
    "torch.add({0}, {1}, alpha=True)", "{0} + True", "{0} * False", "torch.where({0}, {1}, False)", "{0} == {1}", "{0} > {1}",
    "{0}.masked_fill({1}, True)", "{0}.amax({d}, keepdim=True) + {1}", "{0}.amin({d}, keepdim=True) * {1}",
    "{0}.any({d}, keepdim=True) | {1}", "{0}.all({d}, keepdim=True) & {1}", "{0}.max({d}, keepdim=True).values + {1}",
    "{0}.sum({d}, keepdim=True, dtype=torch.bool) + {1}", "{0}.tril() + {1}", "{0}.mT * {1}", "{0}.gather({d}, {1}.long())",
    "{0} < True", "{0} <= False", "{0} > False", "{0} >= True", "torch.tensor(True) > {0}", "(True + {0}.long()) > {1}.int()",
    "(torch.ones_like({0}) < {1})", "torch.ones_like({0}).long() * {1} > 0",
    "{0}.isinf() | {1}", "{0}.isfinite() & {1}", "({0}.sum({d}, keepdim=True) > 2) + {1}",
)  # fmt: skip
REDUCTIONS = ("{0}.any(0)", "{0}.all(0)", "{0}.any()", "{0}.all()", "{0}.sum(0, dtype=torch.bool)", "({0} | {0}.any(0))")
RESULTS = ("{0}", "{0}.sum(-1)", "{0}.amax(0)", "{0}.amin(1)", "{0}.all()", "{0} + 1", "{0} * 1.5", "({0} * {1}).sum(0)")


def drawn(seed: int) -> tuple[str, Callable[..., Any], tuple[Tensor, Tensor]]:
    """A program of up to five lines on square matrices, the function that it is the text of, and arguments."""
    draw = random.Random(seed)
    names = ["x", "y"]
    lines: list[str] = []
    for at in range(draw.randint(1, 5)):
        lines.append(f"    t{at} = " + draw.choice(FORMS).format(draw.choice(names[-3:]), draw.choice(names), d=draw.choice((0, 1))))
        names.append(f"t{at}")
    results = ", ".join(draw.choice(RESULTS).format(names[-1], draw.choice(names[2:])) for _ in range(2))
    text = "\n".join(["def program(x, y):", *lines, f"    return {results}, {names[-1]} * True"])
    scope: dict[str, Any] = {"torch": torch}
    exec(compile(text, "<random program>", "exec"), scope)
    chance = torch.Generator().manual_seed(seed)
    return text, scope["program"], (torch.rand(5, 5, generator=chance) > 0.4, torch.rand(5, 5, generator=chance) > 0.6)


@pytest.mark.parametrize("start", range(0, 60, 20))
def test_random_programs_on_booleans_are_captured(start: int) -> None:
    for seed in range(start, start + 20):
        text, program, arguments = drawn(seed)
        try:
            agrees(program, arguments)
        except Exception as error:
            raise AssertionError(f"seed {seed}:\n{text}") from error


def test_random_programs_on_booleans_run() -> None:
    for seed in range(100, 112):
        text, program, arguments = drawn(seed)
        try:
            found = cleave.compile(program, *arguments, cache=False)(*arguments)
            for one, other in zip(found, program(*arguments), strict=True):
                assert one.dtype == other.dtype and torch.equal(one, other)
        except Exception as error:
            raise AssertionError(f"seed {seed}:\n{text}") from error


@pytest.mark.parametrize("function", [lambda x: torch.remainder(x, x), lambda x: torch.relu(x)])
def test_arithmetic_that_booleans_have_not_is_refused(function: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(CleaveError, match=r"test_booleans\.py:\d+: error: .*booleans? .*not supported|not supported for .*bool"):
        capture(function, (torch.ones(3, 3, dtype=torch.bool),))


@pytest.mark.parametrize("other", ["True", "1", "2.5", "x.flip(0)", "x.long()", "x.int()", "x.half()", "x.sum()"])
@pytest.mark.parametrize("form", ["x - {0}", "{0} - x", "torch.sub(x, {0}, alpha=2)", "torch.rsub(x, {0})"])
def test_booleans_are_not_subtracted_as_in_pytorch(form: str, other: str) -> None:
    function = eval(f"lambda x: {form.format(other)}")
    x = torch.tensor([True, False, True])
    with pytest.raises(RuntimeError):
        function(x)
    with pytest.raises(CleaveError, match=r"test_booleans\.py:\d+: error: .*(cannot be (subtracted|safely cast)|bool tensor)"):
        capture(function, (x,))


@pytest.mark.parametrize("form", REDUCTIONS)
def test_of_nothing_none_holds_and_all_do(form: str) -> None:
    """Whatever dimension is empty, and where none is."""
    function = eval(f"lambda x: {form.format('x')}")
    m, n = torch.export.Dim("m", min=0), torch.export.Dim("n", min=0)
    ready = cleave.compile(function, torch.rand(5, 8) > 0.5, dynamic_shapes=({0: m, 1: n},))
    for shape in ((0, 8), (3, 0), (0, 0), (4, 3)):
        for x in (torch.zeros(shape, dtype=torch.bool), torch.ones(shape, dtype=torch.bool), torch.rand(shape) > 0.5):
            torch.testing.assert_close(ready(x), function(x))
