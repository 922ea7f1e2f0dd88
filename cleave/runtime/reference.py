"""
The meaning of a graph in torch, to check compiled kernels on the device they run on.

Floats are f32, or f64 where the graph has any; casts between floats do nothing. Written for programs as their authors gave them,
whose splits leave no element out (`cleave.reference` has the meaning of all graphs, on numpy).
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor

from cleave.extents import Extent
from cleave.graph import Graph, Op
from cleave.layouts import layout_axes, memory_shape

_UNARY: Mapping[str, Callable[[Tensor], Tensor]] = {
    "neg": torch.neg,
    "exp": torch.exp,
    "expm1": torch.expm1,
    "log": torch.log,
    "log1p": torch.log1p,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "relu": F.relu,
    "sin": torch.sin,
    "cos": torch.cos,
    "abs": torch.abs,
    "erf": torch.erf,
    "erfc": torch.erfc,
    "not": torch.bitwise_not,
}

_BINARY: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "max": torch.maximum,
    "min": torch.minimum,
    "pow": torch.pow,
    "floordiv": torch.floor_divide,
    "mod": torch.remainder,
    "and": torch.bitwise_and,
    "or": torch.bitwise_or,
}

_COMPARE: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "eq": torch.eq,
    "ne": torch.ne,
    "lt": torch.lt,
    "le": torch.le,
    "gt": torch.gt,
    "ge": torch.ge,
}

_REDUCE: Mapping[str, Callable[[Tensor, list[int]], Tensor]] = {
    "sum": lambda x, dims: x.sum(dims),
    "max": lambda x, dims: x.amax(dims),
    "min": lambda x, dims: x.amin(dims),
}


def has_reference(graph: Graph) -> bool:
    """Whether `evaluate` knows the graph."""
    return all(axis.chunk_of is None for axis in graph.axes)


def evaluate(graph: Graph, inputs: Sequence[Tensor], symbols: Mapping[str, int]) -> list[Tensor]:
    """
    The results of a graph that `has_reference`.

    Shapes: inputs and results as they lie in memory, by their layouts. Raises: torch's errors, where memory runs out for one.
    """
    assert has_reference(graph), "a split that leaves elements out has no meaning here"
    return _Evaluation(graph, symbols).results(inputs)


class _Evaluation:
    def __init__(self, graph: Graph, symbols: Mapping[str, int]) -> None:
        self.graph = graph
        self.symbols = symbols
        self.sizes = graph.sizes(symbols)
        self.values: dict[int, Tensor] = {}
        double = any(entry.dtype == "f64" for entry in graph.inputs)
        self.working = torch.float64 if double else torch.float32
        self.device = torch.device("cpu")

    def results(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        if inputs:
            self.device = inputs[0].device
        last = {arg: position for position, op in enumerate(self.graph.ops) for arg in op.args}
        kept = {output.value for output in self.graph.outputs}
        for position, op in enumerate(self.graph.ops):
            self.values[position] = self.input(op, inputs) if op.kind == "input" else self.value(op)
            for arg in set(op.args):
                if last[arg] == position and arg not in kept:
                    del self.values[arg]
        return [self.output(output.value, output.layout) for output in self.graph.outputs]

    def held(self, dtype: str) -> torch.dtype:
        """The type that a value is held in."""
        if dtype in ("f16", "bf16", "f32", "f64"):
            return self.working
        return torch.bool if dtype == "i1" else torch.int64

    def input(self, op: Op, inputs: Sequence[Tensor]) -> Tensor:
        position = int(str(op.attr[0]))
        axes = layout_axes(self.graph.inputs[position].layout)
        data = inputs[position].reshape([self.sizes[axis] for axis in axes]).to(self.held(op.dtype))
        return data.permute([axes.index(axis) for axis in op.axes])

    def output(self, value: int, layout: str) -> Tensor:
        axes = layout_axes(layout)
        data = self.over(value, axes).expand([self.sizes[axis] for axis in axes])
        return data.reshape(memory_shape(layout, self.sizes))

    def over(self, value: int, axes: Sequence[str]) -> Tensor:
        """A value laid out to broadcast over axes that hold all of its own."""
        return over(self.values[value], self.graph.ops[value].axes, axes)

    def operand(self, op: Op, place: int) -> Tensor:
        return self.over(op.args[place], op.axes).to(self.held(op.dtype))

    def full(self, op: Op, data: Tensor) -> Tensor:
        return data.expand([self.sizes[axis] for axis in op.axes])

    def integer(self, value: object) -> int:
        return value.evaluate(self.symbols) if isinstance(value, Extent) else int(cast(int, value))

    def moved(self, op: Op, *axes: str) -> tuple[tuple[str, ...], Tensor]:
        """The first operand with the given axes last: its other axes, and the data."""
        own = self.graph.ops[op.args[0]].axes
        rest = tuple(axis for axis in own if axis not in axes)
        return rest, over(self.values[op.args[0]], own, (*rest, *axes))

    def value(self, op: Op) -> Tensor:
        out = self._value(op)
        return out.to(self.held(op.dtype))

    def _value(self, op: Op) -> Tensor:
        attr: Any = op.attr
        match op.kind:
            case "constant":
                return torch.tensor(attr[0], dtype=self.held(op.dtype), device=self.device)
            case "size":
                return torch.tensor(self.sizes[attr[0]], device=self.device)
            case "iota":
                return torch.arange(self.sizes[attr[0]], device=self.device)
            case "div":
                return self.full(op, self.quotient(op))
            case "compare":
                left, right = (self.over(arg, op.axes) for arg in op.args)
                return self.full(op, _COMPARE[attr[0]](left, right))
            case "select":
                return self.full(op, torch.where(self.over(op.args[0], op.axes), self.operand(op, 1), self.operand(op, 2)))
            case "cast":
                return self.cast(op)
            case "reduce":
                rest, data = self.moved(op, *attr[1])
                return over(reduced(attr[0], data, data.dim() - len(rest)), rest, op.axes)
            case "shift":
                rest, data = self.moved(op, *attr[0])
                top = reduced("max", data, data.dim() - len(rest))
                return over(torch.where(top == -math.inf, torch.zeros_like(top), top), rest, op.axes)
            case "contract":
                return self.contract(op)
            case "gather":
                rest, table = self.moved(op, attr[0])
                place = self.values[op.args[1]]
                found = table[..., place.clamp(0, table.shape[-1] - 1).reshape(-1)].reshape(*table.shape[:-1], *place.shape)
                return over(found, (*rest, *self.graph.ops[op.args[1]].axes), op.axes)
            case _:
                if op.kind in _UNARY:
                    return _UNARY[op.kind](self.operand(op, 0))
                if op.kind in _BINARY:
                    return self.full(op, _BINARY[op.kind](self.operand(op, 0), self.operand(op, 1)))
                return self.rearranged(op)

    def quotient(self, op: Op) -> Tensor:
        left, right = self.operand(op, 0), self.operand(op, 1)
        if "guarded" in op.attr:
            return torch.where(right == 0, torch.zeros_like(right), left / torch.where(right == 0, torch.ones_like(right), right))
        return left / right if left.is_floating_point() else torch.div(left, right, rounding_mode="floor")

    def cast(self, op: Op) -> Tensor:
        data = self.over(op.args[0], op.axes)
        return data.trunc() if data.is_floating_point() and op.dtype not in ("f16", "bf16", "f32", "f64", "i1") else data

    def contract(self, op: Op) -> Tensor:
        letters = dict(zip((axis.name for axis in self.graph.axes), string.ascii_letters, strict=False))
        terms = ["".join(letters[axis] for axis in self.graph.ops[arg].axes) for arg in op.args]
        equation = f"{','.join(terms)}->{''.join(letters[axis] for axis in op.axes)}"
        return torch.einsum(equation, *(self.values[arg].to(self.held(op.dtype)) for arg in op.args))

    def rearranged(self, op: Op) -> Tensor:
        """What moves axes and computes nothing."""
        attr: Any = op.attr
        match op.kind:
            case "rename":
                table: dict[str, str] = dict(attr[0])
                own = self.graph.ops[op.args[0]].axes
                return over(self.values[op.args[0]], [table.get(axis, axis) for axis in own], op.axes)
            case "split":
                rest, data = self.moved(op, attr[0])
                parts = data.reshape(*data.shape[:-1], self.sizes[attr[1]], self.sizes[attr[2]])
                return over(parts, (*rest, attr[1], attr[2]), op.axes)
            case "merge":
                rest, data = self.moved(op, *attr[0])
                return over(data.flatten(-2), (*rest, attr[1]), op.axes)
            case "slice":
                rest, data = self.moved(op, attr[0])
                start, step = self.integer(attr[2]), self.integer(attr[3])
                place = start + step * torch.arange(self.sizes[attr[1]], device=self.device)
                return over(data[..., place], (*rest, attr[1]), op.axes)
            case "index":
                rest, data = self.moved(op, attr[0])
                return over(data[..., self.integer(attr[1])], rest, op.axes)
            case "pad":
                rest, data = self.moved(op, attr[0])
                low = self.integer(attr[2])
                high = self.sizes[attr[1]] - low - data.shape[-1]
                padded = torch.constant_pad_nd(data, (low, high), attr[3])
                return over(padded, (*rest, attr[1]), op.axes)
            case "concat":
                return self.concat(op)
            case _:
                raise AssertionError(f"operation {op.kind} has no meaning in torch")

    def concat(self, op: Op) -> Tensor:
        names, new = cast("tuple[tuple[str, ...], str]", op.attr)
        rest = tuple(axis for axis in op.axes if axis != new)
        parts: list[Tensor] = []
        for axis, arg in zip(names, op.args, strict=True):
            own = tuple(new if name == axis else name for name in self.graph.ops[arg].axes)
            part = over(self.values[arg], own, (*rest, new))
            parts.append(part.expand([*(self.sizes[name] for name in rest), part.shape[-1]]))
        return over(torch.cat(parts, dim=-1), (*rest, new), op.axes)


def reduced(kind: str, data: Tensor, count: int) -> Tensor:
    """The sum, max or min over the last `count` dimensions. Of none it is the tensor; torch takes no dimensions for all."""
    return _REDUCE[kind](data, list(range(data.dim() - count, data.dim()))) if count else data


def over(data: Tensor, own: Sequence[str], axes: Sequence[str]) -> Tensor:
    """A tensor over its `own` axes laid out over `axes`, which hold all of those: permuted, with size 1 where it lacks one."""
    order = sorted(range(len(own)), key=lambda place: axes.index(own[place]))
    present = {own[place]: data.shape[place] for place in order}
    return data.permute(order).reshape([present.get(axis, 1) for axis in axes])
