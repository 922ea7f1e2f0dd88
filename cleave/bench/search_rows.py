"""
The search measured: programs, the form that should be found for each, and what it took.

A row's form is a property of the structure of a graph (`forms`), never of its text. Ranks count from 1, the best alternative.
Each row runs in a process of its own, so its peak of memory is its own and nothing is warm.
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import TypeVar

from ..graph import Graph
from ..search import SearchOptions, superoptimize
from . import search_programs as programs
from .forms import chunked, deferred, maxima, ops_of, over_all, phases

Given = TypeVar("Given")
Answer = TypeVar("Answer")

GROWTH = (1, 2, 4)
"""Layers of the blocks whose search times are compared."""
MOST_GROWTH = 2.5
MOST_MEGABYTES = 1024


@dataclass(frozen=True)
class Row:
    """A program, its wanted form, the worst rank that is good enough, and the most seconds the search should take."""

    name: str
    build: Callable[[], Graph]
    wanted: Callable[[Graph], bool]
    within: int
    seconds: float
    options: SearchOptions = field(default_factory=SearchOptions)


@dataclass(frozen=True)
class Found:
    """What the search of a row gave: sizes, seconds by stage, the rank of the wanted form (None if it is not there)."""

    name: str
    ops: int
    classes: int
    edges: int
    seconds: dict[str, float]
    alternatives: int
    rank: int | None
    within: int
    most_seconds: float
    megabytes: float
    caps: tuple[str, ...]

    @property
    def form_found(self) -> bool:
        """Whether the wanted form is among the alternatives as far up as it should be."""
        return self.rank is not None and self.rank <= self.within

    @property
    def in_time(self) -> bool:
        """Whether the whole search took no more processor time than it should; it is one thread, others may share the core."""
        return self.seconds["processor"] <= self.most_seconds

    def as_json(self) -> dict[str, object]:
        """Plain values."""
        return {**asdict(self), "form_found": self.form_found, "in_time": self.in_time}


def safe_and_late(graph: Graph) -> bool:
    """No maximum, and the division by the sum of exponentials behind the contraction with the values."""
    return not maxima(graph) and deferred(graph, "n")


def one_phase(graph: Graph) -> bool:
    """Normalisation behind the contraction, all sums independent of each other."""
    return deferred(graph, "k") and phases(graph) == 1


def absorbed(graph: Graph) -> bool:
    """Nothing is over heads, keys and the dimension of a head: keys and values are not made from the latent."""
    return not over_all(graph, "h n d") and not over_all(graph, "h n e") and safe_and_late(graph)


def split_keys(graph: Graph) -> bool:
    """Keys in chunks, in one pass, without a maximum."""
    return chunked(graph, "n") and safe_and_late_in_chunks(graph)


def safe_and_late_in_chunks(graph: Graph) -> bool:
    """As `safe_and_late`, where n comes in chunks."""
    inner = next(axis.name for axis in graph.axes if axis.chunk_of is not None)
    return not maxima(graph) and deferred(graph, inner)


def one_normaliser(graph: Graph) -> bool:
    """One exponential and one logarithm, no maximum."""
    return not maxima(graph) and len(ops_of(graph, "exp")) == len(ops_of(graph, "log")) == 1


def block_form(graph: Graph) -> bool:
    """All norms before projections and the division of attention behind their contractions, no maximum."""
    return not maxima(graph) and deferred(graph, "c n f")


ROWS = (
    Row("attention", lambda: programs.attention(False, False, False), safe_and_late, 3, 0.3),
    Row("attention, with maximum", lambda: programs.attention(True, False, False), safe_and_late, 3, 0.3),
    Row("attention, masked", lambda: programs.attention(True, True, False), safe_and_late, 3, 0.3),
    Row("attention, grouped heads", programs.attention, safe_and_late, 3, 0.3),
    Row("attention, split keys", programs.attention, split_keys, 10, 0.3),
    Row("RMSNorm, linear", programs.root_norm_linear, one_phase, 3, 0.3),
    Row("RMSNorm, SwiGLU", programs.root_norm_gated, lambda graph: one_phase(graph) and len(ops_of(graph, "silu")) == 1, 3, 0.3),
    Row("LayerNorm, linear, one pass", lambda: programs.layer_norm_linear(True), one_phase, 10, 1.0),
    Row("LayerNorm, linear, centred", lambda: programs.layer_norm_linear(False), one_phase, 10, 1.0),
    Row("LoRA, merged to paths", lambda: programs.low_rank(True), lambda graph: not over_all(graph, "k n"), 3, 0.3),
    Row("LoRA, paths to merged", lambda: programs.low_rank(False), lambda graph: len(ops_of(graph, "contract")) == 2, 3, 0.3),
    Row("MLA, decode, absorbed", lambda: programs.latent_attention(True), absorbed, 3, 0.3),
    Row("MLA, prefill, absorbed", lambda: programs.latent_attention(False), absorbed, 3, 0.3),
    Row("QK-norm attention", programs.normed_attention, lambda graph: safe_and_late(graph) and deferred(graph, "d"), 10, 0.3),
    Row("linear attention", programs.linear_attention, lambda graph: not over_all(graph, "m n"), 3, 0.3),
    Row("rowsum(x W)", programs.row_sum, lambda graph: not over_all(graph, "m n"), 3, 0.3),
    Row("linear, log-softmax", programs.log_probabilities, one_normaliser, 3, 0.3),
    Row("cross entropy", programs.cross_entropy, one_normaliser, 3, 0.3),
    Row("RoPE attention", programs.rotary_attention, safe_and_late, 10, 1.0),
    Row("nGPT residual", programs.residual_on_sphere, lambda graph: phases(graph) == 1, 10, 2.0),
    Row("projections, QK-norm, attention", programs.projected_attention, lambda g: block_form(g) and deferred(g, "d"), 10, 5.0),
    Row("transformer block", lambda: programs.transformer(1), block_form, 10, 5.0),
    Row("2 transformer blocks", lambda: programs.transformer(2), block_form, 10, 10.0),
    Row("4 transformer blocks", lambda: programs.transformer(4), block_form, 10, 20.0),
)


def measured(row: Row) -> Found:
    """The search of one row, in this process."""
    graph = row.build()
    assert not row.wanted(graph), f"{row.name}: the program as written has the form already"
    started, used = time.perf_counter(), time.process_time()
    result = superoptimize(graph, row.options)
    seconds = {name.removesuffix(" s"): value for name, value in result.stats.items() if name.endswith(" s")}
    seconds["total"] = time.perf_counter() - started
    seconds["processor"] = time.process_time() - used
    ranks = [rank for rank, entry in enumerate(result.alternatives) if rank and row.wanted(entry.graph)]
    return Found(
        row.name,
        len(graph.ops),
        int(result.stats.get("classes", 0)),
        int(result.stats.get("edges", 0)),
        seconds,
        len(result.alternatives) - 1,
        ranks[0] if ranks else None,
        row.within,
        row.seconds,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        result.caps,
    )


def measure(rows: Sequence[Row] = ROWS) -> Iterator[Found]:
    """Every row in turn, each in a process of its own."""
    for row in rows:
        yield _apart(_row, row.name)


def growth() -> dict[int, float]:
    """Seconds of processor time of the search of blocks of as many layers as `GROWTH` has, each in a process of its own."""
    return {count: _apart(_block, count) for count in GROWTH}


def _apart(function: Callable[[Given], Answer], argument: Given) -> Answer:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool:
        return pool.submit(function, argument).result()


def _row(name: str) -> Found:
    return measured(next(row for row in ROWS if row.name == name))


def _block(layers: int) -> float:
    graph = programs.transformer(layers)
    started = time.process_time()
    superoptimize(graph)
    return time.process_time() - started
