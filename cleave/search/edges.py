"""
Operations from class to class: the hypergraph that extraction searches.

The law: an edge makes its result from its operands by one operation of the graph language (a contraction multiplies and sums
in one), and costs what that operation costs at the hinted sizes. Only values that may be stored are made; the product under a
sum over axes need not be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .attributes import is_maximum
from .closure import Renaming, Triple, inverse_known
from .cost import volume
from .explore import Exploration
from .forms import Call, Exp, Leaf, Product, Reduce, Sum
from .work import MULTIPLY_ADD, SIMPLE, TRANSCENDENTAL, TRANSCENDENTALS

FREE = ("rename", "cast", "split", "merge", "index", "slice")


class Edge(NamedTuple):
    """
    One way to make a class.

    Kinds: leaf, call, exp, mul, add, sub, div, scale (payload: factor), shift (payload: addend), power (payload: exponent),
    chain (payload: a flat product or sum), reduce and contract (payload: mask of the axes). `body` is the class that a sum
    over axes sums: edges that agree in it differ only in elementwise work.
    """

    kind: str
    payload: object
    args: tuple[int, ...]
    work: float
    body: int = -1

    @property
    def structural(self) -> bool:
        """Whether the operation is one of those that give a program its shape: sums over axes, functions, data movement."""
        return self.kind in ("reduce", "contract", "exp", "call")

    @property
    def phase(self) -> bool:
        """Whether the operation reduces over axes."""
        return self.kind in ("reduce", "contract") or _is_maximum(self)


@dataclass(slots=True)
class Edges:
    """All edges, by the class they make; `users` maps a class to the (class, edge) pairs that read it."""

    of: dict[int, list[Edge]]
    users: dict[int, list[tuple[int, Edge]]]


class Found(NamedTuple):
    """What was found among the classes by looking at values: sums and products of two, and renamed copies."""

    triples: Sequence[Triple]
    renamings: Sequence[Renaming]


def build_edges(explored: Exploration, found: Found, hoisted: frozenset[int], sizes: Mapping[str, int]) -> dict[int, list[Edge]]:
    """
    The edges among classes that may be stored, by the class they make, with their work at the given sizes of axes.

    Which edges there are, and their order, does not depend on the sizes. Work on the classes in `hoisted` happens once, at load
    time: it is almost free.
    """
    maker = _Maker(explored, hoisted, sizes)
    for c in range(len(explored.egraph.classes)):
        maker.forms(c)
    for triple in found.triples:
        maker.binary(triple)
    maker.contractions(found.triples)
    maker.chains()
    for renaming in found.renamings:
        maker.renamed(renaming)
    return {c: list(edges) for c, edges in sorted(maker.of.items())}


class _Maker:
    def __init__(self, explored: Exploration, hoisted: frozenset[int], sizes: Mapping[str, int]) -> None:
        self.e = explored.egraph
        self.fits = explored.storable
        self.sizes = sizes
        self.contracted = explored.converted.contracted
        self.hoisted = hoisted
        self.of: dict[int, dict[Edge, None]] = {}

    def volume(self, mask: int) -> float:
        """The number of elements over the axes of a mask."""
        return volume(self.sizes, self.e.names(mask))

    def put(self, c: int, kind: str, payload: object, args: tuple[int, ...], work: float, body: int = -1) -> None:
        if c in args or not all(self.fits(self.e.mask(arg)) for arg in args) or not self.fits(self.e.mask(c)):
            return
        if c in self.hoisted:
            work *= 1e-6
        self.of.setdefault(c, {})[Edge(kind, payload, args, work, body)] = None

    def binary_allowed(self, c: int) -> bool:
        """Integers and truth values are made as the program makes them."""
        return not any(isinstance(node, Leaf | Call) and node.dtype in ("i1", "index", "i32", "i64") for node in self.e.classes[c].nodes)

    def forms(self, c: int) -> None:
        """The edges of the unary forms of a class."""
        entry, size = self.e.classes[c], self.volume(self.e.mask(c))
        arithmetic = self.binary_allowed(c)
        for node in entry.nodes:
            match node:
                case Leaf():
                    self.put(c, "leaf", node, (), 0.0)
                case Call():
                    self.put(c, "call", node, node.args, self.call_work(node, size))
                case Exp(body) if arithmetic:
                    self.put(c, "exp", None, (body,), TRANSCENDENTAL * size)
                case Product(coefficient, ((child, exponent),)) if arithmetic and exponent == 1:
                    self.put(c, "scale", coefficient, (child,), SIMPLE * size)
                case Product(coefficient, ((child, exponent),)) if arithmetic and coefficient == 1:
                    self.put(c, "power", exponent, (child,), SIMPLE * size * (1 if exponent in (2, -1) else 2))
                case Product(coefficient, ((a, j), (b, k))) if arithmetic and coefficient == j == 1 and abs(k) == 1:
                    self.put(c, "mul" if k == 1 else "div", None, (a, b), SIMPLE * size)
                case Product(coefficient, ((a, j), (b, k))) if arithmetic and coefficient == k == 1 and j == -1:
                    self.put(c, "div", None, (b, a), SIMPLE * size)
                case Sum(constant, ((a, j), (b, k))) if arithmetic and constant == 0 and j == 1 and abs(k) == 1:
                    self.put(c, "add" if k == 1 else "sub", None, (a, b), SIMPLE * size)
                case Sum(constant, ((a, j), (b, k))) if arithmetic and constant == 0 and j == -1 and k == 1:
                    self.put(c, "sub", None, (b, a), SIMPLE * size)
                case Sum(constant, ((child, coefficient),)) if arithmetic and coefficient == 1:
                    self.put(c, "shift", constant, (child,), SIMPLE * size)
                case Sum(_, ((child, coefficient),)) if arithmetic and coefficient == -1:
                    self.put(c, "chain", node, (child,), SIMPLE * size)
                case Reduce(mask, body) if arithmetic:
                    self.put(c, "reduce", mask, (body,), SIMPLE * self.volume(self.e.mask(body) | mask), body)
                case _:
                    pass

    def call_work(self, node: Call, size: float) -> float:
        """The work of an operation that is not arithmetic."""
        if node.kind in FREE:
            return 0.0
        if is_maximum(node.kind, node.attr):
            return SIMPLE * self.volume(self.e.mask(node.args[0]))
        return (TRANSCENDENTAL if node.kind in TRANSCENDENTALS else SIMPLE) * size

    def binary(self, triple: Triple) -> None:
        """The edges of a sum or product of two classes, differences and quotients included."""
        kind, a, b, c = triple
        size = self.volume(self.e.mask(a) | self.e.mask(b))
        if self.binary_allowed(c):
            self.put(c, kind, None, (a, b), SIMPLE * size)
        inverse = "sub" if kind == "add" else "div"
        for x, y in ((a, b), (b, a)) if a != b else ((a, b),):
            invertible = self.e.value(y).bounded if kind == "add" else inverse_known(self.e, y)
            if invertible and self.binary_allowed(x):
                self.put(x, inverse, None, (c, y), SIMPLE * self.volume(self.e.mask(c) | self.e.mask(y)))

    def renamed(self, renaming: Renaming) -> None:
        """The edge of a renamed copy. What is computed under one name and read under another passes through memory."""
        source, pairs, target = renaming
        dtype = next((node.dtype for node in self.e.classes[source].nodes if isinstance(node, Leaf)), "f32")
        self.put(target, "call", Call("rename", (pairs,), dtype, (source,)), (source,), SIMPLE * self.volume(self.e.mask(target)))

    def contractions(self, triples: Sequence[Triple]) -> None:
        """A sum over axes of a product of two classes."""
        factors: dict[int, list[tuple[int, int]]] = {}
        for kind, a, b, c in triples:
            if kind == "mul" and a != b:
                factors.setdefault(c, []).append((a, b))
        for c, entry in enumerate(self.e.classes):
            for node in entry.reductions:
                size = self.volume(self.e.mask(node.body) | node.mask)
                for a, b in filter(lambda pair: self.contracts(node.mask, *pair), factors.get(node.body, [])):
                    self.put(c, "contract", node.mask, (a, b), MULTIPLY_ADD * size, node.body)
                if not self.fits(self.e.mask(node.body)) and node.body not in factors:
                    for product in self.e.classes[node.body].products:
                        if product.coefficient == 1 and all(k == 1 for _, k in product.factors):
                            work = MULTIPLY_ADD * size * (len(product.factors) - 1)
                            self.put(c, "contract", node.mask, tuple(f for f, _ in product.factors), work, node.body)

    def contracts(self, mask: int, a: int, b: int) -> bool:
        """
        Whether two operands are worth a contraction: a matrix product, where either has an axis that the other lacks, or
        operands that the program contracts over these axes. Other sums of products stay sums, in the type of sums.
        """
        left, right = self.e.mask(a), self.e.mask(b)
        return bool((left & ~right and right & ~left) or mask & (self.contracted.get(a, 0) | self.contracted.get(b, 0)))

    def chains(self) -> None:
        """Flat sums and products that no two classes make, folded in one go."""
        for c, entry in enumerate(self.e.classes):
            made = {edge.kind for edge in self.of.get(c, {})}
            if not self.binary_allowed(c):
                continue
            for product in entry.products:
                if "mul" not in made and "div" not in made and "scale" not in made and len(product.factors) > 1:
                    work = SIMPLE * self.volume(self.e.mask(c)) * len(product.factors)
                    self.put(c, "chain", product, tuple(f for f, _ in product.factors), work)
            for total in entry.sums:
                if "add" not in made and "sub" not in made and "shift" not in made and len(total.terms) > 1:
                    work = SIMPLE * self.volume(self.e.mask(c)) * len(total.terms)
                    self.put(c, "chain", total, tuple(t for t, _ in total.terms), work)


def derivable(of: Mapping[int, Sequence[Edge]], banned: Callable[[Edge], bool]) -> set[int]:
    """The classes that can be made from leaves without banned edges (the least fixpoint)."""
    waiting: dict[int, list[tuple[int, Edge]]] = {}
    missing: dict[tuple[int, int], int] = {}
    ready: list[int] = []
    done: set[int] = set()
    for c, edges in of.items():
        for at, edge in enumerate(edges):
            if banned(edge):
                continue
            needs = set(edge.args)
            missing[c, at] = len(needs)
            if not needs and c not in done:
                done.add(c)
                ready.append(c)
            for arg in needs:
                waiting.setdefault(arg, []).append((c, edge))
    index = {(c, edge): at for c, edges in of.items() for at, edge in enumerate(edges)}
    while ready:
        for c, edge in waiting.get(ready.pop(), []):
            key = (c, index[c, edge])
            missing[key] -= 1
            if missing[key] == 0 and c not in done:
                done.add(c)
                ready.append(c)
    return done


def prune(of: Mapping[int, Sequence[Edge]], roots: Sequence[int]) -> Edges:
    """
    Only what can be made from leaves and is reached from the roots.

    Maxima go first: where the roots can be made without any, all are dropped, else one by one what is not needed.
    """
    maxima = any(_is_maximum(edge) for edges in of.values() for edge in edges)
    current = {c: list(edges) for c, edges in of.items()}
    if maxima and set(roots) <= derivable(current, _is_maximum):
        current = {c: [edge for edge in edges if not _is_maximum(edge)] for c, edges in current.items()}
    elif maxima:
        for c in [c for c, edges in current.items() if any(map(_is_maximum, edges))]:
            kept = current[c]
            current[c] = [edge for edge in kept if not _is_maximum(edge)]
            if not set(roots) <= derivable(current, lambda _: False):
                current[c] = kept
    made = derivable(current, lambda _: False)
    reached: dict[int, None] = dict.fromkeys(roots)
    frontier = list(reached)
    out: dict[int, list[Edge]] = {}
    while frontier:
        c = frontier.pop()
        out[c] = [edge for edge in current.get(c, []) if all(arg in made for arg in edge.args)]
        for edge in out[c]:
            for arg in edge.args:
                if arg not in reached:
                    reached[arg] = None
                    frontier.append(arg)
    out = dict(sorted(out.items()))
    users: dict[int, list[tuple[int, Edge]]] = {}
    for c, edges in out.items():
        for edge in edges:
            for arg in dict.fromkeys(edge.args):
                users.setdefault(arg, []).append((c, edge))
    return Edges(out, users)


def _is_maximum(edge: Edge) -> bool:
    return isinstance(edge.payload, Call) and is_maximum(edge.payload.kind, edge.payload.attr)
