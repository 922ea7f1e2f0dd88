"""
Sums of products of two rows as the diagonal of a dot.

A loop that holds dots and also sums products of what it loads, as a norm and a product of the same rows do, has loads for registers, which
Triton does not load ahead. The same sum is one of the elements of a product of matrices:

    s[m] = sum_d x[m, d] * y[m, d]    ->    g[m, m'] = sum_d x[m, d] * y[m', d],    s[m] = sum_m' (m' == m ? g[m, m'] : 0)

with m' a second name for the rows of the tile. Products of 16-bit factors are exact in f32, and a dot adds them in f32: the sum is as
accurate as any dot, within (terms) * 2**-24 of the sum of magnitudes. What else it computes is of other rows, a few instructions where
rows are few, and is dropped by a choice, whatever it is. Then everything in the loop feeds dots.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..graph import Attr, Axis, Builder, Graph
from .buffers import fresh
from .nodes import REDUCING, Node
from .problem import Problem
from .reductions import SMALLEST_DOT, dot_sides
from .roles import Dim, Plan
from .statements import InfeasibleError
from .whole import KernelEmitter

MOST_ROWS = 64
"""The most rows of a tile of which a product with themselves is worth it."""


@dataclass(frozen=True, slots=True)
class Factors:
    """What a sum of products is of, as operations of the graph, and the dimension of its rows."""

    left: int
    right: int
    rows: Dim


def emitter_of(problem: Problem, plan: Plan) -> KernelEmitter:
    """What emits the kernel of a plan. Raises: InfeasibleError where it wants diagonals and nothing has the form."""
    emitter = KernelEmitter(problem, plan)
    if not plan.diagonal:
        return emitter
    found = _sums(problem, emitter)
    if not found:
        raise InfeasibleError("no loop with dots sums products of two rows")
    return KernelEmitter(*_replaced(problem, plan, found))


def _sums(problem: Problem, emitter: KernelEmitter) -> dict[int, Factors]:
    """By operation the sums that may be diagonals: of products of two loads of 16 bits, in a loop that holds dots."""
    loops = {
        (dim.name, emitter.stage(node, dim))
        for node in problem.nodes
        if node.kind == "contract" and (dim := emitter.loop_of(node)) is not None and dot_sides(emitter, node) is not None
    }
    rows: dict[int, list[tuple[Dim, ...]]] = {}
    for node in problem.nodes:
        if node.kind in REDUCING:
            rows.setdefault(node.op, []).append(tuple(emitter.by_name[name] for name, _ in emitter.tile_dims(emitter.names(node.axes))))
    out: dict[int, Factors] = {}
    for node in problem.nodes:
        dim = emitter.loop_of(node) if _is_sum_of_loads(node) else None
        if dim is None or dim.tile < SMALLEST_DOT or (dim.name, emitter.stage(node, dim)) not in loops or node.op in out:
            continue
        pair = _factors(problem.graph, node.op)
        # Read under other names of its axes, or of pieces of them, a sum is not of the rows that its second name has.
        (own, *others), named = rows[node.op], set(problem.graph.ops[node.op].axes)
        if pair is None or len(own) != 1 or any(other != own for other in others) or not set(own[0].axes) <= named:
            continue
        if emitter.names(node.removed) == {dim.name} and own[0].role != "loop" and SMALLEST_DOT <= own[0].tile <= MOST_ROWS:
            out[node.op] = Factors(*pair, own[0])
    return out


def _is_sum_of_loads(node: Node) -> bool:
    """Whether a node sums, in f32, what is made of loads and constants by products and casts."""

    def plain(part: Node) -> bool:
        return part.kind in ("load", "constant") or (part.kind in ("cast", "mul", "pow") and all(plain(arg) for arg in part.args))

    sums = node.kind == "contract" or (node.kind == "reduce" and node.attr[0] == "sum")
    return sums and node.dtype == "f32" and all(plain(arg) for arg in node.args)


def _factors(graph: Graph, at: int) -> tuple[int, int] | None:
    """The two values of one 16-bit type, with the same axes, whose product a sum is of."""
    op = graph.ops[at]
    args = op.args
    if op.kind == "reduce":
        product = graph.ops[args[0]]
        if product.dtype != "f32" or product.kind not in ("mul", "pow"):
            return None
        args = product.args
        if product.kind == "pow":
            power = graph.ops[args[1]]
            if power.kind != "constant" or power.attr != (2.0,):
                return None
            args = (args[0], args[0])
    if len(args) != 2:
        return None
    left, right = (graph.ops[arg].args[0] if graph.ops[arg].kind == "cast" else arg for arg in args)
    one, other = graph.ops[left], graph.ops[right]
    exact = one.dtype == other.dtype in ("f16", "bf16") and all(graph.ops[arg].dtype in ("f32", one.dtype) for arg in args)
    return (left, right) if exact and set(one.axes) == set(other.axes) else None


def _replaced(problem: Problem, plan: Plan, found: Mapping[int, Factors]) -> tuple[Problem, Plan]:
    """The work with these sums as diagonals, and the plan with second names for the dimensions of their rows."""
    graph = problem.graph
    taken = {axis.name for axis in graph.axes} | {symbol.name for symbol in graph.symbols} | {dim.name for dim in plan.dims}
    twins: dict[str, Dim] = {}
    others: dict[str, str] = {}
    for rows in dict.fromkeys(factors.rows for factors in found.values()):
        others.update((axis, fresh(f"{axis}_other", taken)) for axis in rows.axes)
        axes = tuple(others[axis] for axis in rows.axes)
        name = axes[0] if len(axes) == 1 else fresh(f"{rows.name}_other", taken)
        twins[rows.name] = replace(rows, name=name, axes=axes, role="full", along=rows.name)
    more = [Axis(others[axis.name], axis.extent) for axis in graph.axes if axis.name in others]
    builder = Builder(graph.name, graph.symbols, (*graph.axes, *more), graph.inputs)
    place: list[int] = []
    for at, op in enumerate(graph.ops):
        builder.place = graph.places[at] if graph.places else ""
        factors = found.get(at)
        if op.kind == "input":
            place.append(int(str(op.attr[0])))
        elif factors is None:
            place.append(builder.add(op.kind, *(place[arg] for arg in op.args), attr=op.attr, dtype=op.dtype))
        else:
            pairs = tuple((axis, others[axis]) for axis in factors.rows.axes)
            place.append(_diagonal(builder, place[factors.left], place[factors.right], op.attr[-1], pairs))
    degrees = [dict[int, int]() for _ in builder.ops]
    for at, degree in enumerate(problem.degrees):
        degrees[place[at]] = {place[shift]: power for shift, power in degree.items()}
    work = replace(
        problem,
        graph=replace(graph, axes=tuple(builder.axes), ops=tuple(builder.ops), places=tuple(builder.places)),
        sizes=problem.sizes.extended(more),
        results=tuple(replace(result, op=place[result.op]) for result in problem.results),
        degrees=tuple(degrees),
    )
    # What is summed is between the two names of rows, so that one of the two tiles is that of other dots.
    order = [dim.name for dim in plan.dims]
    loop = next(dim.name for dim in plan.dims if dim.role == "loop")
    after = [twin for name, twin in twins.items() if order.index(name) < order.index(loop)]
    before = [twin for twin in twins.values() if twin not in after]
    return work, replace(plan, dims=(*before, *plan.dims, *after))


def _diagonal(builder: Builder, left: int, right: int, over: Attr, pairs: tuple[tuple[str, str], ...]) -> int:
    other = builder.add("rename", right, attr=(pairs,))
    product = builder.add("contract", left, other, attr=(over,), dtype="f32")
    same: int | None = None
    for axis, again in pairs:
        equal = builder.add("compare", builder.add("iota", attr=(again,)), builder.add("iota", attr=(axis,)), attr=("eq",))
        same = equal if same is None else builder.add("and", same, equal)
    assert same is not None, "rows have an axis"
    own = builder.add("select", same, product, builder.add("constant", attr=(0.0,)), dtype="f32")
    return builder.add("reduce", own, attr=("sum", tuple(again for _, again in pairs)), dtype="f32")
