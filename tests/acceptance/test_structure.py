"""
What the passes make of PyTorch source at known sizes, read off the `sched` IR: kernels, loops, what loops carry, dots.

The functions are written as a person writes them; nothing tells the compiler what they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from cleave.bridge.alg import graph_op
from cleave.dialects.sched import BufferType, DotOp, ForOp, KernelOp, LastOp, LoadOp, TileType
from cleave.frontend import capture
from cleave.parsing import verify
from cleave.passes.alg_bind import AlgBindPass
from cleave.passes.alg_select import AlgSelectPass
from cleave.passes.alg_stabilize import AlgStabilizePass
from cleave.passes.alg_superoptimize import AlgSuperoptimizePass
from cleave.passes.convert_alg_to_sched import ConvertAlgToSchedPass

Function = Callable[..., Tensor]
SIZES = (64, 512, 4096)
TYPES = (torch.float16, torch.bfloat16, torch.float32)


def lowered(function: Function, *arguments: Tensor, chunks: int = 0, machine: str = "h200") -> list[KernelOp]:
    """The kernels of a function for arguments of these sizes; with `chunks`, of the alternative that splits n into as many."""
    module = ModuleOp([graph_op(capture(function, arguments).graph)])
    ctx = Context()
    AlgSuperoptimizePass().apply(ctx, module)
    if chunks:
        AlgSelectPass(alternative="1 split n").apply(ctx, module)
        AlgBindPass(sizes=f"s={chunks}").apply(ctx, module)
    AlgStabilizePass().apply(ctx, module)
    ConvertAlgToSchedPass(target=machine).apply(ctx, module)
    verify(module)
    return [op for op in module.ops if isinstance(op, KernelOp)]


def loops(kernel: Operation) -> list[tuple[str, int, int]]:
    """Of every loop the dimension it walks, how many values it carries, and how many dots it has."""
    return [(op.dim.data, len(op.results), dots(op)) for op in kernel.walk() if isinstance(op, ForOp)]


def dots(op: Operation) -> int:
    return sum(isinstance(inner, DotOp) for inner in op.walk())


def buffers(kernel: KernelOp) -> list[BufferType]:
    return [argument.type for argument in kernel.body.block.args if isinstance(argument.type, BufferType)]


def plain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(q @ k.transpose(-1, -2) * 0.125, -1) @ v


def explicit(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    s = q @ k.transpose(-1, -2) * 0.125
    e = torch.exp(s - s.amax(-1, keepdim=True))
    return (e / e.sum(-1, keepdim=True)) @ v


def causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    live = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
    return torch.softmax((q @ k.transpose(-1, -2) * 0.125).masked_fill(~live, -math.inf), -1) @ v


def grouped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return plain(q, k.repeat_interleave(4, 1), v.repeat_interleave(4, 1))


def grouped_causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return causal(q, k.repeat_interleave(4, 1), v.repeat_interleave(4, 1))


FUNCTIONS = (plain, explicit, causal, grouped, grouped_causal)


def rows(function: Function, m: int, n: int, dtype: torch.dtype = torch.float16) -> tuple[Tensor, ...]:
    """32 heads of 64 elements; 8 of keys where the function repeats them."""
    heads = 8 if function in (grouped, grouped_causal) else 32
    return tuple(torch.empty(1, *shape, 64, dtype=dtype) for shape in ((32, m), (heads, n), (heads, n)))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_one_loop_over_keys(function: Function, size: int) -> None:
    """It carries the maximum, the sum and the accumulator."""
    (kernel,) = lowered(function, *rows(function, size, size))
    assert loops(kernel) == [("n", 3, 2)]
    assert dots(kernel) == 2


@pytest.mark.parametrize("size", SIZES[1:])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_split_is_partial_results_and_their_combination(function: Function, size: int) -> None:
    """In two kernels, or in one of which the last program to arrive combines."""
    partial, *more = lowered(function, *rows(function, size, size), chunks=4)
    ends = [op for op in partial.walk() if isinstance(op, LastOp)]
    assert len(ends) + len(more) == 1
    assert [loop for loop in loops(partial) if loop not in [each for end in ends for each in loops(end)]] == [("ni", 3, 2)]
    for combine in (*ends, *more):
        assert dots(combine) == 0
        read = [op.buffer.type for op in combine.walk() if isinstance(op, LoadOp) and isinstance(op.buffer.type, BufferType)]
        assert read and not any({"n", "ni"} & set(buffer.stride) for buffer in read)


@pytest.mark.parametrize("function", [grouped, plain])
def test_few_rows_split_by_themselves(function: Function) -> None:
    """One query against 65536 keys leaves most of the machine idle without."""
    partial, *_ = lowered(function, *rows(function, 1, 65536))
    assert loops(partial)[0][:2] == ("ni", 3)
    assert any(dim == "s" for dim, _, _ in partial.grid)


def product(x: Tensor, g: Tensor, w: Tensor) -> Tensor:
    return F.linear(F.rms_norm(x, (x.shape[-1],), g, 1e-6), w)


def gated(x: Tensor, g: Tensor, w: Tensor, u: Tensor) -> Tensor:
    y = F.rms_norm(x, (x.shape[-1],), g, 1e-6)
    return F.silu(F.linear(y, w)) * F.linear(y, u)


@pytest.mark.parametrize(
    ("machine", "dtype"), [*(("h200", dtype) for dtype in TYPES), ("a100", TYPES[0]), ("mi300x", TYPES[1]), ("b200", TYPES[2])]
)
@pytest.mark.parametrize("m", [16, 512])
@pytest.mark.parametrize("function", [product, gated])
def test_one_loop_for_the_norm_and_its_products(function: Function, m: int, dtype: torch.dtype, machine: str) -> None:
    """It carries the sum of squares and an accumulator for each matrix."""
    count = 2 if function is gated else 1
    matrices = [torch.empty(4096, 4096, dtype=dtype) for _ in range(count)]
    (kernel,) = lowered(function, torch.empty(m, 4096, dtype=dtype), torch.empty(4096, dtype=dtype), *matrices, machine=machine)
    ((_, carried, inner),) = loops(kernel)
    assert (carried, inner) == (1 + count, count)
    assert dots(kernel) == count


def by_hand(x: Tensor, g: Tensor, w: Tensor, u: Tensor) -> Tensor:
    y = F.rms_norm(x, (x.shape[-1],), g, 1e-6)
    a = y @ w
    return a * torch.sigmoid(a) * (y @ u)


def test_one_kernel_where_two_are_estimated_alike() -> None:
    """In f32, where the dots take most of the time."""
    x, g, w = torch.empty(512, 4096), torch.empty(4096), torch.empty(4096, 4096)
    (kernel,) = lowered(by_hand, x, g, w, torch.empty(4096, 4096))
    assert loops(kernel) == [("d", 3, 2)]


def linear(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.transpose(-1, -2)) @ v


def scaled_linear(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.transpose(-1, -2) * 0.125) @ v


def normalised_linear(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    p, r = F.elu(q) + 1, F.elu(k) + 1
    s = p @ r.transpose(-1, -2)
    return (s @ v) / s.sum(-1, keepdim=True)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("function", [linear, scaled_linear, normalised_linear])
def test_the_large_matrix_is_never_formed(function: Function, size: int) -> None:
    """Neither in memory nor, where that takes more work, as a tile."""
    kernels = lowered(function, *(torch.empty(1, 4, size, 64, dtype=torch.bfloat16) for _ in range(3)))
    for kernel in kernels:
        assert not any({"m", "n"} <= set(buffer.stride) for buffer in buffers(kernel))
        tiles = [result.type for op in kernel.walk() for result in op.results]
        assert size == 64 or not any({"m", "n"} <= set(tile.shape) for tile in tiles if isinstance(tile, TileType))
