"""
What conditions on rows and columns say of a chunk of rows: that they hold for some row of it, or for every one.

Where a condition compares what is known of a row with what is known of a column, one comparison with the least and the largest over
the rows of the chunk decides it (interval arithmetic):

    some row has f == g    is implied by what it implies: min f <= g and g <= max f
    every row has f == g   min f == g and max f == g
    f < g                  some: min f < g       every: max f < g

"Some" may be true where no row satisfies a conjunction, "every" false where all rows satisfy one part of a disjunction or the other:
bounds are wider than they need be, and never too narrow. So R rows cost what one does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from ..graph import Builder, Op

ROWS = 64
"""Rows of a chunk: the fewest that a warp group's dots have, so that tiles are of whole chunks."""
COMPARED = ("index", "i32", "i64")
Which: TypeAlias = Literal["some", "every"]
_TURNED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
_OTHER: dict[Which, Which] = {"some": "every", "every": "some"}


def tells_apart(ops: Sequence[Op], at: int, row: str, along: str) -> bool:
    """Whether a condition is made of comparisons of integers, each of what depends on the rows with what depends on the columns."""
    op = ops[at]
    if row not in op.axes or along not in op.axes:
        return op.dtype == "i1"
    if op.kind in ("and", "or", "not"):
        return all(tells_apart(ops, arg, row, along) for arg in op.args)
    sides = [ops[arg] for arg in op.args]
    return op.kind == "compare" and all(side.dtype in COMPARED and not {row, along} <= set(side.axes) for side in sides)


@dataclass(slots=True)
class Chunks:
    """
    Chunks of the indices along `row`: element i of chunk c stands for row c * ROWS + i; in the last chunk the last row is repeated. `along`
    is the axis of columns.
    """

    builder: Builder
    row: str
    along: str
    chunk: str
    element: str
    _ends: dict[tuple[int, str], int] = field(default_factory=lambda: {})

    def relaxed(self, at: int, which: Which) -> int:
        """What says of a condition that tells rows and columns apart whether it holds for some row of a chunk, or for every one."""
        op, add = self.builder.ops[at], self.builder.add
        if self.row not in op.axes:
            return at
        if self.along not in op.axes:
            end = self.end(add("cast", at, dtype="i32"), "max" if which == "some" else "min")
            return add("compare", end, add("constant", attr=(0,), dtype="i32"), attr=("ne",))
        match op.kind:
            case "and" | "or":
                return add(op.kind, *(self.relaxed(arg, which) for arg in op.args))
            case "not":
                return add("not", self.relaxed(op.args[0], _OTHER[which]))
            case _:
                return self._compared(op.args[0], op.args[1], str(op.attr[0]), which)

    def row_of(self, stored: int, axis: str | None = None) -> int:
        """What is stored for each chunk, for each row; with an `axis`, along that."""
        add = self.builder.add
        row = add("cast", add("iota", attr=(self.row,)), dtype="i32")
        place = add("floordiv", row, add("constant", attr=(ROWS,), dtype="i32"))
        return add("gather", stored, place, attr=(axis or self.chunk,))

    def _compared(self, left: int, right: int, predicate: str, which: Which) -> int:
        add = self.builder.add
        if self.row in self.builder.ops[right].axes:
            left, right, predicate = right, left, _TURNED[predicate]
        low, high = self.end(left, "min"), self.end(left, "max")
        match predicate:
            case "ne":
                return add("not", self._compared(left, right, "eq", _OTHER[which]))
            case "eq":
                kinds = ("le", "ge") if which == "some" else ("eq", "eq")
                return add("and", *(add("compare", end, right, attr=(kind,)) for end, kind in zip((low, high), kinds, strict=True)))
            case _:
                least = (predicate in ("lt", "le")) == (which == "some")
                return add("compare", low if least else high, right, attr=(predicate,))

    def end(self, at: int, kind: str) -> int:
        """The least or largest of an integer over the rows of each chunk."""
        if (at, kind) not in self._ends:
            add = self.builder.add
            first = add("mul", add("cast", add("iota", attr=(self.chunk,)), dtype="i32"), add("constant", attr=(ROWS,), dtype="i32"))
            row = add("add", first, add("cast", add("iota", attr=(self.element,)), dtype="i32"))
            rows = add("cast", add("size", attr=(self.row,)), dtype="i32")
            last = add("sub", rows, add("constant", attr=(1,), dtype="i32"))
            value = add("cast", at, dtype="i64") if self.builder.ops[at].dtype == "index" else at
            each = add("gather", value, add("min", row, last), attr=(self.row,))
            self._ends[at, kind] = add("reduce", each, attr=(kind, (self.element,)))
        return self._ends[at, kind]
