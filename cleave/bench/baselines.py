"""The best existing implementations. Each gets its arguments in the layout it likes, made before it is timed."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from .cases import Call, Contender, Program

Split = Callable[[Sequence[Tensor]], tuple[Tensor, Tensor, Tensor]]
"""From a case's arguments to queries, keys and values of (batch, heads, rows, d)."""

WORKSPACE_BYTES = 128 << 20
FLEX = "flex"
"""PyTorch's attention with masks that are compiled."""


def eager(program: Program) -> Contender:
    """The program as it stands."""
    return Contender("eager", lambda inputs: lambda: program(*inputs))


def compiled(program: Program, tuned: bool = False) -> Contender:
    """The program under torch.compile, with its defaults or tuned for long."""

    def make(inputs: Sequence[Tensor]) -> Call:
        ready = torch_compiled(program, mode="max-autotune-no-cudagraphs" if tuned else None)
        return lambda: ready(*inputs)

    return Contender("max-autotune" if tuned else "compile", make)


def torch_compiled(function: Callable[..., Any], mode: str | None = None) -> Callable[..., Any]:
    """A function under torch.compile, for these sizes only."""
    return cast(Any, torch).compile(function, dynamic=False, mode=mode)


@dataclass(frozen=True)
class Attention:
    """
    How a case's arguments are queries, keys and values of (batch, heads, rows, d), and how results of that shape are the case's.

    `shared`: several query heads have the same keys and values. `scale` is that of the logits, 1 over the root of d where it is None.
    """

    split: Split
    join: Callable[[Tensor], Tensor]
    shared: bool = False
    causal: bool = False
    scale: float | None = None

    def sdpa(self) -> tuple[Contender, ...]:
        """PyTorch's kernels; where heads are shared twice: told so, and with a copy of keys and values for every query head."""
        out: list[Contender] = []
        for name, backend in (("flash", SDPBackend.FLASH_ATTENTION), ("cudnn", SDPBackend.CUDNN_ATTENTION)):
            out.append(Contender(name, lambda inputs, backend=backend: self._sdpa(inputs, backend, False)))
            if self.shared:
                out.append(Contender(f"{name} expanded", lambda inputs, backend=backend: self._sdpa(inputs, backend, True)))
        return tuple(out)

    def flashinfer(self) -> Contender:
        """FlashInfer's kernel for one request."""
        return Contender("flashinfer", self._flashinfer)

    def _sdpa(self, inputs: Sequence[Tensor], backend: SDPBackend, expanded: bool) -> Call:
        q, k, v = self.split(inputs)
        if expanded:
            k, v = (tensor.repeat_interleave(q.shape[1] // tensor.shape[1], dim=1) for tensor in (k, v))
        q, k, v = (tensor.contiguous() for tensor in (q, k, v))
        shared = q.shape[1] != k.shape[1]

        def call() -> Tensor:
            with sdpa_kernel(backend):
                out = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, scale=self.scale, enable_gqa=shared)
            return self.join(out)

        return call

    def _flashinfer(self, inputs: Sequence[Tensor]) -> Call:
        single = _package().single_prefill_with_kv_cache
        parts = self.split(inputs)
        if parts[0].shape[0] != 1:
            raise ValueError("the kernel takes one request")
        q, k, v = (tensor[0].transpose(0, 1).contiguous() for tensor in parts)
        return lambda: self.join(single(q, k, v, causal=self.causal, sm_scale=self.scale).transpose(0, 1)[None])


def latent_decoding(scale: float) -> Contender:
    """FlashInfer's decoding over a latent cache; arguments are queries, the cache, and the rotary parts of both."""

    def make(inputs: Sequence[Tensor]) -> Call:
        package = _package()
        q, kv, q_rotary, k_rotary = inputs
        requests, heads, latent = q.shape
        length, rotary = kv.shape[1], q_rotary.shape[2]
        device = q.device
        wrapper = package.mla.BatchMLAPagedAttentionWrapper(torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device=device))
        starts = torch.arange(requests + 1, dtype=torch.int32, device=device)
        pages = torch.arange(requests * length, dtype=torch.int32, device=device)
        lengths = torch.full((requests,), length, dtype=torch.int32, device=device)
        wrapper.plan(starts, starts * length, pages, lengths, heads, latent, rotary, 1, False, scale, q.dtype, kv.dtype)
        cache, keys = kv.reshape(-1, 1, latent), k_rotary.reshape(-1, 1, rotary)
        return lambda: wrapper.run(q, q_rotary, cache, keys)

    return Contender("flashinfer", make)


def _package() -> Any:
    try:
        return importlib.import_module("flashinfer")
    except ImportError as error:
        raise RuntimeError("the package is not installed") from error


def flex_attention(masked: Callable[[Sequence[Tensor]], Callable[[Tensor, Tensor], Tensor]]) -> Contender:
    """PyTorch's compiled attention with a mask; `masked` gives, from a case's arguments, which key index a row index sees."""

    def make(inputs: Sequence[Tensor]) -> Call:
        flex = cast(Any, importlib.import_module("torch.nn.attention.flex_attention"))
        q, k, v = inputs[:3]
        sees = masked(inputs)

        def mask(batch: Tensor, head: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return sees(i, j)

        blocks = flex.create_block_mask(mask, None, None, q.shape[2], k.shape[2], device=str(q.device))
        ready = torch_compiled(flex.flex_attention)
        return lambda: ready(q, k, v, block_mask=blocks)

    return Contender(FLEX, make)
