"""
Attention with grouped heads compiled once for all numbers of requests, rows and keys, beside a compilation for each size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

import cleave

from ..api import Compiled
from .cases import Call, Case, Contender, Given
from .compiling import Compilation, compilation
from .programs import grouped_attention
from .results import GRAPH, OURS, Row

HEADS, KV_HEADS, DIMENSION = 32, 8, 128
STATIC = "static"
EXAMPLE = (2, 512, 1024)
HINTS = (
    {"b": 1, "m": 512, "n": 4096},
    {"b": 8, "m": 1, "n": 4096},
    {"b": 1, "m": 1, "n": 16},
    {"b": 1, "m": 128, "n": 1},
    {"b": 1, "m": 4, "n": 16},
    {"b": 2, "m": 16, "n": 4096},
    {"b": 4, "m": 12, "n": 1024},
    {"b": 1, "m": 100, "n": 4096},
    {"b": 1, "m": 128, "n": 128},
    {"b": 4, "m": 300, "n": 512},
)
"""
The size of the example, and the sizes to tune for: requests, rows, keys. Schedules for one row or one key, which is a constant in them,
take no other number, so there are some for few.
"""
SIZES: tuple[tuple[int, int, int], ...] = (
    (1, 1, 1), (1, 1, 17), (1, 1, 512), (1, 1, 1000), (1, 1, 4096), (2, 1, 333), (4, 1, 2048), (8, 1, 1), (8, 1, 4095), (8, 1, 4096),
    (1, 2, 3), (1, 7, 129), (1, 16, 4096), (3, 5, 700), (4, 16, 1024), (8, 13, 4001), (1, 64, 64), (1, 77, 77),
    (2, 64, 2048), (8, 64, 4096), (1, 128, 1), (1, 128, 128),
    (1, 100, 4096), (2, 127, 255), (4, 128, 4096), (1, 255, 1023), (1, 256, 256), (1, 333, 4096),
    (5, 300, 300), (1, 512, 512), (1, 512, 4096), (2, 513, 1025), (1, 1000, 1000), (1, 1024, 4096), (3, 1111, 2222), (1, 2048, 2048),
    (1, 4096, 4096), (2, 4095, 4097), (4, 2048, 4096), (8, 4096, 4096),
)  # fmt: skip
MOST_MEAN, MOST_EACH = 1.12, 1.4
"""The most time over that of the compilation for the size: the geometric mean, and of each."""


def _ours_static(inputs: Sequence[Tensor]) -> Call:
    ready = cleave.compile(grouped_attention, *inputs)
    return lambda: ready(*inputs)


def case(requests: int, rows: int, keys: int, heads: int = HEADS, kv: int = KV_HEADS, dimension: int = DIMENSION) -> Case:
    """One size."""
    cache = Given((requests, kv, keys, dimension))
    return Case(
        f"{requests}x{rows}x{keys}",
        grouped_attention,
        (Given((requests, heads, rows, dimension)), cache, cache),
        pieces=(0, 0, 0),
        contenders=(Contender(STATIC, _ours_static, existing=False),),
        facts={"size": rows, "requests": requests, "rows": rows, "keys": keys},
    )


def cases() -> list[Case]:
    """All sizes, small ones first."""
    return [case(*size) for size in SIZES]


@dataclass
class Dynamic:
    """Compiles once, when first asked. `example` is the case whose inputs it is compiled for; `options` are for `cleave.compile`."""

    example: Case
    device: str = "cuda"
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    _ready: tuple[Compiled, Compilation] | None = None

    def __call__(self, case: Case, inputs: Sequence[Tensor]) -> tuple[Compiled, Compilation]:
        """What runs every size. Raises: CleaveError."""
        if self._ready is None:
            ready = compile_dynamic(self.example.inputs(self.device), **self.options)
            report = ready.report()
            seconds = sum(report.seconds.values())
            self._ready = ready, compilation(ready, report, None if report.cached else seconds, None, report.remarks)
        return self._ready


def compile_dynamic(inputs: Sequence[Tensor], **options: Any) -> Compiled:
    """The program for all sizes. Raises: CleaveError."""
    requests, rows, keys = (torch.export.Dim(name, min=1) for name in ("b", "m", "n"))
    shapes = ({0: requests, 2: rows}, {0: requests, 2: keys}, {0: requests, 2: keys})
    return cleave.compile(grouped_attention, *inputs, dynamic_shapes=shapes, hints=HINTS, **options)


def over_static(row: Row, flush: str) -> float | None:
    """The time of the one compilation over that of the compilation for the size; None where one is missing."""
    own, static = row.time(OURS, GRAPH, flush), row.time(STATIC, GRAPH, flush)
    return own / static if own and static and row.right else None
