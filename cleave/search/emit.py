"""
From a chosen program back to a graph.

The law: the graph computes, operation by operation, what the choices say; its dtypes come from `cleave.algebra.dtypes`. A
contraction's operands take the type in which one of them entered a contraction as written, else the widest input type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from ..algebra.dtypes import assign_types, widest, widest_input_type
from ..graph import Attr, Builder, Graph, Output
from .attributes import whole
from .convert import Converted
from .edges import Edge
from .egraph import EGraph
from .extraction import order
from .forms import Call, Leaf, Product, Sum


def emit(graph: Graph, egraph: EGraph, choices: Mapping[int, Edge], roots: Sequence[int], converted: Converted) -> Graph:
    """The graph of a program; `roots[i]` is the class of output i. `converted` is the program as written."""
    return _Emission(graph, egraph, choices, converted).run(roots)


class _Emission:
    def __init__(self, graph: Graph, egraph: EGraph, choices: Mapping[int, Edge], converted: Converted) -> None:
        self.graph = graph
        self.egraph = egraph
        self.choices = choices
        self.operand_types = converted.operand_types
        self.places = converted.places
        self.builder = Builder(graph.name, graph.symbols, graph.axes, graph.inputs)
        self.place: dict[int, int] = {}
        self.class_of: dict[int, int] = {}

    def run(self, roots: Sequence[int]) -> Graph:
        for root in roots:
            needed = order(root, {c: edge.args for c, edge in self.choices.items()})
            assert needed is not None, "a program was handed out that needs itself"
            for c in needed:
                if c not in self.place:
                    self.place[c] = self.make(c, self.choices[c])
                    self.class_of.setdefault(self.place[c], c)
                    self.builder.places[self.place[c]] = self.builder.places[self.place[c]] or self.places.get(c, "")
        outputs = [Output(self.place[root], old.layout, old.dtype) for root, old in zip(roots, self.graph.outputs, strict=True)]
        untyped = Graph(
            self.graph.name, self.graph.symbols, self.graph.axes, self.graph.inputs, tuple(self.builder.ops), tuple(outputs),
            tuple(self.builder.places) if self.graph.places else (),
        )  # fmt: skip
        return assign_types(untyped, self.operand_type)

    def operand_type(self, position: int) -> str:
        """The type for the operands of a contraction."""
        classes = [self.class_of[arg] for arg in self.builder.ops[position].args if arg in self.class_of]
        found = [self.operand_types[c] for c in classes if c in self.operand_types]
        return widest(found) if found else widest_input_type(self.graph)

    def constant(self, number: Fraction) -> int:
        """A number; one that no float equals as a quotient of two that are."""
        parts = _quotient(number)
        if parts is not None:
            above, below = (self.constant(part) for part in parts)
            return self.real("div", above, below)
        return self.builder.add("constant", attr=(float(number),), dtype="f32")

    def real(self, kind: str, *args: int, attr: tuple[Attr, ...] = ()) -> int:
        return self.builder.add(kind, *args, attr=attr, dtype="f32")

    def make(self, c: int, edge: Edge) -> int:
        args = [self.place[arg] for arg in edge.args]
        match edge.kind, edge.payload:
            case "leaf", Leaf(kind, attr, dtype):
                return self.leaf(kind, attr, dtype)
            case "call", Call(kind, attr, dtype, _):
                return self.builder.add(kind, *self.spread(kind, args, attr), attr=attr, dtype=dtype)
            case "scale", Fraction() as factor:
                return self.scaled(args[0], factor)
            case "shift", Fraction() as addend:
                if addend < 0:
                    return self.real("sub", args[0], self.constant(-addend))
                return self.real("add", args[0], self.constant(addend))
            case "power", Fraction() as exponent:
                return self.powered(args[0], exponent)
            case "chain", Product() as product:
                return self.folded_product(product)
            case "chain", Sum() as total:
                return self.folded_sum(total)
            case "reduce", int(mask):
                return self.real("reduce", args[0], attr=("sum", self.egraph.names(mask)))
            case "contract", int(mask):
                args.sort(key=lambda arg: [self.egraph.axes.index(axis) for axis in self.builder.ops[arg].axes])
                return self.real("contract", *args, attr=(self.egraph.names(mask),))
            case kind, _:
                return self.real(kind, *args)

    def spread(self, kind: str, args: Sequence[int], attr: tuple[Attr, ...]) -> list[int]:
        """Operands with the axes that an operation on axes names: a value lacks those along which it is constant."""
        match kind, attr:
            case "concat", (tuple(axes), _):
                return [self.along(arg, str(axis)) for arg, axis in zip(args, axes, strict=True)]
            case "merge", ((str(outer), str(inner)), _):
                return [self.along(self.along(args[0], outer), inner)]
            case (("split" | "slice" | "pad" | "index" | "gather"), (str(axis), *_)):
                return [self.along(args[0], axis), *args[1:]]
            case _:
                return list(args)

    def along(self, arg: int, axis: str) -> int:
        """A value repeated along an axis, if it lacks it: chosen by a condition that holds everywhere."""
        if axis in self.builder.ops[arg].axes:
            return arg
        first = self.builder.add("constant", attr=(0,), dtype="index")
        everywhere = self.builder.add("compare", self.builder.add("iota", attr=(axis,), dtype="index"), first, attr=("ge",), dtype="i1")
        return self.builder.add("select", everywhere, arg, arg, dtype=self.builder.ops[arg].dtype)

    def leaf(self, kind: str, attr: tuple[Attr, ...], dtype: str) -> int:
        if kind == "input":
            return whole(attr[0])
        if kind == "constant" and len(attr) == 2:
            return self.constant(Fraction(whole(attr[0]), whole(attr[1])))
        return self.builder.add(kind, attr=attr, dtype=dtype)

    def scaled(self, arg: int, factor: Fraction) -> int:
        if factor == -1:
            return self.real("neg", arg)
        parts = _quotient(factor)
        if parts is None:
            return self.real("mul", arg, self.constant(factor))
        above = self.scaled(arg, parts[0]) if parts[0] != 1 else arg
        return self.real("div", above, self.constant(parts[1]))

    def powered(self, arg: int, exponent: Fraction) -> int:
        match exponent:
            case Fraction(numerator=1, denominator=2):
                return self.real("sqrt", arg)
            case Fraction(numerator=-1, denominator=2):
                return self.real("rsqrt", arg)
            case Fraction(numerator=-1, denominator=1):
                return self.real("div", self.constant(Fraction(1)), arg)
            case Fraction(numerator=2, denominator=1):
                return self.real("mul", arg, arg)
            case _:
                return self.real("pow", arg, self.constant(exponent))

    def folded_product(self, product: Product) -> int:
        above = [self.factor(c, k) for c, k in product.factors if k > 0]
        below = [self.factor(c, -k) for c, k in product.factors if k < 0]
        out = self.constant(product.coefficient) if product.coefficient != 1 or not above else above.pop(0)
        for factor in above:
            out = self.real("mul", out, factor)
        for factor in below:
            out = self.real("div", out, factor)
        return out

    def factor(self, c: int, exponent: Fraction) -> int:
        return self.place[c] if exponent == 1 else self.powered(self.place[c], exponent)

    def folded_sum(self, total: Sum) -> int:
        out: int | None = self.constant(total.constant) if total.constant else None
        for c, coefficient in sorted(total.terms, key=lambda term: term[1] < 0):
            if out is None:
                out = self.scaled(self.place[c], coefficient) if coefficient != 1 else self.place[c]
            elif coefficient < 0:
                out = self.real("sub", out, self.place[c] if coefficient == -1 else self.scaled(self.place[c], -coefficient))
            else:
                out = self.real("add", out, self.place[c] if coefficient == 1 else self.scaled(self.place[c], coefficient))
        assert out is not None, "a sum has terms"
        return out


def _quotient(number: Fraction) -> tuple[Fraction, Fraction] | None:
    """
    A number that no float equals as two that floats do, None where there are no such two.

    The first is between 1 and 2, or -2 and -1: what is multiplied by it in a narrow type does not overflow.
    """
    above, below = number.numerator, number.denominator
    if Fraction(float(number)) == number or int(float(above)) != above or int(float(below)) != below:
        return None
    size = 1 << (abs(above).bit_length() - 1)
    return Fraction(above, size), Fraction(below, size)
