"""
From a graph to classes.

The law: every operation of the graph gets the class of its value. Renames are pushed to the leaves, where they commute with
everything above, unless a sum below binds the new name; there the rename stays an operation. Operations on integers and truth
values stay as written: only real arithmetic is rearranged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

from ..graph import DTYPES, FLOATS, Graph, Op
from .attributes import axis_pairs, reduced_axes
from .bounded import bounds, known_exponent, number, opaque, root_exponent
from .egraph import EGraph
from .forms import Call, Exp, Leaf
from .meaning import operation, truncates
from .vanishing import divides_by_a_choice

ONE = Fraction(1)
HALF = Fraction(1, 2)


@dataclass(slots=True)
class Converted:
    """
    `classes[i]` is the class of operation i. Of a class that entered a contraction as written, `operand_types` has the type in
    which it did, `contracted` the mask of the axes it was summed over. `places` has the source location of a class, `opaque`
    says how many exps and logs leave the tower of fields and are unknown functions here.
    """

    classes: list[int]
    operand_types: dict[int, str]
    contracted: dict[int, int]
    places: dict[int, str]
    opaque: int


def copies(*graphs: Graph) -> dict[str, str]:
    """For every axis of the first graph the first declared one that it is a renamed copy of, in any of them."""
    graph = graphs[0]
    parent = {axis.name: axis.name for axis in graph.axes}

    def find(name: str) -> str:
        while parent[name] != name:
            name = parent[name]
        return name

    rank = {axis.name: i for i, axis in enumerate(graph.axes)}
    for op in [op for each in graphs for op in each.ops]:
        if op.kind == "rename":
            for old, new in axis_pairs(op.attr[0]):
                low, high = sorted((find(old), find(new)), key=rank.__getitem__)
                if graph.axis(low).extent == graph.axis(high).extent:
                    parent[high] = low
    return {name: find(name) for name in parent}


def convert(graph: Graph, egraph: EGraph) -> Converted:
    """Adds every operation of the graph to the e-graph."""
    converter = _Converter(graph, egraph)
    classes = [converter.build(position, {}) for position in range(len(graph.ops))]
    types: dict[int, str] = {}
    contracted: dict[int, int] = {}
    for op in graph.ops:
        if op.kind == "contract":
            for arg in op.args:
                c = classes[arg]
                types[c] = max(types.get(c, "f16"), graph.ops[arg].dtype, key=DTYPES.index)
                contracted[c] = contracted.get(c, 0) | egraph.mask_of(reduced_axes(op))
    places: dict[int, str] = {}
    for c, place in zip(classes, graph.places, strict=False):
        places.setdefault(c, place)
    return Converted(classes, types, contracted, places, converter.opaque)


class _Converter:
    def __init__(self, graph: Graph, egraph: EGraph) -> None:
        self.graph = graph
        self.egraph = egraph
        self.bounds = bounds(graph)
        self.known: dict[tuple[int, tuple[tuple[str, str], ...]], int] = {}
        self.opaque = 0

    def build(self, position: int, renaming: Mapping[str, str]) -> int:
        """The class of an operation whose axes are renamed."""
        op = self.graph.ops[position]
        names = tuple((old, new) for old, new in sorted(renaming.items()) if old in op.axes and old != new)
        found = self.known.get((position, names))
        if found is None:
            found = self._renamed(position, op, dict(names)) if names else self._plain(op)
            self.known[position, names] = found
        return found

    def _renamed(self, position: int, op: Op, renaming: dict[str, str]) -> int:
        movers = ("split", "merge", "slice", "index", "concat", "pad", "gather", "input")
        bound = frozenset(reduced_axes(op))
        if op.kind in movers or not bound.isdisjoint(renaming.values()) or not bound.isdisjoint(renaming):
            return self._rename_here(self.build(position, {}), tuple(renaming.items()), op.dtype)
        if op.kind == "rename":
            back = dict(axis_pairs(op.attr[0]))
            inner = self.graph.ops[op.args[0]]
            joined = {axis: renaming.get(back.get(axis, axis), back.get(axis, axis)) for axis in inner.axes}
            return self.build(op.args[0], joined)
        if op.kind == "iota":
            return self._make(Op("iota", (), (renaming[op.axes[0]],), op.dtype, (renaming[op.axes[0]],)), [])
        return self._make(op, [self.build(arg, renaming) for arg in op.args])

    def _rename_here(self, c: int, pairs: tuple[tuple[str, str], ...], dtype: str) -> int:
        mask = self.egraph.mask(c)
        pairs = tuple(pair for pair in pairs if self.egraph.bit[pair[0]] & mask)
        if not pairs:
            return c
        value = self.egraph.space.rename(self.egraph.value(c), pairs)
        return self.egraph.known(Call("rename", (pairs,), dtype, (c,)), value)

    def _plain(self, op: Op) -> int:
        if op.kind == "rename":
            renaming = dict(axis_pairs(op.attr[0]))
            return self.build(op.args[0], renaming)
        return self._make(op, [self.build(arg, {}) for arg in op.args])

    def _make(self, op: Op, args: list[int]) -> int:
        made = self._algebra(op, args) if op.dtype in FLOATS else None
        if made is not None:
            return made
        dtype = "f32" if op.dtype in FLOATS else op.dtype
        space = self.egraph.space
        inside = space.exponential if op.kind == "exp" else space.logarithm if op.kind == "log" else None
        self.opaque += (
            inside is not None
            and not self._opaque(op)
            and not divides_by_a_choice(self.graph, op)
            and inside(self.egraph.value(args[0])) is None
        )
        value = operation(self.graph, space, op, [self.egraph.value(arg) for arg in args], self._opaque(op))
        if not op.args:
            return self.egraph.known(Leaf(op.kind, op.attr, op.dtype), value)
        return self.egraph.known(Call(op.kind, op.attr, dtype, tuple(args)), value)

    def _algebra(self, op: Op, args: list[int]) -> int | None:
        """The class of an operation of real arithmetic, None for any other or where it must stay as written."""
        e = self.egraph
        if divides_by_a_choice(self.graph, op):
            return None
        if self._opaque(op):
            return self._root(op, args[0])
        match op.kind:
            case "constant":
                value = number(op)
                return None if value is None else e.constant(value)
            case "size":
                extent = self.graph.axis(str(op.attr[0])).extent.constant
                return None if extent is None else e.constant(Fraction(extent))
            case "cast":
                return None if truncates(self.graph, op) else args[0]
            case "neg":
                return e.sum({args[0]: -ONE})
            case "add":
                return e.sum(counted([(args[0], ONE), (args[1], ONE)]))
            case "sub":
                return e.sum(counted([(args[0], ONE), (args[1], -ONE)]))
            case "mul":
                return e.product(counted([(args[0], ONE), (args[1], ONE)]))
            case "div" if not op.attr:
                return e.product(counted([(args[0], ONE), (args[1], -ONE)]))
            case "sqrt":
                return e.product({args[0]: HALF})
            case "rsqrt":
                return e.product({args[0]: -HALF})
            case "pow":
                exponent = known_exponent(self.graph, op)
                return None if exponent is None else e.product({args[0]: exponent})
            case "exp":
                return e.exp(args[0])
            case "log":
                return next((form.body for form in e.classes[args[0]].nodes if isinstance(form, Exp)), None)
            case "silu":
                return self._silu(args[0])
            case "select":
                return self._select(op, args)
            case "reduce" if op.attr[0] == "max":
                return self._maximum(args[0], op)
            case "reduce" if op.attr[0] == "sum":
                return self._sum(args, reduced_axes(op))
            case "contract":
                return self._sum(args, reduced_axes(op))
            case _:
                return None

    def _root(self, op: Op, c: int) -> int | None:
        """A power of the root of what may be negative, which is not made of the roots of its factors; None for other operations."""
        e, exponent = self.egraph, root_exponent(self.graph, op)
        if exponent is None:
            return None
        root = e.known(Call("sqrt", (), "f32", (c,)), e.space.unknown("sqrt", [e.value(c)]))
        made = e.product({root: 2 * exponent})
        if made is not None and op.kind == "rsqrt":
            e.add_node(made, Call("rsqrt", (), "f32", (c,)))
        return made

    def _opaque(self, op: Op) -> bool:
        return bool(op.args) and opaque(self.graph, op, self.bounds)

    def _silu(self, c: int) -> int | None:
        gate = self.egraph.known(Call("sigmoid", (), "f32", (c,)), self.egraph.space.unknown("sigmoid", [self.egraph.value(c)]))
        made = self.egraph.product({c: ONE, gate: ONE})
        if made is not None:
            self.egraph.add_node(made, Call("silu", (), "f32", (c,)))
        return made

    def _select(self, op: Op, args: list[int]) -> int | None:
        """Where the other branch is 0 and the one is finite, a selection is a product with the bit."""
        if self.egraph.number(args[2]) != 0:
            return None
        made = self.egraph.product(counted([(args[0], ONE), (args[1], ONE)]))
        if made is not None:
            self.egraph.add_node(made, Call("select", (), "f32", tuple(args)))
        return made

    def _maximum(self, c: int, op: Op) -> int | None:
        """max_a (f + k x) = f + k max_a x where f lacks the axes and k is a positive number."""
        e, entry = self.egraph, self.egraph.classes[c]
        mask = e.mask_of(reduced_axes(op))
        for total in entry.sums[:1]:
            inside = {term: k for term, k in total.terms if e.mask(term) & mask}
            if inside and (len(inside) < len(total.terms) or total.constant):
                inner = e.sum(inside)
                outside = counted([(term, k) for term, k in total.terms if term not in inside])
                return None if inner is None else e.sum(counted([*outside.items(), (self._make(op, [inner]), ONE)]), total.constant)
        for product in entry.products[:1]:
            if product.coefficient > 0 and product.coefficient != 1:
                bare = e.product(dict(product.factors))
                return None if bare is None else e.product({self._make(op, [bare]): ONE}, product.coefficient)
        return None

    def _sum(self, args: list[int], axes: Sequence[str]) -> int | None:
        """A contraction: a sum over axes of a product. Over an axis that no operand varies over it is a multiple."""
        e = self.egraph
        product = e.product(counted([(arg, ONE) for arg in args]))
        if product is None:
            return None
        wanted = e.mask_of(axes)
        there = wanted & e.mask(product)
        reduced = e.reduce(there, product)
        if reduced is None:
            return None
        sizes = size_classes(e, wanted & ~there)
        return None if sizes is None else e.product(counted([(reduced, ONE), *((c, ONE) for c in sizes)]))


def degenerate(graph: Graph, egraph: EGraph, converted: Converted) -> int:
    """
    How many choices between different values always took the same one: the draw may not show that there is a choice.

    A maximum with a constant, a selection or a condition of two parts needs luck at few points; another draw is better where it differs.
    So is one in which what they make is 0 along an axis, or two of them are nowhere other than 0 at once: then nothing tells what
    depends on them.
    """
    count = 0
    chosen = {c for op, c in zip(graph.ops, converted.classes, strict=True) if op.kind in ("max", "min", "relu", "select")}
    there = [(value.residues[value.highest] != 0) for value in map(egraph.value, sorted(chosen)) if value.infinite is None]
    count += sum(not (one & other).any() for one, other in combinations(there, 2))
    choosing = any(op.kind in ("max", "min", "relu", "select", "and", "or") for op in graph.ops)
    for op, c in zip(graph.ops, converted.classes, strict=True):
        if choosing and op.kind in ("relu", "max", "min", "select", "mul", "contract"):
            below = 0
            for arg in op.args:
                below |= egraph.mask(converted.classes[arg])
            count += bool(below & ~egraph.mask_of(reduced_axes(op)) & ~egraph.mask(c))
        if op.kind in ("max", "min", "relu", "select", "and", "or"):
            values = {converted.classes[arg] for arg in op.args[op.kind == "select" :]}
            if op.kind == "relu":
                values.add(egraph.constant(Fraction(0)))
            count += c in values and len(values) > 1
    return count


def size_classes(e: EGraph, mask: int) -> list[int] | None:
    """The classes of the sizes of axes: what a sum of ones is. None where one is a chunk, of which the last may be short."""
    out: list[int] = []
    for axis in e.names(mask):
        extent = e.space.extents[axis]
        if axis in e.space.chunks:
            return None
        if extent.constant is not None:
            out.append(e.constant(Fraction(extent.constant)))
        else:
            out.append(e.known(Leaf("size", (axis,), "index"), e.space.size(axis)))
    return out


def counted(pairs: list[tuple[int, Fraction]]) -> dict[int, Fraction]:
    """The amounts of every class added up."""
    out: dict[int, Fraction] = {}
    for c, amount in pairs:
        out[c] = out.get(c, Fraction(0)) + amount
    return out
