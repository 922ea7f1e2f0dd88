"""The interpreter table of `sched`: xDSL's interpreter calls a program of a module, after a round trip through text."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.interpreter import Interpreter

from cleave.bridge.sched import module_of
from cleave.dialects.sched import ProgramOp, Sched
from cleave.parsing import parse_module
from cleave.reference.sched_table import SchedFunctions
from tests.tile_programs import CASES


@pytest.mark.parametrize("name", CASES)
def test_programs_are_called_by_name(name: str) -> None:
    case = CASES[name]
    context = Context()
    for dialect in (Builtin, Sched):
        context.load_dialect(dialect)
    module = parse_module(context, str(module_of(case.program())), "-")
    (program,) = (op for op in module.ops if isinstance(op, ProgramOp))
    interpreter = Interpreter(module)
    interpreter.register_implementations(SchedFunctions(case.symbols))
    inputs = case.inputs()
    (result,) = interpreter.call_op(program.sym_name.data, tuple(inputs))
    np.testing.assert_allclose(result, case.expected(*inputs), rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match="shape"):
        interpreter.call_op(program.sym_name.data, (inputs[0][:0], *inputs[1:]))
