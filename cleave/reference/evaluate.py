"""The value of a graph, operation by operation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ..graph import Graph
from .dtypes import Array, held_in, rounded
from .meaning import Call, Setting, Shift, meaning
from .tensors import Named


def evaluate(
    graph: Graph,
    inputs: Sequence[Array],
    symbols: Mapping[str, int],
    dtype: DTypeLike = np.float64,
    *,
    respect_dtypes: bool = False,
    shift: Shift | None = None,
) -> tuple[Array, ...]:
    """
    The results of a graph.

    Shapes: each input is laid out over `Input.axes`; each result over the axes of its value, in declared order.
    `dtype` is the type float arithmetic is done in; with `respect_dtypes` every value and result is rounded to the type it
    names, ties to even, else casts between floats do nothing. `shift(call, maxima)` gives an `alg.shift` another value than its maxima.
    Raises: ValueError for inputs or extents that do not fit, KeyError for a symbol without a value.
    """
    values = evaluate_all(graph, inputs, symbols, dtype, respect_dtypes=respect_dtypes, shift=shift)
    results = [values[output.value] for output in graph.outputs]
    return tuple(rounded(result, output.dtype) if respect_dtypes else result for result, output in zip(results, graph.outputs, strict=True))


def evaluate_all(
    graph: Graph,
    inputs: Sequence[Array],
    symbols: Mapping[str, int],
    dtype: DTypeLike = np.float64,
    *,
    respect_dtypes: bool = False,
    shift: Shift | None = None,
) -> tuple[Array, ...]:
    """The value of every operation of a graph, over its axes in declared order; arguments as for `evaluate`."""
    axes = {axis.name: axis for axis in graph.axes}
    setting = Setting(axes, symbols, np.dtype(dtype), respect_dtypes, shift)
    values: list[Named] = []
    for op in graph.ops:
        if op.kind == "input":
            position = int(str(op.attr[0]))
            values.append(argument(graph.inputs[position].name, graph.inputs[position].axes, op.dtype, inputs[position], op.axes, setting))
        else:
            values.append(meaning(Call(op.kind, op.axes, op.dtype, op.attr, tuple(values[arg] for arg in op.args), setting)))
    return tuple(value.data for value in values)


def argument(name: str, axes: Sequence[str], dtype: str, data: Array, order: Sequence[str], setting: Setting) -> Named:
    """A graph argument given over `axes` as a value over `order`. Raises: ValueError for a shape other than the declared one."""
    wanted = tuple(setting.sizes[axis] for axis in axes)
    given: Any = np.asarray(data)
    if given.shape != wanted:
        raise ValueError(f"input '{name}' has shape {list(given.shape)}; [{', '.join(axes)}] is {list(wanted)}")
    given = given.astype(held_in(dtype, setting.working))
    if setting.respect_dtypes:
        given = rounded(given, dtype)
    return Named(tuple(order), Named(tuple(axes), given).over(order))
