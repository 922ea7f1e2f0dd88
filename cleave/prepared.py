"""
What depends on weights alone, computed once and kept: the first part of a divided program at run time.

Results are kept for each set of weight tensors as long as all of these are alive, and are computed again, into the same memory, where a
tensor is at another address, has other strides, or was changed in place, as torch counts changes. What torch does not see, as writing
through an address or through `.data`, or any change of a tensor made in inference mode, needs `Prepared.prepare`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import RLock
from typing import Any, TypeAlias

import torch

from .frontend import Bindings
from .frontend.bindings import Source
from .runtime.execute import Executable, execute
from .variants import Variant

Weights: TypeAlias = Sequence[torch.Tensor]
Flat: TypeAlias = Sequence[Any] | Mapping[int, Any]
"""The arguments of a call by position; only the weights are looked at."""


@dataclass(frozen=True, slots=True)
class Preparation:
    """
    The first part of a divided program: its schedule, which of the graph's inputs it reads, and which of them the second part has, before
    the results of the first. `spelled` is what is computed, for people.
    """

    variant: Variant
    inputs: tuple[int, ...]
    kept: tuple[int, ...]
    spelled: str


@dataclass(slots=True)
class _Kept:
    """Results, with each weight that they were made from: a weak reference, its address, its strides and its number of changes."""

    weights: tuple[tuple[weakref.ref[torch.Tensor], int, tuple[int, ...], int], ...]
    results: tuple[torch.Tensor, ...]


class Prepared:
    """
    The results of the first part for weights it has seen. `count` is how often they were computed.

    Threads may use it at once; `prepare` waits until the GPU has computed them, so any stream may read them.
    """

    def __init__(self, preparation: Preparation, bindings: Bindings) -> None:
        self.preparation = preparation
        self.bindings = bindings
        self.count = 0
        self._executable = Executable(preparation.variant.program, preparation.variant.file, preparation.variant.binaries)
        self._entries = [bindings.inputs[place] for place in preparation.inputs]
        self.sources: tuple[Source, ...] = tuple(dict.fromkeys(entry.source for entry in self._entries))
        # The place of a weight among the arguments, or the tensor that the program has.
        self._picks = [
            (int(source.key), None) if source.kind == "argument" else (-1, bindings.tensor(source, ())) for source in self.sources
        ]
        self._kept: dict[tuple[int, ...], _Kept] = {}
        self._dropped: list[_Kept] = []
        self._lock = RLock()

    def __reduce__(self) -> tuple[type[Prepared], tuple[Preparation, Bindings]]:
        """A copy has other weights, and computes their results when it meets them."""
        return type(self), (self.preparation, self.bindings)

    def weights(self, flat: Flat) -> list[torch.Tensor]:
        """The weights that results are made from, in a call."""
        return [flat[place] if held is None else held for place, held in self._picks]

    def found(self, weights: Weights) -> tuple[torch.Tensor, ...] | None:
        """The results for these weights, None where they have not been computed or the weights have changed since."""
        kept = self._kept.get(tuple(map(id, weights)))
        if kept is None:
            return None
        for weight, (known, address, strides, changes) in zip(weights, kept.weights, strict=True):
            if known() is not weight or weight.data_ptr() != address or (changes >= 0 and weight._version != changes):
                return None
            if weight.stride() != strides:
                return None
        return kept.results

    def ready(self, flat: Flat) -> tuple[torch.Tensor, ...]:
        """The results for the weights of a call, computed where they are not known."""
        found = self.found(self.weights(flat))
        return self.prepare(flat) if found is None else found

    def prepare(self, flat: Flat) -> tuple[torch.Tensor, ...]:
        """Computes the results for the weights of a call, and keeps them. In a CUDA graph they become part of it, and are not kept."""
        with self._lock:
            weights = self.weights(flat)
            views = [entry.view(self.bindings.tensor(entry.source, flat), {}) for entry in self._entries]
            # Before the computation: a change meanwhile is one since.
            states = [(weight.data_ptr(), weight.stride(), _changes(weight)) for weight in weights]
            results = tuple(torch.as_tensor(result) for result in execute(self._executable, views, {}))
            self.count += 1
            device = results[0].device
            if device.type == "cuda":
                if torch.cuda.is_current_stream_capturing():
                    return results
                torch.cuda.synchronize(device)
            key = tuple(map(id, weights))
            old = self._kept.get(key)
            same = old is not None and all(known() is weight for (known, *_), weight in zip(old.weights, weights, strict=True))
            if old is not None and same and old.results[0].device == device:
                # The same memory, so that graphs which were captured with it follow.
                with torch.inference_mode():
                    for kept, result in zip(old.results, results, strict=True):
                        kept.copy_(result)
                results = old.results
                if device.type == "cuda":
                    torch.cuda.synchronize(device)
            # Results of weights that died may have been read on any stream until now.
            self._dropped.clear()
            forget = self._forgetting(key)
            checks = tuple((weakref.ref(weight, forget), *state) for weight, state in zip(weights, states, strict=True))
            self._kept[key] = _Kept(checks, results)
            return results

    def _forgetting(self, key: tuple[int, ...]) -> Callable[[weakref.ref[torch.Tensor]], None]:
        own = weakref.ref(self)

        def forget(dead: weakref.ref[torch.Tensor]) -> None:
            prepared = own()
            if prepared is not None:
                with prepared._lock:
                    kept = prepared._kept.get(key)
                    if kept is not None and any(known is dead for known, *_ in kept.weights):
                        prepared._dropped.append(prepared._kept.pop(key))

        return forget


def _changes(tensor: torch.Tensor) -> int:
    """How often a tensor was changed in place, as far as torch counts; inference tensors are not counted."""
    return -1 if tensor.is_inference() else tensor._version
