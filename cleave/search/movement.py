"""
The algebra of slices, positions, concatenations, paddings and merged axes.

The law: what takes a run of an axis commutes with everything elementwise and with sums over other axes; a factor that all operands
of a concatenation share, or both branches of a selection, and that does not vary along it, moves out; a sum over an axis made of
others is the sum of the sums over those, of which paddings with 0 are no part; exp of what is padded with -inf is padded with 0. Like
all rules these only propose: an axis has to be in `pieces` for the values to be equal.

Left out: slices of functions other than exp, of selections and of maxima are not moved inside (their values are equal, so two
programs that differ in it agree), nor are concatenations of sums or functions pulled apart.
"""

from __future__ import annotations

import math
from fractions import Fraction

from ..extents import Extent, from_sympy
from ..graph import Attr
from .attributes import axis_names
from .convert import counted, size_classes
from .egraph import EGraph
from .forms import Call, Exp, Leaf, Node, Product, Reduce
from .meaning import placed
from .pieces import whole_starts

ONE = Fraction(1)
MOST = 3
"""The longest product or sum that is sliced part by part."""


def taken(e: EGraph, kind: str, attr: tuple[Attr, ...], c: int) -> int | None:
    """The class of a slice, or of the element at a position, of a class; None where its value is not known exactly."""
    if not e.mask(c) & e.bit[str(attr[0])]:
        return c
    dtype = next((node.dtype for node in e.classes[c].nodes if isinstance(node, Leaf | Call)), "f32")
    node = Call(kind, attr, dtype, (c,))
    value = placed(e.space, kind, attr, [e.value(c)])
    return None if value is None else e.known(node, value)


def _known(e: EGraph, node: Call, c: int) -> bool:
    """Whether there is a class already for what a slice, or the element at a position, is of a class."""
    value = placed(e.space, node.kind, node.attr, [e.value(c)])
    return value is not None and e.find(value) is not None


def take_inside(e: EGraph, node: Call) -> None:
    """
    A slice of a product is a product of slices, and alike for sums, exponentials and sums over other axes.

    Factors without the axis move out; the others stay together unless the slice of one is known, as that of a concatenation is.
    """
    body = e.classes[node.args[0]]

    def inner(c: int) -> int | None:
        return taken(e, node.kind, node.attr, c)

    axis = e.bit[str(node.attr[0])]
    for product in body.products[:1]:
        outside = [(c, k) for c, k in product.factors if not e.mask(c) & axis]
        inside = [(c, k) for c, k in product.factors if e.mask(c) & axis]
        if outside or product.coefficient != 1:
            rest = e.product(dict(inside))
            inside = [] if rest is None else [(rest, ONE)]
        elif not any(_known(e, node, c) for c, _ in inside):
            continue
        parts = [(inner(c), k) for c, k in inside]
        known = [(c, k) for c, k in parts if c is not None]
        if 0 < len(parts) == len(known) <= MOST:
            e.product(counted([*outside, *known]), product.coefficient)
    for total in body.sums[:1]:
        parts = [(inner(c), k) for c, k in total.terms]
        known = [(c, k) for c, k in parts if c is not None]
        if len(parts) == len(known) <= MOST:
            e.sum(counted(known), total.constant)
    new = e.mask_of([str(node.attr[1])]) if node.kind == "slice" else 0
    for form in [form for form in body.nodes if isinstance(form, Exp)]:
        part = inner(form.body)
        if part is not None:
            e.exp(part)
    for form in body.reductions[:1]:
        part = None if (form.mask | e.mask(form.body)) & new else inner(form.body)
        if part is not None and e.mask(part) & form.mask == form.mask:
            e.reduce(form.mask, part)


def common_factors(e: EGraph, node: Call) -> None:
    """
    concat(x f, y f) = concat(x, y) f where f does not vary along the axes that are joined, and alike for merged axes, paddings with
    0, and selections by any condition.
    """
    if node.kind == "pad" and node.attr[3] != 0:
        return
    given, branches = (node.args[:1], node.args[1:]) if node.kind == "select" else ((), node.args)
    along = 0 if node.kind == "select" else e.mask_of([*axis_names(node.attr[0]), str(node.attr[1])])
    options = [[*e.classes[c].products, Product(ONE, ((c, ONE),))] for c in branches]
    for f, exponent in dict.fromkeys(pair for form in options[0] for pair in form.factors):
        if e.mask(f) & along or e.number(f) is not None:
            continue
        rests: list[int] = []
        for forms in options:
            form = next((form for form in forms if (f, exponent) in form.factors), None)
            rest = None if form is None else e.product({c: k for c, k in form.factors if c != f}, form.coefficient)
            if rest is None:
                break
            rests.append(rest)
        else:
            args = (*given, *rests)
            values = [e.value(c) for c in args]
            value = e.space.select(*values) if node.kind == "select" else placed(e.space, node.kind, node.attr, values)
            if value is not None:
                joined = e.known(Call(node.kind, node.attr, node.dtype, args), value)
                e.product(counted([(joined, ONE), (f, exponent)]))


