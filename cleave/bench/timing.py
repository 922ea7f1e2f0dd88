"""
A fair clock for GPU programs.

Every contender is captured in a CUDA graph once; the contenders are then replayed interleaved, the L2 cache flushed before
each replay, and the median is reported. Interleaving cancels what the card's power cap does to whoever runs last.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping

import torch

FLUSH_BYTES = 256 << 20


def captured(call: Callable[[], object]) -> Callable[[], None]:
    """The call as a CUDA graph replay, warmed up."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def interleaved(calls: Mapping[str, Callable[[], None]], repeats: int = 30, flush: str = "write") -> dict[str, float]:
    """
    Median milliseconds of each call.

    `flush` is write (the cache is left full of dirty lines) or read (clean lines).
    """
    scratch = torch.zeros(FLUSH_BYTES // 4, dtype=torch.float32, device="cuda")
    sink = torch.zeros((), dtype=torch.float32, device="cuda")
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(repeats):
        for name, call in calls.items():
            if flush == "write":
                scratch.zero_()
            else:
                torch.sum(scratch, dim=0, out=sink)
            before, after = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            before.record()
            call()
            after.record()
            after.synchronize()
            samples[name].append(before.elapsed_time(after))
    return {name: statistics.median(values) for name, values in samples.items()}
