"""Which programs whose tiles of rows run longest first are tried, and what they are estimated to take."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from cleave.graph import Graph, Input
from cleave.schedule import TARGETS, space
from cleave.schedule.program import For, Last, Let, Load, Reduce, Store, walk
from cleave.schedule.relaxed import ROWS

from .longest import (
    FIRST,
    above,
    bounded,
    documents_above,
    longest,
    order_buffer,
)
from .programs import H200, agrees
from .test_ranges import (
    FEW,
    IDS,
    Mask,
    causal_documents,
    documents,
    ids_of,
    is_ranged,
    masked,
    of_documents,
    of_mask,
    ranged,
)


def test_it_is_tried_after_ranges_and_not_preferred() -> None:
    """Second are ranges, third the longest first; every trial of these is so, in no group and by no other order."""
    found = space([of_documents("1024")], {}, frozenset(), H200)
    first, second, third, *rest = found.trials(400)
    assert not found.divisions[first.division][1].source.ranged and is_ranged(found, second) and is_ranged(found, third, True)
    assert found.name(third).endswith(", within ranges, longest first") and found.name(third).startswith(found.name(second))
    texts = [found.text(trial) for trial in (third, *rest) if is_ranged(found, trial, True)]
    assert len(texts) > 10
    for text in texts:
        *_, last = text.split(" | ")
        assert FIRST in last and f"m grid {ROWS}" in last
        assert not any(other in last for other in ("in groups", "in turn", "from the last"))
    others = [found.text(trial) for trial in (first, second, *rest) if not is_ranged(found, trial, True)]
    assert not any("longest" in text for text in others)


@pytest.mark.parametrize(
    "graph",
    [of_documents("64"), of_mask("64", "512"), of_mask("300", "512", "g n"), of_mask("300", "512", "n")],
    ids=["one chunk", "one chunk of a mask", "no rows", "neither rows nor heads"],
)
def test_nothing_to_sort(graph: Graph) -> None:
    assert not ranged(graph, options=FEW, ordered=True)


@pytest.mark.parametrize("mask", [above, documents_above])
def test_scores_are_not_computed_to_sort(mask: Mask) -> None:
    """What only a product tells of a column would cost as much as it may save: ranges and orders are of the rest of a mask."""
    extra = IDS if mask is documents_above else Input("mask", ("m", "n"), "i1", "m n")
    graph = masked(mask, [extra], "300", "300")
    program = longest(graph)
    loaded = {
        statement.buffer.name
        for kernel in program.kernels
        if kernel is not bounded(program)
        for statement in walk(kernel.body)
        if isinstance(statement, Load)
    }
    assert extra.name in loaded and not loaded & {"q", "k"}
    rng = np.random.default_rng(0)
    data = ids_of(rng, 300, 3, "runs") if mask is documents_above else rng.random((300, 300)) < 0.02
    agrees(graph, program, changed={extra.name: data}, shuffled=1)


def test_an_estimate_knows_which_rows_see_less() -> None:
    """What is certain of the rows in a tile shortens loops whatever comes first: half of the keys are after them."""
    whole, half = (bounded_cost(of_documents("4096", mask)) for mask in (documents, causal_documents))
    assert 0.45 * whole < half < 0.6 * whole


def bounded_cost(graph: Graph) -> float:
    found = space([graph], {}, frozenset(), H200, FEW)
    return next(candidate for _, candidate in found.divisions if candidate.source.ordered).choices[-1].cost.dot_flops


@pytest.mark.parametrize("length", [1024, 4096, 16384])
def test_sorting_is_little_work(length: int) -> None:
    """
    The last program of the kernel that stores the ranges does it, of what was stored: few elements at a time, in few steps, and no key is
    looked at again.
    """
    program = ranged(masked(documents, [IDS], str(length), str(length), g="16"), ordered=True)[0]
    assert len(program.kernels) == 2
    (last,) = [statement for statement in walk(program.kernels[0].body) if isinstance(statement, Last)]
    assert [statement.buffer.name for statement in last.body if isinstance(statement, Store)] == [order_buffer(program)]
    assert len([*walk(last.body)]) < 60
    for statement in walk(last.body):
        if isinstance(statement, Load):
            assert set(statement.buffer.axes) == {"m_chunk"}
        if isinstance(statement, For):
            assert statement.step >= 16
        if isinstance(statement, Let | Reduce):
            assert prod(size for _, size in statement.out.type.dims) <= 8192


@pytest.mark.parametrize("length", [4096, 16384])
def test_other_machines_sort_in_kernels_of_their_own(length: int) -> None:
    """Where no program can know that it is the last."""
    found = space([masked(documents, [IDS], str(length), str(length), g="16")], {}, frozenset(), TARGETS["mi300x"])
    trial = next(trial for trial in found.trials(200) if is_ranged(found, trial, True))
    program = found.program(trial)
    name = order_buffer(program)
    (kernel,) = [kernel for kernel in program.kernels if name in kernel.written]
    assert not any(isinstance(statement, Last) for each in program.kernels for statement in walk(each.body))
    loads = [statement for statement in walk(kernel.body) if isinstance(statement, Load)]
    assert loads and all(load.buffer.name != "ids" for load in loads)
