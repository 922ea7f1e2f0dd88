"""
What is measured: a program in plain PyTorch operations at one size, and the contenders beside it.

A case says what tensors it takes and which of their dimensions it treats one by one, so that what is exact can be computed in pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

Program: TypeAlias = Callable[..., Tensor]
Call: TypeAlias = Callable[[], Tensor]

SECONDS_PER_FLOP = 1 / 780e12
SECONDS_PER_BYTE = 1 / 4.3e12
"""What one H200 reaches on large products of f16 and bf16 matrices, and on copies."""


@dataclass(frozen=True)
class Given:
    """An argument: normal numbers of a deviation, or the integers that `whole` makes."""

    shape: tuple[int, ...]
    deviation: float = 1.0
    whole: Callable[[torch.Generator], Tensor] | None = None

    def tensor(self, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
        """A fresh one, on the generator's device."""
        if self.whole is not None:
            return self.whole(generator)
        return (torch.randn(self.shape, generator=generator, device=generator.device) * self.deviation).to(dtype)

    def empty(self, dtype: torch.dtype, device: str) -> Tensor:
        """One of this shape without contents."""
        return torch.empty(self.shape, dtype=torch.int32 if self.whole is not None else dtype, device=device)


@dataclass(frozen=True)
class Contender:
    """
    A way to compute what a case computes, or, where it has a `program` of its own, something to measure beside it.

    `make` prepares whatever need not be done for every call, and may raise what it likes: a contender that cannot be made is
    shown as missing. `existing` says that it counts where the best existing time is asked for.
    """

    name: str
    make: Callable[[Sequence[Tensor]], Call]
    existing: bool = True
    program: Program | None = None


@dataclass(frozen=True)
class Case:
    """
    One program at one size.

    `pieces` gives the dimension of each argument, None for none, that can be cut into pieces whose results lie one after another
    along dimension `joined` of the whole result. `weights` are the arguments that stay the same between calls. `facts` are what
    tables and filters need beside: plain values.
    """

    name: str
    program: Program
    given: tuple[Given, ...]
    dtype: torch.dtype = torch.float16
    pieces: tuple[int | None, ...] = ()
    joined: int = 0
    weights: tuple[int, ...] = ()
    contenders: tuple[Contender, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def inputs(self, device: str, seed: int = 0) -> tuple[Tensor, ...]:
        """Fresh arguments."""
        generator = torch.Generator(device=device).manual_seed(seed)
        return tuple(given.tensor(generator, self.dtype) for given in self.given)

    def empty(self, device: str = "meta") -> tuple[Tensor, ...]:
        """Arguments without contents."""
        return tuple(given.empty(self.dtype, device) for given in self.given)

    @property
    def type_name(self) -> str:
        """The type of the floats."""
        return str(self.dtype).removeprefix("torch.")


@dataclass(frozen=True)
class Work:
    """What a program does as written: floating-point operations of its products, and the elements of its largest value."""

    flops: int
    largest: int


class _Largest(TorchDispatchMode):
    elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.elements = max([self.elements, *(leaf.numel() for leaf in tree_leaves(out) if isinstance(leaf, Tensor))])
        return out


def work_of(program: Program, inputs: Sequence[Tensor]) -> Work:
    """The work of a program, found without doing it."""
    largest = _Largest()
    counter = FlopCounterMode(display=False)
    with counter, largest:
        program(*(tensor.to("meta") for tensor in inputs))
    return Work(counter.get_total_flops(), largest.elements)


def floor_seconds(case: Case) -> float:
    """
    The least time that the program as written can take on an H200: that of its products, or of reading its arguments once.

    A program that is equal and does less may be faster.
    """
    inputs = case.empty()
    read = sum(tensor.numel() * tensor.element_size() for tensor in inputs)
    return max(work_of(case.program, inputs).flops * SECONDS_PER_FLOP, read * SECONDS_PER_BYTE)
