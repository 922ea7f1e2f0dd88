"""The place of a program in its grid, from its number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from cleave.lowering.functions import Functions
from cleave.lowering.tensors import Tensor, constant, constant_of, multiply

Count = SSAValue | int
"""How many programs there are along a dimension: a number where that is known."""


def placed(functions: Functions, number: Tensor, counts: Sequence[Count], group: int = 0) -> Iterator[Tensor]:
    """
    The places along the dimensions of a grid, fastest first, of what has a number. With a `group`, so many places of the first dimension
    come with all of the second before the next ones.
    """
    rest = number
    if group:
        if len(counts) > 2:
            whole = product(functions, counts[:2])
            number = _named(functions.index_binary("mod", rest, whole), "in_plane")
            rest = _named(functions.index_binary("floordiv", rest, whole), "rest" if len(counts) > 3 else "")
        yield from _grouped(functions, number, counts[0], counts[1], group)
    for position in range(2 if group else 0, len(counts)):
        if position + 1 == len(counts):
            yield rest
        elif counts[position] == 1:
            yield _number(functions, 0)
        else:
            size = _number(functions, counts[position])
            place = functions.index_binary("mod", rest, size)
            rest = _named(functions.index_binary("floordiv", rest, size), "rest" if position + 2 < len(counts) else "")
            yield place


def product(functions: Functions, counts: Sequence[Count]) -> Tensor:
    """The product of some counts."""
    known = prod(count for count in counts if isinstance(count, int))
    first, *others = [*(count for count in counts if not isinstance(count, int)), known]
    out = _number(functions, first)
    for factor in others:
        out = multiply(functions.blocks, out, factor)
    return out


def _grouped(functions: Functions, number: Tensor, rows: Count, columns: Count, group: int) -> tuple[Tensor, Tensor]:
    """The place in a plane of rows by columns, of which `group` rows, the last time perhaps fewer, come with all columns."""
    binary = functions.index_binary
    size = _number(functions, group)
    band = product(functions, (columns, group))
    first = _named(binary("mul", binary("floordiv", number, band), size), "group_start")
    within = _named(binary("mod", number, band), "in_group")
    if not isinstance(rows, int) or rows % group:
        left = binary("sub", _number(functions, rows), first)
        size = _named(binary("min", left, size), "group_rows")
    return binary("add", first, binary("mod", within, size)), binary("floordiv", within, size)


def _number(functions: Functions, count: Count) -> Tensor:
    return Tensor(constant(functions.blocks, count, i32) if isinstance(count, int) else count)


def _named(tensor: Tensor, name: str) -> Tensor:
    if name and tensor.value.name_hint is None and constant_of(tensor.value) is None:
        tensor.value.name_hint = name
    return tensor
