"""
The algebra of slices, positions and concatenations.

The law: what takes a run of an axis commutes with everything elementwise and with sums over other axes; a factor that all operands
of a concatenation share, and that does not vary along it, moves out; a sum over an axis made of others is the sum of the sums over
those. Like all rules these only propose: an axis has to be in `pieces` for the values to be equal.

Left out: slices of functions other than exp, of selections and of maxima are not moved inside (their values are equal, so two
programs that differ in it agree), nor are concatenations of sums or functions pulled apart; padding is opaque.
"""

from __future__ import annotations

from fractions import Fraction

from ..graph import Attr
from .attributes import axis_names
from .convert import counted, size_classes
from .egraph import Call, EGraph, Exp, Leaf, Product, Reduce
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


def factor_of_concatenation(e: EGraph, node: Call) -> None:
    """concat(x f, y f) = concat(x, y) f where f does not vary along the axes that are joined."""
    axes = axis_names(node.attr[0])
    options = [[*e.classes[c].products, Product(ONE, ((c, ONE),))] for c in node.args]
    along = e.mask_of([*axes, str(node.attr[1])])
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
            value = placed(e.space, node.kind, node.attr, [e.value(c) for c in rests])
            if value is not None:
                joined = e.known(Call(node.kind, node.attr, node.dtype, tuple(rests)), value)
                e.product(counted([(joined, ONE), (f, exponent)]))


def sum_in_pieces(e: EGraph, node: Reduce, product: Product) -> list[Reduce]:
    """
    sum_t concat(x, y) f = sum_a x f_a + sum_b y f_b where t is made of a and b, and f_a, f_b are the runs of f.

    Returns the sums over pieces that are new.
    """
    new: list[Reduce] = []
    declared = {axis.name: axis for axis in e.space.axes}
    for c, _ in product.factors:
        for form in [form for form in e.classes[c].nodes if isinstance(form, Call) and form.kind == "concat"][:1]:
            whole, axes = str(form.attr[1]), axis_names(form.attr[0])
            if not node.mask & e.bit[whole]:
                continue
            terms: list[tuple[int, Fraction]] = []
            for axis, operand, start in zip(axes, form.args, whole_starts([declared[axis] for axis in axes]), strict=True):
                position = start if start.constant is None else start.constant
                made = _sum_of_piece(e, node, product, {c: operand}, (whole, axis, position, 1), new)
                if made is None:
                    break
                terms.append((made, ONE))
            else:
                e.sum(counted(terms))
    return new


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
