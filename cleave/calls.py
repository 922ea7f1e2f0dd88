"""
The short way from a call's arguments to a launch.

An `Entry` is made for the arguments of one call. A later call whose tensors have the same sizes, strides, type and device takes it: it
looks at nothing else, makes no views, and passes addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import add, itemgetter
from typing import Any

import torch

from .frontend import Bindings
from .frontend.bindings import Source
from .prepared import Prepared
from .runtime.cuda import CudaBound
from .runtime.guards import KINDS, guard
from .runtime.versions import current_device


@dataclass(frozen=True, slots=True)
class Entry:
    """
    A bound program with the arguments it takes.

    `call` is from the arguments of a call to its result, `NotImplemented` where they are not as they were.
    """

    call: Callable[[tuple[Any, ...]], Any]


def entry_of(
    bindings: Bindings,
    bound: object,
    args: Sequence[Any],
    flat: Sequence[Any],
    views: Sequence[torch.Tensor],
    prepared: Prepared | None = None,
) -> Entry | None:
    """
    The short way for calls like this one, None where there is none: nested arguments, inputs that are copied or negated when read,
    tensors that require gradients or are of a subclass, library calls that are no products of matrices or read parts of an argument.
    """
    if not isinstance(bound, CudaBound) or not bound.direct or not all(bound.fits):
        return None
    if len(args) != len(flat) or any(given is not value for given, value in zip(args, flat, strict=True)):
        return None
    if any(isinstance(value, torch.Tensor) and value.requires_grad for value in flat):
        return None
    # Arguments first, then the tensors that belong to the program, each once.
    places = [place for place, value in enumerate(flat) if isinstance(value, torch.Tensor)]
    where = {Source("argument", place): at for at, place in enumerate(places)}
    owned: list[torch.Tensor] = []
    sources: list[tuple[int, int]] = []
    own = len(bindings.inputs)
    for entry, view in zip(bindings.inputs, views[:own], strict=True):
        tensor = bindings.tensor(entry.source, flat)
        if entry.source not in where:
            where[entry.source] = len(places) + len(owned)
            owned.append(tensor)
        if tensor.is_neg():
            return None
        sources.append((where[entry.source], view.data_ptr() - tensor.data_ptr()))
    tensors = [*(flat[place] for place in places), *owned, *views[own:]]
    sources += [(at, 0) for at in range(len(places) + len(owned), len(tensors))]
    if any(type(tensor) not in KINDS for tensor in tensors) or not (bound.kernels_only or not any(offset for _, offset in sources)):
        return None
    return Entry(_call(bindings, bound, flat, places, owned, tensors, sources, prepared))


def _call(
    bindings: Bindings,
    bound: CudaBound,
    flat: Sequence[Any],
    places: Sequence[int],
    owned: Sequence[torch.Tensor],
    tensors: Sequence[torch.Tensor],
    sources: Sequence[tuple[int, int]],
    prepared: Prepared | None,
) -> Callable[[tuple[Any, ...]], Any]:
    """The function that an entry calls, with everything it looks at at hand: what it does takes as long as finding it would."""
    count, device = len(flat), bound.index
    guarded, pointer, current, run_at = guard(tensors), torch.Tensor.data_ptr, current_device(), bound.run_at
    others: list[tuple[int, Any, Any]] = [(at, type(value), value) for at, value in enumerate(flat) if not isinstance(value, torch.Tensor)]
    all_given = len(places) == count and not owned and prepared is None
    order, offsets = [at for at, _ in sources], [offset for _, offset in sources]
    in_order, whole = order == [*range(len(tensors))], not any(offsets)
    # An itemgetter of one place gives no tuple.
    picked: Callable[[Sequence[torch.Tensor]], Sequence[torch.Tensor]] = (
        itemgetter(*order) if len(order) > 1 else lambda given: [given[at] for at in order]
    )
    single = len(bindings.outputs) == 1 and bindings.outputs[0].kind == "graph" and bindings.out_spec.is_leaf()

    def call(args: tuple[Any, ...]) -> Any:
        if len(args) != count:
            return NotImplemented
        for place, kind, known in others:
            if type(args[place]) is not kind or args[place] != known:
                return NotImplemented
        given: Sequence[torch.Tensor] = args if all_given else [*[args[place] for place in places], *owned]
        if prepared is not None:
            found = prepared.found(prepared.weights(args))
            if found is None:
                return NotImplemented
            given = [*given, *found]
        if not guarded(*given):
            return NotImplemented
        inputs = given if in_order else picked(given)
        addresses = map(pointer, inputs)
        if not whole:
            addresses = map(add, addresses, offsets)
        if current() == device:
            made = run_at(addresses, inputs)
        else:
            with torch.cuda.device(device):
                made = run_at(addresses, inputs)
        if made is None:
            return NotImplemented
        return made[0] if single else bindings.results(args, made)

    return call
