"""
`cleave.compile`: from a PyTorch function to kernels that can be called and read.

The function is captured as a graph of the algebra. The same passes that `cleave-opt` runs find equivalent programs; the scheduler ranks
ways to run them, of which the best that compiles and fits is taken, on a GPU the fastest. The outcome is kept on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, cast

from xdsl.dialects.builtin import ModuleOp

from .bridge.alg import graph_op
from .choosing import Choice, Machine, chosen, printed
from .compiled import Compiled, Kernel, executables
from .errors import CleaveError
from .frontend import Bindings, Captured, capture
from .frontend.bindings import Source
from .frontend.turns import turn
from .graph import Graph
from .laps import Laps
from .machines import machine_for
from .options import Options
from .prepared import Prepared
from .remarks import collected
from .report import Report
from .runtime.cache import Store, key_of, versions

__all__ = ["Compiled", "Kernel", "Options", "Report", "compile", "weights_of", "with_hints"]


def compile(
    function: Callable[..., Any],
    *example_inputs: Any,
    dynamic_shapes: Any = None,
    hints: Sequence[Mapping[str, int]] | None = None,
    weights: Iterable[int | str] = (),
    target: str = "auto",
    **options: Any,
) -> Compiled:
    """
    Compiles a function or module for arguments like the examples.

    `dynamic_shapes` is as for torch.export; `hints` gives sizes of dynamic dimensions to tune for, by symbol name, in place of the
    examples' sizes; for each entry a schedule is made, and a call takes the one that is predicted fastest for its sizes, by times
    measured at and between all the entries where there is a GPU to time on. A size that an entry gives as 1 is a constant in its schedule
    and, unless weights are prepared, in the search for its algebra; other sizes then do not take it. That is so unless it is a batch: a
    dimension of every input and result, as rows of attention are not. Where every entry has such constants a schedule without them is
    made for the first as well.
    `weights` names arguments that stay the same between calls, and parameters: what depends on them alone may be computed once, see
    `Compiled.prepare`. `target` is a machine of `cleave.schedule.TARGETS`, or auto: the present GPU, h200 where there is none; of one
    that is not among them the limits are its own, and the report says whose rates are taken. `options` are the fields of `Options`.
    Results carry no gradients. A call may name arguments, leave out or give defaults, and have the keys of dictionaries in another order
    than the example's, which the function sees.
    A module's parameters and buffers are those it has now: changes in place are followed, tensors put in their place are not. Those that
    `weights` names are looked at when preparing.

    What is assumed: inputs are finite numbers, so that x / x is 1, x - x is 0 and sqrt(x)**2 is x; of infinities and NaN only what
    follows has a meaning. A row of a softmax that is all -inf gives 0, its logsumexp -inf. Tests for NaN and infinity that the
    function makes stay, but see these zeros after a softmax. Indices are in range, which is not checked. Results are contiguous. f16 and
    bf16 intermediates are kept in f32.
    Raises: CleaveError, with the line of the function, for what is not supported; TypeError for an unknown option, ValueError for one
    that is out of range.
    """
    wanted = _options(options)
    if isinstance(weights, str) or not hasattr(weights, "__iter__"):
        raise TypeError(f"compile() got weights={weights!r}; give a sequence of names or positions, as in weights=({weights!r},)")
    laps = Laps()
    captured, hoisted = _captured(function, example_inputs, dynamic_shapes, weights, hints or (), wanted.prepare)
    laps("capture")
    with collected() as told:
        machine = machine_for(target, captured.bindings.device, wanted.tune)
    choice, cached = _choice(captured, hoisted, example_inputs, hints or (), machine, wanted, laps)
    return _assembled(captured, choice, cached, machine, told, laps)


def _options(given: Mapping[str, Any]) -> Options:
    """The options of a call of `compile`. Raises: TypeError for an unknown one, ValueError for one that is out of range."""
    names = [entry.name for entry in fields(Options)]
    unknown = sorted(set(given) - set(names))
    if unknown:
        known = ", ".join(("dynamic_shapes", "hints", "weights", "target", *names))
        raise TypeError(f"compile() got an unknown option '{unknown[0]}'; known are {known}")
    return Options(**given)


def _captured(
    function: Callable[..., Any],
    examples: Sequence[Any],
    dynamic_shapes: Any,
    weights: Iterable[int | str],
    hints: Sequence[Mapping[str, int]],
    prepare: bool,
) -> tuple[Captured, bool]:
    """
    The function's graph with the hints of its symbols, and whether what depends on weights alone may be computed apart, which `prepare`
    allows. Raises: CleaveError.
    """
    with turn():
        captured = capture(function, examples, dynamic_shapes, weights)
    graph = with_hints(captured.graph, hints)
    for hint in hints:
        captured.bindings.check_hint(hint)
    asked = weights_of(captured.bindings) if prepare else frozenset[int]()
    if asked:
        graph = replace(graph, inputs=tuple(replace(entry, weight=place in asked) for place, entry in enumerate(graph.inputs)))
    return replace(captured, graph=graph), bool(asked)


def _choice(
    captured: Captured,
    hoisted: bool,
    examples: Sequence[Any],
    hints: Sequence[Mapping[str, int]],
    machine: Machine,
    wanted: Options,
    laps: Laps,
) -> tuple[Choice, bool]:
    """What to run for a graph on a machine, and whether it is from the cache, where it is kept. Raises: CleaveError."""
    bindings = captured.bindings
    flat = bindings.flatten(examples)
    symbols = bindings.sizes(flat)
    module = ModuleOp([graph_op(captured.graph)])
    text = printed(module)
    store = Store(enabled=wanted.cache)
    settings = {entry.name: getattr(wanted, entry.name) for entry in fields(Options)}
    settings |= {"weights": hoisted, "unrounded": captured.unrounded}
    points = [dict(sorted(point.items())) for point in hints]
    key = key_of("program", versions(), text, points, machine.setting, settings, symbols if machine.timed else {})
    found: Choice | None = store.get("programs", key)
    laps("cache")
    if found is not None:
        return found, True
    views = bindings.views(flat, symbols)
    with collected() as remarks:
        choice = chosen(module, text, views, symbols, points, machine, settings, store, laps, bindings.able)
    choice = replace(choice, remarks=tuple(remarks))
    if not store.put("programs", key, choice) and store.enabled:
        unkept = f"nothing is kept for the next time, {store.root} cannot be written; set CLEAVE_CACHE_DIR to a folder that can"
        choice = replace(choice, remarks=(*choice.remarks, unkept))
    laps("store")
    return choice, False


def _assembled(captured: Captured, choice: Choice, cached: bool, machine: Machine, told: Sequence[str], laps: Laps) -> Compiled:
    """What is called and read, with a kernel for each of those in the variants' files."""
    bindings = captured.bindings
    ready = executables(choice.variants)
    kernels = tuple(
        Kernel(name, variant.file.text, tuple(str(dim.count) for dim in kernel.grid), kernel.num_warps, kernel.num_stages)
        for variant in choice.variants
        for kernel, name in zip(variant.program.kernels, variant.file.kernels.values(), strict=True)
    )
    prepared = None
    if choice.preparation is not None:
        prepared = Prepared(choice.preparation, bindings)
        bindings = replace(bindings, inputs=tuple(bindings.inputs[place] for place in choice.preparation.kept))
    remarks = (*told, *choice.remarks)
    return Compiled(
        captured.graph, kernels, bindings, ready, laps.seconds, choice, cached, machine.target.name, remarks, _prepared=prepared
    )


