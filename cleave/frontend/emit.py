"""
From nodes over atoms to a graph over named axes, once all atoms are known.

Renames are settled first: their two sides must split alike, and splitting one may refine another, so this is repeated until
nothing changes. A rename of something that only depends on positions is pushed down to the `iota`s. A regrouping whose sides
do not correspond merges and splits; of an argument it is a second view of the same memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sympy
import torch

from ..errors import CleaveError
from ..extents import Extent, ratio_of
from ..graph import BINARY, UNARY, Attr, Axis, Builder, Graph, Input, Output, Symbol
from ..layouts import layout_axes
from .atoms import Atom, Dim
from .naming import axis_names, identifier, ordered, unique
from .sizes import Size, equal, floor_division, product, remainder, to_extent
from .values import DTYPES, Lowering, Node, Value

Entry = tuple[Dim, int, Size, Size]
"""A dimension of an argument's view: its atoms, the tensor dimension, the first position taken and the step."""

_RANGES = {name: torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype) for dtype, name in DTYPES.items() if name != "i1"}
_ELEMENTWISE = (*UNARY, *BINARY, "compare", "select", "cast")


@dataclass(frozen=True)
class Argument:
    """A tensor that the program reads: the name and dtype name it has in the graph, and whether it is constant between calls."""

    name: str
    dtype: str
    weight: bool


@dataclass(frozen=True)
class Read:
    """A graph input: the key of its argument, and for each layout dimension its size, tensor dimension, first position and step."""

    key: str
    dims: tuple[tuple[Extent, int, Extent, Extent], ...]


@dataclass(frozen=True)
class Emitted:
    """The graph, what each input reads, and the names given to symbols."""

    graph: Graph
    reads: tuple[Read, ...]
    symbols: Mapping[str, str]


def emit(
    cx: Lowering,
    name: str,
    arguments: Mapping[str, Argument],
    outputs: Sequence[Value],
    symbols: Mapping[str, str],
    facts: Mapping[str, Symbol],
) -> Emitted:
    """
    The graph of some values.

    `symbols` holds the names that the program gives to symbols, by their name in tracing; `facts` what is known of each.
    """
    nodes = _reachable(output.node for output in outputs)
    _settle(cx, nodes)
    leaves = _appearing(cx, nodes, outputs, list(arguments))
    names = axis_names(leaves, symbols)
    table = _symbol_names(leaves, names, symbols, facts)
    emitter = _Emitter(cx, name, arguments, nodes, ordered(leaves), names, table)
    for node in nodes:
        emitter.done[node] = emitter.emitted(node)
    graph = emitter.builder.finish([emitter.output(value) for value in outputs])
    return Emitted(_declared(graph, table, facts), tuple(emitter.reads), table)


def _reachable(roots: Iterable[Node]) -> list[Node]:
    """All nodes that the roots need, operands first."""
    out: dict[Node, None] = {}
    stack: list[tuple[Node, bool]] = [(root, False) for root in list(roots)[::-1]]
    while stack:
        node, ready = stack.pop()
        if node in out:
            continue
        if ready:
            out[node] = None
        else:
            stack.append((node, True))
            stack += [(arg, False) for arg in node.args[::-1]]
    return list(out)


def _settle(cx: Lowering, nodes: Sequence[Node]) -> None:
    """Splits both sides of every renaming alike, until no split is left to do."""
    pairs: list[tuple[Dim, Dim]] = [pair for node in nodes if node.kind == "regroup" for pair in node.attr]
    before = -1
    while before != (before := sum(len(cx.atoms.leaves(side)) for pair in pairs for side in pair)):
        for source, target in pairs:
            cx.atoms.align(source, target)


def _appearing(cx: Lowering, nodes: Sequence[Node], outputs: Sequence[Value], arguments: Sequence[str]) -> list[Atom]:
    """Every leaf that the graph will have, those of arguments first."""
    inputs = sorted((node for node in nodes if node.kind == "input"), key=lambda node: arguments.index(node.attr[0]))
    found: dict[Atom, None] = {}
    for node in [*inputs, *nodes]:
        found.update(dict.fromkeys(cx.data(node)))
    for output in outputs:
        for dim in output.dims:
            found.update(dict.fromkeys(cx.atoms.leaves(dim)))
    return list(found)


