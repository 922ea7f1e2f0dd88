"""Other forms of exponentials and logarithms."""

from __future__ import annotations

from fractions import Fraction

from ..convert import counted
from ..egraph import EGraph
from ..forms import Call, Exp

ONE = Fraction(1)


def exp_of_sum(e: EGraph, node: Exp) -> None:
    """exp(a + b) = exp(a) exp(b) for parts over different axes, exp(-a) = 1/exp(a)."""
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


def log_of_product(e: EGraph, node: Call) -> None:
    """log(a b) = log(a) + log(b), log(a^k) = k log(a), log(exp(a)) = a."""
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
