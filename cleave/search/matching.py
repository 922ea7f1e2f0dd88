"""
Two programs over one set of axes, so that they can be compared.

The law: `matched` changes names and the order of arguments only. Arguments are the same if they have the same name, where both
programs have the same names, else by position; axes are the same if they stand at the same place in the layout of the same
argument or result. Where one program uses one axis for what are two in the other, the argument is renamed on the way in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest

from ..extents import Extent, from_sympy, symbol
from ..graph import Attr, Axis, Builder, Graph, Input, Op, Output, Symbol
from ..layouts import parse_layout
from .split import fresh

_NO_AXES = ("constant", "compare", "div", "input")


class Mismatch(ValueError):
    """Why two programs cannot be compared: they take or give different tensors."""


def matched(left: Graph, right: Graph) -> tuple[Graph, Graph]:
    """
    The left program, and the right one over its arguments, axes and symbols; both declare the axes of either.

    Raises: Mismatch where arguments or results differ in number, dtype, layout or extents.
    """
    return _Matching(left, right).run()


class _Matching:
    def __init__(self, left: Graph, right: Graph) -> None:
        self.left = left
        self.right = right
        self.position = _positions(left.inputs, right.inputs)
        self.same: dict[str, str] = {}
        """The axis of the left program, or a new one, for every axis of the right."""
        self.symbols: dict[str, str] = {}

    def run(self) -> tuple[Graph, Graph]:
        self.signature()
        axes = self.inner_axes()
        known = {entry.name for entry in self.left.symbols}
        others = [replace(entry, name=self.symbols.get(entry.name, entry.name)) for entry in self.right.symbols]
        symbols = (*self.left.symbols, *(entry for entry in others if entry.name not in known))
        return replace(self.left, axes=axes, symbols=symbols), self.rebuilt(axes, symbols)

    def signature(self) -> None:
        """Identifies axes and symbols by arguments and results."""
        for at, entry in enumerate(self.right.inputs):
            ours = self.left.inputs[self.position[at]]
            where = f"argument '{ours.name}'"
            if entry.dtype != ours.dtype:
                raise Mismatch(f"{where} is {ours.dtype} in one program and {entry.dtype} in the other")
            self.unify(where, ours.layout, entry.layout)
        if len(self.left.outputs) != len(self.right.outputs):
            raise Mismatch(f"one program has {len(self.left.outputs)} results, the other {len(self.right.outputs)}")
        for at, (ours, theirs) in enumerate(zip(self.left.outputs, self.right.outputs, strict=True)):
            where = f"result {at}"
            if ours.dtype != theirs.dtype:
                raise Mismatch(f"{where} is {ours.dtype} in one program and {theirs.dtype} in the other")
            self.unify(where, ours.layout, theirs.layout)

    def unify(self, where: str, ours: str, theirs: str) -> None:
        """Identifies the axes of two layouts and checks that their extents are equal."""
        for mine, other in _pairs(where, ours, theirs):
            if other not in self.same and mine not in self.same.values():
                self.same[other] = mine
            extents = self.left.axis(mine).extent, self.right.axis(other).extent
            self.unify_symbols(*extents)
            if extents[0] != self.translated(extents[1]):
                raise Mismatch(f"axis '{mine}' of {where} has extent {extents[0]} in one program and {extents[1]} in the other")

    def unify_symbols(self, ours: Extent, theirs: Extent) -> None:
        """Where both extents are symbols, they are the same symbol."""
        declared = {entry.name for entry in self.left.symbols}
        if ours.text in declared and theirs.text in {entry.name for entry in self.right.symbols}:
            self.symbols.setdefault(theirs.text, ours.text)

    def translated(self, extent: Extent) -> Extent:
        """An extent of the right program over the symbols of the left."""
        table = {symbol(old): symbol(new) for old, new in self.symbols.items() if old != new}
        return from_sympy(extent.sympy().subs(table, simultaneous=True)) if table else extent

    def inner_axes(self) -> tuple[Axis, ...]:
        """All axes; those of the right that no argument or result has are the left's of the same name, or new."""
        axes = list(self.left.axes)
        for axis in sorted(self.right.axes, key=lambda axis: axis.chunk_of is not None):
            if axis.name in self.same:
                continue
            chunk = None if axis.chunk_of is None else (self.same[axis.chunk_of[0]], self.same[axis.chunk_of[1]])
            found = Axis(axis.name, self.translated(axis.extent), chunk)
            taken = {entry.name for entry in axes} | set(self.same.values())
            if found not in self.left.axes or axis.name in self.same.values():
                found = replace(found, name=fresh(axis.name, taken))
                axes.append(found)
            self.same[axis.name] = found.name
        return tuple(axes)

    def rebuilt(self, axes: Sequence[Axis], symbols: Sequence[Symbol]) -> Graph:
        """The right program over those axes."""
        builder = Builder(self.left.name, symbols, axes, self.left.inputs)
        place: list[int] = []
        for op in self.right.ops:
            if op.kind == "input":
                place.append(self.argument(builder, int(str(op.attr[0]))))
            else:
                attr = self.attribute(op)
                place.append(builder.add(op.kind, *(place[arg] for arg in op.args), attr=attr, dtype=op.dtype))
        outputs: list[Output] = []
        for ours, theirs in zip(self.left.outputs, self.right.outputs, strict=True):
            value = place[theirs.value]
            pairs = [(self.same[other], mine) for mine, other in _pairs("", ours.layout, theirs.layout)]
            outputs.append(replace(ours, value=self.renamed(builder, value, pairs)))
        return builder.finish(outputs)

    def argument(self, builder: Builder, at: int) -> int:
        """An argument of the right program, by its axes there."""
        ours = self.left.inputs[self.position[at]]
        pairs = [(mine, self.same[other]) for mine, other in _pairs("", ours.layout, self.right.inputs[at].layout)]
        return self.renamed(builder, self.position[at], pairs)

    def renamed(self, builder: Builder, value: int, pairs: Iterable[tuple[str, str]]) -> int:
        """A value with some axes renamed."""
        op = builder.ops[value]
        wanted = tuple((old, new) for old, new in pairs if old != new and old in op.axes)
        return builder.add("rename", value, attr=(wanted,), dtype=op.dtype) if wanted else value

    def attribute(self, op: Op) -> tuple[Attr, ...]:
        """The attribute of an operation with its axes and extents translated."""
        if op.kind in _NO_AXES:
            return op.attr
        if op.kind == "reduce":
            return (op.attr[0], *(self.names(part) for part in op.attr[1:]))
        return tuple(self.names(part) for part in op.attr)

    def names(self, attr: Attr) -> Attr:
        """Axes, extents and tuples of them translated."""
        if isinstance(attr, str):
            return self.same[attr]
        if isinstance(attr, Extent):
            return self.translated(attr)
        return tuple(self.names(part) for part in attr) if isinstance(attr, tuple) else attr


