"""Tile programs in numpy: right answers for right programs, a fault for each thing a schedule may not do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cleave.extents import extent
from cleave.reference.dtypes import rounded
from cleave.reference.sched import TileFault, run_program
from cleave.schedule.program import Buffer, For, Kernel, Last, Launch, Let, Load, Program, Store, When
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
        return tuple(replace(edit(s), body=through(s.body)) if isinstance(s, For | When | Last) else edit(s) for s in body)

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


@pytest.mark.parametrize("seed", range(4))
def test_the_order_of_programs_changes_nothing(seed: int) -> None:
    for case in CASES.values():
        (expected,) = run_program(case.program(), case.inputs(), case.symbols)
        (result,) = run_program(case.program(), case.inputs(), case.symbols, seed=seed)
        np.testing.assert_array_equal(result, expected)


def test_the_last_program_reads_what_others_wrote_by_fresh_loads_alone() -> None:
    with pytest.raises(TileFault, match="reads what another program of the launch wrote, by a load that is not fresh"):
        _run("last_sum", lambda s: replace(s, fresh=False) if isinstance(s, Load) else s)


def test_the_last_program_sees_only_programs_that_arrived_where_it_did() -> None:
    """Even and odd chunks with a counter each: four programs of the even ones arrive, the last reads a chunk of the odd ones."""
    case = CASES["last_sum"]
    program = case.program()
    kernel = program.kernels[0]
    two, parity = tile_programs.scalar("two"), tile_programs.scalar("parity")
    last = kernel.body[-1]
    assert isinstance(last, Last)
    made = (Let(two, "constant", (), (2,)), Let(parity, "mod", (kernel.grid[1].start, two)))
    body = (*kernel.body[:-1], *made, replace(last, index=(("tile", parity),)))
    with pytest.raises(TileFault, match=r"load of partial reads what another program of the launch wrote$"):
        run_program(replace(program, kernels=(replace(kernel, body=body),)), case.inputs(), case.symbols)


def test_a_branch_that_is_never_run_changes_the_value() -> None:
    """But for the last row of a tile, which has no lanes beyond the diagonal."""
    case = CASES["triangle"]
    program = case.program()
    never = tile_programs.scalar("never", "i1")
    (kernel,) = program.kernels
    program = replace(program, kernels=(replace(kernel, body=(Let(never, "constant", (), (0,)), *kernel.body)),))
    program = _edited(program, lambda s: replace(s, condition=never) if isinstance(s, When) else s)
    (result,) = run_program(program, case.inputs(), case.symbols)
    assert np.flatnonzero(np.isclose(result, case.expected(*case.inputs()))).tolist() == [15, 31]


def test_what_a_branch_makes_is_not_seen_after_it() -> None:
    """Not even by a step whose branch was run."""

    def peek(s: Any) -> Any:
        return replace(s, results=tuple(replace(entry, other=entry.value) for entry in s.results)) if isinstance(s, When) else s

    with pytest.raises(TileFault, match="'chosen' is used before it is made"):
        _run("triangle", peek)


def test_a_branch_gives_one_type() -> None:
    narrow = tile_programs.scalar("narrow", "f32")

    def edit(s: Any) -> Any:
        return replace(s, results=(replace(s.results[0], other=narrow), *s.results[1:])) if isinstance(s, When) else s

    with pytest.raises(TileFault, match="'part' is one of two tiles that differ in type"):
        _run("triangle", edit)


def test_a_branch_has_a_scalar_condition() -> None:
    index = tile_programs.scalar("index")
    with pytest.raises(TileFault, match=r"condition 'index' has type \[\] index"):
        _run("triangle", lambda s: replace(s, condition=index) if isinstance(s, When) else s)


def test_a_counter_that_is_not_full_is_a_fault() -> None:
    """Nobody is last where more programs are waited for than come."""
    case = CASES["last_sum"]
    program = case.program()
    kernel = program.kernels[0]
    many = tile_programs.scalar("many")
    last = kernel.body[-1]
    assert isinstance(last, Last)
    body = (Let(many, "constant", (), (9,)), *kernel.body[:-1], replace(last, count=many))
    with pytest.raises(TileFault, match="workspace arrived is not left zero"):
        run_program(replace(program, kernels=(replace(kernel, body=body),)), case.inputs(), case.symbols)


@pytest.mark.parametrize(("kind", "wanted"), [("max", np.nan), ("min", np.nan), ("maxnum", 2.0)])
def test_maxnum_leaves_nan_out_and_max_keeps_it(kind: str, wanted: float) -> None:
    x, y = Buffer("x", ("n",), "f32", (1,)), Buffer("y", (), "f32", ())
    body = tile_programs.Body()
    n = body.range("n", 4, body.constant(0, "index"))
    tile = body.load("tile", x, (), 0.0, n=n)
    body.store(y, body.reduce("top", kind, tile, "n"), ())
    kernel = Kernel("top", (x, y), ("y",), (), (), (), tuple(body.statements))
    program = Program("top", (x,), (y,), ("n", ""), (("n", extent(4)),), (kernel,), (Launch("top", ("x", "y")),))
    (found,) = run_program(program, [np.array([1.0, np.nan, 2.0, -1.0])], {})
    np.testing.assert_equal(found, wanted)
