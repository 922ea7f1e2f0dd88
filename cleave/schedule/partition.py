"""
Partition of a graph into kernels.

A cut stores a value between kernels; a kernel computes one or several stored values from arguments and from what earlier
kernels stored, recomputing everything else. Here are the values worth storing, and the graph of one kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from ..graph import Graph, Input, Op
from .buffers import argument_buffers, fresh, result_buffers, workspace
from .chunks import Aligned
from .problem import Problem, Result
from .program import Buffer
from .sizes import Sizes


@dataclass(frozen=True, slots=True)
class Item:
    """
    A value that is stored: the operation, where, and whether later kernels may read it there; `raw` and `repeated` are for its `Result`.
    """

    op: int
    buffer: Buffer
    shared: bool
    raw: bool = False
    repeated: bool = False

    @property
    def key(self) -> tuple[object, ...]:
        """What tells stored values of one graph apart."""
        return self.op, self.buffer.name, self.repeated


@dataclass(frozen=True, slots=True)
class Source:
    """
    A graph to partition, with the degrees of its values and its argument and result buffers.

    `cuts` must be stored; `raw` are stored shifts, kept at -inf where nothing is live. `narrow` are products that the program as written
    rounds to 16 bits, and that are stored so. `ranged` says that loops are bounded by stored ranges (see `cleave.schedule.ranges`),
    `ordered` that tiles of rows also run in the order of these (see `cleave.schedule.longest`).
    """

    graph: Graph
    degrees: tuple[Mapping[int, int], ...]
    sizes: Sizes
    arguments: tuple[Buffer, ...]
    results: tuple[Buffer, ...]
    cuts: tuple[int, ...] = ()
    raw: frozenset[int] = frozenset()
    narrow: Mapping[int, str] = field(default_factory=dict[int, str])
    ranged: bool = False
    ordered: bool = False


Product: TypeAlias = tuple[frozenset[int], frozenset[str]]
"""A contraction of two inputs of the program: which, and over what."""


def source_of(made: Aligned, sizes: Sizes, written: frozenset[Product] = frozenset()) -> Source:
    """A graph whose inputs and outputs are the program's own. `written` are products of the program as it was written."""
    graph = made.graph
    narrow = {at: dtype for at, (product, dtype) in products(graph).items() if product in written}
    arguments, results = argument_buffers(graph, sizes), result_buffers(graph, sizes)
    return Source(graph, made.degrees, sizes, arguments, results, made.cuts, made.raw, narrow)


def products(graph: Graph) -> dict[int, tuple[Product, str]]:
    """The contractions of two inputs of one 16-bit type, with that type: PyTorch gives such a product the type of its operands."""
    out: dict[int, tuple[Product, str]] = {}
    for at, op in enumerate(graph.ops):
        inputs = [graph.ops[arg] for arg in op.args if graph.ops[arg].kind == "input"]
        dtypes = {entry.dtype for entry in inputs}
        if op.kind == "contract" and len(inputs) == len(op.args) == 2 and len(dtypes) == 1 and dtypes <= {"f16", "bf16"}:
            over = frozenset(axis for entry in inputs for axis in entry.axes) - frozenset(op.axes)
            out[at] = (frozenset(int(str(entry.attr[0])) for entry in inputs), over), inputs[0].dtype
    return out


def half_products(source: Source) -> tuple[int, ...]:
    """The products of two inputs of a 16-bit type that are stored in it, or where they are cast to it: what a library may compute."""
    graph = source.graph
    found = products(graph)
    return tuple(
        at
        for at, op in enumerate(graph.ops)
        if at in source.narrow or (op.kind == "cast" and op.args[0] in found and found[op.args[0]][1] == op.dtype)
    )


def items(source: Source, cuts: Sequence[int]) -> list[Item]:
    """What is stored under a set of cuts: the results, and each cut that no result holds already."""
    out = [
        Item(entry.value, buffer, _holds(source.graph, entry.value, buffer))
        for entry, buffer in zip(source.graph.outputs, source.results, strict=True)
    ]
    taken = {buffer.name for buffer in (*source.arguments, *source.results)}
    for cut in sorted(cuts):
        if not any(item.op == cut and item.shared for item in out):
            op = source.graph.ops[cut]
            axes = _together(source.graph, op.axes)
            buffer = workspace(fresh(f"tmp{cut}", taken), axes, source.narrow.get(cut, op.dtype), source.sizes)
            out.append(Item(cut, buffer, True, cut in source.raw))
    return out


def _together(graph: Graph, axes: Sequence[str]) -> tuple[str, ...]:
    """The axes with the numbers of chunks first: a program has one chunk, and what it stores should lie together."""
    numbers = {axis.chunk_of[1] for axis in graph.axes if axis.chunk_of is not None}
    return tuple(sorted(axes, key=lambda axis: axis not in numbers))


def grounded(source: Source, cuts: Sequence[int]) -> tuple[int, ...]:
    """
    The cuts with the shifts that stored values are relative to: a reader must align with the shift a value was made with, and not
    with one that it finds itself in a loop. What chunks of a split store is aligned by its readers already. And with what stored shifts
    were found from, where that is a sum of exact products: another kernel rounds it otherwise, and no shift takes that back.
    """
    own = [cut for cut in cuts if cut not in source.cuts]
    shifts = {shift for cut in own for shift, degree in source.degrees[cut].items() if degree}
    stored = {at for at in (*own, *shifts) if source.graph.ops[at].kind == "shift"}
    exact = {arg for at in stored for arg in source.graph.ops[at].args if _sums_exactly(source.graph, arg)}
    return tuple(sorted({*cuts, *shifts, *exact}))


