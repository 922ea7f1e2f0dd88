"""Sums of products: the matmul family, linear and einsum. Operands keep the program's dtype, results are f32 until cast."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, cast

import torch

from ..atoms import Dim
from ..values import Lowering, Value
from .elementwise import Operand, apply
from .reductions import reduced
from .table import Result, lowers

_ROW, _COLUMN, _SUM = ("row", 0), ("column", 0), ("sum", 0)


def contracted(
    cx: Lowering,
    result: Result,
    operands: Sequence[tuple[Value, Sequence[Hashable]]],
    labels: Sequence[Hashable],
) -> Value:
    """
    The sum of the product of operands over all labels that the result does not have; dimensions of one label are one axis.

    Raises: CleaveError for integers, and for operands of several dtypes, of which PyTorch has no sums either.
    """
    if not result.dtype.is_floating_point:
        cx.fail("sums of integer products are not supported", "convert the operands to a float")
    if any(label not in labels for _, own in operands for label in own):
        _alike(cx, *(value for value, _ in operands))
    if len(operands) == 1 and set(operands[0][1]) != set(labels):
        value, own = operands[0]
        value = reduced(cx, "sum", value, [at for at, label in enumerate(own) if label not in labels], keepdim=False)
        operands = [(value, [label for label in own if label in labels])]
    space: dict[Hashable, Dim] = {}
    nodes = [cx.bind(Value(value.dims, cx.narrow(value), value.dtype), own, space) for value, own in operands]
    for label, dim in space.items():
        _suggest(cx, label, dim)
    held = {leaf for node in nodes for leaf in cx.data(node)}
    summed = [leaf for label, dim in space.items() if label not in labels for leaf in cx.atoms.leaves(dim)]
    present = tuple(leaf for leaf in summed if leaf in held)
    missing = cx.size(leaf for leaf in summed if leaf not in held)
    work = cx.working(result.dtype)
    if present:
        atoms = [leaf for leaf in dict.fromkeys(leaf for node in nodes for leaf in cx.data(node)) if leaf not in present]
        node = cx.node("contract", nodes, work, (present,), atoms)
    else:
        node = cx.cast(nodes[0], work)
        for other in nodes[1:]:
            node = cx.node("mul", (node, cx.cast(other, work)), work)
    if missing != 1:
        node = cx.node("mul", (node, cx.number(missing, work)), work)
    return Value(tuple(space[label] for label in labels), node, result.dtype)


def _alike(cx: Lowering, *values: Value) -> None:
    """Raises: CleaveError where the values are not all of one dtype."""
    names = dict.fromkeys(str(value.dtype).removeprefix("torch.") for value in values)
    if len(names) > 1:
        cx.fail(f"the operands are {' and '.join(names)}", "convert them to one dtype, as in PyTorch")


def _suggest(cx: Lowering, label: Hashable, dim: Dim) -> None:
    """Leaves a naming hint on an axis without one: an einsum letter, or the role in a product."""
    hint = label if isinstance(label, str) else str(cast("tuple[object, ...]", label)[0]) if isinstance(label, tuple) else ""
    for leaf in cx.atoms.leaves(dim)[:1]:
        if not leaf.hint:
            leaf.hint = hint


def product_labels(left: int, right: int) -> tuple[list[Hashable], list[Hashable], list[Hashable]]:
    """Labels of both operands of a matrix product of those ranks, and of its result."""
    batch = [("batch", at) for at in range(max(left, right) - 2, 0, -1)]
    lead = {rank: [("batch", at) for at in range(rank - 2, 0, -1)] for rank in (left, right)}
    own: list[Hashable] = [_SUM] if left == 1 else [*lead[left], _ROW, _SUM]
    other: list[Hashable] = [_SUM] if right == 1 else [*lead[right], _SUM, _COLUMN]
    out: list[Hashable] = [*batch, *([_ROW] if left > 1 else []), *([_COLUMN] if right > 1 else [])]
    return own, other, out


def multiplied(cx: Lowering, result: Result, left: Value, right: Value) -> Value:
    """torch.matmul."""
    own, other, out = product_labels(len(left.dims), len(right.dims))
    return contracted(cx, result, [(left, own), (right, other)], out)


@lowers("matmul", "mm", "bmm", "mv", "dot", "vdot", "inner")
def matmul(
    cx: Lowering,
    result: Result,
    self: Value,
    other: Any = None,
    mat2: Any = None,
    vec: Any = None,
    tensor: Any = None,
    out_dtype: Any = None,
) -> Value:
    """The products of vectors, matrices and batches of them."""
    right = next(operand for operand in (other, mat2, vec, tensor) if operand is not None)
    if cx.op == "inner" and len(right.dims) > 1:
        right = Value((*right.dims[:-2], right.dims[-1], right.dims[-2]), right.node, right.dtype)
    cx.unrounded |= result.dtype != self.dtype
    return multiplied(cx, result, self, right)


@lowers("outer", "ger")
def outer(cx: Lowering, result: Result, self: Value, vec2: Value) -> Value:
    """The product of each pair of elements of two vectors."""
    return contracted(cx, result, [(self, [_ROW]), (vec2, [_COLUMN])], [_ROW, _COLUMN])


def _plus(cx: Lowering, result: Result, bias: Value, product: Value, beta: Operand, alpha: Operand) -> Value:
    product = product if alpha == 1 else apply(cx, result, "mul", product, alpha)
    if beta == 0:
        return product
    return apply(cx, result, "add", product, bias if beta == 1 else apply(cx, result, "mul", bias, beta))


@lowers("addmm", "addmv", "baddbmm", "addbmm")
def addmm(
    cx: Lowering,
    result: Result,
    self: Value,
    mat1: Any = None,
    mat2: Any = None,
    mat: Any = None,
    vec: Any = None,
    batch1: Any = None,
    batch2: Any = None,
    beta: Operand = 1,
    alpha: Operand = 1,
) -> Value:
    """beta * self + alpha * the product."""
    if cx.op == "addbmm":
        cx.fail("this operator is not supported", "use baddbmm and a sum")
    left = next(operand for operand in (mat1, mat, batch1) if operand is not None)
    right = next(operand for operand in (mat2, vec, batch2) if operand is not None)
    _alike(cx, self, left, right)
    cx.unrounded |= alpha != 1
    return _plus(cx, result, self, multiplied(cx, result, left, right), beta, alpha)


@lowers("linear")
def linear(cx: Lowering, result: Result, input: Value, weight: Value, bias: Value | None = None) -> Value:
    """input @ weight.T + bias."""
    rank = len(input.dims)
    lead: list[Hashable] = [*(("batch", at) for at in range(rank - 2, 0, -1)), *([_ROW] if rank > 1 else [])]
    columns: list[Hashable] = [_COLUMN] if len(weight.dims) > 1 else []
    out = contracted(cx, result, [(input, [*lead, _SUM]), (weight, [*columns, _SUM])], [*lead, *columns])
    if bias is None:
        return out
    _alike(cx, bias, input)
    return apply(cx, result, "add", out, bias)


@lowers("bilinear")
def bilinear(cx: Lowering, result: Result, input1: Value, input2: Value, weight: Value, bias: Value | None = None) -> Value:
    """Both inputs' product through a weight of three dimensions."""
    lead: list[Hashable] = [*(("batch", at) for at in range(len(input1.dims) - 1))]
    operands = [(input1, [*lead, "i"]), (weight, [_COLUMN, "i", "j"]), (input2, [*lead, "j"])]
    out = contracted(cx, result, operands, [*lead, _COLUMN])
    if bias is None:
        return out
    _alike(cx, bias, input1)
    return apply(cx, result, "add", out, bias)


