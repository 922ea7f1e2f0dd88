"""Random graphs, scheduled: what is lowered and printed computes what the tiles do; the way through IR changes nothing."""

from __future__ import annotations

import numpy as np
import pytest

from cleave.algebra import stabilize
from cleave.bridge.sched import module_of, program_of
from cleave.dialects import tt
from cleave.dialects.sched import ProgramOp
from cleave.layouts import memory_shape
from cleave.reference.sched import run_program
from cleave.runtime.compile import compile_ttir
from cleave.runtime.execute import executable, execute
from cleave.runtime.plan import calls
from cleave.schedule.program import Program
from tests.schedule.programs import scheduled
from tests.schedule.test_random import random_graph


def program(seed: int, dynamic: bool) -> tuple[Program, dict[str, int]]:
    """A scheduled program and the values of its symbols."""
    graph, symbols = random_graph(seed, dynamic)
    return scheduled(stabilize(graph), symbols, tuple(symbols) if dynamic else ()), symbols


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("seed", range(16))
def test_levels_agree(seed: int, dynamic: bool) -> None:
    """Values of size 1 and at most 20 terms to a sum, f32 rounding at each step but f16 operands of products: 2e-3."""
    made, symbols = program(seed, dynamic)
    extents = {axis: size.evaluate(symbols) for axis, size in made.sizes}
    rng = np.random.default_rng(seed)
    shapes = [memory_shape(layout, extents) for layout in made.layouts[: len(made.inputs)]]
    inputs = [rng.standard_normal(shape).astype(np.float16).astype(np.float64) for shape in shapes]
    expected = run_program(made, inputs, symbols, rounding=True)
    (host,) = [op for op in module_of(made).ops if isinstance(op, ProgramOp)]
    for one, other in zip(run_program(program_of(host), inputs, symbols, rounding=True), expected, strict=True):
        np.testing.assert_array_equal(one, other)
    for one, other in zip(execute(made, inputs, symbols), expected, strict=True):
        np.testing.assert_allclose(np.asarray(one, np.float64), other, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("seed", range(100, 104))
def test_ttir_compiles(seed: int) -> None:
    """Triton's own parser and compiler take the kernels."""
    made, _ = program(seed, True)
    ready = executable(made)
    functions = {op.sym_name.data: op for op in ready.module.ops if isinstance(op, tt.FuncOp)}
    for call in calls(ready.plan):
        assert "cubin" in compile_ttir(ready.module, functions[call.kernel], call, "sm_90").asm
