"""
From a PyTorch function or module to a graph of the algebra.

The function is traced (`tracing`), its operators are lowered in program order to nodes over atoms (`translation`,
`operators`), and the nodes become a graph (`emit`). What a call's tensors have to do with it stands in `Captured.bindings`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..errors import CleaveError
from ..graph import Graph
from .bindings import ArgumentCheck, Bindings, InputBinding, OutputBinding, Source, ViewDim
from .emit import Argument, Emitted, emit
from .sizes import to_extent
from .symbols import conditions, symbol_facts, symbol_names, symbol_reads
from .traced import Traced
from .tracing import trace
from .translation import Translation, translate
from .values import DTYPES, Value


@dataclass(frozen=True)
class Captured:
    """
    A graph and how a call meets it. `unrounded` says that PyTorch does not round some product to the type of its operands, of 16 bits.
    """

    graph: Graph
    bindings: Bindings
    unrounded: bool = False


def capture(function: Any, example_inputs: Sequence[Any], dynamic_shapes: Any = None, weights: Iterable[int | str] = ()) -> Captured:
    """
    The graph of a function or module, for arguments like the examples.

    `dynamic_shapes` is as for torch.export: for each argument, by position or name, the dimensions whose sizes are symbols, as
    `Dim("m")`, `Dim.DYNAMIC` or just `"m"`. `weights` names arguments, by position or name, that stay the same between calls, and
    parameters and buffers, which do so anyway, as the module does. Raises: CleaveError, with the user's line, for what is not supported.
    """
    traced = trace(function, example_inputs, dynamic_shapes)
    marked = _marked(traced, weights)
    state = translate(traced, {int(source.key) for source in marked if source.kind == "argument"})
    values = list(dict.fromkeys(result.value for result in state.results if result.value is not None))
    arguments = {key: Argument(one.name, DTYPES[one.dtype], one.weight) for key, one in state.tensors.items()}
    emitted = emit(state.cx, traced.name, arguments, values, symbol_names(state), symbol_facts(state))
    bindings = replace(_bindings(state, emitted, values), weights=marked)
    bindings.check_example([leaf.value for leaf in traced.leaves])
    return Captured(emitted.graph, bindings, state.cx.unrounded)


def _marked(traced: Traced, weights: Iterable[int | str]) -> tuple[Source, ...]:
    """The arguments, parameters and buffers that are named as weights."""
    names = [leaf.name for leaf in traced.leaves]
    states = {name.removeprefix("owner."): name for name in traced.program.state_dict}
    out: dict[Source, None] = {}
    for wanted in weights:
        if isinstance(wanted, int) and 0 <= wanted < len(names):
            out[Source("argument", wanted)] = None
        elif wanted in names:
            out[Source("argument", names.index(str(wanted)))] = None
        elif wanted in states:
            out[Source("state", states[str(wanted)])] = None
        else:
            known = f"the arguments are {', '.join(names)}" + (f", the parameters and buffers {', '.join(states)}" if states else "")
            raise CleaveError(None, f"weights names {wanted!r}, which is not an argument", known)
    return tuple(out)


def _bindings(state: Translation, emitted: Emitted, values: Sequence[Value]) -> Bindings:
    traced, names = state.traced, emitted.symbols
    inputs = tuple(
        InputBinding(entry.name, state.tensors[read.key].source, tuple(ViewDim(*dim) for dim in read.dims))
        for entry, read in zip(emitted.graph.inputs, emitted.reads, strict=True)
    )
    checks = tuple(
        ArgumentCheck(one.name, one.source, one.dtype, tuple(to_extent(size, names) for size in one.shape))
        for one in state.tensors.values()
    )
    fixed = tuple((at, leaf.name, leaf.value) for at, leaf in enumerate(traced.leaves) if not isinstance(leaf.value, torch.Tensor))
    tensors = [leaf.value for leaf in traced.leaves if isinstance(leaf.value, torch.Tensor)]
    kept = {**traced.program.constants, **traced.program.state_dict}
    held = {str(one.source.key): kept[one.source.key] for one in state.tensors.values() if one.source.kind == "state"}
    devices = [tensor.device for tensor in [*tensors, *held.values()]]
    return Bindings(
        inputs,
        tuple(_output(state, entry, values, names) for entry in traced.outputs),
        checks,
        tuple(symbol_reads(state, names)),
        tuple(conditions(state, names)),
        fixed,
        traced.parameters,
        traced.in_spec,
        traced.out_spec,
        held,
        dict(state.constants),
        devices[0] if devices else torch.device("cpu"),
    )


def _output(state: Translation, entry: int | tuple[Any], values: Sequence[Value], names: Mapping[str, str]) -> OutputBinding:
    if isinstance(entry, tuple):
        return OutputBinding("fixed", value=entry[0])
    value = state.results[entry].value
    if value is None:
        return OutputBinding("argument", state.results[entry].argument)
    shape = tuple(to_extent(size, names) for size in state.cx.shape(value))
    return OutputBinding("graph", values.index(value), shape, value.dtype)
