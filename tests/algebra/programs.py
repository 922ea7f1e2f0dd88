"""Small programs with exponentials, and what they should give, as plain graphs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cleave.extents import extent
from cleave.graph import Attr, Axis, Builder, Graph, Input, Output, Symbol
from cleave.reference import evaluate

Array = NDArray[Any]


class Program:
    """A graph being built, with short names for what such programs are made of."""

    def __init__(
        self,
        sizes: Mapping[str, int | str],
        inputs: Mapping[str, str],
        dtype: str = "f32",
        chunks: Mapping[str, tuple[str, str]] | None = None,
    ) -> None:
        symbols: dict[str, Symbol] = {}
        axes: list[Axis] = []
        for name, size in sizes.items():
            value = extent(size)
            symbols.update({symbol: Symbol(symbol) for symbol in value.symbols})
            axes.append(Axis(name, value, (chunks or {}).get(name)))
        entries = [Input(name, tuple(layout.split()), dtype, layout) for name, layout in inputs.items()]
        self.builder = Builder("f", list(symbols.values()), axes, entries)
        self.dtype = dtype

    def __call__(self, kind: str, *args: int, attr: tuple[Attr, ...] = (), dtype: str | None = None) -> int:
        """Adds an operation. Arithmetic is in f32 whatever the inputs are."""
        if dtype is None and kind != "compare" and args and self.builder.ops[args[-1]].dtype in ("f16", "bf16"):
            dtype = "f32"
        return self.builder.add(kind, *args, attr=attr, dtype=dtype)

    def number(self, value: float) -> int:
        return self("constant", attr=(value,))

    def sum(self, value: int, *axes: str) -> int:
        return self("reduce", value, attr=("sum", axes))

    def max(self, value: int, *axes: str) -> int:
        return self("reduce", value, attr=("max", axes))

    def contract(self, *args: int, over: str) -> int:
        return self("contract", *args, attr=(tuple(over.split()),))

    def causal(self, value: int, fill: float, row: str = "m", column: str = "n") -> int:
        return self("select", self.causal_mask(row, column), value, self.number(fill))

    def causal_mask(self, row: str = "m", column: str = "n") -> int:
        return self("compare", self("iota", attr=(column,)), self("iota", attr=(row,)), attr=("le",))

    def graph(self, *values: int, layout: str = "") -> Graph:
        return self.builder.finish([Output(value, layout or " ".join(self.builder.ops[value].axes), "f32") for value in values])


def run(graph: Graph, *inputs: Any, symbols: Mapping[str, int] | None = None, dtype: Any = np.float64) -> Array:
    """The first result."""
    return evaluate(graph, [np.asarray(value) for value in inputs], symbols or {}, dtype=dtype)[0]


def kinds(graph: Graph) -> list[str]:
    return [op.kind for op in graph.ops]


def arguments_of(graph: Graph, kind: str) -> list[str]:
    """What the operations of a kind read, as expressions."""
    return [expression(graph, op.args[0]) for op in graph.ops if op.kind == kind]


def expression(graph: Graph, position: int) -> str:
    """An operation as a nested expression: inputs by name, axes that are removed after a slash."""
    op = graph.ops[position]
    match op.kind:
        case "input":
            return graph.inputs[int(str(op.attr[0]))].name
        case "constant":
            return str(op.attr[0])
        case _:
            words = [str(part) if isinstance(part, str) else ",".join(map(str, part)) for part in op.attr if isinstance(part, str | tuple)]
            return f"{op.kind}({', '.join(expression(graph, arg) for arg in op.args)}{'/' if words else ''}{' '.join(words)})"
