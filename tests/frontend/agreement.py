"""Whether a captured graph computes what its PyTorch function does, by the reference in float64; shapes count."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree

from cleave.frontend import Captured, capture
from cleave.layouts import layout_axes, memory_shape
from cleave.reference import evaluate


def evaluated(captured: Captured, args: Sequence[Any]) -> list[Any]:
    """The flat results of a call by the reference: arrays, or whatever is returned as it is."""
    bindings, graph = captured.bindings, captured.graph
    flat = bindings.flatten(args)
    symbols = bindings.sizes(flat)
    sizes = graph.sizes(symbols)
    inputs: list[Any] = []
    for entry, view in zip(graph.inputs, bindings.views(flat, symbols), strict=True):
        assert tuple(view.shape) == memory_shape(entry.layout, sizes), entry
        data = view.detach().double() if view.dtype.is_floating_point else view.detach()
        inputs.append(data.numpy().reshape([sizes[axis] for axis in layout_axes(entry.layout)]))
        assert layout_axes(entry.layout) == entry.axes
    made: list[torch.Tensor] = []
    for output, value in zip(graph.outputs, evaluate(graph, inputs, symbols), strict=True):
        own, order = graph.ops[output.value].axes, layout_axes(output.layout)
        data = value.transpose([own.index(axis) for axis in order if axis in own])
        data = data.reshape([sizes[axis] if axis in own else 1 for axis in order])
        made.append(torch.from_numpy(np.broadcast_to(data, [sizes[axis] for axis in order]).copy()))
    shaped = [made[entry.graph].reshape(entry.sizes(symbols)) if entry.kind == "graph" else None for entry in bindings.outputs]
    for entry, tensor in zip(bindings.outputs, shaped, strict=True):
        if tensor is not None:
            made[entry.graph] = tensor
    return pytree.tree_leaves(bindings.results(flat, made))


class InFloat64(TorchFunctionMode):
    """Runs PyTorch with float64 for every float dtype that a program names, which is its exact meaning up to rounding."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16):
            return args[0].double()
        wide = pytree.tree_map(_wide_dtype, (args, kwargs or {}))
        return widened(func(*wide[0], **wide[1]))


def _wide_dtype(value: Any) -> Any:
    return torch.float64 if isinstance(value, torch.dtype) and value.is_floating_point else value


def widened(value: Any) -> Any:
    """Floats in float64, everything else as it is."""
    return value.double() if isinstance(value, torch.Tensor) and value.dtype.is_floating_point else value


def agrees(
    function: Any, args: Sequence[Any], dynamic_shapes: Any = None, calls: Sequence[Sequence[Any]] = (), tolerance: float = 1e-9
) -> Captured:
    """
    Captures a function and compares the graph with eager PyTorch in float64, on the examples and on further calls.

    A few hundred float64 operations on numbers of size 1 stay within 1e-9.
    """
    captured = capture(function, args, dynamic_shapes)
    wide_function = copy.deepcopy(function).double() if isinstance(function, torch.nn.Module) else function
    for call in (args, *calls):
        with InFloat64():
            expected = pytree.tree_leaves(wide_function(*[pytree.tree_map(widened, arg) for arg in call]))
        found = evaluated(captured, call)
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            if not isinstance(other, torch.Tensor):
                assert one == other
                continue
            assert tuple(one.shape) == tuple(other.shape)
            torch.testing.assert_close(one.double(), other.detach().double(), rtol=tolerance, atol=tolerance, equal_nan=True)
    return captured


def kinds(captured: Captured) -> list[str]:
    """The kinds of the operations."""
    return [op.kind for op in captured.graph.ops]


def renames(captured: Captured) -> list[tuple[tuple[str, str], ...]]:
    """The pairs of every rename."""
    return [op.attr[0] for op in captured.graph.ops if op.kind == "rename"]  # type: ignore[misc]


def layouts(captured: Captured) -> dict[str, str]:
    """The layout of each input by name."""
    return {entry.name: entry.layout for entry in captured.graph.inputs}


def pattern(layout: str) -> str:
    """A layout with its axes lettered in order of appearance, so that layouts compare by structure."""
    names: dict[str, str] = {}

    def letter(found: re.Match[str]) -> str:
        return names.setdefault(found.group(), chr(ord("a") + len(names)))

    return re.sub(r"[A-Za-z_][A-Za-z0-9_]*", letter, layout)