def exp_of_padding(e: EGraph, c: int) -> None:
    """exp(pad(x, -inf)) = pad(exp(x), 0)."""
    for form in [form for form in e.classes[c].nodes if isinstance(form, Call) and form.kind == "pad" and form.attr[3] == -math.inf]:
        inner = e.exp(form.args[0])
        attr = (*form.attr[:3], 0.0)
        value = None if inner is None else placed(e.space, "pad", attr, [e.value(inner)])
        if inner is not None and value is not None:
            e.known(Call("pad", attr, form.dtype, (inner,)), value)


def sum_in_pieces(e: EGraph, node: Reduce, product: Product) -> list[Reduce]:
    """
    sum_t concat(x, y) f = sum_a x f_a + sum_b y f_b where t is made of a and b, and f_a, f_b are the runs of f.

    Returns the sums over pieces that are new.
    """
    new: list[Reduce] = []
    for c, _ in product.factors:
        made_of = next((parts for form in e.classes[c].nodes if (parts := _parts(e, form))), None)
        if made_of is None or not node.mask & e.bit[str(made_of[0][1][0])]:
            continue
        terms: list[tuple[int, Fraction]] = []
        for operand, attr in made_of:
            made = _sum_of_piece(e, node, product, {c: operand}, attr, new)
            if made is None:
                break
            terms.append((made, ONE))
        else:
            e.sum(counted(terms))
    return new


def _parts(e: EGraph, form: Node) -> list[tuple[int, tuple[Attr, ...]]]:
    """What a form has along its axis, apart from zeros: classes, each with the slice of the axis that is its place."""
    match form:
        case Call("concat", (parts, str(new)), _, args):
            declared = {axis.name: axis for axis in e.space.axes}
            axes = axis_names(parts)
            starts = whole_starts([declared[axis] for axis in axes])
            return [(arg, (new, axis, _position(start), 1)) for arg, axis, start in zip(args, axes, starts, strict=True)]
        case Call("pad", (str(axis), str(new), low, number), _, (arg,)) if number == 0:
            return [(arg, (new, axis, low, 1))]
        case Call("merge", ((str(outer), str(inner)), str(new)), dtype, (arg,)):
            stepped = e.space.pieces[new][0].modulus if new in e.space.pieces else 1
            short, long = (outer, inner) if stepped == 1 else (inner, outer)
            out: list[tuple[int, tuple[Attr, ...]]] = []
            for at in range(e.space.points[short] if placed(e.space, "merge", form.attr, [e.value(arg)]) is not None else 0):
                value = placed(e.space, "index", (short, at), [e.value(arg)])
                if value is None:
                    return []
                operand = e.known(Call("index", (short, at), dtype, (arg,)), value) if e.mask(arg) & e.bit[short] else arg
                start = at if stepped > 1 else _position(from_sympy(at * e.space.extents[long].sympy()))
                out.append((operand, (new, long, start, stepped)))
            return out
        case _:
            return []


def _position(start: Extent) -> Attr:
    return start if start.constant is None else start.constant


def _sum_of_piece(
    e: EGraph, node: Reduce, product: Product, known: dict[int, int], attr: tuple[Attr, ...], new: list[Reduce]
) -> int | None:
    """The sum of a product over a piece of an axis: what the slice of each factor is, where it is not known, is asked for."""
    whole, axis = e.bit[str(attr[0])], e.bit[str(attr[1])]
    factors: list[tuple[int, Fraction]] = []
    for f, exponent in product.factors:
        if axis != whole and (e.mask(f) | node.mask) & axis:
            return None
        part = known.get(f) if f in known else taken(e, "slice", attr, f)
        if part is None:
            return None
        factors.append((part, exponent))
    body = e.product(counted(factors), product.coefficient)
    if body is None:
        return None
    mask = node.mask & ~whole | axis
    there = e.mask(body) & mask
    if not e.has(Reduce(there, body)):
        new.append(Reduce(there, body))
    sizes, reduced = size_classes(e, mask & ~there), e.reduce(there, body)
    return None if sizes is None or reduced is None else e.product(counted([(reduced, ONE), *((size, ONE) for size in sizes)]))
