"""Other forms of sums over axes."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations

from ..convert import counted, size_classes
from ..egraph import EGraph
from ..forms import Product, Reduce, Sum
from ..movement import sum_in_pieces
from .limits import Limits
from .sums import SumRules, bare_reductions

ONE = Fraction(1)


class ReductionRules:
    """Factors that move out, axes that are summed over first, nested sums, distribution. The sums that it makes are told to `sums`."""

    def __init__(self, egraph: EGraph, fits: Callable[[int], bool], limits: Limits, sums: SumRules) -> None:
        self.e = egraph
        self.fits = fits
        self.limits = limits
        self.sums = sums
        self.of_pieces: set[int] = set()
        """The masks of sums over pieces of axes, under which nothing is distributed."""

    def apply(self, node: Reduce) -> None:
        """All rules on sum over axes of a body."""
        e = self.e
        body = e.classes[node.body]
        for product in [*body.products, Product(ONE, ((node.body, ONE),))]:
            if not self.pull_out(node, product):
                self.subsets(node, product)
                self.join_nested(node, product)
                if node.mask not in self.of_pieces:
                    self.distribute(node, product)
                self.of_pieces.update(new.mask for new in sum_in_pieces(self.e, node, product))
        for total in body.sums[:2]:
            self.linear(node, total)

    def pull_out(self, node: Reduce, product: Product) -> bool:
        """sum_a f x = f sum_a x where f lacks a; the coefficient moves out too. Whether anything did."""
        e = self.e
        outside = [(c, k) for c, k in product.factors if not e.mask(c) & node.mask]
        if not outside and product.coefficient == 1:
            return False
        inside = {c: k for c, k in product.factors if e.mask(c) & node.mask}
        inner = e.product(inside)
        if inner is None:
            return False
        there = e.mask(inner) & node.mask
        sizes = size_classes(e, node.mask & ~there)
        reduced = None if sizes is None else e.reduce(there, inner)
        if sizes is None or reduced is None:
            return False
        e.product(counted([*outside, (reduced, ONE), *((size, ONE) for size in sizes)]), product.coefficient)
        return True

    def subsets(self, node: Reduce, product: Product) -> None:
        """sum_ab f x = sum_a f sum_b x where f lacks b."""
        e = self.e
        names = e.names(node.mask)
        if len(names) < 2 or len(product.factors) < 2:
            return
        for size in range(1, len(names)):
            for chosen in combinations(names, size):
                mask = e.mask_of(chosen)
                inner = {c: k for c, k in product.factors if e.mask(c) & mask}
                if len(inner) == len(product.factors):
                    continue
                first = self._reduced(mask, inner)
                if first is None:
                    continue
                body = e.product(counted([*((c, k) for c, k in product.factors if c not in inner), (first, ONE)]), product.coefficient)
                if body is not None and e.mask(body) & node.mask == node.mask & ~mask:
                    e.reduce(node.mask & ~mask, body)

    def _reduced(self, mask: int, factors: dict[int, Fraction]) -> int | None:
        inner = self.e.product(factors)
        if inner is None or self.e.mask(inner) & mask != mask:
            return None
        first = self.e.reduce(mask, inner)
        return first if first is not None and self.fits(self.e.mask(first)) else None

    def join_nested(self, node: Reduce, product: Product) -> None:
        """sum_a f sum_b x = sum_ab f x where f lacks b."""
        e = self.e
        for at, (c, exponent) in enumerate(product.factors):
            if exponent != 1:
                continue
            others = [*product.factors[:at], *product.factors[at + 1 :]]
            around = node.mask
            for f, _ in others:
                around |= e.mask(f)
            for inner in bare_reductions(e, c)[:4]:
                if not inner.mask & around:
                    body = e.product(counted([*others, (inner.body, ONE)]), product.coefficient)
                    if body is not None and e.mask(body) & (node.mask | inner.mask) == node.mask | inner.mask:
                        e.reduce(node.mask | inner.mask, body)

    def distribute(self, node: Reduce, product: Product) -> None:
        """sum_a (x + y) f = sum_a x f + sum_a y f, squares of sums included."""
        e = self.e
        for at, (c, exponent) in enumerate(product.factors):
            if exponent not in (1, 2) or not e.mask(c) & node.mask:
                continue
            others = [*product.factors[:at], *product.factors[at + 1 :]]
            if exponent == 1 and not others and product.coefficient == 1:
                continue
            for total in e.classes[c].sums[:2]:
                members = [((term, ONE),) for term, _ in total.terms] + ([()] if total.constant else [])
                weights = [k for _, k in total.terms] + ([total.constant] if total.constant else [])
                if self.limits.too_long(len(members) ** int(exponent)):
                    continue
                pairs = [(m, w) for m, w in zip(members, weights, strict=True)]
                if exponent == 2:
                    pairs = [((*m, *n), w * v) for m, w in pairs for n, v in pairs]
                terms: list[tuple[int, Fraction]] = []
                for factors, weight in pairs:
                    made = e.product(counted([*others, *factors]), product.coefficient)
                    if made is None:
                        break
                    terms.append((made, weight))
                else:
                    self.sum_of_sums(node, terms)

    def sum_of_sums(self, node: Reduce, terms: list[tuple[int, Fraction]]) -> None:
        """The sum of the sums over axes of terms; the sum of the terms themselves is not made, it has as many parts as subsets."""
        e = self.e
        reduced: list[tuple[int, Fraction]] = []
        for c, coefficient in terms:
            there = e.mask(c) & node.mask
            sizes, inner = size_classes(e, node.mask & ~there), e.reduce(there, c)
            scaled = None if sizes is None or inner is None else e.product(counted([(inner, ONE), *((size, ONE) for size in sizes)]))
            if scaled is None:
                return
            reduced.append((scaled, coefficient))
        self.sums.expanded.add(self.sums.flat(reduced))
        e.sum(counted(reduced))

    def linear(self, node: Reduce, total: Sum) -> None:
        """sum_a (x + y) = sum_a x + sum_a y."""
        e = self.e
        if total.constant != 0:
            members = [*total.terms, (e.constant(ONE), total.constant)]
        else:
            members = list(total.terms)
        self.sum_of_sums(node, members)