def _symbol_names(
    leaves: Sequence[Atom], names: Mapping[Atom, str], symbols: Mapping[str, str], facts: Mapping[str, Symbol]
) -> dict[str, str]:
    """A name for every symbol: the program's, else that of the first axis it is the extent of, else one of its own."""
    table = dict(symbols)
    for atom in leaves:
        if not isinstance(atom.extent, int) and atom.extent.is_Symbol:
            table.setdefault(str(atom.extent), names[atom])
    for symbol in facts:
        if symbol not in table:
            table[symbol] = unique(identifier(symbol, "s"), [*table.values(), *names.values()])
    return table


def _declared(graph: Graph, table: Mapping[str, str], facts: Mapping[str, Symbol]) -> Graph:
    """The graph with the axes that it uses and the symbols that these need."""
    used = {axis for op in graph.ops for axis in op.axes}
    used |= {part for op in graph.ops if op.kind not in _ELEMENTWISE for part in _texts(op.attr)}
    used |= {axis for entry in [*graph.inputs, *graph.outputs] for axis in layout_axes(entry.layout)}
    axes = tuple(axis for axis in graph.axes if axis.name in used)
    extents = [axis.extent for axis in axes] + [part for op in graph.ops for part in op.attr if isinstance(part, Extent)]
    needed = {name for one in extents for name in one.symbols}
    symbols: dict[str, Symbol] = {}
    for key, fact in facts.items():
        if table[key] in needed:
            symbols.setdefault(table[key], replace(fact, name=table[key]))
    return replace(graph, symbols=tuple(symbols.values()), axes=axes)


def _texts(attr: tuple[Attr, ...]) -> list[str]:
    out: list[str] = []
    for part in attr:
        if isinstance(part, str):
            out.append(part)
        elif isinstance(part, tuple):
            out += _texts(part)
    return out


