"""
The nine subgraphs of the Cleave paper in prefill and decode, as a person writes them in PyTorch.

Shapes: arXiv 2610.07742, tables 3 and 4 and appendix C; types are f16, attention is not causal. For matmul in decode the paper prints W
as (4096, b); here it is (4096, 4096) as in prefill. In decode of mla the first axis is requests, the second the 128 query heads, which
share one latent cache.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

import cleave

from .baselines import Attention, compiled, latent_decoding
from .cases import Call, Case, Contender, Given, Program
from .programs import ROOT, wide
from .results import OURS, Row, geometric_mean

Phase: TypeAlias = Literal["prefill", "decode"]


def matmul(x: Tensor, w: Tensor) -> Tensor:
    """A linear layer."""
    return x @ w


def matmul_matmul(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention without a softmax."""
    return (q @ k.transpose(-1, -2)) @ v


def matmul_rowsum(x: Tensor, w: Tensor) -> Tensor:
    """The sum of every row of a product."""
    return (x @ w).sum(dim=-1)


def swiglu(x: Tensor, w1: Tensor, w2: Tensor) -> Tensor:
    """The gated half of a SwiGLU layer."""
    return F.silu(x @ w1) * (x @ w2)


def rmsnorm_matmul(x: Tensor, w: Tensor) -> Tensor:
    """A norm without gain, then a linear layer."""
    y = wide(x)
    return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) @ w


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention over heads; keys are (heads, d, length). Several query heads may share those of keys and values."""
    group = q.shape[0] // k.shape[0]
    if group > 1:
        k, v = k.repeat_interleave(group, dim=0), v.repeat_interleave(group, dim=0)
    return torch.softmax(q @ k / math.sqrt(q.shape[-1]), dim=-1) @ v


def latent_prefill(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention with wider queries and keys than values; keys are (heads, length, d)."""
    return torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), dim=-1) @ v


def latent_decode(q: Tensor, kv: Tensor, q_rotary: Tensor, k_rotary: Tensor) -> Tensor:
    """Attention over a latent cache that is keys and values, with a rotary part of the logits beside it."""
    logits = q @ kv.transpose(-1, -2) + q_rotary @ k_rotary.transpose(-1, -2)
    return torch.softmax(logits / math.sqrt(LATENT_DIMENSION), dim=-1) @ kv


HEADS = 32
"""Query heads of attention."""
LATENT_DIMENSION = 192


@dataclass(frozen=True)
class Subgraph:
    """
    A program with the dimensions of its arguments by name. `sizes` gives every name its size but the one that varies, which `varies`
    over `all` sizes, of which `quick` are some. `apart` names the dimension whose positions do not depend on each other. With `prepared`
    Cleave is also measured with what it makes of weights alone computed before.
    """

    name: str
    phase: Phase
    program: Program
    inputs: Mapping[str, str]
    sizes: Mapping[str, int]
    all: tuple[int, ...]
    quick: tuple[int, ...]
    varies: str = "rows"
    apart: str = "rows"
    deviations: Mapping[str, float] = field(default_factory=dict[str, float])
    weights: tuple[str, ...] = ()
    contenders: tuple[Contender, ...] = ()
    only_paper: bool = False
    prepared: bool = False

    def case(self, size: int, sizes: Mapping[str, int] | None = None, tuned: bool = False) -> Case:
        """The subgraph at a size; `sizes` replaces others, `tuned` adds torch.compile's max-autotune."""
        extents = {**self.sizes, **(sizes or {}), self.varies: size}
        dims = {name: tuple(text.split()) for name, text in self.inputs.items()}
        given = tuple(Given(tuple(extents[dim] for dim in dims[name]), self.deviations.get(name, 1.0)) for name in dims)
        pieces = tuple(place.index(self.apart) if self.apart in place else None for place in dims.values())
        weights = tuple(place for place, name in enumerate(self.inputs) if name in self.weights)
        return Case(
            f"{self.phase} {self.name} {size}",
            self.program,
            given,
            pieces=pieces,
            joined=pieces[0] or 0,
            weights=weights,
            contenders=(
                *((_prepared(self.program, weights),) if self.prepared else ()),
                compiled(self.program),
                *((compiled(self.program, True),) if tuned else ()),
                *self.contenders,
            ),
            facts={"phase": self.phase, "name": self.name, "size": size},
        )


PREPARED = "prepared"
"""Cleave with what depends on weights alone computed once, before the calls that are timed."""


