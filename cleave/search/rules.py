"""
The algebra: which other forms an expression has.

The law: a rule proposes expressions; each is evaluated when it is made and joins whatever class has its value, so a rule can
be useless but not wrong. Rules work on flat forms and from the target downwards, so nothing irrelevant is built:

- product: open factors that are products; every part of the product; what several exps have in common
- sum: open terms that are sums; every part of the sum; join sums over the same axes; take common factors out
- sum over axes: factors without the axes move out; a subset of the axes goes first, over the factors that have them; sums
  nested in a factor join; a sum of terms is a sum of sums
- exp: of a sum, a product of exps, one for each set of axes that its terms have
- log: of a product, a sum
- slices, concatenations, paddings and merged axes: see `movement`

Distribution happens under a sum over axes only, and not under one over a piece of an axis; elsewhere a common factor stays whole.
It makes a sum of sums over axes at once, which is opened all at once and joined in one way only: with the terms in groups that have
the same factors outside. All its partial sums, each as a sum over axes of an elementwise sum, would be 2^k values.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations

from .convert import counted, size_classes
from .egraph import Call, EGraph, Exp, Product, Reduce, Sum
from .movement import common_factors, exp_of_padding, sum_in_pieces, take_inside

ONE = Fraction(1)
PART_LIMIT = 6
"""Products and sums of up to this many members are taken apart in every way."""
TERM_LIMIT = 12
"""The longest sum that distribution makes."""


class Rules:
    """The rules over one e-graph. `fits` says whether a tensor with the axes of a mask may be stored."""

    def __init__(self, egraph: EGraph, fits: Callable[[int], bool]) -> None:
        self.e = egraph
        self.fits = fits
        self.hits: dict[str, int] = {}
        self.of_pieces: set[int] = set()
        self.expanded: set[Sum] = set()
        """The sums of sums over axes that distribution has made, and what they are when opened or joined."""

    def apply(self, c: int) -> None:
        """Every rule on every form of a class."""
        entry = self.e.classes[c]
        for product in list(entry.products):
            self.open_product(product)
            self.parts_of_product(product)
            self.join_exps(product)
        for total in list(entry.sums):
            self.open_sum(total)
            self.parts_of_sum(total)
            if total in self.expanded:
                self.join_alike(total)
            else:
                self.join_reductions(total)
            self.common_factor(total)
        for reduction in list(entry.reductions):
            self.reduction(reduction)
        for node in list(entry.nodes):
            if isinstance(node, Exp):
                self.exp_of_sum(node)
                exp_of_padding(self.e, node.body)
            elif isinstance(node, Call) and node.kind == "log":
                self.log(c, node)
            elif isinstance(node, Call) and node.kind in ("slice", "index"):
                take_inside(self.e, node)
            elif isinstance(node, Call) and node.kind in ("concat", "merge", "pad", "select"):
                common_factors(self.e, node)

    # Products.

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
        for part in self._parts(node.factors):
            mask = 0
            for c, _ in part:
                mask |= self.e.mask(c)
            if self.fits(mask):
                self.e.product(dict(part))
                if all(exponent < 0 for _, exponent in part):
                    self.e.product({c: -exponent for c, exponent in part})

    def _parts(self, members: tuple[tuple[int, Fraction], ...]) -> list[tuple[tuple[int, Fraction], ...]]:
        count = len(members)
        if count <= PART_LIMIT:
            return [part for size in range(1, count) for part in combinations(members, size)]
        self.hits["parts"] = self.hits.get("parts", 0) + 1
        small = [part for size in (1, 2) for part in combinations(members, size)]
        return small + [tuple(m for m in members if m not in part) for part in small]

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

    # Sums.

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
        for part in self._parts(node.terms) if len(node.terms) <= 4 and node not in self.expanded else []:
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
                for form in self.bare_reductions(f)[:1] if exponent == 1 else []:
                    return form.mask, (*product.factors[:at], *product.factors[at + 1 :]), form.body, product.coefficient
        for form in self.bare_reductions(c)[:1]:
            return form.mask, (), form.body, ONE
        return 0, (), c, ONE

    def bare_reductions(self, c: int) -> list[Reduce]:
        """
        The sums over axes that a class is, without those of which a factor could move out: where p adds up to 1, any x is also
        the sum of x p.
        """
        out: list[Reduce] = []
        for node in self.e.classes[c].reductions:
            products = self.e.classes[node.body].products
            if all(self.e.mask(f) & node.mask for product in products for f, _ in product.factors):
                out.append(node)
        return out

    def _reductions_of(self, c: int) -> list[tuple[int, int, Fraction]]:
        """Forms of a class as coefficient * sum over axes of a body; factors without the axes move in."""
        out = [(node.mask, node.body, ONE) for node in self.bare_reductions(c)[:4]]
        for product in self.e.classes[c].products:
            for at, (f, exponent) in enumerate(product.factors):
                rest = [*product.factors[:at], *product.factors[at + 1 :]]
                if exponent != 1:
                    continue
                for node in self.bare_reductions(f)[:3]:
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

    # Sums over axes.

    def reduction(self, node: Reduce) -> None:
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
            for inner in self.bare_reductions(c)[:4]:
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
                if len(members) ** int(exponent) > TERM_LIMIT:
                    self.hits["terms"] = self.hits.get("terms", 0) + 1
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
        self.expanded.add(self.flat(reduced))
        e.sum(counted(reduced))

    def linear(self, node: Reduce, total: Sum) -> None:
        """sum_a (x + y) = sum_a x + sum_a y."""
        e = self.e
        if total.constant != 0:
            members = [*total.terms, (e.constant(ONE), total.constant)]
        else:
            members = list(total.terms)
        self.sum_of_sums(node, members)

    # Functions.

    def exp_of_sum(self, node: Exp) -> None:
        """exp(a + b) = exp(a) exp(b) for parts over different axes, exp(-a) = 1/exp(a)."""
        e = self.e
        entry = e.classes[node.body]
        for product in entry.products[:1]:
            if product.coefficient < 0:
                flipped = e.product(dict(product.factors), -product.coefficient)
                positive = None if flipped is None else e.exp(flipped)
                if positive is not None:
                    e.product({positive: -ONE})
        for total in entry.sums:
            groups: dict[int, list[tuple[int, Fraction]]] = {}
            for c, coefficient in total.terms:
                groups.setdefault(e.mask(c), []).append((c, coefficient))
            factors: list[tuple[int, Fraction]] = []
            if len(groups) == 1 and not total.constant:
                members = total.terms
                if all(coefficient < 0 for _, coefficient in members):
                    groups = {0: list(members)}
                else:
                    continue
            constant = total.constant
            for _, members in sorted(groups.items(), reverse=True):
                sign = -ONE if all(coefficient < 0 for _, coefficient in members) else ONE
                part = e.sum({c: k * sign for c, k in members}, constant * sign)
                constant = Fraction(0)
                made = None if part is None else e.exp(part)
                if made is None:
                    break
                factors.append((made, sign))
            else:
                e.product(counted(factors))

    def log(self, c: int, node: Call) -> None:
        """log(a b) = log(a) + log(b), log(a^k) = k log(a), log(exp(a)) = a."""
        e = self.e
        body = e.classes[node.args[0]]
        for product in body.products[:3]:
            if product.coefficient <= 0:
                continue
            terms: list[tuple[int, Fraction]] = []
            pieces = [*product.factors] + ([(e.constant(product.coefficient), ONE)] if product.coefficient != 1 else [])
            for f, exponent in pieces:
                inner = next((form.body for form in e.classes[f].nodes if isinstance(form, Exp)), None)
                if inner is None:
                    value = e.space.logarithm(e.value(f))
                    if value is None or e.space.spoiled.any():
                        e.space.spoiled[:] = False
                        break
                    inner = e.known(Call("log", (), "f32", (f,)), value)
                terms.append((inner, exponent))
            else:
                e.sum(counted(terms))
