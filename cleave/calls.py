"""
The short way from a call's arguments to a launch.

An `Entry` is made for the arguments of one call. A later call whose tensors have the same sizes, strides, type and device takes it: it
looks at nothing else, makes no views, and passes addresses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .frontend import Bindings
from .runtime.cuda import CudaBound
from .runtime.versions import current_device

ALIGNMENT = 16


class Entry:
    """A bound program with the arguments it takes."""

    def __init__(self, bindings: Bindings, bound: CudaBound, flat: Sequence[Any], views: Sequence[torch.Tensor]) -> None:
        self.bindings = bindings
        self.bound = bound
        self._device = bound.index
        self._current_device = current_device()
        self._count = len(flat)
        self._tensors = [
            (place, value.shape, value.stride(), value.dtype, value.device)
            for place, value in enumerate(flat)
            if isinstance(value, torch.Tensor)
        ]
        self._others: list[tuple[int, Any, Any]] = [
            (place, type(value), value) for place, value in enumerate(flat) if not isinstance(value, torch.Tensor)
        ]
        self._sources: list[tuple[int, torch.Tensor | None, int, bool]] = []
        for entry, view, place in zip(bindings.inputs, views, bound.places, strict=False):
            tensor = bindings.tensor(entry.source, flat)
            position = int(entry.source.key) if entry.source.kind == "argument" else -1
            offset = view.data_ptr() - tensor.data_ptr()
            self._sources.append((position, None if position >= 0 else tensor, offset, place.buffer.aligned))
        self._single = len(bindings.outputs) == 1 and bindings.outputs[0].kind == "graph" and bindings.out_spec.is_leaf()

    @property
    def whole(self) -> bool:
        """Whether every input begins where the argument does that it is made of."""
        return not any(offset for _, _, offset, _ in self._sources)

    def __call__(self, args: tuple[Any, ...]) -> Any:
        """The result for arguments that are the flat ones, `NotImplemented` where they are not as they were."""
        if len(args) != self._count:
            return NotImplemented
        for place, shape, stride, dtype, device in self._tensors:
            value = args[place]
            if not isinstance(value, torch.Tensor):
                return NotImplemented
            if (
                value.shape != shape
                or value.stride() != stride
                or value.dtype is not dtype
                or value.device != device
                or value.requires_grad
                or value.is_neg()
            ):
                return NotImplemented
        for place, kind, known in self._others:
            if type(args[place]) is not kind or args[place] != known:
                return NotImplemented
        addresses: list[int] = []
        inputs: list[torch.Tensor] = []
        for position, state, offset, aligned in self._sources:
            tensor = args[position] if state is None else state
            address = tensor.data_ptr() + offset
            if aligned and address % ALIGNMENT:
                return NotImplemented
            addresses.append(address)
            inputs.append(tensor)
        if self._current_device() == self._device:
            made = self.bound.run_at(addresses, inputs)
        else:
            with torch.cuda.device(self._device):
                made = self.bound.run_at(addresses, inputs)
        return made[0] if self._single else self.bindings.results(args, made)


def entry_of(bindings: Bindings, bound: object, args: Sequence[Any], flat: Sequence[Any], views: Sequence[torch.Tensor]) -> Entry | None:
    """
    The short way for calls like this one, None where there is none: nested arguments, inputs that are copied or negated when read,
    library calls that are no products of matrices or read parts of an argument.
    """
    if not isinstance(bound, CudaBound) or not bound.direct or not all(bound.fits):
        return None
    if len(args) != len(flat) or any(given is not value for given, value in zip(args, flat, strict=True)):
        return None
    if any(bindings.tensor(entry.source, flat).is_neg() for entry in bindings.inputs):
        return None
    entry = Entry(bindings, bound, flat, views)
    return entry if bound.kernels_only or entry.whole else None