def _prepared(program: Program, weights: Sequence[int]) -> Contender:
    """Cleave told which arguments are weights."""

    def make(inputs: Sequence[Tensor]) -> Call:
        ready = cleave.compile(program, *inputs, weights=weights)
        ready.prepare(*(inputs[place] for place in weights))
        return lambda: ready(*inputs)

    return Contender(PREPARED, make, existing=False)


def _batch_of_one(inputs: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = inputs
    return q[None], k.transpose(-1, -2)[None], v[None]


def _batch_of_one_latent(inputs: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = inputs
    return q[None], k[None], v[None]


def _one_latent_head(inputs: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Query heads as the rows of one head, as they share keys and values."""
    q, kv, q_rotary, k_rotary = inputs
    return torch.cat([q, q_rotary], -1)[:, None], torch.cat([kv, k_rotary], -1)[:, None], kv[:, None]


def _first(out: Tensor) -> Tensor:
    return out[0]


def _rows_of_one_head(out: Tensor) -> Tensor:
    return out[:, 0]


def _kernels(attention: Attention) -> tuple[Contender, ...]:
    return (*attention.sdpa(), attention.flashinfer())


def _heads(kv: int) -> tuple[Contender, ...]:
    return _kernels(Attention(_batch_of_one, _first, shared=kv != HEADS))


LATENT_SCALE = 1 / math.sqrt(LATENT_DIMENSION)
PREFILL_SIZES = (256, 512, 1024, 2048, 4096)
DECODE_SIZES = (16, 32, 64, 128)
_QK = {"q": "heads rows d", "k": "heads keys d", "v": "heads keys d"}
_KV = {"q": "heads rows d", "k": "kv d keys", "v": "kv keys d"}


def _both(phase: Phase, every: tuple[int, ...], quick: tuple[int, ...]) -> tuple[Subgraph, ...]:
    """The subgraphs that prefill and decode have with other numbers of rows."""

    def made(
        name: str, program: Program, inputs: Mapping[str, str], sizes: Mapping[str, int], weights: str = "", prepared: bool = False
    ) -> Subgraph:
        deviations = dict.fromkeys(weights.split(), ROOT) if sizes.get("k") == 4096 else {}
        names = tuple(weights.split())
        return Subgraph(name, phase, program, inputs, sizes, every, quick, deviations=deviations, weights=names, prepared=prepared)

    out = [
        made("matmul", matmul, {"x": "rows k", "w": "k n"}, {"k": 4096, "n": 4096}, "w"),
        made("matmul_matmul", matmul_matmul, _QK, {"heads": HEADS, "keys": 4096, "d": 64}),
        made("matmul_rowsum", matmul_rowsum, {"x": "rows k", "w": "k n"}, {"k": 64, "n": 4096}, "w"),
        made("swiglu", swiglu, {"x": "rows k", "w1": "k n", "w2": "k n"}, {"k": 4096, "n": 14336}, "w1 w2", True),
        made("rmsnorm_matmul", rmsnorm_matmul, {"x": "rows k", "w": "k n"}, {"k": 4096, "n": 6144}, "w"),
    ]
    for name, kv, d in (("mha", HEADS, 64), ("gqa", 8, 64), ("mqa", 1, 64), ("mha", HEADS, 128), ("gqa", 8, 128), ("mqa", 1, 128)):
        sizes = {"heads": HEADS, "kv": kv, "keys": 4096, "d": d}
        only_paper = d == 64 and name != "gqa"
        out.append(Subgraph(f"{name}_d{d}", phase, attention, _KV, sizes, every, quick, contenders=_heads(kv), only_paper=only_paper))
    return tuple(out)


SUBGRAPHS: tuple[Subgraph, ...] = (
    *_both("prefill", PREFILL_SIZES, (512, 4096)),
    Subgraph(
        "mla",
        "prefill",
        latent_prefill,
        {"q": "heads rows d", "k": "heads keys d", "v": "heads keys e"},
        {"heads": 128, "keys": 4096, "d": 192, "e": 128},
        PREFILL_SIZES,
        (512, 4096),
        contenders=_kernels(Attention(_batch_of_one_latent, _first)),
    ),
    *_both("decode", DECODE_SIZES, (16, 128)),
    Subgraph(
        "mla",
        "decode",
        latent_decode,
        {"q": "requests heads l", "kv": "requests keys l", "q_rotary": "requests heads r", "k_rotary": "requests keys r"},
        {"requests": 128, "heads": 128, "l": 512, "r": 64},
        (1024, 2048, 4096),
        (1024, 4096),
        varies="keys",
        apart="requests",
        contenders=(
            *Attention(_one_latent_head, _rows_of_one_head, scale=LATENT_SCALE).sdpa(),
            latent_decoding(LATENT_SCALE),
        ),
    ),
)


def cases(shapes: Literal["quick", "paper"], tuned: bool = False) -> list[Case]:
    """All, prefill before decode, smaller sizes first."""
    out: list[Case] = []
    for phase in ("prefill", "decode"):
        of_phase = [entry for entry in SUBGRAPHS if entry.phase == phase and (shapes == "paper" or not entry.only_paper)]
        pairs = [(entry, size) for entry in of_phase for size in (entry.all if shapes == "paper" else entry.quick)]
        out += [entry.case(size, tuned=tuned) for entry, size in sorted(pairs, key=_place)]
    return out


def _place(pair: tuple[Subgraph, int]) -> int:
    subgraph, size = pair
    return subgraph.all.index(size)


GOALS: Mapping[tuple[str, str], Mapping[int, float]] = {
    ("prefill", "matmul_matmul"): {512: 4.2, 4096: 18.0},
    ("prefill", "matmul_rowsum"): {512: 1.3, 4096: 3.2},
    ("prefill", "gqa_d64"): {512: 0.9, 4096: 0.9},
    ("prefill", "mha_d128"): {512: 0.8, 4096: 0.8},
    ("prefill", "gqa_d128"): {512: 0.8, 4096: 0.8},
    ("prefill", "mqa_d128"): {512: 0.8, 4096: 0.8},
    ("prefill", "mla"): {512: 0.8, 4096: 0.8},
    ("decode", "matmul"): {16: 1.15},
    ("decode", "matmul_rowsum"): {16: 1.15, 128: 1.15},
    ("decode", "swiglu"): {16: 1.1, 128: 1.1},
    ("decode", "rmsnorm_matmul"): {16: 1.14},
    ("decode", "gqa_d64"): {16: 1.55, 128: 1.38},
    ("decode", "mha_d128"): {16: 1.15, 128: 1.15},
    ("decode", "gqa_d128"): {16: 1.38, 128: 1.38},
    ("decode", "mqa_d128"): {16: 1.38, 128: 1.38},
    ("decode", "mla"): {1024: 1.03, 4096: 1.03},
}
"""The least ratio wanted; attention in prefill waits for a lowering of its own to Hopper."""
LEAST = 1.0
LEAST_LIBRARY = 0.98
"""The least of all others, and of what is one library call, which has nothing but its own noise to gain."""
MEAN = 1.25
"""The least geometric mean of the quick rows."""
MOST_REGRET: Mapping[str, float] = {"prefill": 0.03, "decode": 0.1}
"""How much longer the best of the model's first candidates may take than the best of all, as a part."""

MOST_NAMES = 8
"""How many rows that are missing are named."""


def goal(row: Row) -> float:
    """The ratio wanted of a row."""
    facts = row.facts
    wanted = GOALS.get((str(facts.get("phase")), str(facts.get("name"))), {}).get(int(facts.get("size", 0)), LEAST)
    library = row.compilation.get("kernels") == 0 and row.compilation.get("calls") == 1
    return LEAST_LIBRARY if library and wanted == LEAST else wanted


def counts(row: Row) -> float | None:
    """
    The ratio that is to reach the goal: of Cleave with weights prepared, where that was measured and is faster. What weights are made of
    once is no part of a call, so that a program may have them put together. There is none where a result of Cleave is wrong.
    """
    found = [ratio for own in (OURS, PREPARED) if row.right and (ratio := row.lower(own=own)) is not None]
    return max(found, default=None)


def most_regret(row: Row) -> float:
    """The regret that the cost model may have in a row."""
    return MOST_REGRET.get(str(row.facts.get("phase")), min(MOST_REGRET.values()))


def mean_line(rows: Sequence[Row]) -> str:
    """The geometric mean of the quick rows beside its goal, and which of them have no ratio or are not there."""
    names = [case.name for case in cases("quick")]
    found = {row.case: ratio for row in rows if (ratio := row.lower()) is not None}
    counted = [found[name] for name in names if name in found]
    mean = geometric_mean(counted)
    over = f"all {len(names)}" if len(counted) == len(names) else f"{len(counted)} of the {len(names)}"
    told = f"geometric mean over {over} quick rows: {'none' if mean is None else f'{mean:.3f}'} (goal {MEAN})"
    if mean is not None and mean < MEAN:
        told += " LOW"
    there = {row.case for row in rows}
    absent = [name for name in names if name not in there]
    wrong = [name for name in names if name in there and name not in found]
    for why, some in (("without a ratio", wrong), ("not measured", absent)):
        if some:
            told += f"; {why}: {', '.join(some) if len(some) <= MOST_NAMES else f'{len(some)}, first {some[0]}'}"
    return told
