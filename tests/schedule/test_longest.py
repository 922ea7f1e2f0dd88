"""What is computed by tiles of rows that run longest first: in an order that a kernel finds from the ranges of its masks."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from cleave.frontend import capture
from cleave.graph import Graph
from cleave.passes.convert_alg_to_sched import hinted_sizes
from cleave.runtime.compile import SHARED_LIMITS, compile_module
from cleave.runtime.execute import executable, execute
from cleave.schedule import space
from cleave.schedule.program import Allocate, Program
from cleave.schedule.relaxed import ROWS
from tests.acceptance.pipeline import alternatives

from .longest import (
    order_buffer,
    recent_documents,
)
from .programs import H200, agrees
from .test_ranges import (
    FEW,
    Mask,
    causal_documents,
    documents,
    earlier_documents,
    ids_of,
    is_ranged,
    of_any_size,
    of_documents,
    ranged,
    torch_causal_documents,
    torch_documents,
    torch_mask,
    ways,
)


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
