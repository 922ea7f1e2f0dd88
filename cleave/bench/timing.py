"""
A fair clock for GPU programs.

All contenders run one after another, round after round, each after the L2 cache was flushed, and the median of each is reported:
what changes the clock of a card changes all alike. Every round starts with another contender.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

FLUSH_BYTES = 256 << 20
FLUSHES = ("writes", "reads")
"""Flushed by writes the cache is left full of dirty lines, by reads of clean ones."""
SECONDS = 0.6
LEAST_ROUNDS, MOST_ROUNDS = 9, 60
LEAST_BATCHES, MOST_BATCHES, BATCH = 3, 15, 20
PROCESSOR_SECONDS = 0.2


@dataclass(frozen=True)
class Replay:
    """A call that was captured: how to run it again, and where it puts its result."""

    run: Callable[[], object]
    result: Tensor


def captured(call: Callable[[], Tensor]) -> Replay:
    """The call as a CUDA graph, warmed up."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = call()
    return Replay(graph.replay, result)


def interleaved(calls: Mapping[str, Callable[[], object]], flush: str) -> dict[str, float]:
    """Median milliseconds of each call; as many rounds as take about `SECONDS`."""
    scratch = torch.zeros(FLUSH_BYTES // 4, dtype=torch.float32, device="cuda")
    sink = torch.zeros((), dtype=torch.float32, device="cuda")
    names = list(calls)

    def flushed() -> None:
        if flush == "writes":
            scratch.zero_()
        else:
            torch.sum(scratch, dim=0, out=sink)

    spans(calls, names, flushed)
    started = time.perf_counter()
    spans(calls, names, flushed)
    once = time.perf_counter() - started
    rounds = max(LEAST_ROUNDS, min(MOST_ROUNDS, round(SECONDS / max(once, 1e-6))))
    found: dict[str, list[float]] = {name: [] for name in calls}
    for at in range(rounds):
        first = at % max(1, len(names))
        for name, value in spans(calls, [*names[first:], *names[:first]], flushed).items():
            found[name].append(value)
    return {name: statistics.median(values) for name, values in found.items()}


def spans(calls: Mapping[str, Callable[[], object]], order: list[str], flushed: Callable[[], None]) -> dict[str, float]:
    """Milliseconds between the events before and after each call, in one round of this order."""
    marks: dict[str, tuple[Any, Any]] = {}
    for name in order:
        flushed()
        before, after = (cast(Any, torch).cuda.Event(enable_timing=True) for _ in range(2))
        before.record()
        calls[name]()
        after.record()
        marks[name] = before, after
    torch.cuda.synchronize()
    return {name: float(before.elapsed_time(after)) for name, (before, after) in marks.items()}


def processor_microseconds(call: Callable[[], object], synchronize: Callable[[], None] = torch.cuda.synchronize) -> float:
    """
    Median microseconds that the processor spends in a call, its work for the GPU left to be done.

    Calls come in batches too short to fill the queue of launches, and batches start when nothing is left to be done.
    """
    found: list[float] = []
    begun = time.perf_counter()
    while len(found) < LEAST_BATCHES or (len(found) < MOST_BATCHES and time.perf_counter() - begun < PROCESSOR_SECONDS):
        synchronize()
        started = time.perf_counter()
        for _ in range(BATCH):
            call()
        found.append((time.perf_counter() - started) / BATCH * 1e6)
    synchronize()
    return statistics.median(found)