class _Emitter:
    """Emission of one graph: nodes become operations in order."""

    def __init__(
        self,
        cx: Lowering,
        name: str,
        arguments: Mapping[str, Argument],
        nodes: Sequence[Node],
        leaves: Sequence[Atom],
        names: Mapping[Atom, str],
        symbols: Mapping[str, str],
    ) -> None:
        self.cx = cx
        self.symbols = symbols
        self.names = names
        self.reads: list[Read] = []
        self.done: dict[Node, int] = {}
        self.place = ""
        self._positional: dict[Node, bool] = {}
        self._views = self._distinct_views(nodes, list(arguments))
        inputs = [self._input(arguments[key], entries) for key, entries in self._views]
        self.reads = [Read(key, tuple(self._read(entry) for entry in entries)) for key, entries in self._views]
        axes = [Axis(names[leaf], self.extent(leaf.extent)) for leaf in leaves]
        taken: list[Input] = []
        for entry in inputs:
            taken.append(replace(entry, name=unique(entry.name, [other.name for other in taken])))
        self.builder = Builder(name, [], axes, taken)

    def extent(self, size: Size) -> Extent:
        """A size as an extent over the graph's symbols."""
        return to_extent(size, self.symbols)

    def output(self, value: Value) -> Output:
        """A graph result."""
        return Output(self.done[value.node], self._layout(value.dims), value.node.dtype)

    def _distinct_views(self, nodes: Sequence[Node], arguments: Sequence[str]) -> list[tuple[str, tuple[Entry, ...]]]:
        """The views of arguments that the graph reads, in order of the arguments."""
        views: dict[tuple[str, tuple[Entry, ...]], None] = {}
        for node in nodes:
            second = self._second_view(node)
            if second is not None:
                views[second] = None
        first: dict[tuple[str, tuple[Entry, ...]], None] = {}
        for node in nodes:
            for arg in node.args or (node,):
                if arg.kind == "input" and (arg is node or self._second_view(node) is None):
                    first[self._view(arg.attr[0], arg.attr[1])] = None
        return sorted([*first, *(view for view in views if view not in first)], key=lambda view: arguments.index(view[0]))

    def _view(self, key: str, entries: Iterable[Entry]) -> tuple[str, tuple[Entry, ...]]:
        return key, tuple((self.cx.atoms.leaves(atoms), dim, first, step) for atoms, dim, first, step in entries if atoms)

    def _second_view(self, node: Node) -> tuple[str, tuple[Entry, ...]] | None:
        """The view of an argument that does a regrouping of whole dimensions of it, where their sides do not correspond."""
        if node.kind != "regroup" or node.args[0].kind != "input" or all(self._alike(*pair) for pair in node.attr):
            return None
        key, entries = self._view(*node.args[0].attr)
        changed = list(entries)
        for source, target in node.attr:
            leaves = self.cx.atoms.leaves(source)
            at = next((place for place, entry in enumerate(entries) if entry[0] == leaves), None)
            if at is None:
                return None
            changed[at] = (target, *changed[at][1:])
        return self._view(key, changed)

    def _alike(self, source: Dim, target: Dim) -> bool:
        left, right = self.cx.atoms.leaves(source), self.cx.atoms.leaves(target)
        return len(left) == len(right) and all(equal(a.extent, b.extent) for a, b in zip(left, right, strict=True))

    def _input(self, argument: Argument, entries: Sequence[Entry]) -> Input:
        axes = tuple(self.names[atom] for entry in entries for atom in entry[0])
        return Input(argument.name, axes, argument.dtype, self._layout([entry[0] for entry in entries]), argument.weight)

    def _read(self, entry: Entry) -> tuple[Extent, int, Extent, Extent]:
        atoms, dim, first, step = entry
        return self.extent(self.cx.size(atoms)), dim, self.extent(first), self.extent(step)

    def _layout(self, dims: Iterable[Dim]) -> str:
        groups = [[self.names[leaf] for leaf in self.cx.atoms.leaves(dim)] for dim in dims if dim]
        return " ".join(group[0] if len(group) == 1 else f"({' '.join(group)})" for group in groups)

    def _add(self, kind: str, *args: int, attr: tuple[Attr, ...] = (), dtype: str | None = None) -> int:
        return self.builder.add(kind, *args, attr=attr, dtype=dtype, place=self.place)

    def _temporary(self, size: Size, hint: str) -> str:
        """A new axis for a whole that is not a leaf."""
        name = unique(hint, [axis.name for axis in self.builder.axes] + list(self.symbols.values()))
        self.builder.axes.append(Axis(name, self.extent(size)))
        return name

    def emitted(self, node: Node) -> int:
        """The operation of a node whose operands are emitted."""
        self.place = node.place
        args = [self.done[arg] for arg in node.args]
        match node.kind, node.attr:
            case "input", (key, entries):
                second = [at for at, view in enumerate(self._views) if view == self._view(key, entries)]
                return second[0] if second else -1
            case "regroup", pairs:
                return self._regroup(node, args[0], pairs)
            case "stretch", (atoms,):
                return self._stretch(args[0], self._leaf_names(atoms))
            case "reduce", (kind, atoms):
                return self._add("reduce", *args, attr=(kind, self._leaf_names(atoms)), dtype=node.dtype)
            case "contract", (atoms,):
                return self._add("contract", *args, attr=(self._leaf_names(atoms),), dtype=node.dtype)
            case "index", (atoms, position):
                return self._index(args[0], atoms, position)
            case "slice", (atoms, new, start, step):
                source, axis = self._merged(args[0], atoms)
                return self._opened(new, lambda name: self._add("slice", source, attr=(axis, name, self.extent(start), step)))
            case "pad", (atoms, new, low, value):
                source, axis = self._merged(args[0], atoms)
                return self._opened(new, lambda name: self._add("pad", source, attr=(axis, name, self.extent(low), value)))
            case "concat", (pieces, new):
                merged = [self._merged(arg, piece) for arg, piece in zip(args, pieces, strict=True)]
                axes = tuple(axis for _, axis in merged)
                return self._opened(new, lambda name: self._add("concat", *[arg for arg, _ in merged], attr=(axes, name), dtype=node.dtype))
            case "gather", (atoms,):
                source, axis = self._merged(args[0], atoms)
                return self._add("gather", source, args[1], attr=(axis,), dtype=node.dtype)
            case _:
                return self._scalarwise(node, args, {})

    def _scalarwise(self, node: Node, args: Sequence[int], renamed: Mapping[str, str]) -> int:
        """Constants, sizes, positions and elementwise operations, the axes of positions renamed."""
        match node.kind, node.attr:
            case "constant", (value,):
                return self._add("constant", attr=(self._held(value, node.dtype),), dtype=node.dtype)
            case "extent", (size,):
                return self._size(sympy.sympify(size))
            case "iota", (atom,):
                return self._iota(self.cx.atoms.leaves((atom,)), renamed)
            case _:
                assert node.kind in _ELEMENTWISE, f"no emission of {node.kind}"
                return self._add(node.kind, *args, attr=node.attr, dtype=node.dtype)

    def _held(self, value: float | bool, dtype: str) -> float | bool:
        """A number as its type has it: a float beyond it is infinite, as in PyTorch. Raises: CleaveError for such an integer."""
        known = _RANGES.get("i64" if dtype == "index" else dtype)
        if known is None or known.min <= value <= known.max:
            return value
        if isinstance(known, torch.iinfo):
            raise CleaveError(self.place or None, f"takes {value}, which does not fit {dtype}", "use a type that it fits", op="constant")
        return math.copysign(math.inf, value)

    def _leaf_names(self, atoms: Iterable[Atom]) -> tuple[str, ...]:
        return tuple(self.names[leaf] for leaf in self.cx.atoms.leaves(atoms))

    def _iota(self, leaves: Dim, renamed: Mapping[str, str]) -> int:
        total = -1
        for at, leaf in enumerate(leaves):
            name = self.names[leaf]
            term = self._add("iota", attr=(renamed.get(name, name),))
            step = product(inner.extent for inner in leaves[at + 1 :])
            if step != 1:
                term = self._add("mul", term, self._size(sympy.sympify(step)), dtype="index")
            total = term if at == 0 else self._add("add", total, term, dtype="index")
        return total

    def _size(self, size: Any) -> int:
        """An integer expression over symbols; a symbol is the size of an axis."""
        if size.is_Integer:
            return self._add("constant", attr=(int(size),), dtype="index")
        if size.is_Symbol:
            wanted = self.extent(size)
            axis = next((axis.name for axis in self.builder.axes if axis.extent == wanted), None)
            return self._add("size", attr=(axis or self._temporary(size, wanted.text),))
        if size.is_Pow:
            parts = [size.base] * int(size.exp)
            kind = "mul"
        elif isinstance(size, sympy.floor):
            parts, kind = list(ratio_of(size.args[0])), "floordiv"
        else:
            kinds = ((sympy.Add, "add"), (sympy.Mul, "mul"), (sympy.Mod, "mod"), (sympy.Min, "min"), (sympy.Max, "max"))
            kind = next(name for function, name in kinds if isinstance(size, function))
            parts = list(size.args)
        out = self._size(parts[0])
        for part in parts[1:]:
            out = self._add(kind, out, self._size(part), dtype="index")
        return out

    def _stretch(self, arg: int, names: Sequence[str]) -> int:
        for name in names:
            zero = self._add("constant", attr=(0,), dtype="index")
            always = self._add("compare", self._add("iota", attr=(name,)), zero, attr=("ge",))
            arg = self._add("select", always, arg, arg, dtype=self.builder.ops[arg].dtype)
        return arg

    def _index(self, arg: int, atoms: Dim, position: Size) -> int:
        leaves = self.cx.atoms.leaves(atoms)
        for at, leaf in enumerate(leaves):
            if self.names.get(leaf) not in self.builder.ops[arg].axes:
                continue  # the data lacks it
            here = floor_division(position, product(inner.extent for inner in leaves[at + 1 :]))
            here = here if at == 0 else remainder(here, leaf.extent)
            arg = self._add("index", arg, attr=(self.names[leaf], self.extent(here)))
        return arg

    def _merged(self, arg: int, atoms: Dim, into: str = "") -> tuple[int, str]:
        """A value with some of its axes merged into one, and the name of that."""
        leaves = self.cx.atoms.leaves(atoms)
        axis, size = self.names[leaves[0]], leaves[0].extent
        for at, leaf in enumerate(leaves[1:], 1):
            size = size * leaf.extent
            name = into if into and at == len(leaves) - 1 else self._temporary(size, f"{axis}{self.names[leaf]}")
            arg = self._add("merge", arg, attr=((axis, self.names[leaf]), name))
            axis = name
        return arg, axis

    def _opened(self, atom: Atom, build: Callable[[str], int]) -> int:
        """What `build` makes along a new axis, that axis split as its atom was."""
        leaves = self.cx.atoms.leaves((atom,))
        if len(leaves) == 1:
            return build(self.names[leaves[0]])
        whole = self._temporary(product(leaf.extent for leaf in leaves), "".join(self.names[leaf] for leaf in leaves))
        return self._split(build(whole), whole, leaves)

    def _split(self, arg: int, axis: str, leaves: Dim) -> int:
        for at, leaf in enumerate(leaves[:-1]):
            rest = leaves[at + 1 :]
            inner = self.names[rest[0]] if len(rest) == 1 else self._temporary(self.cx.size(rest), "".join(self.names[r] for r in rest))
            arg = self._add("split", arg, attr=(axis, self.names[leaf], inner))
            axis = inner
        return arg

    def _regroup(self, node: Node, arg: int, pairs: Sequence[tuple[Dim, Dim]]) -> int:
        second = self._second_view(node)
        if second is not None:
            return self._views.index(second)
        renamed: dict[str, str] = {}
        crossed: list[tuple[Dim, Dim]] = []
        for source, target in pairs:
            left, right = self.cx.atoms.leaves(source), self.cx.atoms.leaves(target)
            if self._alike(source, target):
                renamed.update({self.names[a]: self.names[b] for a, b in zip(left, right, strict=True) if a is not b})
            else:
                crossed.append((left, right))
        if not crossed and self._depends_on_positions(node.args[0]):
            return self._under(node.args[0], renamed)
        opening: list[tuple[str, Dim]] = []
        for left, right in crossed:
            arg, axis = self._merged(arg, left)
            if len(left) == 1:
                renamed[axis] = self._temporary(left[0].extent, f"{axis}_")
                axis = renamed[axis]
            opening.append((axis, right))
        held = self.builder.ops[arg].axes
        renames = tuple((old, new) for old, new in renamed.items() if old in held)
        if renames:
            arg = self._add("rename", arg, attr=(renames,))
        for axis, right in opening:
            if len(right) == 1:
                arg = self._add("rename", arg, attr=(((axis, self.names[right[0]]),),))
            else:
                arg = self._split(arg, axis, right)
        return arg

    def _depends_on_positions(self, node: Node) -> bool:
        """Whether a node is made of positions and constants alone."""
        found = self._positional.get(node)
        if found is None:
            scalarwise = node.kind in _ELEMENTWISE or node.kind in ("constant", "extent", "iota")
            renaming = node.kind == "regroup" and all(self._alike(*pair) for pair in node.attr)
            found = (scalarwise or renaming) and all(self._depends_on_positions(arg) for arg in node.args)
            self._positional[node] = found
        return found

    def _under(self, node: Node, renamed: Mapping[str, str]) -> int:
        """A node made of positions, with its axes renamed."""
        if node.kind == "regroup":
            inner = dict(renamed)
            for source, target in node.attr:
                for a, b in zip(self.cx.atoms.leaves(source), self.cx.atoms.leaves(target), strict=True):
                    inner[self.names[a]] = renamed.get(self.names[b], self.names[b])
            return self._under(node.args[0], inner)
        return self._scalarwise(node, [self._under(arg, renamed) for arg in node.args], renamed)
