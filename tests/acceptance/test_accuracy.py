"""
The main programs, tile by tile in their own dtypes, against float64: at sizes that fit no tile, large arguments, dead rows.

The bound is that of the float gate: twice the error of the unfused PyTorch program in the same dtype, plus one unit in the
last place of the largest result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from cleave.graph import Graph
from cleave.reference.dtypes import Array, rounded
from cleave.schedule import ScheduleOptions
from cleave.schedule.program import Last, Program

from .pipeline import alternatives, exact, run_tiles, scheduled
from .programs import average, norm

TYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}
UNIT = {"f16": 2.0**-10, "bf16": 2.0**-7, "f32": 2.0**-23}
FEW_PLANS = ScheduleOptions(plans=6)


def drawn(graph: Graph, sizes: dict[str, int], dtype: str, seed: int, scale: float = 1.0) -> list[Array]:
    """Normal inputs that the dtype holds exactly; the first is multiplied by `scale`."""
    rng = np.random.default_rng(seed)
    extents = graph.sizes(sizes)
    values = [rng.normal(size=[extents[axis] for axis in entry.axes]) for entry in graph.inputs]
    values[0] = values[0] * scale
    return [rounded(value, dtype) for value in values]


def eager(function: Callable[..., Any], inputs: Sequence[Array], dtype: str) -> Array:
    """A PyTorch function in a dtype, its result in float64."""
    tensors = [torch.tensor(value, dtype=torch.float64).to(TYPES[dtype]) for value in inputs]
    return function(*tensors).to(torch.float64).numpy()


def check(found: Array, unfused: Array, wanted: Array, dtype: str) -> None:
    """The bound above, over the elements that the unfused program has finite values for; all of them must be finite."""
    assert np.isfinite(found).all()
    sound = np.isfinite(unfused)
    ours, theirs = np.abs(found - wanted)[sound].max(initial=0), np.abs(unfused - wanted)[sound].max(initial=0)
    assert ours <= 2 * theirs + UNIT[dtype] * np.abs(wanted).max(), (ours, theirs)


def plain_average(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False) -> torch.Tensor:
    scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if causal:
        live = torch.arange(k.shape[-2])[None, :] <= torch.arange(q.shape[-2])[:, None]
        scores = scores.masked_fill(~live, float("-inf"))
    return torch.softmax(scores, -1) @ v


@cache
def averaging(dtype: str, d: int, causal: bool) -> tuple[Graph, Program]:
    """Compiled once for all m and n."""
    graph = average(dtype, d, d, causal=causal)
    return graph, scheduled(alternatives(graph), {"m": 64, "n": 512}, ("m", "n"), FEW_PLANS)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("d", [64, 80, 96, 128, 256])
def test_head_dimensions(dtype: str, d: int) -> None:
    graph, program = averaging(dtype, d, False)
    for m, n in ((1, 17), (5, 300)):
        inputs = drawn(graph, {"m": m, "n": n}, dtype, d + n)
        found = run_tiles(program, graph, inputs, {"m": m, "n": n}, rounding=True)[0]
        check(found, eager(plain_average, inputs, dtype), exact(graph, inputs, {"m": m, "n": n})[0], dtype)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", TYPES)
def test_ragged_sizes(dtype: str, causal: bool) -> None:
    """No tile divides these, and one query is the common case."""
    graph, program = averaging(dtype, 64, causal)
    for n in (1, 3, 17, 300, 1023):
        for m in (1, 33):
            inputs = drawn(graph, {"m": m, "n": n}, dtype, n + m)
            found = run_tiles(program, graph, inputs, {"m": m, "n": n}, rounding=True)[0]
            unfused = eager(lambda q, k, v: plain_average(q, k, v, causal), inputs, dtype)
            check(found, unfused, exact(graph, inputs, {"m": m, "n": n})[0], dtype)


@pytest.mark.parametrize("dtype", TYPES)
def test_large_arguments(dtype: str) -> None:
    """q k of about 1e4 on either side."""
    graph, program = averaging(dtype, 64, True)
    sizes = {"m": 33, "n": 300}
    inputs = drawn(graph, sizes, dtype, 3, scale=1e4)
    found = run_tiles(program, graph, inputs, sizes, rounding=True)[0]
    wanted = exact(graph, inputs, sizes)[0]
    check(found, eager(lambda q, k, v: plain_average(q, k, v, True), inputs, dtype), wanted, dtype)


def test_static_and_split_schedules_agree() -> None:
    """Few rows over many columns, sizes known: chunks, the last one short, aligned by a second kernel or the last program to arrive."""
    graph = average("f16", 64, 64, heads="g = 2, r = 4", log_sum=True)
    sizes = {"m": 1, "n": 8195}
    program = scheduled(alternatives(graph), sizes, (), FEW_PLANS)
    ends = [statement for kernel in program.kernels for statement in kernel.body if isinstance(statement, Last)]
    assert len(program.kernels) + len(ends) == 2
    for scale in (1.0, 1e4):
        inputs = drawn(graph, sizes, "f16", 11, scale)
        wanted = exact(graph, inputs, sizes)
        for found, value in zip(run_tiles(program, graph, inputs, sizes), wanted, strict=True):
            np.testing.assert_allclose(found, value, rtol=1e-9, atol=1e-9)


DEAD = """
alg.graph @dead axes [h = 2, m = ?(hint 64), n = ?(hint 512), d = 64, e = 64]
    (%q: !alg.tensor<[h, m, d], f16>, %k: !alg.tensor<[h, n, d], f16>, %v: !alg.tensor<[h, n, e], f16>, %live: !alg.tensor<[m, n], i1>)
    -> (!alg.tensor<[h, m, e], f16>, !alg.tensor<[h, m], f32>) {
  %s = alg.contract %q, %k over [d] : !alg.tensor<[h, m, n], f32>
  %hidden = alg.constant FILL : f32
  %x = alg.select %live, %s, %hidden : !alg.tensor<[h, m, n], f32>
  %p = alg.exp %x : !alg.tensor<[h, m, n], f32>
  %z = alg.reduce sum %p over [n] : !alg.tensor<[h, m], f32>
  %u = alg.div %p, %z : !alg.tensor<[h, m, n], f32>
  %w = alg.cast %u : !alg.tensor<[h, m, n], f16>
  %o = alg.contract %w, %v over [n] : !alg.tensor<[h, m, e], f32>
  %r = alg.cast %o : !alg.tensor<[h, m, e], f16>
  %l = alg.log %z : !alg.tensor<[h, m], f32>
  alg.yield %r, %l
}
"""


@pytest.mark.parametrize("fill", ["-inf", "-1.0e+09", "-3.4028234663852886e+38"])
def test_rows_without_a_live_column(fill: str) -> None:
    """Masked by -inf: 0, and the logarithm -inf. A finite fill keeps what it means: the plain average."""
    from tests.alg_programs import graph_from

    graph = graph_from(DEAD.replace("FILL", fill))
    program = scheduled(alternatives(graph), {"m": 64, "n": 512}, ("m", "n"), FEW_PLANS)
    sizes = {"m": 17, "n": 300}
    rng = np.random.default_rng(8)
    q, k, v = (rounded(rng.normal(size=shape), "f16") for shape in ((2, 17, 64), (2, 300, 64), (2, 300, 64)))
    live = rng.random((17, 300)) < 0.5
    live[[0, 5, 16]] = False
    live[3, 1:] = False
    average_, logarithm = run_tiles(program, graph, [q, k, v, live], sizes, rounding=True)
    dead = ~live.any(1)
    if fill == "-inf":
        assert (average_[:, dead] == 0).all() and (logarithm[:, dead] == -np.inf).all()
    else:
        np.testing.assert_allclose(average_[:, dead], np.broadcast_to(v.mean(1)[:, None], average_[:, dead].shape), atol=1e-3)
    wanted = exact(graph, [q, k, v, live], sizes)[0]
    np.testing.assert_allclose(average_[:, ~dead], wanted[:, ~dead], atol=4e-3)


def plain_norm(x: torch.Tensor, g: torch.Tensor, w: torch.Tensor, *more: torch.Tensor) -> torch.Tensor:
    f = x.float()
    y = (f * torch.rsqrt(f.pow(2).mean(-1, keepdim=True) + 1e-6) * g).to(x.dtype)
    return torch.nn.functional.silu(y @ w) * (y @ more[0]) if more else y @ w


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("dtype", TYPES)
def test_norms_with_products(dtype: str, gated: bool) -> None:
    """k and n of no tile's size."""
    graph = norm(dtype, 300, 80, gated=gated)
    program = scheduled(alternatives(graph), {"m": 64}, ("m",), FEW_PLANS)
    for m in (1, 3, 65):
        inputs = drawn(graph, {"m": m}, dtype, m)
        found = run_tiles(program, graph, inputs, {"m": m}, rounding=True)[0]
        check(found, eager(plain_norm, inputs, dtype), exact(graph, inputs, {"m": m})[0], dtype)
