"""Graphs at small sizes: axes whose extents belong together keep them together, whatever takes them apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from cleave.algebra import gate
from cleave.algebra.probes import probe_graph, random_inputs, results, structured_axes
from cleave.errors import CleaveError
from cleave.frontend import capture
from cleave.graph import Graph
from cleave.search.equivalence import small
from tests.frontend.test_random_programs import drawn

from .programs import Program

SIZES: Sequence[tuple[int, ...]] = ((3, 2, 5, 4), (2, 1, 3, 1), (12, 7, 16, 9))


def regrouped(*, split: bool = False) -> Graph:
    """A matrix of 6 x 14 read as one of 12 x 7, whose rows may be in chunks."""
    chunks = {"s": "s", "ei": "ceildiv(12, s)"} if split else {}
    p = Program({"a": 6, "b": 14, "ab": 84, "e": 12, **chunks, "f": 7}, {"x": "a b"}, chunks={"ei": ("e", "s")} if split else {})
    view = p("split", p("merge", 0, attr=(("a", "b"), "ab")), attr=("ab", "e", "f"))
    if split:
        return p.graph(p.sum(p.sum(p("split", view, attr=("e", "s", "ei")), "ei"), "s"))
    return p.graph(p.sum(view, "e"))


def test_a_split_into_parts_keeps_its_axes() -> None:
    assert set(structured_axes(regrouped())) == {"a", "b", "ab", "e", "f"}


def test_a_split_into_chunks_does_not() -> None:
    """Its last chunk may be short, so it has room for any size."""
    p = Program({"m": 2**20, "s": "s", "mi": f"ceildiv({2**20}, s)"}, {"x": "m"}, chunks={"mi": ("m", "s")})
    graph = p.graph(p.sum(p.sum(p("split", 0, attr=("m", "s", "mi")), "mi"), "s"))
    assert structured_axes(graph) == ()
    assert probe_graph(graph).elements() < 10


def test_parts_may_be_in_chunks_too() -> None:
    assert gate(regrouped(), [regrouped(split=True)]).kept == (0,)


def runs(graph: Graph) -> None:
    """A probe at each set of sizes is evaluated, and so are the small sizes at which programs are compared."""
    for sizes in SIZES:
        probe = probe_graph(graph, sizes)
        results(probe, random_inputs(probe, np.random.default_rng(1)), np.float64)
        small(graph, sizes, frozenset(structured_axes(graph)))


@pytest.mark.parametrize("general", [False, True])
def test_probes_of_random_programs_run(general: bool) -> None:
    captured = 0
    for seed in range(25):
        text, program, args = drawn(seed, general=general)
        dynamic = tuple(dict.fromkeys(range(arg.dim()), torch.export.Dim.DYNAMIC) for arg in args) if general else None
        try:
            graph = capture(program, args, dynamic).graph
        except CleaveError:
            continue
        captured += 1
        try:
            runs(graph)
        except ValueError as error:
            raise AssertionError(f"seed {seed}:\n{text}") from error
    assert captured > 15
