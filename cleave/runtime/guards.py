"""
Whether tensors are like those of an earlier call in everything that a launch depends on but their addresses.

torch's own guards say so in one call where they are known; else the properties are compared one by one, which takes longer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch

from cleave.runtime.versions import Shortcuts, shortcuts

Guard: TypeAlias = Callable[..., bool]
"""From as many objects as there were tensors: whether they are tensors like those."""

KINDS = (torch.Tensor, torch.nn.Parameter)
"""Types of tensors that guards are made for: what another subclass makes of its memory is not known."""


def guard(tensors: Sequence[torch.Tensor]) -> Guard:
    """What accepts tensors like these, of the same types of `KINDS`. Two places may get one object only where they do here."""
    assert all(type(tensor) in KINDS for tensor in tensors), "guards are for plain tensors"
    known = shortcuts()
    if not isinstance(known, Shortcuts):
        return compared(tensors)
    if len({id(tensor) for tensor in tensors}) == len(tensors):
        return known.guards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None).check
    # A guard refuses one object in two places.
    each = [known.guards(tensor, dynamic_dims_sizes=None, dynamic_dims_strides=None).check for tensor in tensors]

    def apart(*given: object) -> bool:
        return all(check(tensor) for check, tensor in zip(each, given, strict=True))

    return apart


def compared(tensors: Sequence[torch.Tensor]) -> Guard:
    """The same, by comparing in Python."""
    wanted = [_facts(tensor) for tensor in tensors]

    def alike(*given: object) -> bool:
        return all(isinstance(one, torch.Tensor) and _facts(one) == facts for one, facts in zip(given, wanted, strict=True))

    return alike


def _facts(tensor: torch.Tensor) -> tuple[object, ...]:
    if tensor.layout != torch.strided:
        return (tensor.layout,)
    return (
        type(tensor),
        tensor.shape,
        tensor.stride(),
        tensor.dtype,
        tensor.device,
        tensor.requires_grad,
        tensor.is_neg(),
        tensor.is_conj(),
    )
