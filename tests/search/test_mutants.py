"""Wrong rewrites: the verifier and a float64 oracle agree on every small mistake in a program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from cleave.extents import extent
from cleave.graph import Axis, Graph, Op, Symbol, result_axes, without_dead_code
from cleave.reference import evaluate
from cleave.search import superoptimize
from cleave.search.verify import Verifier
from tests.search import programs

PROGRAMS = {
    "attention": programs.attention(safe=True, causal=True),
    "norm_gated": programs.norm_gated(),
    "centred_norm_linear": programs.centred_norm_linear(),
    "latent_attention": programs.latent_attention(),
    "cross_entropy": programs.cross_entropy(),
    "residual_on_sphere": programs.residual_on_sphere(),
}


def symbolic(graph: Graph) -> Graph:
    """The same program with a symbol for every extent, so that it can be run at small sizes."""
    axes = tuple(Axis(axis.name, extent(axis.name)) for axis in graph.axes)
    return replace(graph, axes=axes, symbols=tuple(Symbol(axis.name, (512,), positive=True) for axis in axes))


def mutants(graph: Graph) -> Iterator[tuple[str, Graph]]:
    """Programs with one operation changed: every mistake that keeps the program well formed."""
    for at, op in enumerate(graph.ops):
        for what, changed in mistakes(graph, op):
            try:
                ops = retyped(graph, at, changed)
            except ValueError:
                continue
            outputs = graph.outputs
            if all(ops[new.value].axes == graph.ops[old.value].axes for new, old in zip(outputs, graph.outputs, strict=True)):
                yield f"{what} at %{at} ({op.kind})", without_dead_code(replace(graph, ops=ops, places=()))


def mistakes(graph: Graph, op: Op) -> Iterator[tuple[str, Op]]:
    """One operation written wrongly."""
    args = op.args
    if op.kind in ("sub", "div", "compare"):
        yield "swapped operands", replace(op, args=args[::-1])
    if op.kind in ("mul", "add", "sub", "div", "max"):
        yield "dropped operand", replace(op, kind="cast", args=args[:1], attr=())
    if op.kind in ("mul", "div", "add", "sub"):
        yield "wrong operation", replace(op, kind={"mul": "div", "div": "mul", "add": "sub", "sub": "add"}[op.kind])
    if op.kind in ("exp", "rsqrt", "log", "silu"):
        yield "dropped function", replace(op, kind="cast", attr=())
    if op.kind == "rsqrt":
        yield "wrong root", replace(op, kind="sqrt")
    if op.kind == "constant" and isinstance(op.attr[0], float) and np.isfinite(op.attr[0]):
        yield "nudged constant", replace(op, attr=(op.attr[0] * (1 + 1e-3),))
    if op.kind == "compare":
        yield "shifted comparison", replace(op, attr=({"le": "lt", "lt": "le", "ge": "gt", "gt": "ge"}[str(op.attr[0])],))
    if op.kind == "select":
        yield "inverted selection", replace(op, args=(args[0], args[2], args[1]))
    if op.kind == "iota":
        for other in graph.axes:
            yield f"iota of {other.name}", replace(op, attr=(other.name,))
    if op.kind == "size":
        for other in graph.axes:
            yield f"size of {other.name}", replace(op, attr=(other.name,))
    if op.kind in ("reduce", "contract"):
        present = sorted({axis for arg in args for axis in graph.ops[arg].axes})
        for axis in present:
            if (axis,) != op.attr[-1]:
                yield f"reduction over {axis}", replace(op, attr=(*op.attr[:-1], (axis,)))
    if op.kind in ("mul", "add", "contract", "sub", "div"):
        for position in range(len(args)):
            for other in range(max(args)):
                fits = graph.ops[other].axes == graph.ops[args[position]].axes and graph.ops[other].dtype == graph.ops[args[position]].dtype
                if fits and other not in args:
                    yield f"operand %{other}", replace(op, args=(*args[:position], other, *args[position + 1 :]))


def retyped(graph: Graph, at: int, changed: Op) -> tuple[Op, ...]:
    """All operations, with axes inferred again after one has changed. Raises: ValueError where they do not fit."""
    ops: list[Op] = []
    names = [axis.name for axis in graph.axes]
    for position, op in enumerate(graph.ops):
        op = changed if position == at else op
        if op.kind != "input":
            op = replace(op, axes=result_axes(names, op.kind, [frozenset(ops[arg].axes) for arg in op.args], op.attr))
        ops.append(op)
    return tuple(ops)


def differs(graph: Graph, other: Graph) -> bool:
    """The oracle: float64 at small distinct sizes, on data of both signs and on positive data with large offsets."""
    symbols = {symbol.name: 3 + i for i, symbol in enumerate(graph.symbols)}
    for seed in range(3):
        rng = np.random.default_rng(seed)
        inputs = [rng.normal(size=[symbols[axis] for axis in entry.axes]) + seed for entry in graph.inputs]
        with np.errstate(all="ignore"):
            pairs = zip(evaluate(graph, inputs, symbols), evaluate(other, inputs, symbols), strict=True)
            if not all(np.allclose(a, b, rtol=1e-9, atol=1e-11) for a, b in pairs):
                return True
    return False


@pytest.mark.parametrize("name", PROGRAMS)
def test_mistakes_are_refused(name: str) -> None:
    """No mutant of the best alternative is accepted that differs, none refused that does not."""
    graph = symbolic(PROGRAMS[name])
    verifier = Verifier(graph, seed=1)
    best = superoptimize(graph).alternatives[1].graph
    assert verifier.problem(best) is None
    assert not differs(graph, best)
    found = 0
    for what, mutant in mutants(best):
        refused = verifier.problem(mutant) is not None
        assert refused == differs(graph, mutant), f"{what}: {'refused' if refused else 'accepted'}"
        found += refused
    assert found >= 8
