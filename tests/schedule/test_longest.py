"""Tiles of rows that run longest first: in an order that a kernel finds from the ranges of its masks."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from math import prod

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from cleave.bridge.sched import module_of, program_of
from cleave.dialects.sched import ProgramOp
from cleave.extents import extent
from cleave.frontend import capture
from cleave.graph import Axis, Builder, Graph, Input, Output
from cleave.passes.convert_alg_to_sched import hinted_sizes
from cleave.reference.dtypes import Array
from cleave.reference.evaluate import evaluate
from cleave.reference.sched import Machine, TileFault, run_program
from cleave.runtime.compile import SHARED_LIMITS, compile_module
from cleave.runtime.execute import executable, execute
from cleave.schedule import TARGETS, space
from cleave.schedule.longest import order_of
from cleave.schedule.overlap import overlapped
from cleave.schedule.program import Allocate, For, Kernel, Last, Launch, Let, Load, Program, Reduce, Store, Wait, walk
from cleave.schedule.relaxed import ROWS
from tests.acceptance.pipeline import alternatives

from .programs import H200, Sketch, agrees
from .test_ranges import (
    FEW,
    IDS,
    Mask,
    causal_documents,
    documents,
    earlier_documents,
    ids_of,
    is_ranged,
    masked,
    of_any_size,
    of_documents,
    of_mask,
    ranged,
    torch_causal_documents,
    torch_documents,
    torch_mask,
    ways,
)

FIRST = ", the longest m first"


def recent_documents(s: Sketch) -> int:
    """Rows see the 100 columns around their own in the same document, which do not tell rows and columns apart."""
    near = s.op(
        "compare", s.op("sub", s.op("iota", attr=("m",)), s.op("iota", attr=("n",))), s.builder.add("constant", attr=(100,)), attr=("lt",)
    )
    return s.op("and", near, documents(s))


def above(s: Sketch) -> int:
    """Rows see the columns that a mask lets them see and whose score is above 0."""
    return s.op("and", 3, s.op("compare", s.contract(0, 1, over="d"), s.builder.add("constant", attr=(0.0,)), attr=("gt",)))


def documents_above(s: Sketch) -> int:
    """Of the same document, with scores above 0."""
    return s.op("and", documents(s), s.op("compare", s.contract(0, 1, over="d"), s.builder.add("constant", attr=(0.0,)), attr=("gt",)))


def longest(graph: Graph) -> Program:
    """The best program whose longest tiles are first."""
    return ranged(graph, options=FEW, ordered=True)[0]


def bounded(program: Program) -> Kernel:
    """The kernel that is launched last."""
    name = [step.kernel for step in program.steps if isinstance(step, Launch)][-1]
    return next(kernel for kernel in program.kernels if kernel.name == name)


def order_buffer(program: Program) -> str:
    """The buffer whose elements say where the programs of the last kernel begin: what that loads first."""
    return next(statement.buffer.name for statement in bounded(program).body if isinstance(statement, Load))


# The order.


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


# The kernel that is bounded.


def loops_of(program: Program, inputs: list[Array], monkeypatch: pytest.MonkeyPatch) -> dict[int, tuple[int, int]]:
    """From where to where each program of the kernel launched last walks."""
    name, walk_as_before = bounded(program).name, Machine.loop
    found: dict[int, tuple[int, int]] = {}

    def loop(machine: Machine, op: For) -> None:
        if machine.kernel.name == name:
            found[machine.program] = int(machine.get(op.start)), int(machine.get(op.stop))
        walk_as_before(machine, op)

    monkeypatch.setattr(Machine, "loop", loop)
    run_program(program, inputs, {})
    monkeypatch.undo()
    return found


@pytest.mark.parametrize("mask", [documents, causal_documents])
def test_programs_walk_less_and_less(mask: Mask, monkeypatch: pytest.MonkeyPatch) -> None:
    """All heads of a tile one after another; in the order of the grid they do not."""
    ids = np.repeat(np.arange(5), [30, 270, 64, 400, 5])
    graph = of_documents(str(len(ids)), mask)
    inputs = [*(np.zeros((2, len(ids), 16)) for _ in range(3)), ids]

    def steps(program: Program) -> list[int]:
        step = next(statement.step for statement in bounded(program).body if isinstance(statement, For))
        found = loops_of(program, inputs, monkeypatch)
        return [-(-(found[number][1] - found[number][0]) // step) for number in range(len(found))]

    first, plain = longest(graph), ranged(graph, options=FEW)[0]
    tiles = -(-len(ids) // ROWS)
    walked = steps(first)
    assert len(walked) == 2 * tiles and walked[::2] == walked[1::2]
    assert max(walked) > 2 * min(walked)
    # The first step begins where steps do and not where a range does, so that one more may be needed.
    assert all(later <= earlier + 1 for earlier, later in itertools.combinations(walked, 2))
    in_order = steps(plain)
    assert any(later > earlier + 1 for earlier, later in itertools.combinations(in_order, 2))


def alone(program: Program, sizes: dict[str, Array]) -> tuple[Program, list[Array]]:
    """The last kernel, given what those before would store."""
    kernel = bounded(program)
    buffers = {step.buffer.name: step.buffer for step in program.steps if isinstance(step, Allocate)}
    more = [buffers[name] for name in sizes]
    layouts = [
        *program.layouts[: len(program.inputs)],
        *(" ".join(buffer.axes) for buffer in more),
        *program.layouts[len(program.inputs) :],
    ]
    launch = next(step for step in program.steps if isinstance(step, Launch) and step.kernel == kernel.name)
    steps = (*(Allocate(buffer) for name, buffer in buffers.items() if name not in sizes), launch)
    return replace(program, inputs=(*program.inputs, *more), layouts=tuple(layouts), kernels=(kernel,), steps=steps), [*sizes.values()]


@pytest.mark.parametrize("length", [65, 300])
def test_each_tile_is_run_in_its_place(length: int) -> None:
    """In whatever order is stored: the ragged one too wherever it comes, and none twice, which the reference refuses."""
    graph = of_documents(str(length))
    program = longest(graph)
    rng = np.random.default_rng(length)
    count = -(-length // ROWS)
    ids = np.sort(rng.integers(0, 3, length))
    data = [*(rng.standard_normal((2, length, 16)) for _ in range(3)), ids]
    (wanted,) = evaluate(graph, data, {})
    loads = [statement.buffer for statement in walk(bounded(program).body) if isinstance(statement, Load)]
    stored = {buffer.name: np.zeros(count, np.int64) for buffer in loads if buffer.name not in ("q", "k", "v", "ids")}
    chunks = [np.flatnonzero(np.isin(ids, ids[first : first + ROWS])) for first in range(0, length, ROWS)]
    order, low, high, *_ = stored
    stored[low], stored[high] = np.array([each[0] for each in chunks]), np.array([each[-1] + 1 for each in chunks])
    for turn in range(count):
        stored[order] = np.roll(rng.permutation(count) if turn else np.arange(count)[::-1], turn)
        only, more = alone(program, stored)
        (found,) = run_program(only, [*data, *more], {})
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)
    stored[order] = np.zeros(count, np.int64)
    only, more = alone(program, stored)
    with pytest.raises(TileFault):
        run_program(only, [*data, *more], {})


def test_the_first_load_waits_for_the_kernel_before() -> None:
    """Where launches overlap; the reference refuses what does not wait. The order survives as IR."""
    graph = of_documents("300", causal_documents)
    for release in (False, True):
        made = overlapped(longest(graph), release)
        kinds = [type(statement) for statement in bounded(made).body if isinstance(statement, Wait | Load)]
        assert kinds[0] is Wait and kinds[1] is Load
        agrees(graph, made, changed={"ids": np.repeat([3, 1, 2], [20, 200, 80])}, shuffled=1)
        (host,) = [op for op in module_of(made).ops if isinstance(op, ProgramOp)]
        assert bounded(program_of(host)).grid[-1].dim == "m"


# What is tried.


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


# Values.


@cache
def in_each_way(length: int, mask: Mask) -> tuple[Graph, tuple[tuple[str, str, Program], ...]]:
    graph = of_documents(str(length), mask)
    return graph, tuple(ways(graph, ordered=True))


@pytest.mark.parametrize("mask", [documents, causal_documents, earlier_documents, recent_documents])
@pytest.mark.parametrize("length", [65, 129, 300])
def test_documents_agree(mask: Mask, length: int) -> None:
    """Walked in one loop to three, by programs in any order."""
    graph, found = in_each_way(length, mask)
    assert {tile for tile, _, _ in found} == {str(ROWS)} and len({walked for _, walked, _ in found}) >= 2
    for seed, (_, _, program) in enumerate(found):
        for order in ("sorted", "runs", "random"):
            rng = np.random.default_rng(seed)
            ids = ids_of(rng, length, int(rng.integers(1, 4)), order)
            agrees(graph, program, changed={"ids": ids}, shuffled=seed)


@cache
def of_mask_kind(kind: str) -> tuple[Graph, Program]:
    graph = of_any_size(kind)
    return graph, ranged(graph, {"M": 512, "N": 512}, ("M", "N"), FEW, ordered=True)[0]


@settings(max_examples=12, deadline=None)
@given(
    kind=st.sampled_from(["m n", "turned", "g m n"]),
    m=st.sampled_from([1, 64, 65, 200]),
    n=st.sampled_from([1, 17, 200]),
    share=st.sampled_from([0.0, 0.01, 1.0]),
    seed=st.integers(0, 2**31),
)
def test_random_masks_agree(kind: str, m: int, n: int, share: float, seed: int) -> None:
    """Of sizes known when the program runs, down to a single row, and rows and chunks without any key."""
    graph, program = of_mask_kind(kind)
    rng = np.random.default_rng(seed)
    mask = rng.random([{"g": 2, "m": m, "n": n}[axis] for axis in graph.inputs[3].axes]) < share
    mask[rng.random(mask.shape[:-1]) < 0.3] = False
    mask[..., :64, :] &= seed % 2 == 0
    agrees(graph, program, {"M": m, "N": n}, changed={"mask": ~mask if kind == "turned" else mask})


@pytest.mark.parametrize("function", [torch_documents, torch_causal_documents, torch_mask])
def test_interpreted_kernels_agree_with_torch(function: Callable[..., Tensor]) -> None:
    """Grouped heads in a batch whose sequences are sorted each by itself."""
    torch.manual_seed(7)
    length = 200
    q, k, v = (torch.randn(2, heads, length, 16) for heads in (4, 2, 2))
    mask = torch.rand(2, 1, length, length) < 0.02
    mask[0, 0, :64], mask[1, 0, 64:128] = False, False
    ids = torch.stack(
        [torch.randint(0, 4, (length,)).sort().values, torch.repeat_interleave(torch.tensor([2, 0, 1]), torch.tensor([9, 140, 51]))]
    )
    given = mask if function is torch_mask else ids.to(torch.int32)
    captured = capture(function, (q, k, v, given))
    graphs = alternatives(captured.graph)
    sizes = hinted_sizes(graphs)
    found = space(graphs, sizes, frozenset(sizes), H200, FEW)
    trial = next(trial for trial in found.trials(200) if is_ranged(found, trial, True))
    program = found.program(trial)
    assert (
        len(next(step.buffer for step in program.steps if isinstance(step, Allocate) and step.buffer.name == order_buffer(program)).axes)
        == 2
    )
    (result,) = execute(program, captured.bindings.views(captured.bindings.flatten((q, k, v, given)), {}), {})
    assert isinstance(result, Tensor)
    torch.testing.assert_close(result.reshape(q.shape), function(q, k, v, given), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("graph", [of_documents("4096"), of_documents("4001", causal_documents)], ids=["documents", "causal"])
def test_kernels_compile_for_hopper(graph: Graph) -> None:
    for kernel in compile_module(executable(ranged(graph, ordered=True)[0]).module, "sm_90"):
        assert kernel.spills == 0
        assert kernel.shared <= SHARED_LIMITS["sm_90"]
