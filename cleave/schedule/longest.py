"""
Longest first, where only data tells how long the loop of a tile of rows is.

Programs of a grid begin in its order, each where another has ended, so that a long one among the last runs while most of the machine is
idle. With the longest first the last ones are short, and the whole takes at most 4/3 of what the best order takes (Graham: Bounds on
multiprocessing timing anomalies, SIAM J. Appl. Math. 17(2), 1969). Ranges that are stored for chunks of rows (`cleave.schedule.ranges`)
say how many columns are walked for each. With c, c' and r numbers of chunks,

    length[c] = max(hi[c] - lo[c], 0)
    rank[c] = sum_c' (length[c'] > length[c] or length[c'] == length[c] and c' < c)
    order[r] = max_c select(rank[c] == r, c, 0)

order is a permutation: order[r] is the chunk that is the r-th longest, of equals the first. Where ranges differ along other axes, as for
each sequence of a batch, so do these. The kernel that the ranges bound reads its order, which `ordered` says in its graph. Its tiles of
rows are chunks, the slowest dimension of its grid: what else differs runs side by side for rows that are as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..graph import Builder
from .problem import Problem
from .relaxed import ROWS
from .roles import Plan


@dataclass(frozen=True, slots=True)
class RowOrder:
    """The order that a kernel may run the chunks of `row` in: input `source` of its graph, where `place` is the axis of r."""

    row: str
    source: int
    place: str


def order_of(builder: Builder, lengths: Sequence[int], chunk: str, other: str, place: str) -> int:
    """
    The chunks along `place`, longest first; the length of one is the sum of those given, each over `chunk` and axes that orders may differ
    along. `other` is a second name of chunks; all three axes have the same extent.
    """
    add = builder.add
    none = add("constant", attr=(0,), dtype="i32")
    length, *more = (add("max", each, none) for each in lengths)
    for each in more:
        length = add("add", length, each)
    number, rival, rank = (add("cast", add("iota", attr=(axis,)), dtype="i32") for axis in (chunk, other, place))
    against = add("rename", length, attr=(((chunk, other),),))
    tie = add("and", add("compare", against, length, attr=("eq",)), add("compare", rival, number, attr=("lt",)))
    before = add("or", add("compare", against, length, attr=("gt",)), tie)
    own = add("reduce", add("cast", before, dtype="i32"), attr=("sum", (other,)))
    return add("reduce", add("select", add("compare", own, rank, attr=("eq",)), number, none), attr=("max", (chunk,)))


def row_orders(problem: Problem) -> list[RowOrder]:
    """The orders of rows that a kernel's work has."""
    ops = problem.graph.ops
    out: list[RowOrder] = []
    for op in ops:
        made = ops[op.args[1]] if op.kind == "ordered" else op
        if op.kind == "ordered" and made.kind == "gather" and ops[made.args[0]].kind == "input":
            (row,) = ops[made.args[1]].axes
            out.append(RowOrder(row, int(str(ops[made.args[0]].attr[0])), str(made.attr[0])))
    return out


def longest_first(plan: Plan, rows: Sequence[str]) -> Plan | None:
    """
    A plan whose chunks of one of `rows` run in the order that is stored for them, None where that dimension is another than of one chunk a
    program.
    """
    dim = next((dim for dim in plan.dims if set(dim.axes) & set(rows)), None)
    if dim is None or len(dim.axes) > 1 or dim.role != "grid" or dim.tile != ROWS:
        return None
    return replace(plan, raster=(*(name for name in plan.raster if name != dim.name), dim.name), ordered=dim.name)