def weights_of(bindings: Bindings) -> frozenset[int]:
    """The graph's inputs that are parts, the same in all calls, of weights the caller named, or of constants if there are any."""
    asked = {*bindings.weights, *(Source("constant", name) for name in bindings.constants)} if bindings.weights else set[Source]()
    return frozenset(
        place
        for place, entry in enumerate(bindings.inputs)
        if entry.source in asked and not any(extent.symbols for dim in entry.dims for extent in (dim.size, dim.first, dim.step))
    )


def with_hints(graph: Graph, hints: Sequence[Mapping[str, int]]) -> Graph:
    """
    The graph with the hints of its symbols replaced.

    Raises: CleaveError for a name that is not a symbol, and what is no positive number.
    """
    given = cast(Any, hints)
    if isinstance(given, Mapping) or not all(isinstance(hint, Mapping) for hint in given):
        raise CleaveError(None, "hints is no sequence of mappings", 'give an entry for each combination of sizes, as in [{"m": 1}]')
    for name, value in (pair for hint in given for pair in hint.items()):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise CleaveError(None, f"hint {value!r} for '{name}'", "give a whole number from 1 up", op=graph.name)
    known = {symbol.name for symbol in graph.symbols}
    for name in (name for hint in hints for name in hint):
        if name not in known:
            there = ", ".join(sorted(known)) or "none, as no dimension is dynamic"
            raise CleaveError(None, f"hint for '{name}', which is not a symbol", f"symbols are {there}", op=graph.name)
    symbols = tuple(
        replace(symbol, hints=tuple(hint[symbol.name] for hint in hints if symbol.name in hint) or symbol.hints) for symbol in graph.symbols
    )
    return replace(graph, symbols=symbols)
