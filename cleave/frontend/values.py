"""
Values during lowering: tensors with positional dimensions made of atoms, and the operations that make them.

A `Node` is an operation of the algebra whose axes are still atoms; `cleave.frontend.emit` turns nodes into a graph once no
more atoms are split or united. A `Value` gives a node positional dimensions: an atom that a dimension has but the node lacks
is broadcast along it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import torch

from ..errors import CleaveError
from ..graph import FLOATS, UNARY
from . import reach
from .atoms import Atom, Atoms, Dim
from .sizes import Size, equal, product, quotient

DTYPES: Mapping[torch.dtype, str] = {
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.float32: "f32",
    torch.float64: "f64",
    torch.bool: "i1",
    torch.int32: "i32",
    torch.int64: "i64",
}
_OF_FLOATS = frozenset((*UNARY, "div", "pow", "shift")) - {"neg", "abs", "relu", "not"}
_INTEGERS = ("i32", "i64", "index")


@dataclass(eq=False, slots=True)
class Node:
    """
    One operation over atoms.

    Kinds are those of `cleave.graph`, with atoms in `attr` where it has axis names, except: `regroup [((source atoms, target
    atoms), ...)]`, a simultaneous renaming, which merges and splits where the leaves of a pair do not correspond; `extent
    [size]`, an integer; `stretch [atoms]`, the operand repeated along atoms that it lacks.
    """

    kind: str
    args: tuple[Node, ...]
    atoms: Dim
    dtype: str
    attr: tuple[Any, ...] = ()
    place: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A tensor: its dimensions, the node that computes it (perhaps in a wider type), and its dtype in the program."""

    dims: tuple[Dim, ...]
    node: Node
    dtype: torch.dtype


