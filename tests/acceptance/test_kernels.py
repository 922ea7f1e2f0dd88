"""What the search and the scheduler make of the main programs: how many kernels, which loops, what they carry."""

from __future__ import annotations

import pytest

from cleave.graph import Graph
from cleave.schedule.program import Dot, For, Last, Program, Reduce, walk

from .pipeline import alternatives, scheduled
from .programs import average, linear_average, norm


def loops(program: Program) -> list[For]:
    return [statement for kernel in program.kernels for statement in walk(kernel.body) if isinstance(statement, For)]


def compiled(graph: Graph, **sizes: int) -> Program:
    return scheduled(alternatives(graph), sizes, sizes)


@pytest.mark.parametrize("own_maximum", [False, True])
@pytest.mark.parametrize("heads", ["h = 32", "g = 8, r = 4"])
@pytest.mark.parametrize("causal", [False, True])
def test_weighted_average_is_one_loop(own_maximum: bool, heads: str, causal: bool) -> None:
    """One kernel with one loop over n (causal: its full and its masked part), carrying maximum, sum and accumulator."""
    program = compiled(average("f16", 128, 128, causal=causal, own_maximum=own_maximum, heads=heads), m=4096, n=4096)
    assert len(program.kernels) == 1
    found = loops(program)
    assert 1 <= len(found) <= (2 if causal else 1)
    for loop in found:
        assert "n" in loop.dim and len(loop.carried) == 3
        assert sum(isinstance(statement, Dot) for statement in walk(loop.body)) == 2


def test_a_window_is_a_mask_like_any_other() -> None:
    """The quotient goes behind the second product, and what no query of a tile sees is not visited."""
    program = compiled(average("f16", 128, 128, causal=True, window=True, heads="h = 32"), m=4096, n=4096)
    assert len(program.kernels) == 1
    assert all(len(loop.carried) == 3 for loop in loops(program))


def test_short_rows_split() -> None:
    """One query against many keys: chunks of n, partial results, and a second kernel or the last program of the first to combine them."""
    program = compiled(average("f16", 128, 128, heads="g = 8, r = 4"), m=1, n=65536)
    ends = [statement for kernel in program.kernels for statement in kernel.body if isinstance(statement, Last)]
    assert len(program.kernels) + len(ends) == 2
    assert any("split" in note or "s grid" in note for note in program.notes)


@pytest.mark.parametrize("gated", [False, True])
def test_norm_and_products_are_one_loop(gated: bool) -> None:
    """One kernel, one loop over k that carries the sum of squares and a product for each matrix."""
    program = compiled(norm("bf16", 4096, 4096, gated=gated), m=4096)
    assert len(program.kernels) == 1
    (loop,) = loops(program)
    assert "k" in loop.dim and len(loop.carried) == 2 + gated
    assert sum(isinstance(statement, Dot) for statement in walk(loop.body)) == 1 + gated
    assert sum(isinstance(statement, Reduce) for statement in walk(loop.body)) == 1


def test_products_without_weights_never_form_the_large_matrix() -> None:
    graphs = alternatives(linear_average())
    program = scheduled(graphs, {"m": 4096, "n": 4096}, ("m", "n"))
    for kernel in program.kernels:
        for buffer in kernel.buffers:
            assert not {"m", "n"} <= set(buffer.axes)
        for statement in walk(kernel.body):
            if isinstance(statement, Dot):
                assert not {"m", "n"} <= set(statement.out.type.names)
