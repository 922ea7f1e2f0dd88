"""The subgraphs: shapes of the paper, values of a formula in numpy, and through Cleave at small sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from cleave.bench.cases import Case, floor_seconds
from cleave.bench.results import Row
from cleave.bench.run import Measurement, empty_row
from cleave.bench.subgraphs import SUBGRAPHS, Subgraph, cases, goal

from .clocks import ToldClock

Array = NDArray[np.float64]

LAYERS = {"matmul": (4096, 4096, 1), "matmul_rowsum": (64, 4096, 1), "swiglu": (4096, 14336, 2), "rmsnorm_matmul": (4096, 6144, 1)}


def paper_shapes(phase: str, name: str, size: int) -> list[tuple[int, ...]]:
    """The input shapes of tables 3 and 4, said once more."""
    if name in LAYERS:
        k, n, weights = LAYERS[name]
        return [(size, k), *[(k, n)] * weights]
    if name == "matmul_matmul":
        return [(32, size, 64), (32, 4096, 64), (32, 4096, 64)]
    if name == "mla" and phase == "prefill":
        return [(128, size, 192), (128, 4096, 192), (128, 4096, 128)]
    if name == "mla":
        return [(128, 128, 512), (128, size, 512), (128, 128, 64), (128, size, 64)]
    kind, d = name.split("_d")
    kv = {"mha": 32, "gqa": 8, "mqa": 1}[kind]
    return [(32, size, int(d)), (kv, int(d), 4096), (kv, 4096, int(d))]


def test_shapes_are_those_of_the_paper() -> None:
    found = cases("paper")
    names = {case.facts["name"] for case in found}
    assert names == {*LAYERS, "matmul_matmul", "mla", *(f"{kind}_d{d}" for kind in ("mha", "gqa", "mqa") for d in (64, 128))}
    for case in found:
        phase, name, size = case.facts["phase"], case.facts["name"], case.facts["size"]
        assert [given.shape for given in case.given] == paper_shapes(phase, name, size), case.name
        assert case.dtype == torch.float16
    sizes = {(case.facts["phase"], case.facts["name"] == "mla", case.facts["size"]) for case in found}
    assert sizes == {
        *(("prefill", latent, size) for latent in (False, True) for size in (256, 512, 1024, 2048, 4096)),
        *(("decode", False, size) for size in (16, 32, 64, 128)),
        *(("decode", True, size) for size in (1024, 2048, 4096)),
    }
    assert len({case.name for case in found}) == len(found) == 5 * 12 + 4 * 11 + 3


def test_the_quick_shapes() -> None:
    rows = ("matmul", "matmul_matmul", "matmul_rowsum", "swiglu", "rmsnorm_matmul", "gqa_d64", "mha_d128", "gqa_d128", "mqa_d128")
    names = [case.name for case in cases("quick")]
    wanted = [f"prefill {name} {size}" for size in (512, 4096) for name in (*rows, "mla")]
    wanted += [f"decode {name} {size}" for size in (16, 128) for name in rows]
    assert sorted(names) == sorted([*wanted, "decode mla 1024", "decode mla 4096"])


@pytest.mark.parametrize(
    ("name", "flops", "read"),
    [
        ("prefill matmul 512", 2 * 512 * 4096 * 4096, 2 * (512 + 4096) * 4096),
        ("prefill swiglu 4096", 4 * 4096 * 4096 * 14336, 2 * (4096 * 4096 + 2 * 4096 * 14336)),
        ("decode gqa_d64 16", 4 * 32 * 16 * 4096 * 64, 2 * (32 * 16 * 64 + 2 * 8 * 4096 * 64)),
        ("prefill mla 4096", 2 * 128 * 4096 * 4096 * (192 + 128), 2 * 128 * 4096 * (192 + 192 + 128)),
        ("decode mla 1024", 2 * 128 * 128 * 1024 * (512 + 64 + 512), 2 * 128 * (128 + 1024) * 576),
    ],
)
def test_the_floor_is_that_of_the_program_as_written(name: str, flops: int, read: int) -> None:
    (case,) = (case for case in cases("quick") if case.name == name)
    assert floor_seconds(case) == pytest.approx(max(flops / 780e12, read / 4.3e12))


def silu(x: Array) -> Array:
    return x / (1 + np.exp(-x))


def softmax(x: Array) -> Array:
    y = np.exp(x - x.max(-1, keepdims=True))
    return y / y.sum(-1, keepdims=True)


def heads(q: Array, k: Array, v: Array) -> Array:
    group = len(q) // len(k)
    return np.stack([softmax(q[h] @ k[h // group] / np.sqrt(q.shape[-1])) @ v[h // group] for h in range(len(q))])


def latent(q: Array, kv: Array, qr: Array, kr: Array) -> Array:
    out = np.empty(q.shape)
    for request in range(len(q)):
        for head in range(q.shape[1]):
            logits = kv[request] @ q[request, head] + kr[request] @ qr[request, head]
            out[request, head] = softmax(logits / np.sqrt(192)) @ kv[request]
    return out


FORMULAS: Mapping[str, Callable[..., Array]] = {
    "matmul": lambda x, w: np.einsum("mk,kn->mn", x, w),
    "matmul_matmul": lambda q, k, v: np.einsum("hmd,hnd,hne->hme", q, k, v),
    "matmul_rowsum": lambda x, w: np.einsum("mk,kn->m", x, w),
    "swiglu": lambda x, w, w2: silu(x @ w) * (x @ w2),
    "rmsnorm_matmul": lambda x, w: (x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)) @ w,
    "prefill mla": lambda q, k, v: heads(q, k.transpose(0, 2, 1), v),
    "decode mla": latent,
}
SMALL = {"k": 48, "n": 40, "heads": 4, "keys": 33, "d": 16, "e": 8, "l": 24, "r": 8, "requests": 2}


def small(subgraph: Subgraph) -> Case:
    """The subgraph with a few of everything, and no contender."""
    sizes = {name: min(size, SMALL.get(name, size)) for name, size in subgraph.sizes.items()}
    if "kv" in sizes:
        sizes["kv"] = {32: 4, 8: 2, 1: 1}[sizes["kv"]]
    return replace(subgraph.case(33 if subgraph.varies == "keys" else 5, sizes), contenders=())


@pytest.mark.parametrize("subgraph", SUBGRAPHS, ids=lambda entry: f"{entry.phase} {entry.name}")
def test_values(subgraph: Subgraph) -> None:
    """The program in float64 is the formula, and Cleave's result is right beside it."""
    case = small(subgraph)
    inputs = case.inputs("cpu", seed=3)
    formula = FORMULAS.get(subgraph.name) or FORMULAS.get(f"{subgraph.phase} {subgraph.name}", heads)
    wanted = formula(*(tensor.double().numpy() for tensor in inputs))
    found = case.program(*(tensor.double() for tensor in inputs)).numpy()
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-10)
    row = Measurement(case, empty_row("subgraphs", case), ToldClock({"eager": 3.0}), "cpu").run()
    assert row.right and not row.failed
    assert row.errors["cleave"] < 1e-3
    assert row.lower() == pytest.approx(3.0)
    assert row.compilation["kernels"] >= 1


def test_what_is_wanted_of_rows() -> None:
    def row(name: str, **compilation: Any) -> Row:
        (case,) = (case for case in cases("paper") if case.name == name)
        return Row("subgraphs", case.name, "float16", dict(case.facts), "", "", compilation=compilation)

    assert goal(row("prefill matmul_matmul 4096")) == 18
    assert goal(row("decode gqa_d64 16")) == 1.55
    assert goal(row("prefill matmul 512", kernels=1, calls=0)) == 1.0
    assert goal(row("prefill matmul 512", kernels=0, calls=1)) == 0.98
    assert goal(row("decode mla 1024", kernels=0, calls=1)) == 1.03
    assert goal(row("decode mla 2048")) == 1.0
