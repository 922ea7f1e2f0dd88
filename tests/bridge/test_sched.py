"""Scheduled programs between plain values and IR."""

from __future__ import annotations

from io import StringIO

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.test import Test
from xdsl.parser import Parser
from xdsl.printer import Printer

from cleave.bridge.sched import module_of, program_of
from cleave.dialects.sched import ProgramOp, Sched
from cleave.errors import CleaveError
from cleave.reference.sched import run_program
from cleave.schedule.program import Launch, Program
from tests.tile_programs import CASES


def parsed(text: str) -> ModuleOp:
    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(Sched)
    context.load_dialect(Test)
    module = Parser(context, text).parse_module()
    module.verify()
    return module


def printed(module: ModuleOp, generic: bool = False) -> str:
    stream = StringIO()
    Printer(stream, print_generic_format=generic).print_op(module)
    return stream.getvalue()


def host(module: ModuleOp) -> Program:
    (op,) = [op for op in module.ops if isinstance(op, ProgramOp)]
    return program_of(op)


@pytest.mark.parametrize("generic", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_text_round_trip(name: str, generic: bool) -> None:
    """Values to IR to text to IR to values to IR: the same text, and the same result to the last bit."""
    case = CASES[name]
    program = case.program()
    module = module_of(program)
    module.verify()
    again = host(parsed(printed(module, generic)))
    assert printed(module_of(again)) == printed(module)
    inputs = case.inputs()
    for one, other in zip(run_program(program, inputs, case.symbols), run_program(again, inputs, case.symbols), strict=True):
        np.testing.assert_array_equal(one, other)
    assert [kernel.written for kernel in again.kernels] == [kernel.written for kernel in program.kernels]
    assert (again.inputs, again.outputs, again.layouts, again.sizes) == (program.inputs, program.outputs, program.layouts, program.sizes)


def test_a_kernel_does_not_share_the_name_of_its_program() -> None:
    (launch,) = host(module_of(CASES["rows"].program())).steps
    assert isinstance(launch, Launch) and launch.kernel == "rows_kernel"
    (allocate, *launches) = host(module_of(CASES["split_sum"].program())).steps
    assert (allocate, *launches) == CASES["split_sum"].program().steps


FOREIGN = """
sched.kernel @k (%y: !sched.buffer<[m : 1], i32>) {
  %zero = sched.constant 0 : !sched.tile<[], index>
  %one = sched.constant 1 : !sched.tile<[], index>
  %true = sched.constant true : !sched.tile<[], i1>
  BODY
}
sched.program @f sizes [m = 1] () -> (%y: !sched.buffer<[m : 1], i32> layout "m") {
  sched.launch @k(%y)
  STEP
}
"""


@pytest.mark.parametrize("op", ['"test.op"() : () -> ()', "sched.kernel @inner () {}"])
@pytest.mark.parametrize(
    "around",
    [
        "BODY",
        "sched.for m %i = %zero to %one step 1 { BODY }",
        "sched.if %true { BODY }",
        "sched.last %y [m = %zero] of %one { sched.if %true { BODY } }",
        "STEP",
    ],
)
def test_what_is_no_part_of_a_program_is_a_mistake_in_it(around: str, op: str) -> None:
    """In whichever body it stands."""
    text = FOREIGN.replace("STEP" if around == "STEP" else "BODY", around.replace("BODY", op).replace("STEP", op))
    text = text.replace("BODY", "").replace("STEP", "")
    with pytest.raises(CleaveError, match=r"^error: (test.op|sched.kernel): is not a (statement of a kernel|step of a program)"):
        host(parsed(text))
