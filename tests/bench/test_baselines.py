"""The existing implementations are given what they should compute: with kernels that any machine has, they are right."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from cleave.bench import baselines, masks, programs, timing
from cleave.bench.cases import Case, Given
from cleave.bench.run import Measurement, empty_row
from cleave.bench.subgraphs import SUBGRAPHS

from .clocks import ToldClock

SMALL = {"keys": 33, "d": 16, "e": 8, "l": 24, "r": 8, "requests": 2, "heads": 4}


@pytest.fixture
def anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch's plain attention for its kernels, FlashInfer written in PyTorch, nothing compiled by torch.compile."""
    monkeypatch.setattr(baselines, "sdpa_kernel", lambda backend: sdpa_kernel(SDPBackend.MATH))
    monkeypatch.setattr(baselines, "torch_compiled", lambda function, mode=None: function)
    package: Any = ModuleType("flashinfer")
    package.single_prefill_with_kv_cache = single_prefill
    package.mla = SimpleNamespace(BatchMLAPagedAttentionWrapper=Latent)
    monkeypatch.setitem(sys.modules, "flashinfer", package)


def single_prefill(q: Tensor, k: Tensor, v: Tensor, causal: bool, sm_scale: float | None) -> Tensor:
    """(rows, heads, d) each, as FlashInfer's NHD layout has it."""
    assert q.is_contiguous() and k.is_contiguous() and v.is_contiguous()
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    logits = torch.einsum("mhd,nhd->hmn", q.double(), k.double()) * (sm_scale or q.shape[-1] ** -0.5)
    if causal:
        logits = logits.masked_fill(torch.ones(logits.shape[1:]).tril(logits.shape[2] - logits.shape[1]) == 0, float("-inf"))
    return torch.einsum("hmn,nhe->mhe", logits.softmax(-1), v.double()).to(q.dtype)


class Latent:
    """Pages of one token."""

    def __init__(self, workspace: Tensor) -> None: ...

    def plan(
        self, q_starts: Tensor, kv_starts: Tensor, pages: Tensor, lengths: Tensor, heads: int, latent: int, rotary: int, page: int,
        causal: bool, scale: float, *dtypes: torch.dtype,
    ) -> None:  # fmt: skip
        assert (page, causal) == (1, False) and q_starts.diff().eq(1).all()
        assert kv_starts.diff().equal(lengths) and pages.numel() == kv_starts[-1]
        self.starts, self.pages, self.scale = kv_starts.tolist(), pages, scale

    def run(self, q: Tensor, q_rotary: Tensor, cache: Tensor, keys: Tensor) -> Tensor:
        out = torch.empty_like(q)
        for request, (start, stop) in enumerate(zip(self.starts, self.starts[1:], strict=False)):
            pages = self.pages[start:stop]
            kv, k = cache[pages, 0].double(), keys[pages, 0].double()
            logits = q[request].double() @ kv.T + q_rotary[request].double() @ k.T
            out[request] = ((logits * self.scale).softmax(-1) @ kv).to(q.dtype)
        return out


def attention_cases() -> list[Case]:
    out: list[Case] = []
    for entry in SUBGRAPHS:
        if {"q"} <= set(entry.inputs) and entry.contenders:
            sizes = {name: SMALL.get(name, size) for name, size in entry.sizes.items()}
            if "kv" in sizes:
                sizes["kv"] = {32: 4, 8: 2, 1: 1}[sizes["kv"]]
            out.append(entry.case(33 if entry.varies == "keys" else 5, sizes))
    for case in programs.cases(torch.float16)[:5:4]:
        q, kv = Given((1, 4, 9, 16)), Given((1, 2, 9, 16))
        out.append(replace(case, given=(q, kv, kv)))
    out += [masks.case(name, 130, 2, 16) for name in ("causal", "window", "documents")]
    return out


@pytest.mark.usefixtures("anywhere")
@pytest.mark.parametrize("case", attention_cases(), ids=lambda case: case.name)
@pytest.mark.filterwarnings("ignore")
def test_every_contender_is_right(case: Case) -> None:
    row = Measurement(case, empty_row("test", case), ToldClock(), "cpu").run()
    assert not row.failed
    names = {contender.name for contender in case.contenders}
    assert names <= set(row.errors) and len(names) == len(case.contenders) >= 2
    assert all(error < 8e-3 for error in row.errors.values())
    shared = case.given[0].shape[-3] != case.given[1].shape[-3] and case.name.startswith(("prefill gqa", "prefill mqa", "attention"))
    assert ("flash expanded" in names) == shared or case.name.startswith("decode")


def test_a_package_that_is_not_there_is_a_reason() -> None:
    if "flashinfer" in sys.modules:
        pytest.skip("it is there")
    (case,) = (case for case in attention_cases() if case.name == "decode mha_d128 5")
    (flashinfer,) = (contender for contender in case.contenders if contender.name == "flashinfer")
    row = Measurement(replace(case, contenders=(flashinfer,)), empty_row("test", case), ToldClock(), "cpu").run()
    assert row.failed == {"flashinfer": "RuntimeError: the package is not installed"}


class Ticks:
    """A clock of events that ticks when asked to."""

    now = 0.0

    def __init__(self, enable_timing: bool) -> None:
        self.at = 0.0

    def record(self) -> None:
        self.at = Ticks.now

    def elapsed_time(self, other: Ticks) -> float:
        return other.at - self.at


def test_timing_is_interleaved_and_flushed_before_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    monkeypatch.setattr(torch.cuda, "Event", Ticks)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: order.append("|"))
    monkeypatch.setattr(timing, "FLUSH_BYTES", 64)
    monkeypatch.setattr(timing, "SECONDS", 0.0)
    zeros = torch.zeros
    monkeypatch.setattr(torch, "zeros", lambda *shape, dtype, device: zeros(*shape, dtype=dtype))
    monkeypatch.setattr(Tensor, "zero_", lambda self: order.append("write"))
    monkeypatch.setattr(torch, "sum", lambda tensor, dim, out: order.append("read"))

    def call(name: str, ticks: float) -> Callable[[], None]:
        def run() -> None:
            order.append(name)
            Ticks.now += ticks

        return run

    for flush, mark in (("writes", "write"), ("reads", "read")):
        order.clear()
        found = timing.interleaved({"a": call("a", 2.0), "b": call("b", 3.0)}, flush)
        assert found == {"a": 2.0, "b": 3.0}
        rounds = [part.strip() for part in " ".join(order).split("|")]
        a_first, b_first = f"{mark} a {mark} b", f"{mark} b {mark} a"
        # One round to warm up.
        assert rounds == [a_first, *([a_first, b_first] * timing.LEAST_ROUNDS)[: timing.LEAST_ROUNDS], ""]
