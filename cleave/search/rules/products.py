"""Other forms of products."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from ..convert import counted
from ..egraph import EGraph
from ..forms import Exp, Product
from .limits import Limits

ONE = Fraction(1)


class ProductRules:
    """Factors that are products, parts, and exponentials in common."""

    def __init__(self, egraph: EGraph, fits: Callable[[int], bool], limits: Limits) -> None:
        self.e = egraph
        self.fits = fits
        self.limits = limits

    def apply(self, node: Product) -> None:
        """All rules on a product."""
        self.open_product(node)
        self.parts_of_product(node)
        self.join_exps(node)

    def open_product(self, node: Product) -> None:
        """a * (b c) = a b c."""
        for at, (c, exponent) in enumerate(node.factors):
            for inner in self.e.classes[c].products[:2]:
                factors = counted([*node.factors[:at], *node.factors[at + 1 :], *((f, k * exponent) for f, k in inner.factors)])
                if any(abs(k) > 1 and self.is_exp(f) for f, k in factors.items() if (f, k) not in node.factors):
                    continue
                if inner.coefficient == 1 or exponent.denominator == 1:
                    power = ONE if inner.coefficient == 1 else inner.coefficient**exponent.numerator
                    self.e.product(factors, node.coefficient * power)

    def is_exp(self, c: int) -> bool:
        """Whether a class is an exponential. Opening exp(a - b) exp(b) over and over would give every power of exp(b)."""
        return any(isinstance(form, Exp) for form in self.e.classes[c].nodes)

    def parts_of_product(self, node: Product) -> None:
        """Every sub-product that may be stored, and the product without its coefficient."""
        if node.coefficient != 1:
            bare = self.e.product(dict(node.factors))
            if bare is not None:
                self.e.product({bare: ONE}, node.coefficient)
        for part in self.limits.parts(node.factors):
            mask = 0
            for c, _ in part:
                mask |= self.e.mask(c)
            if self.fits(mask):
                self.e.product(dict(part))
                if all(exponent < 0 for _, exponent in part):
                    self.e.product({c: -exponent for c, exponent in part})

    def join_exps(self, node: Product) -> None:
        """exp(a)^k exp(b) = exp(k a + b)."""
        bodies: list[tuple[int, Fraction]] = []
        rest: list[tuple[int, Fraction]] = []
        for c, exponent in node.factors:
            body = next((form.body for form in self.e.classes[c].nodes if isinstance(form, Exp)), None)
            if body is None:
                rest.append((c, exponent))
            else:
                bodies.append((body, exponent))
        if len(bodies) + sum(abs(exponent) != 1 for _, exponent in bodies) > 1:
            total = self.e.sum(counted(bodies))
            joined = None if total is None else self.e.exp(total)
            if joined is not None:
                self.e.product(counted([*rest, (joined, ONE)]), node.coefficient)
