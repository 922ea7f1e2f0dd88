"""
Classes of equal values, and the expressions known for each.

The law: a class *is* a value. An expression is evaluated when it is made, and joins the class that has its residues, or
founds one; so equal expressions meet without any union, and every class keeps all the forms it was reached by.

Constructors return None where the value does not exist at the sample points (a division by zero): then nothing is learnt.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from .forms import Call, Exp, Leaf, Node, Product, Reduce, Sum, operands
from .keys import key_of, without_constant_axes
from .values import Space, Value

VIEWS = 8
"""How many product forms and how many sum forms a class keeps; further ones are dropped and counted."""


@dataclass(slots=True)
class Class:
    """One value: its residues, the mask of the axes it varies over, and its forms in the order they were found."""

    value: Value
    mask: int
    nodes: dict[Node, None] = field(default_factory=dict[Node, None])
    products: list[Product] = field(default_factory=list[Product])
    sums: list[Sum] = field(default_factory=list[Sum])
    reductions: list[Reduce] = field(default_factory=list[Reduce])
    users: dict[int, None] = field(default_factory=dict[int, None])


class EGraph:
    """Constructors for classes over one `Space`, memoised; `pending` collects the classes that gained a form."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.classes: list[Class] = []
        self.pending: dict[int, None] = {}
        self.dropped = 0
        self.roots: dict[int, Product] = {}
        self._by_value: dict[tuple[int, bytes, bytes, tuple[int, ...]], int] = {}
        self._made: dict[Node, int | None] = {}
        self._powers: dict[tuple[int, Fraction], Value] = {}
        self.axes = [axis.name for axis in space.axes]
        self.bit = {name: 1 << i for i, name in enumerate(self.axes)}
        self._names: dict[int, tuple[str, ...]] = {}
        self._numbers: dict[int, Fraction] = {}

    def names(self, mask: int) -> tuple[str, ...]:
        """The axes of a mask, in declared order."""
        found = self._names.get(mask)
        if found is None:
            found = tuple(name for i, name in enumerate(self.axes) if mask >> i & 1)
            self._names[mask] = found
        return found

    def mask_of(self, names: Iterable[str]) -> int:
        """The mask of axes."""
        mask = 0
        for name in names:
            mask |= self.bit[name]
        return mask

    def value(self, c: int) -> Value:
        """The value of a class."""
        return self.classes[c].value

    def mask(self, c: int) -> int:
        """The axes a class varies over."""
        return self.classes[c].mask

    def intern(self, value: Value) -> int:
        """The class of a value, new or found."""
        value = without_constant_axes(value)
        key = key_of(value)
        found = self._by_value.get(key)
        if found is not None:
            if value.lowest < self.classes[found].value.lowest:
                self.classes[found].value = value
            return found
        top = value.residues[value.highest]
        mask = sum(1 << i for i, points in enumerate(top.shape[1:]) if points > 1)
        self.classes.append(Class(value, mask))
        self._by_value[key] = len(self.classes) - 1
        return len(self.classes) - 1

    def find(self, value: Value) -> int | None:
        """The class of a value that varies along all its axes, if there is one."""
        return self._by_value.get(key_of(value))

    def add_node(self, c: int, node: Node) -> None:
        """Records a form of a class."""
        entry = self.classes[c]
        children = operands(node)
        if node in entry.nodes or c in children:
            return
        match node:
            case Product() if len(entry.products) < VIEWS:
                entry.products.append(node)
            case Sum() if len(entry.sums) < VIEWS:
                entry.sums.append(node)
            case Product() | Sum():
                self.dropped += 1
            case Reduce():
                entry.reductions.append(node)
            case _:
                pass
        entry.nodes[node] = None
        for child in children:
            self.classes[child].users[c] = None
        self.pending[c] = None
        for user in entry.users:
            self.pending[user] = None

    def _make(self, node: Node, value: Value | None) -> int | None:
        if value is None or self.space.spoiled.any():
            self.space.spoiled[:] = False
            self._made[node] = None
            return None
        c = self.intern(value)
        self._made[node] = c
        self.add_node(c, node)
        if isinstance(node, Product) and any(exponent.denominator != 1 for _, exponent in node.factors):
            self.roots.setdefault(c, node)
        return c

    def power(self, c: int, exponent: Fraction) -> Value:
        """The value of a class to a power, kept."""
        if exponent == 1:
            return self.value(c)
        found = self._powers.get((c, exponent))
        if found is None:
            found = self.space.raise_to(self.value(c), exponent)
            if not self.space.spoiled.any():
                self._powers[c, exponent] = found
        return found

    def product(self, factors: Mapping[int, Fraction], coefficient: Fraction = Fraction(1)) -> int | None:
        """The class of coefficient * product of class ** exponent."""
        kept: list[tuple[int, Fraction]] = []
        coefficient, factors = self._without_roots(coefficient, factors)
        for c, exponent in sorted(factors.items()):
            if exponent == 0:
                continue
            number = self.number(c)
            if number is not None and exponent.denominator == 1 and (number != 0 or exponent > 0):
                coefficient *= number**exponent.numerator
            else:
                kept.append((c, exponent))
        if coefficient == 0 or not kept:
            return self.constant(coefficient)
        if coefficient == 1 and len(kept) == 1 and kept[0][1] == 1:
            return kept[0][0]
        node = Product(coefficient, tuple(kept))
        if node in self._made:
            return self._made[node]
        if len(kept) == 1 and kept[0][1] == 1:
            return self._make(node, self.space.scale(self.value(kept[0][0]), coefficient))
        value = self.power(*kept[0])
        for c, exponent in kept[1:]:
            value = self.space.multiply(value, self.power(c, exponent))
        return self._make(node, value if coefficient == 1 else self.space.scale(value, coefficient))

    def _without_roots(self, coefficient: Fraction, factors: Mapping[int, Fraction]) -> tuple[Fraction, Mapping[int, Fraction]]:
        """Opens factors that are roots where several could meet, as the square of a root is only known before evaluation."""
        if (len(factors) == 1 and all(exponent == 1 for exponent in factors.values())) or self.roots.keys().isdisjoint(factors):
            return coefficient, factors
        out: dict[int, Fraction] = {}
        for c, exponent in factors.items():
            root = self.roots.get(c)
            if root is None or exponent.denominator != 1:
                out[c] = out.get(c, Fraction(0)) + exponent
                continue
            coefficient *= root.coefficient**exponent.numerator
            for child, inner in root.factors:
                out[child] = out.get(child, Fraction(0)) + inner * exponent
        return coefficient, out

    def sum(self, terms: Mapping[int, Fraction], constant: Fraction = Fraction(0)) -> int | None:
        """The class of constant + sum of coefficient * class."""
        kept: list[tuple[int, Fraction]] = []
        for c, coefficient in sorted(terms.items()):
            number = self.number(c)
            if number is not None:
                constant += number * coefficient
            elif coefficient != 0:
                kept.append((c, coefficient))
        if not kept:
            return self.constant(constant)
        if constant == 0 and len(kept) == 1:
            return self.product({kept[0][0]: Fraction(1)}, kept[0][1])
        node = Sum(constant, tuple(kept))
        if node in self._made:
            return self._made[node]
        value = self.space.scale(self.value(kept[0][0]), kept[0][1])
        for c, coefficient in kept[1:]:
            value = self.space.add(value, self.space.scale(self.value(c), coefficient))
        return self._make(node, value if constant == 0 else self.space.add(value, self.space.constant(constant)))

    def reduce(self, mask: int, body: int) -> int | None:
        """The class of a sum over axes, of which the body has all."""
        if mask == 0:
            return body
        node = Reduce(mask, body)
        if node in self._made:
            return self._made[node]
        return self._make(node, self.space.sum_over(self.value(body), self.names(mask)))

    def exp(self, body: int) -> int | None:
        """The class of an exponential."""
        if self.number(body) == 0:
            return self.constant(Fraction(1))
        node = Exp(body)
        if node in self._made:
            return self._made[node]
        return self._make(node, self.space.exponential(self.value(body)))

    def constant(self, number: Fraction) -> int:
        """The class of a rational number."""
        node = Leaf("constant", (number.numerator, number.denominator), "f32")
        found = self._made.get(node)
        if found is not None:
            return found
        c = self._make(node, self.space.constant(number))
        assert c is not None, "a constant has a value everywhere"
        self._numbers[c] = number
        return c

    def known(self, node: Leaf | Call, value: Value) -> int:
        """The class of an operation whose value the caller has evaluated."""
        found = self._made.get(node)
        if found is not None:
            return found
        c = self.intern(value)
        self._made[node] = c
        self.add_node(c, node)
        return c

    def has(self, node: Node) -> bool:
        """Whether an expression was made and has a value."""
        return self._made.get(node) is not None

    def number(self, c: int) -> Fraction | None:
        """The number a class is, if it is a constant."""
        return self._numbers.get(c)
