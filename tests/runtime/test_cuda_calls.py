"""Compiled calls on a GPU: the short way, capture, threads and streams, workspaces."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
import torch

import cleave
from cleave.bench.masks import unmasked
from cleave.bench.programs import grouped_attention, norm_linear
from cleave.runtime.clocks import CLOCKS

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


def decode() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Few programs: the keys are split, so that there is a workspace."""
    q = torch.randn(1, 32, 1, 128, device="cuda", dtype=torch.float16)
    k = torch.randn(1, 8, 1024, 128, device="cuda", dtype=torch.float16)
    return q, k, torch.randn_like(k)


def close(found: torch.Tensor, inputs: Sequence[torch.Tensor]) -> None:
    """One rounding of the probabilities and one of the result to f16."""
    exact = grouped_attention(*(tensor.double() for tensor in inputs))
    assert float((found.double() - exact).norm() / exact.norm()) < 1e-3


def test_calls_agree_by_the_long_and_the_short_way() -> None:
    inputs = decode()
    compiled = cleave.compile(grouped_attention, *inputs, tune=False)
    first = compiled(*inputs)
    close(first, inputs)
    assert len(compiled._entries) == 1
    assert torch.equal(compiled(*inputs), first)
    assert torch.equal(compiled(inputs[0], inputs[1], v=inputs[2]), first)
    other = decode()
    close(compiled(*other), other)


def test_an_address_that_is_not_aligned_is_copied() -> None:
    x = torch.randn(16 * 128 + 1, device="cuda", dtype=torch.float16)
    g, w = torch.randn(128, device="cuda", dtype=torch.float16), torch.randn(96, 128, device="cuda", dtype=torch.float16)
    compiled = cleave.compile(norm_linear, x[:-1].view(16, 128), g, w, tune=False)
    compiled(x[:-1].view(16, 128), g, w)
    moved = x[1:].view(16, 128)
    torch.testing.assert_close(compiled(moved, g, w), compiled(moved.clone(), g, w), rtol=0, atol=0)


def test_a_captured_call_can_be_replayed_beside_others() -> None:
    inputs = decode()
    compiled = cleave.compile(grouped_attention, *inputs, tune=False)
    compiled(*inputs)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = compiled(*inputs)
    inputs[0].normal_()
    want = compiled(*inputs).clone()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    others: list[torch.Tensor] = []
    for _ in range(50):
        with torch.cuda.stream(side):
            graph.replay()
        others.append(compiled(*inputs))
    torch.cuda.synchronize()
    assert torch.equal(captured, want) and all(torch.equal(other, want) for other in others)


def test_threads_on_streams_of_their_own_get_identical_results() -> None:
    inputs = decode()
    compiled = cleave.compile(grouped_attention, *inputs, tune=False)
    want = compiled(*inputs)
    torch.cuda.synchronize()
    wrong: list[int] = []

    def work(number: int) -> None:
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            made = [compiled(*inputs) for _ in range(100)]
            stream.synchronize()
            if not all(torch.equal(one, want) for one in made):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_call_allocates_nothing_but_its_result() -> None:
    inputs = decode()
    compiled = cleave.compile(grouped_attention, *inputs, tune=False)
    for _ in range(2):
        result = compiled(*inputs)
    torch.cuda.synchronize()
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    result = compiled(*inputs)
    assert torch.cuda.memory_stats()["allocation.all.allocated"] - before == 1
    assert result.shape == inputs[0].shape


def test_tuning_finds_a_right_program_and_remembers_it() -> None:
    inputs = decode()
    compiled = cleave.compile(grouped_attention, *inputs, budget=5.0, candidates=6)
    close(compiled(*inputs), inputs)
    report = compiled.report()
    assert any(entry.measured for entry in report.candidates)
    assert all(not entry.dropped.startswith("wrong") for entry in report.candidates)
    again = cleave.compile(grouped_attention, *inputs, budget=5.0, candidates=6)
    assert again.report().cached
    assert torch.equal(again(*inputs), compiled(*inputs))


def test_the_process_that_timed_one_program_times_the_next() -> None:
    found: list[int] = []
    for length in (256, 384):
        x = torch.randn(64, length, device="cuda", dtype=torch.float16)
        compiled = cleave.compile(lambda x: torch.softmax(x, -1), x, budget=5.0, candidates=4, cache=False)
        torch.testing.assert_close(compiled(x), torch.softmax(x, -1), rtol=2e-3, atol=2e-3)
        assert compiled.report().candidates[0].measured
        assert CLOCKS._resting is not None and CLOCKS._resting._process is not None
        found.append(CLOCKS._resting._process.pid)
    assert found[0] == found[1]


def test_schedules_for_several_sizes_are_each_timed_at_theirs() -> None:
    """One compilation for all rows and keys: every hint's schedule was timed and is right, and so are other sizes."""
    m, n = (torch.export.Dim(name, min=1) for name in ("m", "n"))

    def example(rows: int, keys: int) -> tuple[torch.Tensor, ...]:
        return tuple(torch.randn(1, 4, size, 64, device="cuda", dtype=torch.float16) for size in (rows, keys, keys))

    compiled = cleave.compile(
        unmasked, *example(128, 256), dynamic_shapes=({2: m}, {2: n}, {2: n}), hints=({"m": 1, "n": 4096}, {"m": 512, "n": 512})
    )
    for variant in compiled.variants:
        assert variant.candidates[0].measured is not None and variant.candidates[0].error is not None
    for rows, keys in ((1, 1), (1, 4096), (512, 512), (77, 1000)):
        q, k, v = example(rows, keys)
        torch.testing.assert_close(compiled(q, k, v).float(), unmasked(q.float(), k.float(), v.float()), rtol=2e-3, atol=2e-3)
