"""Which width addresses are computed in."""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType, i32, i64

from cleave.dialects import tt
from cleave.extents import extent
from cleave.runtime.execute import executable
from cleave.schedule.program import Buffer, GridDim, Kernel, Launch, Program
from tests.tile_programs import Body, scalar


def program(strides: tuple[int | None, int | None], divisor: int = 1, packed: bool = False) -> Program:
    """y[m, n] = 0 on tiles of 16 by 16; `packed` makes the row index a quotient, whose size nothing bounds."""
    y = Buffer("y", ("m", "n"), "f32", strides, divisor)
    m0, body = scalar("m0"), Body()
    m = body.range("m", 16, m0)
    if packed:
        m = body.let("m", "floordiv", m, body.constant(3, "index"), dtype="index")
    n = body.range("n", 16, body.constant(0, "index", "zero"))
    body.store(y, body.constant(0.0, "f32"), m=m, n=n)
    kernel = Kernel("k", (y,), ("y",), (), (), (GridDim("m", extent("m"), 16, m0),), tuple(body.statements))
    return Program("f", (), (y,), ("m n",), (("m", extent("m")), ("n", extent(16))), (kernel,), (Launch("k", ("y",)),))


def offsets(made: Program) -> tuple[list[object], list[str]]:
    """The element types of offsets added to addresses, scalar ones first, and the scalar arguments."""
    module = executable(made).module
    (func,) = [op for op in module.ops if isinstance(op, tt.FuncOp)]
    added = [op.offset.type for op in func.walk() if isinstance(op, tt.AddPtrOp)]
    added.sort(key=lambda type_: isinstance(type_, TensorType))
    return [tt.element_of(type_) for type_ in added], [argument.name_hint or "" for argument in func.body.block.args]


def test_starts_are_wide_and_lanes_narrow() -> None:
    """15 * 4096 + 15 fits; the start of the tile may be anything."""
    assert offsets(program((4096, 1)))[0] == [i64, i32]


def test_lanes_that_may_reach_far_are_wide() -> None:
    """16 * 2^27 is 2^31; so may a run-time stride, and a quotient is not bounded by its tile."""
    assert offsets(program((2**27, 1)))[0] == [i64, i64]
    assert offsets(program((2**27 - 8, 1)))[0] == [i64, i32]
    assert offsets(program((None, 1)))[0] == [i64, i64]
    assert offsets(program((4096, 1), packed=True))[0] == [i64]


def test_strides_are_passed_divided() -> None:
    types, arguments = offsets(program((None, 1), divisor=8))
    assert types == [i64, i64] and arguments == ["y_ptr", "y_stride_m"]
    (call,) = executable(program((None, 1), divisor=8)).plan.steps
    assert call.scalars[0].divisor == 8  # pyright: ignore[reportAttributeAccessIssue]


def test_a_broadcast_axis_takes_no_part() -> None:
    """With stride 0 for the rows only the columns are added."""
    assert offsets(program((0, 1)))[0] == [i32]