def _positions(left: Sequence[Input], right: Sequence[Input]) -> list[int]:
    """For every argument of the right program the position of that of the left."""
    if len(left) != len(right):
        raise Mismatch(f"one program has {len(left)} arguments, the other {len(right)}")
    names = [entry.name for entry in left]
    if sorted(names) == sorted(entry.name for entry in right) and len(set(names)) == len(names):
        return [names.index(entry.name) for entry in right]
    return list(range(len(left)))


def _pairs(where: str, ours: str, theirs: str) -> list[tuple[str, str]]:
    """The axes that stand at the same place of two layouts."""
    groups = list(zip_longest(parse_layout(ours), parse_layout(theirs)))
    if any(a is None or b is None or len(a) != len(b) for a, b in groups):
        raise Mismatch(f"{where} has layout '{ours}' in one program and '{theirs}' in the other")
    return [pair for a, b in groups for pair in zip(a, b, strict=True)]


def sizes_text(declared: Mapping[str, Extent], sizes: Mapping[str, int]) -> str:
    """Sizes of axes as text, with the declared extent where that is another number."""
    parts: list[str] = []
    for name, size in sizes.items():
        constant = declared[name].constant
        parts.append(f"{name} = {size}" + (f" (declared {constant})" if constant is not None and constant != size else ""))
    return ", ".join(parts)
