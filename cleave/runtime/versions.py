"""
What differs between the versions of Triton and torch that Cleave works with (Triton 3.6 to 3.9, torch 2.11 to 2.13), in one place.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, cast

_CACHE_POLICY_SINCE = (3, 9)
_TRIED = (2, 11), (2, 13)


@lru_cache(maxsize=1)
def triton_version() -> tuple[int, int]:
    """Major and minor version of the installed Triton, without importing it; the newest known where there is none."""
    try:
        major, minor, *_ = version("triton").split(".")
    except PackageNotFoundError:
        return _CACHE_POLICY_SINCE
    return int(major), int(minor)


def ttir_cache_policy(modifier: str, cache: int, hint: str, evict: int, installed: tuple[int, int] | None = None) -> str:
    """
    The properties of a TTIR load that say where it looks and give a cache hint, each by name (empty: none) and number: 3.9 has one
    policy where earlier versions have two numbers.
    """
    if (installed or triton_version()) >= _CACHE_POLICY_SINCE:
        policy = f"cache_modifier = {modifier or 'none'}, eviction_policy = {hint or 'evict_normal'}"
        return f"cachePolicy = #tt.cache_policy<{policy}>"
    return f"cache = {cache} : i32, evict = {evict} : i32"


def ttir_descriptor_types(text: str) -> str:
    """TTIR with the types of descriptors as the installed version spells them: without the word tensor since 3.7."""
    return text if triton_version() < (3, 7) else re.sub(r"!tt\.tensordesc<tensor<([^>]*)>>", r"!tt.tensordesc<\1>", text)


def gpu_target(name: str) -> Any:
    """Triton's description of an architecture: `sm_90` or `gfx942`. Raises: ValueError for another name."""
    from triton.backends.compiler import GPUTarget

    if name.startswith("sm_") and name[3:].isdigit():
        return GPUTarget("cuda", int(name[3:]), 32)
    if name.startswith("gfx"):
        return GPUTarget("hip", name, 64)
    raise ValueError(f"'{name}' is not an architecture; use sm_80, sm_90, sm_100 or gfx942")


@lru_cache(maxsize=1)
def raw_stream() -> Callable[[int], int]:
    """A function from the number of a device to the handle of its current CUDA stream, without the object torch makes for it."""
    import torch

    return cast(Any, torch)._C._cuda_getCurrentRawStream


def scratch_bytes(metadata: Any) -> int:
    """Bytes of global scratch memory that a compiled kernel asks for; kernels for AMD have none before 3.9."""
    return getattr(metadata, "global_scratch_size", 0)


def prepare_interpreter() -> None:
    """
    Repairs what Triton's interpreters do wrong: a boolean scalar becomes a tile of integers, which are no mask; a dot of f32 is summed
    in the order of one long chain, which has 1.6 times the error of PyTorch's products on a CPU, and is summed in float64 instead; and
    in 3.6 a scalar as a loop bound is an array of one element, which numpy 2.4 does not convert to an integer.
    """
    import numpy as np
    from triton.runtime import interpreter

    module: Any = interpreter
    splat = module.InterpreterBuilder.create_splat

    def splatted(builder: Any, tile: Any, scalar: Any) -> Any:
        made = splat(builder, tile, scalar)
        made.data = made.data.astype(scalar.data.dtype)
        return made

    dot = module.InterpreterBuilder.create_dot

    def dotted(builder: Any, a: Any, b: Any, start: Any, *options: Any) -> Any:
        if a.data.dtype != np.float32 or start.data.dtype != np.float32:
            return dot(builder, a, b, start, *options)
        product = np.matmul(a.data, b.data, dtype=np.float64) + start.data
        return module.TensorHandle(product.astype(np.float32), start.dtype.scalar)

    module.InterpreterBuilder.create_splat = splatted
    module.InterpreterBuilder.create_dot = dotted
    if triton_version() >= (3, 7):
        return
    patch = module._patch_lang_tensor

    def index(scalar: Any) -> int:
        return int(scalar.handle.data.squeeze())

    def patched(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", index)

    module._patch_lang_tensor = patched


@lru_cache(maxsize=1)
def current_device() -> Callable[[], int]:
    """A function that gives the number of this thread's current CUDA device."""
    import torch

    return cast(Any, torch)._C._cuda_getDevice


@lru_cache(maxsize=1)
def capturing() -> Callable[[], bool]:
    """A function that says whether the current CUDA stream is being captured in a graph."""
    import torch

    return cast(Any, torch)._C._cuda_isCurrentStreamCapturing


@dataclass(frozen=True, slots=True)
class Shortcuts:
    """
    What torch's own compiler uses to make calls cheap. `guards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None)` has a
    method `check(*tensors)`: whether others have the same Python types, sizes, strides, dtypes, devices, dispatch keys (which
    include the kinds of negated and conjugated views) and need of gradients, and are distinct objects. `empty(sizes, strides, dtype)` is
    `torch.empty_strided` on the current CUDA device.

    `launch(function, x, y, z, warps, shared, kinds, arguments, stream)` launches a kernel for a driver's handle and a grid; a letter
    of `kinds` for each argument says how an integer is passed: `O` an address, `l` a signed one of 64 bits. Where the driver refuses it
    raises RuntimeError. It does not let other Python threads run while it waits for room in the queue. If there is none: why.
    """

    guards: Any
    empty: Callable[[tuple[int, ...], tuple[int, ...], Any], Any]
    launch: Callable[..., object] | str = "it was not looked for"


@lru_cache(maxsize=1)
def shortcuts(installed: str | None = None) -> Shortcuts | str:
    """torch's shortcuts; where this version of torch was not tried or has none, the reason."""
    import torch

    text = installed or torch.__version__
    major, minor, *_ = text.split(".")
    if not _TRIED[0] <= (int(major), int(minor)) <= _TRIED[1]:
        return f"torch {text} was not tried, only {_TRIED[0][0]}.{_TRIED[0][1]} to {_TRIED[1][0]}.{_TRIED[1][1]}"
    found = cast(Any, torch)._C._dynamo.guards
    try:
        return Shortcuts(found.TensorGuards, found._empty_strided_cuda, tried(text, cast(Any, torch)._C))
    except AttributeError as problem:
        return f"torch {text}: {problem}"


def tried(text: str, library: Any) -> Callable[..., object] | str:
    """The launcher of a version of torch, after a launch without blocks, which does nothing but show that it takes these arguments."""
    launcher = getattr(library, "_StaticCudaLauncher", None)
    if launcher is None:
        return f"torch {text} has no _StaticCudaLauncher"
    try:
        launcher._launch_kernel(0, 0, 1, 1, 1, 0, "Ol", (0, -1), 0)
    except Exception as problem:
        return f"torch {text}: {type(problem).__name__}: {problem}"
    return launcher._launch_kernel


def quiet() -> None:
    """Chooses the default that Triton 3.9 warns about: products and sums may be fused, as in earlier versions."""
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
