"""
Whether a result is right: against float64, beside eager execution in the same type.

The largest error may be twice that of eager execution plus one unit in the last place of the largest result; and the norm of the
error relative to that of the result may be what the tuner allows a kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..reference.dtypes import TOLERANCES
from .cases import Case, Program, work_of

PIECE_BYTES = 8 << 30
"""How large the largest float64 value may be: pieces are made so small."""

RELATIVE = {torch.float16: TOLERANCES["f16"], torch.bfloat16: TOLERANCES["bf16"], torch.float32: TOLERANCES["f32"]}


@dataclass(frozen=True)
class Error:
    """Norm of the error over that of the exact result, the largest error, and the largest exact magnitude."""

    relative: float
    largest: float
    scale: float


def exact(case: Case, inputs: Sequence[Tensor], program: Program | None = None, piece_bytes: int = PIECE_BYTES) -> Tensor:
    """The result in float64, all of it, computed in pieces where it is large. `program` is one other than the case's."""
    run = program or case.program
    pieces = -(-work_of(run, inputs).largest * 8 // piece_bytes)
    if pieces <= 1 or not case.pieces:
        return run(*map(_double, inputs))
    parts = [_cut(tensor, dim, pieces) for tensor, dim in zip(inputs, case.pieces, strict=False)]
    count = max(len(part) for part in parts)
    results = [run(*(_double(part[at if len(part) > 1 else 0]) for part in parts)) for at in range(count)]
    return torch.cat(results, dim=case.joined)


def _cut(tensor: Tensor, dim: int | None, pieces: int) -> Sequence[Tensor]:
    return (tensor,) if dim is None else tensor.chunk(pieces, dim)


def _double(tensor: Tensor) -> Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


def error_of(found: Tensor, right: Tensor) -> Error:
    """How far a result is off; not-a-number where any element is. Raises: ValueError for another shape."""
    if found.shape != right.shape:
        raise ValueError(f"the result has shape {tuple(found.shape)}, not {tuple(right.shape)}")
    if not right.numel():
        return Error(0.0, 0.0, 0.0)
    difference = (found.double() - right).abs()
    scale: float = right.abs().max().item()
    size: float = right.square().sum().sqrt().item()
    off: float = difference.square().sum().sqrt().item()
    largest: float = difference.max().item()
    return Error(off / size if size else off, largest, scale)


def problem(found: Error, eager: Error, dtype: torch.dtype) -> str:
    """What is wrong with a result of this error, where eager execution has that one; empty where it is right."""
    budget = 2 * eager.largest + torch.finfo(dtype).eps * eager.scale
    if not found.largest <= budget:
        return f"wrong: the largest error is {found.largest:.2e}, over the budget of {budget:.2e}"
    if not found.relative <= RELATIVE[dtype]:
        return f"wrong: the relative error is {found.relative:.2e}, over {RELATIVE[dtype]:.0e}"
    return ""
