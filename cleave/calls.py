"""
The short way from a call's arguments to a launch.

An `Entry` is made for the arguments of one call. A later call whose tensors have the same sizes, strides, type and device takes it: it
looks at nothing else, makes no views, and passes addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .frontend import Bindings
from .frontend.bindings import Source
from .prepared import Prepared
from .runtime.cuda import CudaBound
from .runtime.direct import written
from .runtime.guards import KINDS, guard
from .runtime.versions import current_device


@dataclass(frozen=True, slots=True)
class Entry:
    """
    A bound program with the arguments it takes.

    `call` is from the arguments of a call to its result, `NotImplemented` where they are not as they were; `text` is its source. Entries
    of one bound program with the same `kinds` take the same calls.
    """

    call: Callable[[tuple[Any, ...]], Any]
    text: str
    bound: CudaBound
    kinds: tuple[object, ...]

    def replaces(self, other: Entry) -> bool:
        """Whether it takes the calls that another did, as one made after weights were changed."""
        return self.bound is other.bound and self.kinds == other.kinds


def entry_of(
    bindings: Bindings,
    bound: object,
    args: Sequence[Any],
    flat: Sequence[Any],
    views: Sequence[torch.Tensor],
    prepared: Prepared | None = None,
) -> Entry | str:
    """The short way for calls like this one; where there is none, why."""
    if not isinstance(bound, CudaBound):
        return "kernels are launched by Triton"
    if not bound.direct:
        return "a library call is no product of matrices"
    if not all(bound.fits):
        return "an input is copied, as its strides or its address are not what kernels were made for"
    if len(args) != len(flat) or any(given is not value for given, value in zip(args, flat, strict=True)):
        return "arguments are nested" if len(args) == len(flat) else "arguments are nested or left to their defaults"
    if any(isinstance(value, torch.Tensor) and value.requires_grad for value in flat):
        return "an argument requires a gradient"
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
            return "an input is negated when it is read"
        sources.append((where[entry.source], view.data_ptr() - tensor.data_ptr()))
    tensors = [*(flat[place] for place in places), *owned, *views[own:]]
    sources += [(at, 0) for at in range(len(places) + len(owned), len(tensors))]
    other = next((type(tensor).__name__ for tensor in tensors if type(tensor) not in KINDS), "")
    if other:
        return f"a tensor is a {other}"
    if not bound.kernels_only and any(offset for _, offset in sources):
        return "a library reads a part of an argument"
    return _entry(bindings, bound, flat, places, owned, tensors, sources, prepared)


def _entry(
    bindings: Bindings,
    bound: CudaBound,
    flat: Sequence[Any],
    places: Sequence[int],
    owned: Sequence[torch.Tensor],
    tensors: Sequence[torch.Tensor],
    sources: Sequence[tuple[int, int]],
    prepared: Prepared | None,
) -> Entry:
    """The function that an entry calls, written out with everything it looks at at hand: what it does takes as long as finding it would."""
    index = bound.index
    names: dict[str, Any] = {"guarded": guard(tensors), "bindings": bindings, "prepared": prepared}
    lines = [f"if len(args) != {len(flat)}:", "    return NotImplemented"]
    if flat:
        lines.append(f"{', '.join(f'a{at}' for at in range(len(flat)))}, = args")
    for at, value in enumerate(flat):
        if not isinstance(value, torch.Tensor):
            names |= {f"k{at}": type(value), f"v{at}": value}
            lines += [f"if type(a{at}) is not k{at} or a{at} != v{at}:", "    return NotImplemented"]
    given = [*(f"a{place}" for place in places), *(f"o{number}" for number in range(len(owned)))]
    names |= {f"o{number}": tensor for number, tensor in enumerate(owned)}
    if prepared is not None:
        found = [f"f{number}" for number in range(len(tensors) - len(given))]
        lines += ["found = prepared.found(prepared.weights(args))", "if found is None:", "    return NotImplemented"]
        lines.append(f"{', '.join(found)}, = found")
        given += found
    lines += [f"if not guarded({', '.join(given)}):", "    return NotImplemented"]
    inputs = [(given[at], tensors[at]) for at, _ in sources]
    addresses = [f"{given[at]}.data_ptr()" + (f" + {offset}" if offset else "") for at, offset in sources]
    body, known = written(bound, inputs, addresses)
    names |= {**known, "index": index}
    single = len(bindings.outputs) == 1 and bindings.outputs[0].kind == "graph" and bindings.out_spec.is_leaf()
    made = ", ".join(f"r{number}" for number in range(len(bound.outputs)))
    body.append("return r0" if single else f"return bindings.results(args, [{made}])")
    if torch.cuda.device_count() > 1:
        names |= {"current": current_device(), "on": torch.cuda.device}
        lines += ["if current() != index:", "    with on(index):", *(f"        {line}" for line in body)]
    lines += body
    text = "\n".join(["def call(args):", *(f"    {line}" for line in lines), ""])
    exec(compile(text, f"<call of {bound.plan.name}>", "exec"), names)
    # Among its own names it would be garbage that only the collector finds, with the weights.
    return Entry(names.pop("call"), text, bound, _kinds(flat))


def _kinds(flat: Sequence[Any]) -> tuple[object, ...]:
    """What calls with the same bound program may differ in: what a guard looks at, the first place of each tensor, and other values."""
    places = {id(value): at for at, value in reversed(list(enumerate(flat)))}

    def kind(value: object) -> tuple[object, ...]:
        if not isinstance(value, torch.Tensor):
            return type(value), value
        return type(value), value.shape, value.stride(), value.dtype, value.device, places[id(value)]

    return tuple(map(kind, flat))
