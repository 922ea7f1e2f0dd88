"""Where a program is in its grid, as lowered, is where the order of tiles says."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from itertools import product

import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import i32
from xdsl.ir import Block, Operation, SSAValue

from cleave.lowering.functions import Functions
from cleave.lowering.grid import Count, placed
from cleave.lowering.tensors import Blocks, Tensor, constant_of
from cleave.schedule.raster import places

INTEGERS: Mapping[type[Operation], Callable[[int, int], int]] = {
    arith.AddiOp: operator.add,
    arith.SubiOp: operator.sub,
    arith.MuliOp: operator.mul,
    arith.DivSIOp: operator.floordiv,
    arith.RemSIOp: operator.mod,
    arith.MinSIOp: min,
}


def evaluated(value: SSAValue, known: Mapping[SSAValue, int]) -> int:
    """What operations on integers give."""
    number = constant_of(value)
    if value in known or number is not None:
        return known[value] if value in known else int(number or 0)
    op = value.owner
    assert isinstance(op, Operation)
    left, right = (evaluated(operand, known) for operand in op.operands)
    return INTEGERS[type(op)](left, right)


@pytest.mark.parametrize("group", [0, 1, 3, 4])
@pytest.mark.parametrize("counts", [(5, 3), (8, 2), (1, 4), (7, 1), (4, 3, 2), (5, 1, 3), (6, 2, 2, 3)])
def test_every_program_has_its_tile(counts: tuple[int, ...], group: int) -> None:
    """Where some counts are arguments, others known."""
    for dynamic in product((False, True), repeat=len(counts)):
        block = Block(arg_types=[i32] * (len(counts) + 1))
        number, *arguments = block.args
        given: list[Count] = [argument if unknown else count for argument, unknown, count in zip(arguments, dynamic, counts, strict=True)]
        found = list(placed(Functions(Blocks(block)), Tensor(number), given, group))
        for program, wanted in enumerate(places(counts, group)):
            known: dict[SSAValue, int] = {number: program, **dict(zip(arguments, counts, strict=True))}
            assert tuple(evaluated(place.value, known) for place in found) == wanted
