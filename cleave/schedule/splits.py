"""
Which values depend on how an axis is split.

The number of chunks of a split is the scheduler's to choose where no result depends on it, and so is which elements a chunk has: it may
be whole tiles. A value is `free` of the split, has a `point` of the axis that is split at each place of a chunk, or is a part: the sum,
maximum or minimum over one chunk, of which the same over all chunks makes the whole. Everything else is `bound` to the number of chunks:
the size or an index of an axis of the split, a product of two parts.

    x over n = ceildiv(n, s) by s    sum over ni: a part, "sum"    times 2: a part    sum over s: free    maximum over s: bound
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..extents import Extent, extent
from ..graph import FLOATS, Attr, Graph, Op
from ..layouts import layout_axes

FREE, POINT, BOUND = "free", "point", "bound"
_OPPOSITE = {"max": "min", "min": "max"}
_RISING = ("exp", "expm1", "log", "log1p", "sqrt", "tanh", "sigmoid", "relu", "erf")


def is_free(graph: Graph, symbol: str) -> bool:
    """Whether a symbol is the number of chunks of splits, and nothing that the program takes, computes or returns depends on it."""
    named = {axis.name for axis in graph.axes if symbol in axis.extent.symbols}
    inners = _inners(graph, symbol)
    outers = set(inners.values())
    if not outers or named - outers - set(inners) or any(named & set(entry.axes) for entry in graph.inputs):
        return False
    for inner in inners:
        if graph.axis(inner).extent.text != extent(f"ceildiv({graph.axis(_whole(graph, inner)).extent.text}, {symbol})").text:
            return False
    if any(named & set(layout_axes(entry.layout)) for entry in graph.outputs):
        return False
    return not _depends(graph, symbol, inners, sizes=True)


def exact_chunks(graph: Graph) -> frozenset[str]:
    """The inner axes of splits of which some result depends on which elements a chunk has: it has as many as its axis says."""
    counts = {graph.axis(axis.chunk_of[1]).extent.text for axis in graph.axes if axis.chunk_of is not None}
    found = {count: _inners(graph, count) for count in counts}
    return frozenset(inner for count, inners in found.items() if _depends(graph, count, inners, sizes=False) for inner in inners)


def _inners(graph: Graph, count: str) -> dict[str, str]:
    """The inner and outer axes of the splits into so many chunks."""
    pairs = {axis.name: axis.chunk_of[1] for axis in graph.axes if axis.chunk_of is not None}
    return {inner: outer for inner, outer in pairs.items() if graph.axis(outer).extent.text == count}


def _whole(graph: Graph, inner: str) -> str:
    chunk = graph.axis(inner).chunk_of
    assert chunk is not None
    return chunk[0]


def _depends(graph: Graph, count: str, inners: Mapping[str, str], sizes: bool) -> bool:
    """Whether a result depends on which elements the chunks have; with `sizes` also on how many chunks there are, and of which length."""
    states = _Split(graph, count, inners, sizes).states()
    return any(states[entry.value] != FREE for entry in graph.outputs)


class _Split:
    def __init__(self, graph: Graph, count: str, inners: Mapping[str, str], sizes: bool) -> None:
        self.graph = graph
        self.count = count
        self.inners = inners
        self.outers = set(inners.values())
        self.own = {*self.outers, *inners}
        self.sizes = sizes

    def states(self) -> list[str]:
        """What every operation's value is."""
        out: list[str] = []
        for op in self.graph.ops:
            out.append(self._fitting(op, self._state(op, [out[arg] for arg in op.args])))
        return out

    def _fitting(self, op: Op, state: str) -> str:
        """The state, unless the value has other axes of the split than that."""
        outers = [axis for axis in op.axes if axis in self.outers]
        inners = [axis for axis in op.axes if axis in self.inners]
        if state == POINT:
            fits = len(outers) == 1 and [self.inners[inner] for inner in inners] == outers
        else:
            fits = len(outers) + len(inners) == (0 if state == FREE else 1)
        return state if fits else BOUND

    def _state(self, op: Op, args: Sequence[str]) -> str:
        if BOUND in args or self._named(op.attr):
            return BOUND
        match op.kind, op.attr:
            case ("input" | "constant", _):
                return FREE
            case ("size", (str(axis),)):
                return BOUND if self.sizes and axis in self.own else FREE
            case ("iota", (str(axis),)):
                return BOUND if axis in self.own else FREE
            case ("split", (str(axis), str(outer), str(inner))):
                if outer not in self.own and inner not in self.own:
                    return BOUND if axis in self.own else args[0]
                return POINT if args[0] == FREE and inner in self.inners and self._is_whole(axis, inner) else BOUND
            case ("merge", (tuple(pair), str(axis))):
                if not self.own & {str(name) for name in pair}:
                    return args[0]
                inner = str(pair[1])
                return FREE if args[0] == POINT and inner in self.inners and self._is_whole(axis, inner) else BOUND
            case ("rename", _):
                return args[0]
            case ("slice" | "index", (str(axis), *_)):
                return BOUND if axis in self.own else args[0]
            case ("pad", (str(axis), _, _, value)):
                return BOUND if axis in self.own else args[0] if args[0] in (FREE, POINT, *_OPPOSITE) or value == 0 else BOUND
            case ("concat", (tuple(axes), _)):
                return BOUND if self.own & {str(axis) for axis in axes} else self._joined(op, args, range(len(args)))
            case ("gather", (str(axis),)):
                if axis in self.own or (args[1] != FREE and (args[0], args[1]) != (FREE, POINT)):
                    return BOUND
                return args[0] if args[1] == FREE else POINT
            case ("reduce", (kind, tuple(axes))):
                return self._reduced(op, str(kind), axes, args[0])
            case ("shift", (tuple(axes),)):
                return self._reduced(op, "max", axes, args[0])
            case ("contract", (tuple(axes),)):
                return self._reduced(op, "sum", axes, self._multiplied(args))
            case _:
                return self._elementwise(op, args)

    def _is_whole(self, axis: str, inner: str) -> bool:
        """Whether an axis is as long as that which an inner one has chunks of."""
        return self.graph.axis(axis).extent.text == self.graph.axis(_whole(self.graph, inner)).extent.text

    def _named(self, attr: tuple[Attr, ...]) -> bool:
        return self.sizes and any(isinstance(part, Extent) and self.count in part.symbols for part in attr)

    def _reduced(self, op: Op, kind: str, axes: tuple[Attr, ...], arg: str) -> str:
        removed = self.own & {str(axis) for axis in axes}
        if arg == POINT:
            return (POINT, kind, FREE)[len(removed)] if len(removed) < 3 else BOUND
        if arg == FREE or (arg == kind and not removed):
            return arg
        return FREE if arg == kind else BOUND

    def _multiplied(self, args: Sequence[str]) -> str:
        parts = [arg for arg in args if arg not in (FREE, POINT)]
        if not parts:
            return POINT if POINT in args else FREE
        return "sum" if parts == ["sum"] and POINT not in args else BOUND

    def _elementwise(self, op: Op, args: Sequence[str]) -> str:
        parts = {arg for arg in args if arg not in (FREE, POINT)}
        if not parts:
            return POINT if POINT in args else FREE
        if len(parts) > 1 or POINT in args:
            return BOUND
        (part,) = parts
        return self._summed(op, args) if part == "sum" else self._extreme(op, args, part)

    def _summed(self, op: Op, args: Sequence[str]) -> str:
        """What an operation makes of sums over chunks: a sum where it is linear in them."""
        match op.kind:
            case "neg":
                return "sum"
            case "cast":
                return "sum" if op.dtype in FLOATS else BOUND
            case "add" | "sub":
                return self._joined(op, args, range(2))
            case "mul":
                return self._multiplied(args)
            case "div":
                return "sum" if args[1] == FREE else BOUND
            case "select":
                return self._joined(op, args, (1, 2)) if args[0] == FREE else BOUND
            case _:
                return BOUND

    def _extreme(self, op: Op, args: Sequence[str], part: str) -> str:
        """What an operation makes of maxima or minima over chunks: one where it is monotonic in one of them."""
        alone = list(args).count(part) == 1
        match op.kind:
            case "cast":
                return BOUND if op.dtype == "i1" else part
            case "neg":
                return _OPPOSITE[part]
            case "add":
                return part if alone else BOUND
            case "sub":
                return BOUND if not alone else part if args[0] == part else _OPPOSITE[part]
            case "mul" | "div":
                sign = self._sign(op.args[1] if args[0] == part else op.args[0])
                if not alone or not sign or (op.kind == "div" and args[0] != part):
                    return BOUND
                return part if sign > 0 else _OPPOSITE[part]
            case "max" | "min":
                return part if op.kind == part or alone else BOUND
            case "select":
                return part if args[0] == FREE else BOUND
            case kind:
                return part if kind in _RISING else BOUND

    def _joined(self, op: Op, args: Sequence[str], positions: Sequence[int]) -> str:
        """The state of a value that is one operand here and another there, or their sum: zeros are parts of sums, as they add nothing."""
        found = {args[at] for at in positions if not self._zero(op.args[at])}
        if len(found) < 2:
            return next(iter(found), FREE)
        if found == {FREE, POINT}:
            return POINT
        extremes = found - {FREE}
        return extremes.pop() if len(extremes) == 1 and extremes <= set(_OPPOSITE) else BOUND

    def _origin(self, position: int) -> Op:
        op = self.graph.ops[position]
        while op.kind == "cast":
            op = self.graph.ops[op.args[0]]
        return op

    def _zero(self, position: int) -> bool:
        op = self._origin(position)
        return op.kind == "constant" and op.attr[0] == 0

    def _sign(self, position: int) -> int:
        """1 for a value that is known to be positive, -1 for a negative one, else 0."""
        op = self._origin(position)
        if op.kind == "constant" and isinstance(op.attr[0], int | float):
            return (op.attr[0] > 0) - (op.attr[0] < 0)
        return int(op.kind in ("size", "exp", "sigmoid"))
