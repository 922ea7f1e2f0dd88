"""
Degrees: how every value of a graph depends on its free shifts.

`m = shift x` may take any value (DESIGN: safe exponentials). A value of degree k in m is e^(k*m) times something that does
not depend on m: exp(x - m) has degree -1, a product or contraction adds degrees, a quotient subtracts them. So where a
schedule moves m from m_old to m_new, an accumulator of degree k is multiplied by e^(k*(m_new - m_old)), which for -1 is
e^(m_old - m_new). Inside an exponential the dependence is a sum instead: x - m is the *term* -m, and log z of a z of degree
-1 has the term -m, which adding m takes away again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TypeAlias

from ..graph import Graph
from .rules import constant_of, factor_free, rule_of

Powers: TypeAlias = "dict[int, Fraction]"


def degrees(graph: Graph) -> tuple[Mapping[int, int], ...]:
    """
    The degree of every operation's value, by the position of the shift operation; shifts of degree 0 are left out.

    Raises: ValueError, saying which operation is at fault, where a value has no degree (operands of unequal degree are added,
    a function is applied to a shifted value, an axis is removed that the shift still has) or a result depends on a shift.
    """
    factors, terms = _infer(graph)
    for output in graph.outputs:
        if factors[output.value] or terms[output.value]:
            raise _error(graph, output.value, "is a result and depends on a shift")
    return tuple({shift: int(power) for shift, power in factor.items()} for factor in factors)


def combined(parts: Sequence[tuple[Mapping[int, Fraction], Fraction]]) -> Powers:
    """The sum of maps, each times a number, without what cancels."""
    out: Powers = {}
    for powers, times in parts:
        for shift, power in powers.items():
            out[shift] = out.get(shift, Fraction(0)) + power * times
    return {shift: power for shift, power in sorted(out.items()) if power}


def _error(graph: Graph, position: int, found: str) -> ValueError:
    op = graph.ops[position]
    place = graph.places[position] if graph.places else ""
    return ValueError(f"{place + ': ' if place else ''}operation {position} ({op.kind}) {found}")


def _infer(graph: Graph) -> tuple[list[Powers], list[Powers]]:
    free = factor_free(graph)
    factors: list[Powers] = []
    terms: list[Powers] = []
    for position in range(len(graph.ops)):
        factor, term = _of(graph, position, factors, terms, free)
        if any(power.denominator != 1 for power in factor.values()):
            raise _error(graph, position, "has a fractional degree")
        factors.append(factor)
        terms.append(term)
    return factors, terms


def _of(graph: Graph, position: int, factors: list[Powers], terms: list[Powers], free: list[bool]) -> tuple[Powers, Powers]:
    op = graph.ops[position]
    if op.kind == "shift":
        return {}, {position: Fraction(1)}
    if not any(factors[arg] or terms[arg] for arg in op.args):
        return {}, {}
    if op.kind == "exp" and not factors[op.args[0]]:
        return terms[op.args[0]], {}
    if op.kind == "log" and not terms[op.args[0]]:
        return {}, factors[op.args[0]]
    if any(terms[arg] for arg in op.args):
        return {}, _term(graph, position, factors, terms)
    return _factor(graph, position, factors, free), {}


def _factor(graph: Graph, position: int, factors: list[Powers], free: list[bool]) -> Powers:
    """The degree of a value whose operands have degrees but no terms."""
    rule = rule_of(graph, position)
    if any(factors[arg] for arg in rule.plain):
        raise _error(graph, position, "is applied to a shifted value")
    bound = [arg for arg in rule.equal if not free[arg]]
    if any(factors[arg] != factors[bound[0]] for arg in bound):
        raise _error(graph, position, "joins operands of unequal degree")
    factor = combined([(factors[arg], exponent) for arg, exponent in rule.powers])
    for arg in bound[:1]:
        factor = factors[arg]
    for shift in factor:
        kept = set(graph.ops[shift].axes) & set(rule.touched)
        if kept:
            raise _error(graph, position, f"removes axis '{min(kept)}', which the shift of operation {shift} still has")
    return {} if rule.forgets else factor


def _term(graph: Graph, position: int, factors: list[Powers], terms: list[Powers]) -> Powers:
    """The terms of a value some operand of which has terms."""
    op = graph.ops[position]
    if any(factors[arg] for arg in op.args):
        raise _error(graph, position, "mixes a shift with a shifted value")
    one = Fraction(1)
    rule = rule_of(graph, position)
    match op.kind:
        case "add":
            return combined([(terms[op.args[0]], one), (terms[op.args[1]], one)])
        case "sub":
            return combined([(terms[op.args[0]], one), (terms[op.args[1]], -one)])
        case "neg":
            return combined([(terms[op.args[0]], -one)])
        case "mul" | "div":
            for value, scale in ((op.args[0], op.args[1]), (op.args[1], op.args[0])):
                constant = constant_of(graph, scale)
                if constant is not None and not terms[scale] and (op.kind == "mul" or scale == op.args[1]):
                    times = Fraction(constant) if op.kind == "mul" else 1 / Fraction(constant)
                    return combined([(terms[value], times)])
        case "max" | "min" | "select" | "concat" | "compare":
            bound = [arg for arg in rule.equal if not _infinite(graph, arg)]
            if not any(terms[arg] for arg in rule.plain) and all(terms[arg] == terms[bound[0]] for arg in bound):
                return {} if rule.forgets else _kept(graph, position, terms[bound[0]], rule.touched)
        case "cast" | "rename" | "split" | "merge" | "slice" | "index":
            return _kept(graph, position, terms[op.args[0]], rule.touched)
        case "reduce" if op.attr[0] != "sum":
            return _kept(graph, position, terms[op.args[0]], rule.touched)
        case _:
            pass
    raise _error(graph, position, "is applied to a shift")


def _kept(graph: Graph, position: int, term: Powers, touched: tuple[str, ...]) -> Powers:
    for shift in term:
        if set(graph.ops[shift].axes) & set(touched):
            raise _error(graph, position, f"removes an axis that the shift of operation {shift} still has")
    return term


def _infinite(graph: Graph, position: int) -> bool:
    constant = constant_of(graph, position)
    return constant is not None and constant in (float("inf"), float("-inf"))
