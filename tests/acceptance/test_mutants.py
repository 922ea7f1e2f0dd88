"""
Deliberate mistakes, each caught by the gate that should catch it.

Rewrites of graphs that are wrong in the algebra meet the search's verifier, those that are only bad in floats the float gate
(tests/algebra/test_gate.py); wrong tile programs differ from the graph, or do what no schedule may.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from cleave.algebra import stabilize
from cleave.graph import Graph, Op
from cleave.reference.sched import TileFault
from cleave.schedule import ScheduleOptions
from cleave.schedule.program import Dot, For, Let, Load, Program, Reduce, Statement, When
from cleave.search.verify import Verifier

from .pipeline import alternatives, exact, run_tiles, scheduled
from .programs import average, norm

SIZES = {"m": 291, "n": 270}
Change = Callable[[Statement], Statement | None]


def changed(statement: Statement, change: Change, at: Iterator[int], wanted: int) -> Statement:
    """The statement with the `wanted`-th place that `change` applies to changed, loops and branches included."""
    if isinstance(statement, For | When):
        return replace(statement, body=tuple(changed(inner, change, at, wanted) for inner in statement.body))
    mutant = change(statement)
    return statement if mutant is None or next(at) != wanted else mutant


def mutants(program: Program, change: Change) -> Iterator[Program]:
    """The program with one place changed, for every place."""
    for number, kernel in enumerate(program.kernels):
        for wanted in range(1000):
            at = iter(range(1000))
            body = tuple(changed(statement, change, at, wanted) for statement in kernel.body)
            if next(at) <= wanted:
                break
            kernels = list(program.kernels)
            kernels[number] = replace(kernel, body=body)
            yield replace(program, kernels=tuple(kernels))


def no_rescale(statement: Statement) -> Statement | None:
    """An accumulator keeps its old scale when the maximum moves."""
    if isinstance(statement, Let) and statement.kind == "mul" and any(arg.name.startswith("alpha") for arg in statement.args):
        kept = next(arg for arg in statement.args if not arg.name.startswith("alpha"))
        return replace(statement, kind="broadcast", args=(kept,))
    return None


def no_check(statement: Statement) -> Statement | None:
    """A load does not look where its buffer ends."""
    return replace(statement, check=()) if isinstance(statement, Load) and statement.check else None


def base_e(statement: Statement) -> Statement | None:
    """exp where exp2 is meant."""
    return replace(statement, kind="exp") if isinstance(statement, Let) and statement.kind == "exp2" else None


def swapped(statement: Statement) -> Statement | None:
    """The operands of a difference or quotient the other way round."""
    if isinstance(statement, Let) and statement.kind in ("sub", "div") and statement.out.type.dtype == "f32":
        return replace(statement, args=statement.args[::-1])
    return None


def least(statement: Statement) -> Statement | None:
    """The least in place of the largest within a tile, the largest in place of the sum."""
    if isinstance(statement, Reduce):
        return replace(statement, kind={"max": "min", "maxnum": "min", "sum": "max", "min": "max"}[statement.kind])
    return None


def no_accumulation(statement: Statement) -> Statement | None:
    """A dot forgets what came before it."""
    return replace(statement, acc=None) if isinstance(statement, Dot) and statement.acc is not None else None


def no_mask(statement: Statement) -> Statement | None:
    """A select on lanes keeps everything."""
    if isinstance(statement, Let) and statement.kind == "select" and statement.out.type.dtype == "f32":
        return replace(statement, kind="broadcast", args=statement.args[1:2])
    return None


def survivors(graph: Graph, change: Change) -> tuple[int, int]:
    """How many mutants there are, and how many of them nothing tells from the program."""
    options = ScheduleOptions(plans=12)
    program = scheduled(alternatives(graph), {"m": 64, "n": 512}, ("m", "n"), options)
    rng = np.random.default_rng(2)
    extents = graph.sizes(SIZES)
    inputs = [rng.normal(size=[extents[axis] for axis in entry.axes]) * 3 for entry in graph.inputs]
    wanted = exact(graph, inputs, SIZES)[0]
    np.testing.assert_allclose(run_tiles(program, graph, inputs, SIZES)[0], wanted, rtol=1e-9, atol=1e-9)
    total, alive = 0, 0
    for mutant in mutants(program, change):
        total += 1
        try:
            found = run_tiles(mutant, graph, inputs, SIZES)[0]
        except TileFault:
            continue
        alive += bool(np.allclose(found, wanted, rtol=1e-6, atol=1e-6))
    return total, alive


@pytest.mark.parametrize("change", [no_rescale, no_check, base_e, swapped, no_accumulation])
def test_wrong_tile_programs_are_told_apart(change: Change) -> None:
    """Every place of a causal average at sizes that fit no tile."""
    total, alive = survivors(average("f32", 16, 16, causal=True), change)
    assert total > 0 and alive == 0


def test_a_lost_mask_is_told_apart() -> None:
    """The mask of the program is needed; the guards of rows without a live column are not, as there are none here."""
    total, alive = survivors(average("f32", 16, 16, causal=True), no_mask)
    assert 0 <= alive < total


def test_a_wrong_shift_is_harmless() -> None:
    """Any value of the shift is right: only the sum must be a sum."""
    total, alive = survivors(average("f32", 16, 16, causal=True), least)
    assert total >= 2 and alive < total


def edited(graph: Graph, edit: Callable[[Op], Op | None]) -> Graph:
    """The graph with the first operation changed that `edit` applies to."""
    for position, op in enumerate(graph.ops):
        made = edit(op)
        if made is not None:
            return replace(graph, ops=(*graph.ops[:position], made, *graph.ops[position + 1 :]))
    raise AssertionError("nothing to edit")


def swapped_quotient(op: Op) -> Op | None:
    return replace(op, args=op.args[::-1]) if op.kind == "div" else None


def strict_mask(op: Op) -> Op | None:
    return replace(op, attr=("lt",)) if op.kind == "compare" else None


def squared_weights(op: Op) -> Op | None:
    return replace(op, args=(op.args[0], op.args[0])) if op.kind == "contract" else None


def other_scale(op: Op) -> Op | None:
    """As if exp were exp2."""
    value = op.attr[0] if op.kind == "constant" else None
    return replace(op, attr=(value * 1.4426950408889634,)) if isinstance(value, float) and np.isfinite(value) else None


@pytest.mark.parametrize("edit", [swapped_quotient, strict_mask, squared_weights, other_scale])
def test_wrong_graphs_are_refused(edit: Callable[[Op], Op | None]) -> None:
    """The verifier of the search accepts the late quotient and refuses each mistake in it."""
    graph = average("f32", 16, 16, causal=True)
    verifier = Verifier(graph, 0)
    good = alternatives(graph)
    assert len(good) > 1
    assert verifier.problem(graph) is None
    assert verifier.problem(edited(graph, edit)) is not None


def test_wrong_norms_are_refused() -> None:
    """Epsilon outside the root, and lost."""
    graph = norm("f32", 96, 16)
    verifier = Verifier(graph, 0)

    def no_epsilon(op: Op) -> Op | None:
        return replace(op, kind="max") if op.kind == "add" else None

    def root(op: Op) -> Op | None:
        return replace(op, kind="sqrt") if op.kind == "rsqrt" else None

    assert verifier.problem(graph) is None
    for edit in (no_epsilon, root):
        assert verifier.problem(edited(graph, edit)) is not None
    assert stabilize(graph) is graph
