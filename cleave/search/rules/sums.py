"""Other forms of sums, also of sums over axes."""

from __future__ import annotations

from fractions import Fraction

from ..convert import counted
from ..egraph import EGraph
from ..forms import Reduce, Sum
from .limits import Limits

ONE = Fraction(1)


class SumRules:
    """Terms that are sums, parts, sums over the same axes, and factors in common."""

    def __init__(self, egraph: EGraph, limits: Limits) -> None:
        self.e = egraph
        self.limits = limits
        self.expanded: set[Sum] = set()
        """The sums of sums over axes that distribution has made, and what they are when opened or joined."""

    def apply(self, node: Sum) -> None:
        """All rules on a sum."""
        self.open_sum(node)
        self.parts_of_sum(node)
        if node in self.expanded:
            self.join_alike(node)
        else:
            self.join_reductions(node)
        self.common_factor(node)

    def flat(self, terms: list[tuple[int, Fraction]], constant: Fraction = Fraction(0)) -> Sum:
        """The form that a sum of terms has in its class."""
        numbers = [(self.e.number(c), k) for c, k in terms]
        constant += sum((number * k for number, k in numbers if number is not None), Fraction(0))
        kept = counted([term for term in terms if self.e.number(term[0]) is None])
        return Sum(constant, tuple(sorted((c, k) for c, k in kept.items() if k != 0)))

    def open_sum(self, node: Sum) -> None:
        """a + (b + c) = a + b + c. All terms that distribution has made sums of are opened at once, the others one by one."""
        inside = [next((form for form in self.e.classes[c].sums if form in self.expanded), None) for c, _ in node.terms]
        if any(form is not None for form in inside):
            opened: list[tuple[int, Fraction]] = []
            constant = node.constant
            for (c, coefficient), form in zip(node.terms, inside, strict=True):
                opened += [(c, coefficient)] if form is None else [(term, k * coefficient) for term, k in form.terms]
                constant += Fraction(0) if form is None else form.constant * coefficient
            self.expanded.add(self.flat(opened, constant))
            self.e.sum(counted(opened), constant)
        for at, (c, coefficient) in enumerate(node.terms):
            others = [*node.terms[:at], *node.terms[at + 1 :]]
            for inner in self.e.classes[c].sums[:2]:
                if inner in self.expanded:
                    continue
                opened = [*others, *((term, k * coefficient) for term, k in inner.terms)]
                constant = node.constant + inner.constant * coefficient
                if node in self.expanded:
                    self.expanded.add(self.flat(opened, constant))
                self.e.sum(counted(opened), constant)
            for product in self.e.classes[c].products[:1]:
                if product.coefficient != 1:
                    bare = self.e.product(dict(product.factors))
                    if bare is not None:
                        self.e.sum(counted([*others, (bare, product.coefficient * coefficient)]), node.constant)

    def parts_of_sum(self, node: Sum) -> None:
        """Every partial sum; each scaled term by itself."""
        if node.constant != 0:
            self.e.constant(abs(node.constant))
            sign = -ONE if all(coefficient < 0 for _, coefficient in node.terms) else ONE
            bare = self.e.sum({c: k * sign for c, k in node.terms})
            if bare is not None:
                self.e.sum({bare: sign}, node.constant)
        for c, coefficient in node.terms:
            self.e.product({c: ONE}, abs(coefficient))
        for part in self.limits.parts(node.terms) if len(node.terms) <= 4 and node not in self.expanded else []:
            self.e.sum(dict(part))
            self.e.sum(dict(part), node.constant)
        if all(coefficient < 0 for _, coefficient in node.terms) and node.constant <= 0:
            self.e.sum({c: -coefficient for c, coefficient in node.terms}, -node.constant)

    def join_reductions(self, node: Sum) -> None:
        """sum_a x + sum_a y = sum_a (x + y)."""
        groups: dict[int, list[tuple[int, int, Fraction]]] = {}
        for c, coefficient in node.terms:
            for mask, body, factor in self._reductions_of(c):
                groups.setdefault(mask, []).append((c, body, factor * coefficient))
        for mask, members in sorted(groups.items()):
            taken: dict[int, tuple[int, Fraction]] = {}
            for c, body, coefficient in members:
                taken.setdefault(c, (body, coefficient))
            if len(taken) < 2:
                continue
            body = self.e.sum(counted(list(taken.values())))
            if body is None or self.e.mask(body) & mask != mask:
                continue
            joined = self.e.reduce(mask, body)
            if joined is not None:
                rest = [(c, k) for c, k in node.terms if c not in taken]
                self.e.sum(counted([*rest, (joined, ONE)]), node.constant)

    def join_alike(self, node: Sum) -> None:
        """f sum_a x + f sum_a y = f sum_a (x + y): of a sum that distribution has made, all that have the same f together."""
        groups: dict[tuple[int, tuple[tuple[int, Fraction], ...]], list[tuple[int, Fraction]]] = {}
        rest: list[tuple[int, Fraction]] = []
        for c, coefficient in node.terms:
            mask, outside, body, factor = self._reduction_inside(c)
            if mask:
                groups.setdefault((mask, outside), []).append((body, factor * coefficient))
            else:
                rest.append((c, coefficient))
        if all(len(members) == 1 for members in groups.values()):
            return
        for (mask, outside), members in sorted(groups.items()):
            body = self.e.sum(counted(members))
            joined = None if body is None or self.e.mask(body) & mask != mask else self.e.reduce(mask, body)
            made = None if joined is None else self.e.product(counted([*outside, (joined, ONE)]))
            if made is None:
                return
            rest.append((made, ONE))
        self.expanded.add(self.flat(rest, node.constant))
        self.e.sum(counted(rest), node.constant)

    def _reduction_inside(self, c: int) -> tuple[int, tuple[tuple[int, Fraction], ...], int, Fraction]:
        """A class as coefficient * factors * sum over axes of a body: (mask of axes, factors, body, coefficient); mask 0 if it is none."""
        for product in self.e.classes[c].products:
            for at, (f, exponent) in enumerate(product.factors):
                for form in bare_reductions(self.e, f)[:1] if exponent == 1 else []:
                    return form.mask, (*product.factors[:at], *product.factors[at + 1 :]), form.body, product.coefficient
        for form in bare_reductions(self.e, c)[:1]:
            return form.mask, (), form.body, ONE
        return 0, (), c, ONE

    def _reductions_of(self, c: int) -> list[tuple[int, int, Fraction]]:
        """Forms of a class as coefficient * sum over axes of a body; factors without the axes move in."""
        out = [(node.mask, node.body, ONE) for node in bare_reductions(self.e, c)[:4]]
        for product in self.e.classes[c].products:
            for at, (f, exponent) in enumerate(product.factors):
                rest = [*product.factors[:at], *product.factors[at + 1 :]]
                if exponent != 1:
                    continue
                for node in bare_reductions(self.e, f)[:3]:
                    if any(self.e.mask(other) & node.mask for other, _ in rest):
                        continue
                    body = self.e.product(counted([*rest, (node.body, ONE)]))
                    if body is not None:
                        out.append((node.mask, body, product.coefficient))
        return out

    def common_factor(self, node: Sum) -> None:
        """a f + b f = (a + b) f."""
        if node.constant != 0 or len(node.terms) < 2:
            return
        forms = [self._product_forms(c) for c, _ in node.terms]
        shared = [f for form in forms[0] for f in form[1]]
        for f, exponent in dict.fromkeys(shared):
            rests: list[tuple[int, Fraction]] = []
            for options, (_, coefficient) in zip(forms, node.terms, strict=True):
                form = next((form for form in options if (f, exponent) in form[1]), None)
                if form is None:
                    break
                rest = self.e.product({c: k for c, k in form[1] if c != f}, form[0])
                if rest is None:
                    break
                rests.append((rest, coefficient))
            else:
                total = self.e.sum(counted(rests))
                if total is not None:
                    self.e.product(counted([(total, ONE), (f, exponent)]))

    def _product_forms(self, c: int) -> list[tuple[Fraction, tuple[tuple[int, Fraction], ...]]]:
        forms = [(product.coefficient, product.factors) for product in self.e.classes[c].products]
        return [*forms, (ONE, ((c, ONE),))]


def bare_reductions(e: EGraph, c: int) -> list[Reduce]:
    """
    The sums over axes that a class is, without those of which a factor could move out: where p adds up to 1, any x is also
    the sum of x p.
    """
    out: list[Reduce] = []
    for node in e.classes[c].reductions:
        products = e.classes[node.body].products
        if all(e.mask(f) & node.mask for product in products for f, _ in product.factors):
            out.append(node)
    return out
