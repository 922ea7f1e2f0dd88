"""
From a graph to the program that is run: the passes, the candidates, and the choice between them.

The choice is made by timing where the example is on a GPU, else by the cost model; then, where the machine is known, the kernels are
still compiled for it, and the next candidate is taken if one does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from io import StringIO
from typing import Any, Literal, cast

import torch
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.printer import Printer

from .bridge.alg import graph_op, graphs_of
from .bridge.sched import module_of
from .dialects.alg import AlternativesOp, GraphOp
from .errors import CleaveError
from .graph import Graph
from .layouts import memory_shape
from .parsing import verify
from .prepared import Preparation
from .remarks import remark
from .runtime import tuner
from .runtime.binary import Binary
from .runtime.build import lowered
from .runtime.builders import BUILDERS, BuildError
from .runtime.cache import Store, nvidia_driver
from .runtime.clock import First, GpuClock, Workload, described, tolerance
from .runtime.clocks import CLOCKS
from .runtime.execute import architecture_of
from .runtime.gpu_lock import alone
from .schedule import TARGETS, ScheduleOptions, Space, Target, space
from .schedule.candidates import MODELLED, TIMED
from .schedule.program import inputs_read, with_inputs
from .targets.triton_python import triton_file
from .timings import crossed, timed
from .variants import Variant, distinct, ones
from .weights import Divided, divided, restricted

PATIENCE = 120.0
"""Seconds to wait for another process that is timing on the same GPU."""
PLANNING = 300.0
"""Seconds that planning for one of several hints may take in another process."""


@dataclass(frozen=True, slots=True)
class Choice:
    """
    The schedules that were chosen, one for each of the sizes to be fast at unless they are the same; the texts of the levels of the
    algebra, how many alternatives there were, what is computed once from weights, and what the passes remarked.
    """

    variants: tuple[Variant, ...]
    texts: Mapping[str, str]
    alternatives: int
    preparation: Preparation | None = None
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Machine:
    """
    What is compiled for. `architecture` is empty where no code is made ahead of time; `device` is the number of the GPU that candidates
    are timed on, where they are; `setting` names everything that times depend on.
    """

    target: Target
    architecture: str
    device: int | None
    setting: str

    @property
    def timed(self) -> bool:
        """Whether candidates are timed."""
        return self.device is not None


def machine_of(name: str, known: bool, device: torch.device, tune: bool | Literal["auto"]) -> Machine:
    """
    The machine for a target name, `known` where the user gave it, and example tensors on a device.

    Raises: CleaveError where timing is asked for and there is no GPU to time on.
    """
    target = TARGETS[name]
    nvidia = device.type == "cuda" and torch.version.hip is None
    if tune is True and not nvidia:
        raise CleaveError(None, f"tune=True with tensors on {device.type}", "candidates are timed on NVIDIA GPUs; leave tune at 'auto'")
    if not nvidia:
        backend, number, _ = target.capability
        # Without a GPU and without being told, no machine is more likely than another: nothing is compiled for one.
        return Machine(target, f"sm_{number}" if backend == "cuda" and known else "", None, f"{name} without timing")
    example = torch.empty(0, device=device)
    index, architecture = example.device.index, architecture_of([example])
    properties = cast(Any, torch.cuda).get_device_properties(index)
    if not tune:
        return Machine(target, architecture, None, f"{name} {architecture} without timing")
    return Machine(target, architecture, index, setting_of(name, architecture, properties))


def setting_of(name: str, architecture: str, properties: Any) -> str:
    """All that times depend on beside programs and their machine code: the GPU, its driver, and torch with its libraries."""
    gpu = f"{properties.name} {properties.multi_processor_count}"
    return f"{name} {architecture} {gpu} {nvidia_driver()} {torch.version.cuda} {torch.__version__}"


def chosen(
    module: ModuleOp,
    text: str,
    inputs: Sequence[torch.Tensor],
    symbols: Mapping[str, int],
    points: Sequence[Mapping[str, int]],
    machine: Machine,
    settings: Mapping[str, Any],
    store: Store,
    lap: Callable[[str], None],
    able: Callable[[Mapping[str, int]], bool],
) -> Choice:
    """
    What to run for the graph in a module, which is changed; `text` is the module's. `inputs` are in memory layout. A schedule is made for
    each of the `points`, values of symbols, and another for the first where else each has symbols fixed: one with such constants is
    searched anew with them. `lap` is told of every stage that ends; `able` says of values of the symbols whether there are such calls.

    Raises: CleaveError where there is none.
    """
    if machine.architecture:
        BUILDERS.warm()
    with CLOCKS.lent() if machine.timed else nullcontext() as clock:
        (written,) = graphs_of(next(op for op in module.walk() if isinstance(op, GraphOp)))
        bodies, texts, count = searched(module, text, settings, lap, machine.timed)
        parts = divided(bodies) if settings["weights"] else None
        if parts is not None:
            bodies = parts.rest
        wanted = [(point, ones(bodies[0], point)) for point in points or ({},)]
        if all(fixed for _, fixed in wanted):
            wanted.append((wanted[0][0], {}))
        special: dict[str, tuple[Graph, ...]] = {}
        asked: list[tuple[tuple[Graph, ...], Mapping[str, int]]] = []
        for point, fixed in wanted:
            own = bodies
            if fixed and parts is None:
                where = ", ".join(f"{name} = {value}" for name, value in fixed.items())
                if where not in special:
                    special[where], levels = _specialized(written, fixed, settings, lap, machine.timed)
                    texts = {level: f"{known}\n// -----\n\n// where {where}\n{levels[level]}" for level, known in texts.items()}
                own = special[where]
            asked.append((tuple(hinted(body, point) for body in own), fixed))
        spaces = _spaces(asked, machine, clock is not None, not settings["unrounded"])
        lap("sched")
        made: Sequence[Variant] = []
        for (point, fixed), (sizes, found) in zip(wanted, spaces, strict=True):
            graph = hinted(bodies[0], point)
            made = [*made, _variant(found, sizes, graph, parts, inputs, symbols, machine, settings, store, lap, clock, fixed)]
        made = distinct(made)
        if len(made) > 1 and clock is not None and machine.device is not None:
            graphs = [hinted(bodies[0], point) for point in compared([point for point, _ in wanted], bodies[0], made, symbols, able)]
            with alone(machine.device, PATIENCE):
                made = timed(made, [workload_of(graph, inputs, symbols, machine.device, parts) for graph in graphs], clock)
            lap("times")
        preparation = None
        if parts is not None:
            made, preparation = _prepared(parts, made, machine, settings, store, lap)
        if store.damaged:
            remark(f"entries of the cache that were damaged, and are made again: {store.damaged} in {store.root}")
        return Choice(tuple(made), texts, count, preparation)


def compared(
    points: Sequence[Mapping[str, int]],
    graph: Graph,
    made: Sequence[Variant],
    symbols: Mapping[str, int],
    able: Callable[[Mapping[str, int]], bool],
) -> list[Mapping[str, int]]:
    """
    The points, and combinations of their sizes at which the fastest variant is not predicted to take longer than at any of them, as far
    as there are such calls.
    """

    def seconds(point: Mapping[str, int]) -> float:
        at = {**symbols, **point}
        return min(variant.prediction.seconds(at) for variant in made if variant.takes(at))

    most = max(seconds(point) for point in points)
    between = crossed(points, {symbol.name: symbol.multiple_of for symbol in graph.symbols})
    return [*points, *(point for point in between if able({**symbols, **point}) and seconds(point) <= most)]


def _specialized(
    graph: Graph, fixed: Mapping[str, int], settings: Mapping[str, Any], lap: Callable[[str], None], timed: bool
) -> tuple[tuple[Graph, ...], dict[str, str]]:
    """What `searched` finds where symbols have these values and axes of size 1 are folded away: the alternatives, and the texts."""
    from .passes.alg_bind import AlgBindPass
    from .passes.alg_fold_unit_axes import AlgFoldUnitAxesPass

    module = ModuleOp([graph_op(graph)])
    for pass_ in (AlgBindPass(sizes=",".join(f"{name}={value}" for name, value in fixed.items())), AlgFoldUnitAxesPass()):
        pass_.apply(Context(), module)
    bodies, texts, _ = searched(module, printed(module), settings, lap, timed)
    return bodies, texts


def _prepared(
    parts: Divided,
    made: Sequence[Variant],
    machine: Machine,
    settings: Mapping[str, Any],
    store: Store,
    lap: Callable[[str], None],
) -> tuple[list[Variant], Preparation | None]:
    """The variants with the inputs that any of them reads, and the schedule of what these need prepared, None where that is nothing."""
    count = len(parts.rest[0].inputs) - len(parts.first.outputs)
    read = sorted(set[int]().union(*(inputs_read(variant.program) for variant in made)))
    results = [place - count for place in read if place >= count]
    if not results:
        return [_with_inputs(variant, range(count)) for variant in made], None
    first = restricted(parts.first, results)
    # It runs once: the model's choice will do.
    sizes, found = space_of((first,), {}, machine.target, False, not settings["unrounded"])
    lap("sched")
    variant = _variant(found, sizes, first, None, (), {}, replace(machine, device=None), settings, store, lap, None, {})
    names = ", ".join(entry.name for entry in first.inputs)
    spelled = ", ".join(f"{output.dtype} [{', '.join(first.ops[output.value].axes)}]" for output in first.outputs)
    kept = tuple(place for place in read if place < count)
    return [_with_inputs(entry, read) for entry in made], Preparation(variant, parts.inputs, kept, f"{spelled} from {names}")


def _with_inputs(variant: Variant, places: Sequence[int]) -> Variant:
    """The variant without the inputs at other places, which it must not read."""
    program = with_inputs(variant.program, places)
    module = lowered(program)
    texts = {"sched": printed(module_of(program)), "tt": printed(module)}
    return replace(variant, program=program, file=triton_file(module), texts=texts)


def hinted(graph: Graph, point: Mapping[str, int]) -> Graph:
    """The graph with the values of a point as the only hints of its symbols; where it has none, the hints stay."""
    symbols = [replace(symbol, hints=(point[symbol.name],)) if symbol.name in point else symbol for symbol in graph.symbols]
    return replace(graph, symbols=tuple(symbols))


def searched(
    module: ModuleOp, text: str, settings: Mapping[str, Any], lap: Callable[[str], None], timed: bool = True
) -> tuple[tuple[Graph, ...], dict[str, str], int]:
    """
    The stabilized alternatives of the graph in a module, which is changed, the text of each level up to them, and how many there are.
    Arguments as for `chosen`; whether weights put side by side are worth a copy of them is for candidates that are `timed` to tell.
    """
    from .passes.alg_concat_weights import AlgConcatWeightsPass
    from .passes.alg_stabilize import AlgStabilizePass
    from .passes.alg_superoptimize import AlgSuperoptimizePass

    texts = {"alg": text}
    search = AlgSuperoptimizePass(
        split=settings["split"], alternatives=settings["alternatives"], seed=settings["seed"], hoist=settings["weights"]
    )
    beside = (AlgConcatWeightsPass(exact=settings["unrounded"]),) if settings["weights"] and timed else ()
    for level, passes in (("alternatives", (search, *beside)), ("stabilized", (AlgStabilizePass(),))):
        for pass_ in passes:
            pass_.apply(Context(), module)
            verify(module)
        texts[level] = printed(module)
        lap(level)
    count = sum(len(op.regions) for op in module.walk() if isinstance(op, AlternativesOp)) or 1
    return graphs_of(next(op for op in module.walk() if isinstance(op, GraphOp))), texts, count


def _variant(
    found: Space,
    sizes: Mapping[str, int],
    graph: Graph,
    parts: Divided | None,
    inputs: Sequence[torch.Tensor],
    symbols: Mapping[str, int],
    machine: Machine,
    settings: Mapping[str, Any],
    store: Store,
    lap: Callable[[str], None],
    clock: GpuClock | None,
    fixed: Mapping[str, int],
) -> Variant:
    """
    One of what may be run for the hints of a graph, which is the second of the `parts` where there are two; `sizes` are those that it was
    planned for, and `inputs` the program's. The symbols in `fixed` are constants of these values, which are their hints.
    """
    binaries: Mapping[str, Binary] = {}
    entries: tuple[tuner.Entry, ...] = ()
    remarks: tuple[str, ...] = ()
    if machine.architecture:
        tuned = _tuned(found, graph, parts, inputs, symbols, machine, settings, store, clock, fixed)
        trial, program, file, binaries = tuned.trial, tuned.program, tuned.built.file, tuned.built.binaries
        entries, remarks = tuned.entries, tuned.remarks
        lap("tune")
    else:
        trial = found.trials(1)[0]
        program = found.program(trial)
        file = triton_file(lowered(program))
        lap("triton")
    texts = {"sched": printed(module_of(program)), "tt": printed(lowered(program))}
    lap("text")
    known = {**sizes, **fixed}
    point = {symbol.name: known[symbol.name] for symbol in graph.symbols if symbol.name in symbols}
    return Variant(program, file, binaries, texts, point, found.prediction(trial, machine.target), entries, remarks, fixed)


def space_of(
    bodies: tuple[Graph, ...], fixed: Mapping[str, int], target: Target, timed: bool = True, rounded: bool = True
) -> tuple[Mapping[str, int], Space]:
    """
    The hints of stabilized alternatives, and what may be run for them, as far as it is worth planning where candidates are `timed` or
    not; symbols in `fixed` are constants, which are their hints. `rounded` says that PyTorch rounds products of 16-bit types to these.
    """
    sizes, dynamic, options = _asked(bodies, fixed, timed, rounded)
    return sizes, space(bodies, sizes, dynamic, target, options)


def _asked(
    bodies: tuple[Graph, ...], fixed: Mapping[str, int], timed: bool, rounded: bool
) -> tuple[Mapping[str, int], frozenset[str], ScheduleOptions]:
    from .passes.convert_alg_to_sched import hinted_sizes

    sizes = hinted_sizes(bodies)
    return sizes, frozenset(sizes) - set(fixed), replace(TIMED if timed else MODELLED, rounded=rounded)


def _spaces(
    asked: Sequence[tuple[tuple[Graph, ...], Mapping[str, int]]], machine: Machine, timed: bool, rounded: bool
) -> list[tuple[Mapping[str, int], Space]]:
    """
    `space_of` for each of several hints. Where processes compile for the machine they plan all but the first meanwhile; what one fails at
    is done in this one.
    """
    known = [(bodies, *_asked(bodies, fixed, timed, rounded)) for bodies, fixed in asked]
    others = [
        BUILDERS.call(space, bodies, sizes, dynamic, machine.target, options, patience=PLANNING)
        for bodies, sizes, dynamic, options in (known[1:] if machine.architecture else ())
    ]
    try:
        out: list[tuple[Mapping[str, int], Space]] = []
        for place, (bodies, sizes, dynamic, options) in enumerate(known):
            found: Space | None = None
            if others and place > 0:
                try:
                    found = others[place - 1].result()
                except BuildError as error:
                    remark(
                        f"the schedules for {', '.join(f'{name} = {value}' for name, value in sizes.items())} were planned again: {error}"
                    )
            out.append((sizes, found or space(bodies, sizes, dynamic, machine.target, options)))
        return out
    finally:
        for other in others:
            other.cancel()


def _tuned(
    found: Space,
    graph: Graph,
    parts: Divided | None,
    inputs: Sequence[torch.Tensor],
    symbols: Mapping[str, int],
    machine: Machine,
    settings: Mapping[str, Any],
    store: Store,
    clock: GpuClock | None,
    fixed: Mapping[str, int],
) -> tuner.Tuned:
    budget = tuner.Budget(settings["budget"], settings["candidates"])
    workload = workload_of(graph, inputs, symbols, machine.device, parts) if clock is not None and machine.device is not None else None
    if workload is not None and any(workload.symbols[name] != value for name, value in fixed.items()):
        values = ", ".join(f"{name} = {value}" for name, value in fixed.items())
        remark(f"the schedule for {values} is the cost model's: integers of that size to time it on are not known")
        workload = None
    if workload is None or clock is None or machine.device is None:
        return tuner.Tuner(found, machine.target, machine.architecture, BUILDERS, budget=budget, store=store).tune()
    shapes = [(list(data.shape), list(data.strides), str(data.dtype)) for data in workload.inputs]
    setting = f"{machine.setting} {shapes} {sorted(symbols.items())}"
    clock.workload = workload
    with alone(machine.device, PATIENCE):
        return tuner.Tuner(found, machine.target, machine.architecture, BUILDERS, clock, budget, store, setting).tune()


def workload_of(
    graph: Graph, inputs: Sequence[torch.Tensor], symbols: Mapping[str, int], device: int, parts: Divided | None = None
) -> Workload:
    """
    What candidates are timed on: the example, or where its sizes are not the hints, tensors like it at the hints. The graph may have
    more inputs, those that the first of the `parts` makes.

    Integers have no likeness: an example that has any is used at its own sizes.
    """
    hinted = {entry.name: entry.hints[0] for entry in graph.symbols if entry.hints and entry.name in symbols}
    floating = all(tensor.is_floating_point() for tensor in inputs)
    if floating and any(symbols[name] != value for name, value in hinted.items()):
        symbols = {**symbols, **hinted}
        extents = graph.sizes(symbols)
        shapes = [memory_shape(entry.layout, extents) for entry in graph.inputs[: len(inputs)]]
        data = [described(tensor, shape) for tensor, shape in zip(inputs, shapes, strict=True)]
    else:
        data = [described(tensor) for tensor in inputs]
    first = First(parts.first, parts.inputs) if parts is not None else None
    return Workload(tuple(data), dict(symbols), graph, tolerance(graph), device, first)


def printed(module: ModuleOp) -> str:
    """The text of a module."""
    out = StringIO()
    Printer(stream=out).print_op(module)
    return out.getvalue() + "\n"