@lowers("tensordot")
def tensordot(cx: Lowering, result: Result, self: Value, other: Value, dims_self: Sequence[int], dims_other: Sequence[int]) -> Value:
    """torch.tensordot."""
    own: list[Hashable] = [("row", at) for at in range(len(self.dims))]
    right: list[Hashable] = [("column", at) for at in range(len(other.dims))]
    for place, (a, b) in enumerate(zip(dims_self, dims_other, strict=True)):
        own[a] = right[b] = ("sum", place)
    free = [label for label in (*own, *right) if label not in own or label not in right]
    return contracted(cx, result, [(self, own), (other, right)], free)


@lowers("einsum")
def einsum(cx: Lowering, result: Result, equation: str, tensors: Sequence[Value], path: Any = None) -> Value:
    """torch.einsum. Raises: CleaveError for a letter twice in one operand."""
    given, arrow, wanted = equation.replace(" ", "").partition("->")
    terms = given.split(",")
    operands: list[tuple[Value, Sequence[Hashable]]] = []
    widest = 0
    for term, tensor in zip(terms, tensors, strict=True):
        spread = len(tensor.dims) - len(term.replace("...", "")) if "..." in term else 0
        widest = max(widest, spread)
        labels = _labels(term, spread)
        if len(set(labels)) != len(labels):
            cx.fail(f"'{term}' takes a diagonal, which is not supported", "multiply by a mask of equal positions and sum")
        operands.append((tensor, labels))
    if not arrow:
        letters = list(given.replace("...", "").replace(",", ""))
        wanted = ("..." if "..." in given else "") + "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    return contracted(cx, result, operands, _labels(wanted, widest))


def _labels(term: str, spread: int) -> list[Hashable]:
    before, dots, after = term.partition("...")
    if not dots:
        return list(term)
    return [*before, *[("batch", at) for at in range(spread, 0, -1)], *after]


@lowers("cosine_similarity")
def cosine_similarity(cx: Lowering, result: Result, x1: Value, x2: Value, dim: int = 1, eps: float = 1e-8) -> Value:
    """The product of two vectors over the product of their lengths, each held above eps."""
    at = dim if dim >= 0 else dim + len(x1.dims)
    scalar = Result((), torch.promote_types(x1.dtype, x2.dtype))

    def inner(a: Value, b: Value) -> Value:
        return reduced(cx, "sum", apply(cx, scalar, "mul", a, b), [at], keepdim=False)

    def length(x: Value) -> Value:
        return apply(cx, scalar, "max", apply(cx, scalar, "sqrt", inner(x, x)), eps)

    return apply(cx, result, "div", inner(x1, x2), apply(cx, scalar, "mul", length(x1), length(x2)))