def _sums_exactly(graph: Graph, root: int) -> bool:
    """Whether an operation is computed from sums of products in f32."""
    pending, seen = [root], set[int]()
    while pending:
        at = pending.pop()
        op = graph.ops[at]
        if op.kind == "contract" and any(graph.ops[arg].dtype == "f32" for arg in op.args):
            return True
        if at not in seen:
            seen.add(at)
            pending += op.args
    return False


def _holds(graph: Graph, op: int, buffer: Buffer) -> bool:
    return graph.ops[op].dtype == buffer.dtype and set(graph.ops[op].axes) == set(buffer.axes)


def needs(source: Source, group: Sequence[Item], stored: Mapping[int, Item]) -> tuple[int, ...]:
    """The stored operations that a kernel storing some items reads, not looking behind them."""
    return tuple(sorted(_behind(source.graph, [item.op for item in group], stored)[1]))


def _behind(graph: Graph, roots: Sequence[int], stored: Mapping[int, Item]) -> tuple[set[int], set[int]]:
    """The operations to compute for `roots`, and the stored ones they read."""
    inside: set[int] = set()
    read: set[int] = set()
    pending = list(roots)
    while pending:
        at = pending.pop()
        if at in inside:
            continue
        inside.add(at)
        for arg in graph.ops[at].args:
            if arg in stored and arg not in roots and graph.ops[arg].kind != "input":
                read.add(arg)
            else:
                pending.append(arg)
    return inside, read


def kernel_graph(
    source: Source, group: Sequence[Item], stored: Mapping[int, Item]
) -> tuple[Graph, tuple[Mapping[int, int], ...], list[Buffer], dict[int, int]]:
    """
    The graph of one kernel: its degrees, its input buffers, and where each of its operations stands in the whole graph.
    """
    roots = list(dict.fromkeys(item.op for item in group))
    inside, read = _behind(source.graph, roots, stored)
    inputs = list(source.graph.inputs)
    buffers = list(source.arguments)
    ops: list[Op] = []
    origin: list[int] = []
    place: dict[int, int] = {}
    for at in sorted(inside | read):
        op = source.graph.ops[at]
        if at in read:
            buffer = stored[at].buffer
            inputs.append(Input(buffer.name, op.axes, buffer.dtype, " ".join(op.axes)))
            buffers.append(replace(buffer, axes=buffer.axes))
            ops.append(Op("input", (), op.axes, buffer.dtype, (len(inputs) - 1,)))
            if buffer.dtype != op.dtype:
                ops.append(Op("cast", (len(ops) - 1,), op.axes, op.dtype))
        else:
            ops.append(replace(op, args=tuple(place[arg] for arg in op.args)))
        place[at] = len(ops) - 1
        origin += [at] * (len(ops) - len(origin))
    inputs = [replace(entry, axes=buffers[number].axes) for number, entry in enumerate(inputs)]
    degrees = tuple(
        {place[shift]: power for shift, power in source.degrees[at].items() if shift in place and ops[place[shift]].kind == "shift"}
        for at in origin
    )
    places = tuple(source.graph.places[at] for at in origin) if source.graph.places else ()
    graph = replace(source.graph, inputs=tuple(inputs), ops=tuple(ops), outputs=(), places=places)
    return graph, degrees, buffers, dict(enumerate(origin))


def problem_of(source: Source, name: str, group: Sequence[Item], stored: Mapping[int, Item]) -> Problem:
    """The work of one kernel. Raises: EntangledError with a position of the whole graph."""
    from .nodes import EntangledError

    graph, degrees, buffers, origin = kernel_graph(source, group, stored)
    back = {old: new for new, old in origin.items()}
    results = tuple(Result(back[item.op], item.buffer, item.raw, item.repeated) for item in group)
    try:
        return Problem(name, graph, source.sizes, tuple(buffers), results, degrees)
    except EntangledError as error:
        raise EntangledError(origin[error.op]) from error


def cut_candidates(graph: Graph) -> tuple[int, ...]:
    """
    The values worth storing between kernels.

    For each reduction that is the last of its result in a chain of elementwise operations on the same axes, which nothing else
    reads: a product cast to half precision is stored in that form.
    """
    users = graph.users()
    outputs = {entry.value for entry in graph.outputs}
    out: set[int] = set()
    for position, op in enumerate(graph.ops):
        if op.kind not in ("reduce", "contract", "shift"):
            continue
        at = position
        while len(users[at]) == 1 and at not in outputs:
            user = graph.ops[users[at][0]]
            if user.kind in _STRUCTURAL or set(user.axes) != set(op.axes):
                break
            at = users[at][0]
        out.add(at)
    return tuple(sorted(at for at in out if users[at]))


def operand_cuts(graph: Graph, sizes: Sizes) -> tuple[int, ...]:
    """
    The half-precision operands of contractions that are computed, and anew for every tile of the axes that they lack.

    Stored first, they reach the dots straight from memory. What is larger than half of all arguments and results is left out.
    """
    used = {op.attr[0] for op in graph.ops if op.kind == "input"}
    moved = [entry.axes for place, entry in enumerate(graph.inputs) if place in used]
    moved += [graph.ops[entry.value].axes for entry in graph.outputs]
    most = sum(sizes.hint_product(axes) for axes in moved) // 2
    out: set[int] = set()
    for op in graph.ops:
        if op.kind != "contract" or len(op.args) < 2:
            continue
        for at in op.args:
            made = graph.ops[at]
            computed = made.kind not in ("input", *_STRUCTURAL) and made.dtype in ("f16", "bf16")
            if computed and set(op.axes) - set(made.axes) and sizes.hint_product(made.axes) <= most:
                out.add(at)
    return tuple(sorted(out))


_STRUCTURAL = ("reduce", "contract", "shift", "rename", "split", "merge", "slice", "index", "concat", "pad", "gather")