@dataclass(eq=False)
class Lowering:
    """
    What lowering a program keeps: its atoms, and the operation being lowered, for places and errors.

    `uneven` are axes of which parts of different lengths are taken; `only_sliced` says that the first operand of the operation
    is used by slices alone. `unrounded` says that PyTorch does not round some product to the type of its operands, of 16 bits.
    `reaches` are the bounds of integers, as far as they were asked for.
    """

    atoms: Atoms = field(default_factory=Atoms)
    place: str = ""
    op: str = ""
    uneven: dict[Atom, None] = field(default_factory=dict[Atom, None])
    only_sliced: bool = False
    unrounded: bool = False
    reaches: dict[Node, reach.Interval] = field(default_factory=dict["Node", reach.Interval])

    def fail(self, found: str, advice: str = "") -> NoReturn:
        """Raises: CleaveError at the operation being lowered."""
        raise CleaveError(self.place or None, found, advice, op=self.op)

    def size(self, dim: Iterable[Atom]) -> Size:
        """The size of a dimension."""
        return product(atom.extent for atom in dim)

    def shape(self, value: Value) -> tuple[Size, ...]:
        """The sizes of all dimensions."""
        return tuple(self.size(dim) for dim in value.dims)

    def data(self, node: Node) -> Dim:
        """The leaves that a node's result depends on by position."""
        return self.atoms.leaves(node.atoms)

    def node(self, kind: str, args: Sequence[Node], dtype: str, attr: tuple[Any, ...] = (), atoms: Iterable[Atom] | None = None) -> Node:
        """A new node here; without `atoms`, over those of its operands. Raises: CleaveError for a function of floats on what are none."""
        if kind in _OF_FLOATS and dtype not in FLOATS:
            kinds = "integers" if dtype in _INTEGERS else "truth values"
            self.fail(f"computes on {kinds}, and needs floats", "convert them first, as by x.float()")
        if atoms is None:
            atoms = dict.fromkeys(leaf for arg in args for leaf in self.data(arg))
        return Node(kind, tuple(args), tuple(atoms), dtype, attr, self.place)

    def constant(self, value: float | bool, dtype: str) -> Node:
        """A constant of a dtype name of the algebra. Raises: CleaveError for NaN, and for an infinite integer."""
        if math.isnan(value):
            self.fail("takes NaN as a number, and a program may only compute one", "use another value, or put NaN in outside")
        if dtype in _INTEGERS and math.isinf(value):
            self.fail(f"takes {value} as an integer", "use a number that is one")
        held = bool(value) if dtype == "i1" else int(value) if dtype in _INTEGERS else float(value)
        return self.node("constant", (), dtype, (held,))

    def number(self, size: Size, dtype: str) -> Node:
        """A size as a scalar of a dtype name; of one that may be too large for an index the factors are, and their product."""
        if isinstance(size, int):
            return self.constant(size, dtype)
        kind = {"Add": "add", "Mul": "mul"}.get(type(size).__name__, "mul" if size.is_Pow else "")
        if not kind or dtype == "index" or reach.within(reach.of_size(size)):
            return self.cast(self.node("extent", (), "index", (size,)), dtype)
        parts = [size.base] * int(size.exp) if size.is_Pow else size.args
        out, *rest = (self.number(int(part) if part.is_Integer else part, dtype) for part in parts)
        for part in rest:
            out = self.node(kind, (out, part), dtype)
        return out

    def integer(self, size: Size) -> Node:
        """A size as a number of PyTorch, an index where it fits one."""
        return self.number(size, "index" if reach.within(reach.of_size(size)) else "i64")

    def is_index(self, kind: str, nodes: Sequence[Node]) -> bool:
        """Whether integers, and what an operation of that kind makes of them, may be indices; no kind is none."""
        return reach.is_index(kind, [self._reach(node) for node in nodes])

    def _reach(self, node: Node) -> reach.Interval:
        if node not in self.reaches:
            self.reaches[node] = reach.of_operation(node.kind, node.attr, [self._reach(arg) for arg in node.args])
        return self.reaches[node]

    def iota(self, atom: Atom) -> Node:
        """The position along an atom, 0 for none."""
        return self.node("iota", (), "index", (atom,), (atom,))

    def position(self, dim: Dim) -> Node:
        """The position along a dimension: of several atoms, the last varies fastest."""
        out = self.constant(0, "index")
        for at, atom in enumerate(dim):
            step = self.size(dim[at + 1 :])
            term = self.iota(atom)
            if step != 1:
                term = self.node("mul", (term, self.number(step, "index")), "index")
            out = term if at == 0 else self.node("add", (out, term), "index")
        # However its parts multiply, a dimension is no longer than an index can count.
        self.reaches[out] = 0, min(self._reach(out)[1], reach.LONGEST)
        return out

    def cast(self, node: Node, dtype: str) -> Node:
        """The node in another dtype name; itself where it has it."""
        if node.dtype == dtype:
            return node
        if node.kind == "constant":
            return self.constant(node.attr[0], dtype)
        if dtype == "i1":
            return self.node("compare", (node, self.constant(0, node.dtype)), "i1", ("ne",))
        return self.node("cast", (node,), dtype)

    def negated(self, condition: Node) -> Node:
        """The negation of a condition."""
        return self.node("not", (condition,), "i1")

    def select(self, condition: Node, then: Node, other: Node) -> Node:
        """`then` where the condition holds, else `other`; a negated condition swaps them."""
        if condition.kind == "not":
            return self.select(condition.args[0], other, then)
        return self.node("select", (condition, then, other), then.dtype)

    def narrow(self, value: Value) -> Node:
        """The node in the dtype that the program gives the value."""
        return self.cast(value.node, self.name(value.dtype))

    def name(self, dtype: torch.dtype) -> str:
        """The algebra's name of a dtype. Raises: CleaveError for one it lacks."""
        found = DTYPES.get(dtype)
        if found is None:
            self.fail(f"dtype {str(dtype).removeprefix('torch.')} is not supported", f"use one of {', '.join(DTYPES.values())}")
        return found

    def working(self, dtype: torch.dtype) -> str:
        """The dtype name in which elementwise work and reductions on `dtype` are done: f32 for the narrow floats."""
        name = self.name(dtype)
        return "f32" if name in ("f16", "bf16") else name

    def regroup(self, node: Node, pairs: Sequence[tuple[Dim, Dim]]) -> Node:
        """The node with its source dimensions renamed to target dimensions of the same sizes, all at once."""
        kept: list[tuple[Dim, Dim]] = []
        for source, target in pairs:
            aligned = self.atoms.align(source, target)
            if aligned is None:
                kept.append((source, target))
            else:
                kept += [((a,), (b,)) for a, b in aligned if a is not b]
        # A split made for one pair may refine the atoms of another, so what the node has is only asked now.
        held = set(self.data(node))
        kept = [(a, b) for a, b in kept if held.intersection(self.atoms.leaves(a))]
        if not kept:
            return node
        for source, _ in kept:
            missing = [leaf for leaf in self.atoms.leaves(source) if leaf not in held]
            if missing and len(source) > 1:
                node = self.stretch(node, missing)
        gone = {leaf for source, _ in kept for leaf in self.atoms.leaves(source)}
        atoms = [leaf for leaf in self.data(node) if leaf not in gone]
        atoms += [leaf for _, target in kept for leaf in self.atoms.leaves(target)]
        return self.node("regroup", (node,), node.dtype, tuple(kept), atoms)

    def stretch(self, node: Node, atoms: Sequence[Atom]) -> Node:
        """The node repeated along atoms that it lacks, as data."""
        return self.node("stretch", (node,), node.dtype, (tuple(atoms),), (*self.data(node), *atoms))

    def bind(self, value: Value, labels: Sequence[Hashable], space: dict[Hashable, Dim]) -> Node:
        """
        The value's node with its dimensions identified with those of an iteration space, which grows by what it lacks.

        A dimension that the space has is matched to it, or renamed to it where both are different axes by necessity; one that
        it lacks joins, under a new name where its axis already has another role. Raises: CleaveError where sizes differ.
        """
        renames: list[tuple[Dim, Dim]] = []
        joining: list[tuple[Hashable, Dim]] = []
        for label, dim in zip(labels, value.dims, strict=True):
            target = space.setdefault(label, ())
            if not dim:
                continue
            if not target:
                joining.append((label, dim))
                continue
            if not equal(self.size(dim), self.size(target)):
                self.fail(
                    f"sizes {self.size(target)} and {self.size(dim)} are paired, but are not known to be equal",
                    "declare the same dynamic dimension for both",
                )
            if not self.atoms.match(target, dim):
                renames.append((dim, target))
        for label, dim in joining:
            taken = {leaf for other in space.values() for leaf in self.atoms.leaves(other)}
            leaves = self.atoms.leaves(dim)
            if taken.intersection(leaves):
                new = tuple(self.atoms.fresh(leaf.extent) for leaf in leaves)
                renames.append((dim, new))
                dim = new
            space[label] = dim
        self.atoms.separate(leaf for dim in space.values() for leaf in dim)
        return self.regroup(value.node, renames)

    def elementwise_space(self, values: Sequence[Value]) -> tuple[tuple[Dim, ...], list[Node]]:
        """The dimensions of an elementwise result, aligned from the right, and the operands bound to them."""
        rank = max((len(value.dims) for value in values), default=0)
        space: dict[Hashable, Dim] = {}
        nodes = [self.bind(value, range(rank - len(value.dims), rank), space) for value in values]
        return tuple(space.get(at, ()) for at in range(rank)), nodes

    def split_leading(self, dim: Dim, outer: Size, inner: Size) -> tuple[Dim, Dim] | None:
        """A dimension as outer and inner parts, splitting an atom where needed; None, and no change, where they cut across atoms."""
        parts: list[Dim] = []

        def change() -> bool:
            found = self.cut(dim, (outer, inner))
            parts.extend(found or ())
            return found is not None

        return (parts[0], parts[1]) if self.atoms.attempt(change) else None

    def cut(self, dim: Dim, sizes: Sequence[Size]) -> list[Dim] | None:
        """The leaves of a dimension dealt out to parts of the given sizes, splitting as needed; None where they cut across atoms."""
        queue = list(self.atoms.leaves(dim))[::-1]
        out: list[Dim] = []
        for size in sizes:
            part: list[Atom] = []
            need = size
            while need != 1:
                if not queue:
                    return None
                atom = queue.pop()
                if (rest := quotient(need, atom.extent)) is not None:
                    part.append(atom)
                    need = rest
                elif (rest := quotient(atom.extent, need)) is not None:
                    first, second = self.atoms.split(atom, need, rest)
                    part.append(first)
                    queue.append(second)
                    need = 1
                else:
                    return None
            out.append(tuple(part))
        return None if queue else out
