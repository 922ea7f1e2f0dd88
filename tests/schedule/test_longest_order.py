"""The order in which tiles of rows run longest first, which a kernel finds from the ranges of its masks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cleave.extents import extent
from cleave.graph import Axis, Builder, Graph, Input, Output
from cleave.reference.dtypes import Array
from cleave.reference.evaluate import evaluate
from cleave.reference.sched import run_program
from cleave.schedule.longest import order_of
from cleave.schedule.program import Allocate
from cleave.schedule.relaxed import ROWS

from .longest import (
    longest,
    order_buffer,
)
from .test_ranges import (
    Mask,
    causal_documents,
    documents,
    of_documents,
    of_mask,
)


@settings(max_examples=60)
@given(lengths=st.lists(st.lists(st.integers(-3, 6), min_size=1, max_size=12), min_size=1, max_size=3), batch=st.integers(1, 3))
def test_an_order_sorts_by_length_and_then_by_number(lengths: list[list[int]], batch: int) -> None:
    """Sums of several lengths, none of which counts below 0, for each of a batch."""
    count = min(map(len, lengths))
    inputs = [
        Input(f"l{place}", ("b", "c") if place == 0 else ("c",), "i32", "b c" if place == 0 else "c") for place in range(len(lengths))
    ]
    builder = Builder("sort", (), [Axis(name, extent(batch if name == "b" else count)) for name in ("b", "c", "other", "place")], inputs)
    order = order_of(builder, range(len(lengths)), "c", "other", "place")
    given = [np.array(each[:count]) for each in lengths]
    given[0] = np.stack([np.roll(given[0], turn) for turn in range(batch)])
    (found,) = evaluate(builder.finish([Output(order, "b place", "i32")]), given, {})
    total: Array = np.zeros((batch, count))
    for each in given:
        total = total + np.maximum(each, 0)
    for mine, length in zip(found, total, strict=True):
        assert [*mine] == sorted(range(count), key=lambda chunk: (-length[chunk], chunk))


def stored_order(graph: Graph, given: Array) -> Array:
    """The order that the kernels before the last one find, as the reference runs them."""
    program = longest(graph)
    name = order_buffer(program)
    steps = tuple(step for step in program.steps if not (isinstance(step, Allocate) and step.buffer.name == name))
    buffer = next(step.buffer for step in program.steps if isinstance(step, Allocate) and step.buffer.name == name)
    shown = replace(program, steps=steps, outputs=(*program.outputs, buffer), layouts=(*program.layouts, " ".join(buffer.axes)))
    extents = graph.sizes({})
    data = [np.zeros([extents[axis] for axis in entry.axes]) for entry in graph.inputs[:3]]
    return run_program(shown, [*data, given], {})[-1]


def lengths_of(live: Array) -> list[int]:
    """From the first to the last column that any row of each chunk of rows sees."""
    columns = [np.flatnonzero(live[first : first + ROWS].any(0)) for first in range(0, len(live), ROWS)]
    return [int(found[-1] + 1 - found[0]) if len(found) else 0 for found in columns]


def sorted_chunks(live: Array) -> list[int]:
    lengths = lengths_of(live)
    return sorted(range(len(lengths)), key=lambda chunk: (-lengths[chunk], chunk))


@pytest.mark.parametrize("mask", [documents, causal_documents])
@pytest.mark.parametrize("sizes", [[10, 300, 90, 1, 119], [1] * 65, [130] * 3, [400, 1]])
def test_chunks_of_documents_are_sorted_by_what_they_walk(mask: Mask, sizes: list[int]) -> None:
    """Of the causal ones by what is before the last row of a chunk, not by whole documents."""
    ids = np.repeat(np.arange(len(sizes)), sizes)
    live = ids[:, None] == ids
    if mask is causal_documents:
        live &= np.tri(len(ids), dtype=bool)
    assert [*stored_order(of_documents(str(len(ids)), mask), ids)] == sorted_chunks(live)


@settings(max_examples=8, deadline=None)
@given(share=st.sampled_from([0.0, 0.002, 0.02]), seed=st.integers(0, 2**31))
def test_chunks_of_a_mask_are_sorted_by_what_they_walk(share: float, seed: int) -> None:
    """Of a mask for each head, in an order for each; chunks with nothing live are last."""
    rng = np.random.default_rng(seed)
    live = rng.random((2, 200, 150)) < share
    live[:, rng.random(200) < 0.5] = False
    live[:, 64:128] &= rng.random() < 0.5
    found = stored_order(of_mask("200", "150", "g m n"), live)
    assert [[*each] for each in found] == [sorted_chunks(each) for each in live]
