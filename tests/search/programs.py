"""Programs for tests of the search, written as a person writes them, and questions about the form of a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cleave.extents import extent
from cleave.graph import Axis, Builder, Graph, Input, Op, Output, Symbol


class Write:
    """A builder with short names: operands are positions, numbers become constants, results are f32 unless said."""

    def __init__(
        self, axes: Mapping[str, int | str], inputs: Mapping[str, str], symbols: Sequence[Symbol] = (), dtype: str = "f16"
    ) -> None:
        declared = [Axis(name, extent(size)) for name, size in axes.items()]
        leaves = [Input(name, tuple(text.split()), dtype, text) for name, text in inputs.items()]
        used = {symbol for axis in declared for symbol in axis.extent.symbols}
        known = {symbol.name: symbol for symbol in symbols}
        self.b = Builder("f", [known.get(name, Symbol(name, (512,))) for name in sorted(used)], declared, leaves)
        self.args = tuple(range(len(leaves)))

    def __call__(self, kind: str, *args: int | float, attr: tuple[object, ...] = (), dtype: str | None = "f32") -> int:
        positions = [self.number(arg) if isinstance(arg, float) else arg for arg in args]
        return self.b.add(kind, *positions, attr=attr, dtype=dtype)  # pyright: ignore[reportArgumentType]

    def number(self, value: float) -> int:
        return self.b.add("constant", attr=(value,), dtype="f32")

    def dot(self, axes: str, *args: int) -> int:
        return self("contract", *args, attr=(tuple(axes.split()),))

    def sum(self, axes: str, arg: int) -> int:
        return self("reduce", arg, attr=("sum", tuple(axes.split())))

    def max(self, axes: str, arg: int) -> int:
        return self("reduce", arg, attr=("max", tuple(axes.split())))

    def mean(self, axis: str, arg: int) -> int:
        return self("div", self.sum(axis, arg), self("size", attr=(axis,), dtype="index"))

    def rename(self, arg: int, **pairs: str) -> int:
        return self("rename", arg, attr=(tuple(pairs.items()),), dtype=self.b.ops[arg].dtype)

    def causal(self, rows: str, columns: str, arg: int) -> int:
        i, j = (self("iota", attr=(axis,), dtype="index") for axis in (rows, columns))
        return self("select", self("compare", j, i, attr=("le",), dtype="i1"), arg, float("-inf"))

    def probabilities(self, axis: str, x: int, safe: bool = False) -> int:
        if safe:
            x = self("sub", x, self.max(axis, x))
        p = self("exp", x)
        return self("div", p, self.sum(axis, p))

    def root_mean_square(self, axis: str, x: int) -> int:
        return self("rsqrt", self("add", self.mean(axis, self("mul", x, x)), 1e-6))

    def done(self, *values: int, dtype: str = "f16") -> Graph:
        return self.b.finish([Output(value, " ".join(self.b.ops[value].axes), dtype) for value in values])


def attention(safe: bool = False, causal: bool = False, grouped: bool = False, scale: float = 0.08838834764831845) -> Graph:
    heads = "g r " if grouped else ""
    group = "g " if grouped else ""
    axes: dict[str, int | str] = {"g": 8, "r": 4} if grouped else {}
    w = Write({**axes, "m": "m", "n": "n", "d": 128, "e": 128}, {"q": f"{heads}m d", "k": f"{group}n d", "v": f"{group}n e"})
    q, k, v = w.args
    x = w("mul", w.dot("d", q, k), scale)
    if causal:
        x = w.causal("m", "n", x)
    return w.done(w.dot("n", w("cast", w.probabilities("n", x, safe), dtype="f16"), v))


# Questions about a graph.


def ops_of(graph: Graph, kind: str) -> list[int]:
    """The positions of the operations of a kind."""
    return [i for i, op in enumerate(graph.ops) if op.kind == kind]


def needs(graph: Graph, position: int) -> set[int]:
    """The operations that one depends on, itself included."""
    found = {position}
    for i in range(position, -1, -1):
        if i in found:
            found.update(graph.ops[i].args)
    return found


def without_casts(graph: Graph, position: int) -> int:
    """The operation under casts."""
    while graph.ops[position].kind == "cast":
        position = graph.ops[position].args[0]
    return position


def result(graph: Graph, output: int = 0) -> Op:
    """The operation that makes an output, under casts."""
    return graph.ops[without_casts(graph, graph.outputs[output].value)]


def contractions(graph: Graph) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """The axes that each contraction sums and has left."""
    return [(tuple(map(str, op.attr[0])), op.axes) for op in graph.ops if op.kind == "contract"]  # pyright: ignore[reportArgumentType]


def phases(graph: Graph) -> int:
    """The most sums on one path."""
    depth: list[int] = []
    for op in graph.ops:
        depth.append(max((depth[arg] for arg in op.args), default=0) + (op.kind in ("reduce", "contract")))
    return max(depth[out.value] for out in graph.outputs)
