"""Three hundred random programs through every pass, as `cleave-opt` runs them: after each, every alternative keeps the value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.transforms.canonicalize import CanonicalizePass

from cleave.algebra.probes import Probe, results
from cleave.bridge.alg import graphs_of
from cleave.bridge.sched import program_of
from cleave.dialects.alg import GraphOp
from cleave.dialects.sched import ProgramOp
from cleave.dialects.tt import FuncOp
from cleave.graph import Graph
from cleave.layouts import layout_axes
from cleave.passes.alg_bind import AlgBindPass
from cleave.passes.alg_fold_unit_axes import AlgFoldUnitAxesPass
from cleave.passes.alg_select import AlgSelectPass
from cleave.passes.alg_stabilize import AlgStabilizePass
from cleave.passes.alg_superoptimize import AlgSuperoptimizePass
from cleave.passes.convert_alg_to_sched import ConvertAlgToSchedPass
from cleave.passes.convert_sched_to_tt import ConvertSchedToTtPass
from cleave.passes.sched_overlap import SchedOverlapPass
from cleave.passes.sched_stream import SchedStreamPass
from cleave.reference.dtypes import Array
from cleave.schedule.program import Program
from tests.acceptance.pipeline import run_tiles
from tests.alg_programs import parsed
from tests.strategies import alg_programs, random_inputs, symbol_sizes

from .test_random_programs import close


def graphs(module: ModuleOp) -> tuple[Graph, ...]:
    return graphs_of(next(op for op in module.walk() if isinstance(op, GraphOp)))


def without_ones(
    graph: Graph, sizes: Mapping[str, int], inputs: Sequence[Array], results: Sequence[Array]
) -> tuple[list[Array], list[Array]]:
    """Inputs and results without the axes of size 1 that a graph has no more."""
    extents = graph.sizes(sizes)
    taken = [value.reshape([extents[axis] for axis in entry.axes]) for entry, value in zip(graph.inputs, inputs, strict=True)]
    orders = [graph.ordered(layout_axes(output.layout)) for output in graph.outputs]
    return taken, [value.reshape([extents[axis] for axis in order]) for order, value in zip(orders, results, strict=True)]


def tiles(module: ModuleOp) -> Program:
    return program_of(next(op for op in module.ops if isinstance(op, ProgramOp)))


@settings(
    max_examples=300, deadline=None, derandomize=True, database=None, suppress_health_check=(HealthCheck.too_slow,), phases=[Phase.generate]
)
@given(alg_programs(most=8), symbol_sizes(), st.integers(0, 99), st.sampled_from((None, 0, "bind")))
def test_every_pass_keeps_the_value(text: str, sizes: dict[str, int], seed: int, choice: int | str | None) -> None:
    """`choice` runs alg-select on the first alternative, alg-bind on all sizes, or neither."""
    module = parsed(text)
    (written,) = graphs(module)
    inputs = random_inputs(written, sizes, seed)
    wanted: list[Array] = results(Probe(written, sizes), inputs, np.float64)
    context = Context()
    passes: list[ModulePass] = [CanonicalizePass(), AlgSuperoptimizePass(alternatives=3)]
    if choice == 0:
        passes.append(AlgSelectPass(index=0))
    if choice == "bind":
        passes.append(AlgBindPass(sizes=",".join(f"{symbol.name}={sizes[symbol.name]}" for symbol in written.symbols)))
    for pass_ in (*passes, AlgFoldUnitAxesPass(), AlgStabilizePass()):
        pass_.apply(context, module)
        module.verify()
        for graph in graphs(module):
            known = {symbol.name: 2 for symbol in graph.symbols} | sizes
            inputs, wanted = without_ones(graph, known, inputs, wanted)
            assert close(results(Probe(graph, known), inputs, np.float64), wanted), pass_.name
    stabilized = graphs(module)[0]
    ConvertAlgToSchedPass(plans=6).apply(context, module)
    module.verify()
    known = {name: 2 for _, size in tiles(module).sizes for name in size.symbols} | sizes
    streamed = SchedStreamPass(sizes=",".join(f"{name}={value}" for name, value in known.items()))
    for pass_ in (CanonicalizePass(), SchedOverlapPass(release=bool(seed % 2)), streamed, CanonicalizePass()):
        assert close(run_tiles(tiles(module), stabilized, inputs, known), wanted), f"before {pass_.name}"
        pass_.apply(context, module)
        module.verify()
    program = tiles(module)
    assert close(run_tiles(program, stabilized, inputs, known), wanted)
    ConvertSchedToTtPass().apply(context, module)
    module.verify()
    assert len([op for op in module.ops if isinstance(op, FuncOp)]) == len(program.kernels)
