"""
Products with an operand in common, side by side: one product, with the other operands put together.

    y = x @ a,  z = x @ b        ->        p = x @ [a b],  y = p[:, :n],  z = p[:, n:]

One product of many columns fills a machine better than several of few. Putting operands together costs what it moves, so this is for
operands made of weights alone, for which that is done once, before casts that make them larger. Where all of them have one 16-bit
type, so has the product, if that is what each is cast to, or as PyTorch gives it the type of its operands. What the search made products
of is another thing, such as rows that are scaled only afterwards: these might overflow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from .extents import extent
from .graph import Axis, Builder, Graph, Op, Output, without_dead_code
from .schedule.buffers import fresh
from .weights import kept

HALVES = ("f16", "bf16")


@dataclass(frozen=True, slots=True)
class _Part:
    """
    A product to be put beside others: the contraction, its operand of weights, and the axis that only that has. `source` is what is put
    together, the operand or what it is cast from.
    """

    op: int
    weight: int
    axis: str
    source: int


def beside(graph: Graph, taken: Iterable[str] = (), written: bool = True) -> Graph | None:
    """
    The graph with products of one operand and several weights as one; None where there are none. `taken` are names that mean others;
    `written` says that the products are those of the program as it was written, and that PyTorch rounds them to the type of their operands.
    """
    graph = without_dead_code(graph)
    groups = [found for parts in _groups(graph) if (found := _once(graph, parts))]
    return _Rewriter(graph, groups, taken, written).run() if groups else None


def _groups(graph: Graph) -> list[list[_Part]]:
    """The contractions that may be one, with each weight once, in order of their first."""
    weights = _of_weights(graph)
    found: dict[object, dict[int, _Part]] = {}
    for at, op in enumerate(graph.ops):
        if op.kind != "contract" or len(op.args) != 2 or weights[op.args[0]] == weights[op.args[1]]:
            continue
        weight, other = op.args if weights[op.args[0]] else reversed(op.args)
        left, right = graph.ops[other], graph.ops[weight]
        over = frozenset(left.axes) & frozenset(right.axes)
        own = [axis for axis in right.axes if axis not in over]
        summed = frozenset({*left.axes, *right.axes}).difference(op.axes)
        if over and over == summed and len(own) == 1 and not graph.axis(own[0]).extent.symbols:
            found.setdefault((other, over, right.dtype, op.dtype), {}).setdefault(weight, _Part(at, weight, own[0], weight))
    return [list(parts.values()) for parts in found.values()]


def _of_weights(graph: Graph) -> list[bool]:
    """Which operations are made of weights, and of constants beside them."""
    out: list[bool] = []
    for op in graph.ops:
        if op.kind == "input":
            out.append(graph.inputs[int(str(op.attr[0]))].weight)
        else:
            known = [out[arg] for arg in op.args if graph.ops[arg].kind != "constant"]
            out.append(bool(known) and all(known))
    return out


def _once(graph: Graph, parts: Sequence[_Part]) -> list[_Part]:
    """Those of the products whose weights, or what these are cast from, would be put together once; none where there are not several."""
    cast = [replace(part, source=graph.ops[part.weight].args[0]) for part in parts if graph.ops[part.weight].kind == "cast"]
    types = dict.fromkeys(graph.ops[part.source].dtype for part in cast)
    for way in (parts, *([part for part in cast if graph.ops[part.source].dtype == dtype] for dtype in types)):
        found = [part for part in way if kept(graph, [part.source])]
        if len(found) > 1 and kept(graph, [part.source for part in found]):
            return found
    return []


class _Rewriter:
    """Rebuilds a graph with each group as one product."""

    def __init__(self, graph: Graph, groups: Sequence[Sequence[_Part]], taken: Iterable[str], written: bool) -> None:
        self.graph = graph
        self.written = written
        self.users = graph.users()
        self.outputs = {output.value for output in graph.outputs}
        self.group_of = {part.op: group for group in groups for part in group}
        names = {*taken, *(axis.name for axis in graph.axes), *(symbol.name for symbol in graph.symbols)}
        self.names: dict[int, str] = {}
        axes = list(graph.axes)
        for group in groups:
            name = fresh("_".join(dict.fromkeys(part.axis for part in group)), names)
            self.names[group[0].op] = name
            axes.append(Axis(name, extent(sum(self._size(part.axis) for part in group))))
        self.builder = Builder(graph.name, graph.symbols, axes, graph.inputs)
        self.at: dict[int, int] = {}
        self.done: dict[int, int] = {}

    def _size(self, axis: str) -> int:
        size = self.graph.axis(axis).extent.constant
        assert size is not None, "axes of a group have known sizes"
        return size

    def run(self) -> Graph:
        """The rebuilt graph."""
        for at in range(len(self.graph.ops)):
            self._build(at)
        outputs = [Output(self.at[output.value], output.layout, output.dtype) for output in self.graph.outputs]
        return self.builder.finish(outputs)

    def _build(self, at: int) -> int:
        """The operation in the new graph; those of a group need the operands of all of it, which may come later in the old one."""
        if at not in self.at:
            op = self.graph.ops[at]
            self.builder.place = self.graph.places[at] if self.graph.places else ""
            if at in self.group_of:
                self.at[at] = self._part(op, at)
            elif op.kind == "input":
                self.at[at] = int(str(op.attr[0]))
            else:
                self.at[at] = self.builder.add(op.kind, *(self._build(arg) for arg in op.args), attr=op.attr, dtype=op.dtype)
        return self.at[at]

    def _part(self, op: Op, at: int) -> int:
        """A part of the product of its group."""
        group = self.group_of[at]
        name = self.names[group[0].op]
        if group[0].op not in self.done:
            self.done[group[0].op] = self._product(op, group, name)
        start = sum(self._size(part.axis) for part in group[: [part.op for part in group].index(at)])
        own = next(part.axis for part in group if part.op == at)
        piece = self.builder.add("slice", self.done[group[0].op], attr=(name, own, extent(start), 1))
        return piece if self.builder.ops[piece].dtype == op.dtype else self.builder.add("cast", piece, dtype=op.dtype)

    def _product(self, op: Op, group: Sequence[_Part], name: str) -> int:
        add = self.builder.add
        other = next(arg for arg in op.args if arg != group[0].weight and arg not in {part.weight for part in group})
        weights = [self._build(part.source) for part in group]
        whole = add("concat", *weights, attr=(tuple(part.axis for part in group), name))
        first, dtype = self._build(other), self.graph.ops[group[0].weight].dtype
        if self.builder.ops[whole].dtype != dtype:
            whole = add("cast", whole, dtype=dtype)
        product = add("contract", first, whole, attr=op.attr, dtype=op.dtype)
        narrow = dtype in HALVES and self.builder.ops[first].dtype == dtype and (self.written or self._is_cast(group, dtype))
        return add("cast", product, dtype=dtype) if narrow and op.dtype != dtype else product

    def _is_cast(self, group: Sequence[_Part], dtype: str) -> bool:
        """Whether nothing reads the products of a group but casts to a type."""
        users = [self.graph.ops[user] for part in group for user in self.users[part.op]]
        return self.outputs.isdisjoint(part.op for part in group) and all((user.kind, user.dtype) == ("cast", dtype) for user in users)
