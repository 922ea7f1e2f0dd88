"""Tile programs in numpy: right answers for right programs, a fault for each thing a schedule may not do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cleave.reference.dtypes import rounded
from cleave.reference.sched import TileFault, run_program
from cleave.schedule.program import For, Launch, Let, Load, Program, Store
from tests import tile_programs
from tests.tile_programs import CASES


@pytest.mark.parametrize("name", CASES)
def test_value(name: str) -> None:
    """A handful of float64 operations on values near 1: 1e-12 is ample."""
    case = CASES[name]
    inputs = case.inputs()
    (result,) = run_program(case.program(), inputs, case.symbols)
    np.testing.assert_allclose(result, case.expected(*inputs), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
def test_types_are_honoured(dtype: str) -> None:
    """50 products of values near 1 accumulated in f32 and rounded once."""
    case = CASES["matmul"]
    inputs = [rounded(x, "bf16") for x in case.inputs()]
    (result,) = run_program(tile_programs.matmul(dtype), inputs, case.symbols, rounding=True)
    unit = {"f16": 2.0**-10, "bf16": 2.0**-7, "f32": 2.0**-20}[dtype]
    expected = case.expected(*inputs)
    assert np.abs(result - expected).max() <= unit * np.abs(expected).max()
    if dtype != "f32":
        assert np.abs(result - expected).max() > 2.0**-14, "nothing was rounded"


def _edited(program: Program, edit: Any) -> Program:
    """The program with `edit` applied to every statement."""

    def through(body: Any) -> Any:
        return tuple(replace(edit(s), body=through(s.body)) if isinstance(s, For) else edit(s) for s in body)

    return replace(program, kernels=tuple(replace(kernel, body=through(kernel.body)) for kernel in program.kernels))


def _run(name: str, edit: Any) -> Any:
    case = CASES[name]
    return run_program(_edited(case.program(), edit), case.inputs(), case.symbols)


def test_an_unchecked_load_past_the_end_is_a_fault() -> None:
    with pytest.raises(TileFault, match=r"load of k reaches n = 37 of 37 \(not checked\)"):
        _run("streamed", lambda s: replace(s, check=()) if isinstance(s, Load) and s.buffer.name == "k" else s)


def test_an_unchecked_store_is_a_fault() -> None:
    with pytest.raises(TileFault, match="store of c reaches m"):
        _run("matmul", lambda s: replace(s, check=("n",)) if isinstance(s, Store) else s)


def test_lanes_without_a_value_poison_the_result() -> None:
    (result,) = _run("rows", lambda s: replace(s, other=None) if isinstance(s, Load) else s)
    assert np.isnan(result).all()


def test_a_step_that_skips_elements_changes_the_value() -> None:
    case = CASES["matmul"]
    (result,) = _run("matmul", lambda s: replace(s, step=2 * s.step) if isinstance(s, For) else s)
    assert not np.allclose(result, case.expected(*case.inputs()))


def test_an_unwritten_output_is_a_fault() -> None:
    case = CASES["matmul"]
    program = case.program()
    kernel = program.kernels[0]
    short = replace(kernel, grid=(replace(kernel.grid[0], count=tile_programs.extent(1)), kernel.grid[1]))
    with pytest.raises(TileFault, match="output c: 185 elements are never written"):
        run_program(replace(program, kernels=(short,)), case.inputs(), case.symbols)


def test_a_wrong_static_stride_is_a_fault() -> None:
    case = CASES["streamed"]
    program = case.program()
    wrong = replace(program.inputs[1], strides=(None, None, 17, 1))
    with pytest.raises(TileFault, match="promises stride 17 for n; it is 16"):
        run_program(replace(program, inputs=(program.inputs[0], wrong, program.inputs[2])), case.inputs(), case.symbols)


def test_a_smaller_step_of_the_grid_is_only_slow() -> None:
    """Two programs that write equal values to one element do not harm."""
    case = CASES["matmul"]
    program = case.program()
    kernel = program.kernels[0]
    dense = replace(kernel, grid=(replace(kernel.grid[0], tile=8), kernel.grid[1]))
    (result,) = run_program(replace(program, kernels=(dense,)), case.inputs(), case.symbols)
    expected = case.expected(*case.inputs())
    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)


def test_programs_may_not_write_different_values_to_one_element() -> None:
    """A loop-invariant store of the partial sums to chunk 0 by every program."""
    case = CASES["split_sum"]
    program = case.program()
    parts = program.kernels[0]
    zero = tile_programs.scalar("zero")
    body = (
        Let(zero, "constant", (), (0,)),
        *(replace(s, index=(("s", zero), s.index[1])) if isinstance(s, Store) else s for s in parts.body),
    )
    with pytest.raises(TileFault, match="overwrites what another program"):
        run_program(replace(program, kernels=(replace(parts, body=body), program.kernels[1])), case.inputs(), case.symbols)


def test_a_kernel_may_not_read_what_its_launch_writes() -> None:
    """Both kernels of a split in one launch would need a barrier."""
    case = CASES["split_sum"]
    program = case.program()
    parts, combine = program.kernels
    own = {var: name for name, var in combine.sizes}
    assert set(own.values()) == {"m", "s"}
    merged = replace(
        parts,
        buffers=(*parts.buffers, combine.buffers[1]),
        written=("partial", "z"),
        sizes=(*parts.sizes, ("s", combine.sizes[1][1])),
        body=(*parts.body, *combine.body),
    )
    steps = (program.steps[0], Launch("parts", ("x", "partial", "z")))
    with pytest.raises(TileFault, match="reads what another program of the launch wrote"):
        run_program(replace(program, kernels=(merged,), steps=steps), case.inputs(), case.symbols)
