"""
Attention with masks that are computed from positions: causal, a sliding window, documents.

Compared with PyTorch's compiled `flex_attention`, and with Cleave's own kernel without the mask: where a share of the tiles is fully
masked, a masked kernel should take the rest's share of the time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import cleave

from ..api import Compiled
from ..layouts import parse_layout
from ..schedule.program import Dot, For, Kernel
from .baselines import FLEX, Attention, flex_attention
from .cases import Call, Case, Contender, Given, Program
from .results import GRAPH, OURS, Row

HEADS, DIMENSION, WINDOW, DOCUMENTS = 16, 128, 1024, 8
SIZES = (4096, 16384)
TILE = (128, 128)
"""The tile, rows by keys, of whose share is told where the chosen kernel has none of its own."""
UNMASKED = "unmasked"
MOST = 1.15
"""The most time that a masked kernel should take, over that of the kernel without a mask times the share of live tiles."""
LEAST = 1.3
"""The least ratio wanted against FlexAttention."""

Sees = Callable[[Tensor, Tensor], Tensor]
"""From indices of rows and of keys, which broadcast, to whether the row sees the key."""


def causal_sees(i: Tensor, j: Tensor) -> Tensor:
    """Keys up to the row."""
    return j <= i


def window_sees(i: Tensor, j: Tensor) -> Tensor:
    """The last `WINDOW` keys up to the row."""
    return (j <= i) & (i - j < WINDOW)


def document_sees(ids: Tensor) -> Sees:
    """Keys of the same document."""
    return lambda i, j: ids[i] == ids[j]


def unmasked(q: Tensor, k: Tensor, v: Tensor, *_: Tensor) -> Tensor:
    """Attention over everything; q, k and v are (batch, heads, length, d)."""
    return torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), dim=-1) @ v


def _masked(q: Tensor, k: Tensor, v: Tensor, seen: Tensor) -> Tensor:
    logits = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    return torch.softmax(logits.masked_fill(~seen, float("-inf")), dim=-1) @ v


def _positions(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    return torch.arange(q.shape[-2], device=q.device)[:, None], torch.arange(k.shape[-2], device=q.device)[None, :]


def causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention in which row i sees keys up to i."""
    return _masked(q, k, v, causal_sees(*_positions(q, k)))


def sliding_window(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention in which row i sees the last keys up to i."""
    return _masked(q, k, v, window_sees(*_positions(q, k)))


def documents(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
    """Attention within documents; `ids` says which document each position is of."""
    return _masked(q, k, v, ids[:, None] == ids[None, :])


def document_ids(length: int) -> Callable[[torch.Generator], Tensor]:
    """Documents one after another, of random lengths that sum to the whole."""

    def whole(generator: torch.Generator) -> Tensor:
        cuts = torch.randperm(length - 1, generator=generator, device=generator.device)[: DOCUMENTS - 1].sort().values + 1
        return torch.bucketize(torch.arange(length, device=generator.device), cuts, right=True).to(torch.int32)

    return whole


def sees_of(name: str, inputs: Sequence[Tensor]) -> Sees:
    """What the mask of that name lets a row see, for these arguments."""
    return {"causal": causal_sees, "window": window_sees}.get(name) or document_sees(inputs[3])


def _ours_unmasked(inputs: Sequence[Tensor]) -> Call:
    q, k, v = inputs[:3]
    ready = cleave.compile(unmasked, q, k, v)
    return lambda: ready(q, k, v)


def _whole(inputs: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = inputs[:3]
    return q, k, v


def _same(out: Tensor) -> Tensor:
    return out


def case(name: str, length: int, heads: int = HEADS, dimension: int = DIMENSION) -> Case:
    """A mask, `causal`, `window` or `documents`, at a length."""
    programs: Mapping[str, Program] = {"causal": causal, "window": sliding_window, "documents": documents}
    tensor = Given((1, heads, length, dimension))
    ids = (Given((length,), whole=document_ids(length)),) if name == "documents" else ()
    own = Contender(UNMASKED, _ours_unmasked, existing=False, program=unmasked)
    sdpa = Attention(_whole, _same, causal=True).sdpa() if name == "causal" else ()
    return Case(
        f"{name} {length}",
        programs[name],
        (tensor, tensor, tensor, *ids),
        torch.bfloat16,
        pieces=(1, 1, 1, *(None for _ in ids)),
        joined=1,
        contenders=(own, flex_attention(lambda inputs: sees_of(name, inputs)), *sdpa),
        facts={"name": name, "size": length},
    )


def cases() -> list[Case]:
    """All masks at all lengths."""
    return [case(name, length) for length in SIZES for name in ("causal", "window", "documents")]


def live_share(seen: Tensor, tile: tuple[int, int]) -> float:
    """The share of tiles, rows by keys, that are not fully masked; those at the ends may be smaller."""
    return F.max_pool2d(seen[None, None].float(), tile, tile, ceil_mode=True).mean().item()


def tile_of(ready: Compiled) -> tuple[int, int] | None:
    """Rows and keys of a tile of the kernel that loops over keys, None where there is no such kernel."""
    rows = set(parse_layout(ready.graph.outputs[0].layout)[-2])
    for kernel in ready.program.kernels:
        steps = [loop.step for loop in _loops(kernel)]
        tiles = [dim.tile for dim in kernel.grid if rows & set(dim.dim.split("_"))]
        if steps and tiles:
            return tiles[0], steps[0]
    return None


def _loops(kernel: Kernel) -> list[For]:
    """The loops of a kernel that have a product of matrices right in them."""
    found: list[For] = []
    stack = list(kernel.body)
    while stack:
        statement = stack.pop()
        if isinstance(statement, For):
            stack += statement.body
            if any(isinstance(inner, Dot) for inner in statement.body):
                found.append(statement)
    return found


def note(case: Case, inputs: Sequence[Tensor], ready: Compiled) -> Mapping[str, Any]:
    """What is told of the mask once a kernel has been chosen: its tile, and the share of such tiles that is live."""
    found = tile_of(ready)
    tile = found or TILE
    seen = sees_of(str(case.facts["name"]), inputs)(*_positions(*inputs[:2]))
    return {"share": live_share(seen, tile), "tile": list(tile), "own tile": found is not None}


def over_flex(row: Row) -> float | None:
    """The lower ratio of FlexAttention's time over Cleave's."""
    return row.lower(other=FLEX)


def over_unmasked(row: Row, flush: str) -> float | None:
    """Cleave's time over that without a mask times the share of live tiles; None where one is missing."""
    own, plain, share = row.time(OURS, GRAPH, flush), row.time(UNMASKED, GRAPH, flush), row.facts.get("share")
    return own / (plain * float(share)) if own and plain and share and row.right else None
