"""
A fair clock for GPU programs.

All contenders run one after another, round after round, each after the L2 cache was flushed, and the median of each is reported:
what changes the clock of a card changes all alike. Every round starts with another contender. Rounds end when the medians of all that
matter are known to `SETTLED`, or after `SECONDS`; an existing contender that takes `BEHIND` times as long as the best one, and so
decides nothing, has no more than the least rounds.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from ..runtime.race import spread

FLUSH_BYTES = 256 << 20
FLUSHES = ("writes", "reads")
"""Flushed by writes the cache is left full of dirty lines, by reads of clean ones."""
SECONDS = 0.6
LEAST_ROUNDS, MOST_ROUNDS = 9, 60
SETTLED = 0.002
"""How far off a median may be, as a part of it."""
BEHIND = 1.5
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


def interleaved(calls: Mapping[str, Callable[[], object]], flush: str, existing: Collection[str] = ()) -> dict[str, float]:
    """Median milliseconds of each call; of those of `existing` only the ones near the fastest of them are run beyond the least rounds."""
    scratch = torch.zeros(FLUSH_BYTES // 4, dtype=torch.float32, device="cuda")
    sink = torch.zeros((), dtype=torch.float32, device="cuda")

    def flushed() -> None:
        if flush == "writes":
            scratch.zero_()
        else:
            torch.sum(scratch, dim=0, out=sink)

    left = list(calls)
    spans(calls, left, flushed)
    started = time.perf_counter()
    found: dict[str, list[float]] = {name: [] for name in calls}
    for rounds in range(MOST_ROUNDS):
        if rounds >= LEAST_ROUNDS:
            left = deciding(found, left, existing)
            if time.perf_counter() - started > SECONDS or settled(found, left):
                break
        first = rounds % max(1, len(left))
        for name, value in spans(calls, [*left[first:], *left[:first]], flushed).items():
            found[name].append(value)
    return {name: statistics.median(values) for name, values in found.items()}


def deciding(found: Mapping[str, Sequence[float]], names: Sequence[str], existing: Collection[str]) -> list[str]:
    """Those of the names that are not existing, or whose median is at most `BEHIND` times the least of the existing."""
    medians = {name: statistics.median(found[name]) for name in names}
    best = min((medians[name] for name in names if name in existing), default=0.0)
    return [name for name in names if name not in existing or medians[name] <= BEHIND * best]


def settled(found: Mapping[str, Sequence[float]], names: Sequence[str]) -> bool:
    """Whether the median of each is known to `SETTLED`."""
    return all(spread(found[name]) <= SETTLED * statistics.median(found[name]) for name in names)


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

    Calls come in batches too short to fill the queue of launches, and batches start when nothing is left to be done. Each call is timed
    by itself: the first after a wait takes many times as long as others, whatever it does.
    """
    found: list[float] = []
    batches = 0
    begun = time.perf_counter()
    while batches < LEAST_BATCHES or (batches < MOST_BATCHES and time.perf_counter() - begun < PROCESSOR_SECONDS):
        synchronize()
        for _ in range(BATCH):
            started = time.perf_counter()
            call()
            found.append((time.perf_counter() - started) * 1e6)
        batches += 1
    synchronize()
    return statistics.median(found)
