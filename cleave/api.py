"""
`cleave.compile`: from a PyTorch function to kernels that can be called and read.

The function is captured as a graph of the algebra. The same passes that `cleave-opt` runs find equivalent programs; the scheduler ranks
ways to run them, of which the best that compiles and fits is taken, on a GPU the fastest. Every level is kept, so that `Compiled.text`
can show it, and the outcome is kept on disk.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from threading import Lock
from typing import Any, Literal, cast

import torch
from xdsl.dialects.builtin import ModuleOp

from .bound_programs import BoundPrograms
from .bridge.alg import graph_op
from .calls import Entry, entry_of
from .choosing import Choice, chosen, printed
from .errors import CleaveError
from .frontend import Bindings, capture
from .frontend.bindings import Source
from .graph import Graph
from .machines import machine_for
from .prepared import Prepared
from .recent import Recent
from .remarks import collected
from .runtime import tuner
from .runtime.cache import Store, key_of, versions
from .runtime.cuda import ALIGNMENT
from .runtime.execute import Executable, execute
from .runtime.launch import Bound
from .runtime.versions import shortcuts
from .runtime.workspaces import SPARE
from .schedule.program import Program
from .variants import Variant, fastest

LEVELS = ("alg", "alternatives", "stabilized", "sched", "tt", "triton", "ttir")
SHOWN = 10
ENTRIES = 8
PICKS = 1024
"""For how many combinations of sizes it is remembered which variant calls take."""
_CAPTURE = Lock()
"""torch.export traces one function at a time."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """
    A compiled kernel: its Triton source and how it is launched.

    `name` is that of its function in `source`, which may have other kernels too; `grid` are symbolic counts of programs, fastest
    varying first; `constants` are compile-time parameters.
    """

    name: str
    source: str
    grid: tuple[str, ...]
    num_warps: int
    num_stages: int
    constants: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """
    What compiling did.

    `seconds` by stage; `cached` that everything came from the cache; `alternatives` is how many programs of the algebra competed;
    `notes` are the scheduler's reasons, with its estimates of FLOPs, bytes and microseconds; `candidates` are those that were compiled
    or timed, the chosen one first, each with its time or why it was dropped; `remarks` are what the passes and the tuner said; `copies`
    counts inputs that calls had to copy because their memory was not as in the example; `target` is the machine that was planned for;
    `long` counts the calls on a GPU whose arguments were looked at anew, by why they were.
    """

    seconds: Mapping[str, float]
    cached: bool
    alternatives: int
    notes: tuple[str, ...]
    candidates: tuple[tuner.Entry, ...]
    remarks: tuple[str, ...]
    copies: int
    target: str = ""
    long: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def dropped(self) -> int:
        """How many candidates were dropped."""
        return sum(bool(entry.dropped) for entry in self.candidates)

    def __str__(self) -> str:
        stages = ", ".join(f"{name} {value:.2f}" for name, value in self.seconds.items())
        lines = [f"seconds: {stages}{' (from the cache)' if self.cached else ''}"]
        lines += [f"target: {self.target}"] if self.target else []
        lines += [f"alternatives: {self.alternatives}", *self.notes]
        kept = [entry for entry in self.candidates if not entry.dropped]
        lines += [f"candidate {number}: {entry}" for number, entry in enumerate(kept[:SHOWN])]
        if len(kept) > SHOWN:
            lines.append(f"and {len(kept) - SHOWN} more")
        lines += [f"{entry.text}: dropped: {entry.dropped}" for entry in self.candidates if entry.dropped]
        lines += self.remarks
        if self.long:
            lines.append(f"calls that went the long way: {'; '.join(f'{count}, as {why}' for why, count in self.long.items())}")
        if self.copies:
            lines.append(f"inputs copied to the layout of the example: {self.copies}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Options:
    """
    Knobs of `compile`. `split`: also consider programs that split a reduced axis over several programs of the grid.
    `alternatives`: how many programs of the algebra compete. `seed` of the search. `tune`: time candidates on the GPU; auto where the
    example is on one. `cache`: keep results on disk and use them. `budget`: seconds that choosing among candidates may take, and
    `candidates`: how many are compiled. `prepare`: what depends on the named weights alone is computed once (`Compiled.prepare`).
    """

    split: bool = True
    alternatives: int = 12
    seed: int = 0
    tune: bool | Literal["auto"] = "auto"
    cache: bool = True
    budget: float = tuner.Budget().seconds
    candidates: int = tuner.Budget().candidates
    prepare: bool = True

    def __post_init__(self) -> None:
        for name, kinds, least in (
            ("split", bool, 0),
            ("alternatives", int, 0),
            ("seed", int, 0),
            ("cache", bool, 0),
            ("budget", (int, float), 0),
            ("candidates", int, 1),
            ("prepare", bool, 0),
        ):
            value = getattr(self, name)
            if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool) or not value >= least:
                wanted = "True or False" if kinds is bool else f"a number of at least {least}"
                raise ValueError(f"compile() option {name} is {value!r}; give {wanted}")
        if self.tune not in (True, False, "auto"):
            raise ValueError(f"compile() option tune is {self.tune!r}; give True, False or 'auto'")


@dataclass(repr=False)
class Compiled:
    """A function that was compiled: call it as the original. CPU tensors run in Triton's interpreter, CUDA tensors on the GPU."""

    graph: Graph
    kernels: tuple[Kernel, ...]
    bindings: Bindings
    _executables: tuple[Executable, ...]
    _seconds: Mapping[str, float]
    _choice: Choice
    _cached: bool
    _target: str
    _remarks: tuple[str, ...]
    _texts: dict[str, str] = field(default_factory=dict[str, str])
    _bounds: BoundPrograms = field(default_factory=BoundPrograms)
    _entries: tuple[Entry, ...] = ()
    _picks: Recent[Any, tuple[Executable, Mapping[str, int]]] = field(default_factory=lambda: Recent(PICKS))
    _prepared: Prepared | None = None
    _long: Counter[str] = field(default_factory=Counter[str])
    _lock: Any = field(default_factory=Lock)

    def __repr__(self) -> str:
        return f"<{self.graph.name}, compiled to {', '.join(kernel.name for kernel in self.kernels) or 'no kernel'}>"

    @property
    def program(self) -> Program:
        """The scheduled program; of several variants, that for the first hints."""
        return self.variants[0].program

    @property
    def variants(self) -> tuple[Variant, ...]:
        """The schedules between which calls choose by their sizes."""
        return self._choice.variants

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """
        The function's result.

        Raises: CleaveError where an argument is not as it was compiled for.
        """
        if not kwargs:
            for entry in self._entries:
                result = entry.call(args)
                if result is not NotImplemented:
                    return result
        return self._checked(args, kwargs)

    def prepare(self, *weights: torch.Tensor) -> None:
        """
        Computes what depends on weights alone, to be kept for these weights: the arguments that `compile` was told are weights, in the
        order of the function's, and the parameters it was told of.

        Without it a call does so for weights that it meets first, or that were changed in place since. It is needed before a call is
        captured in a CUDA graph, which else computes it at every replay, and after changes that calls cannot see: through an address or
        `.data`, of inference tensors, and by graphs that are replayed; these read what was computed last.
        Raises: CleaveError for weights that are not as they were compiled for.
        """
        places = sorted(int(source.key) for source in self.bindings.weights if source.kind == "argument")
        if len(weights) != len(places):
            names = ", ".join(self.bindings.parameters[place] for place in places) or "none"
            raise CleaveError(None, f"{len(weights)} weights are given", f"compiled for {len(places)}: {names}")
        flat = dict(zip(places, weights, strict=True))
        self.bindings.check_weights(flat)
        if self._prepared is not None:
            self._prepared.prepare(flat)

    def _checked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result, after looking at everything that may be wrong with the arguments."""
        flat = self.bindings.flatten(args, kwargs)
        for value in flat:
            if isinstance(value, torch.Tensor) and (value.layout != torch.strided or value.device.type not in ("cpu", "cuda")):
                kind = f"{str(value.layout).removeprefix('torch.')} on {value.device.type}"
                raise CleaveError(None, f"an argument is {kind}", "pass dense tensors on cpu or cuda")
        if torch.is_grad_enabled() and any(isinstance(value, torch.Tensor) and value.requires_grad for value in flat):
            raise CleaveError(None, "an argument requires a gradient and compiled programs have none", "detach it, or use torch.no_grad()")
        symbols = self.bindings.sizes(flat)
        views = self.bindings.views(flat, symbols)
        if self._prepared is not None:
            views += self._prepared.ready(flat)
        device = next((view.device for view in views), self.bindings.device)
        if device.type == "cuda":
            made: Sequence[Any] = self._on_gpu(args, kwargs, flat, views, symbols)
        else:
            ready, sizes = self._ready(symbols)
            made = execute(ready, views, sizes)
        results: list[Any] = [None] * len(made)
        for output in self.bindings.outputs:
            if output.kind == "graph":
                results[output.graph] = made[output.graph].reshape(output.sizes(symbols))
        return self.bindings.results(flat, results)

    def _on_gpu(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], flat: Sequence[Any], views: Sequence[torch.Tensor], symbols: Mapping[str, int]
    ) -> tuple[torch.Tensor, ...]:
        """The results of the graph, and from then on a short way for calls like this one where there is one."""
        bound = self._bound(views, symbols)
        made = bound(*views)
        entry = entry_of(self.bindings, bound, args, flat, views, self._prepared) if not kwargs else "arguments are given by name"
        with self._lock:
            if isinstance(entry, Entry):
                others = [other for other in self._entries if not entry.replaces(other)]
                known = len(others) < len(self._entries)
                self._entries = (entry, *others[: ENTRIES - 1])
                entry = "weights were changed" if known else f"none of the last {ENTRIES} kinds of calls was like it"
            self._long[entry] += 1
        return made

    def _bound(self, views: Sequence[torch.Tensor], symbols: Mapping[str, int]) -> Bound:
        def make() -> Bound:
            shapes: list[tuple[int, ...]] = [()] * len(self.program.outputs)
            for output in self.bindings.outputs:
                if output.kind == "graph":
                    shapes[output.graph] = output.sizes(symbols)
            ready, sizes = self._ready(symbols)
            return ready.bind(views, sizes, shapes)

        # What is copied for its address is bound apart, so that others of its shape need not be.
        places = tuple((view.shape, view.stride(), view.device, view.data_ptr() % ALIGNMENT == 0) for view in views)
        key = (places, tuple(symbols.items()))
        return self._bounds.get(key, make, [entry.bound for entry in self._entries])

    def _ready(self, symbols: Mapping[str, int]) -> tuple[Executable, Mapping[str, int]]:
        """The variant for these sizes, and the sizes with its numbers of chunks."""
        key = tuple(symbols.items())
        found = self._picks.get(key)
        if found is None:
            place, counts = fastest(self.variants, symbols)
            found = self._executables[place], {**symbols, **counts}
            self._picks.put(key, found)
        return found

    def text(self, level: str) -> str:
        """
        The program at a level: alg, alternatives, stabilized, sched, tt, triton or ttir. From sched on, variants follow one another,
        each after a line that says for which sizes it was made, and which of them are fixed. Up to there what was searched with fixed
        sizes follows the program for all, after a line that says which.

        Raises: ValueError for another level.
        """
        if level not in LEVELS:
            raise ValueError(f"'{level}' is not a level; they are {', '.join(LEVELS)}")
        if level not in self._texts:
            if level in self._choice.texts:
                self._texts[level] = self._choice.texts[level]
            else:
                self._texts[level] = self._joined([self._lowered(place, level) for place in range(len(self.variants))], level)
        return self._texts[level]

    def _lowered(self, place: int, level: str) -> str:
        ready = self._executables[place]
        if level == "triton":
            return ready.file.text
        return _ttir(ready.module) if level == "ttir" else self.variants[place].texts[level]

    def _joined(self, texts: Sequence[str], level: str) -> str:
        if len(texts) == 1:
            return texts[0]
        # Between modules stands what --split-input-file looks for.
        mark, between = ("#", "\n\n") if level == "triton" else ("//", "\n// -----\n\n")
        return between.join(f"{mark} for {variant.spelled}\n{text}" for variant, text in zip(self.variants, texts, strict=True))

    def report(self) -> Report:
        """What compiling did, and what calls had to do since."""
        notes: list[str] = []
        for variant in self.variants:
            notes += [f"for {variant.spelled}:"] if len(self.variants) > 1 else []
            notes += variant.program.notes
            notes += [f"took {timing}" for timing in variant.times]
        candidates = tuple(entry for variant in self.variants for entry in variant.candidates)
        remarks = (*self._remarks, *(remark for variant in self.variants for remark in variant.remarks))
        if self._prepared is not None:
            remarks = (*remarks, f"prepared {self._prepared.count} times: {self._prepared.preparation.spelled}")
        known = shortcuts()
        if self._entries and isinstance(known, str):
            text = f"{len(self._entries)} of at most {ENTRIES} kinds of calls are compared in Python, which takes microseconds more"
            remarks = (*remarks, f"{text}: {known}")
        if self._entries and not isinstance(known, str) and isinstance(known.launch, str):
            remarks = (*remarks, f"kernels are launched through ctypes, which takes longer: {known.launch}")
        bounds = self._bounds
        for problem, count in bounds.refused.items():
            remarks = (*remarks, f"torch's launcher refused {count} launches, which the driver then made: {problem}")
        if bounds.cleared:
            text = f"{bounds.cleared} captured runs clear workspaces in their graph, which takes longer"
            remarks = (*remarks, f"{text}: for calls like an earlier one, {SPARE} captures are made ready")
        if bounds.let_go:
            text = f"{bounds.let_go} programs bound to shapes were let go, with their memory, as {len(bounds)} are kept"
            remarks = (*remarks, f"{text}: calls with such shapes are bound anew")
        counts = self._bounds.copies, self._target, dict(self._long)
        return Report(self._seconds, self._cached, self._choice.alternatives, tuple(notes), candidates, remarks, *counts)


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
    `Compiled.prepare`. `target` is a machine of `cleave.schedule.TARGETS`, or auto: the
    present GPU, h200 where there is none; of one that is not among them the limits are its own, and the report says whose rates are
    taken. `options` are the fields of `Options`. Results carry no gradients.
    A module's parameters and buffers are those it has now: changes in place are followed, tensors put in their place are not. Those that
    `weights` names are looked at when preparing.

    What is assumed: inputs are finite numbers, so that x / x is 1, x - x is 0 and sqrt(x)**2 is x; of infinities and NaN only what
    follows has a meaning. A row of a softmax that is all -inf gives 0, its logsumexp -inf. Tests for NaN and infinity that the
    function makes stay, but see these zeros after a softmax. Indices are in range, which is not checked. Results are contiguous. f16 and
    bf16 intermediates are kept in f32.
    Raises: CleaveError, with the line of the function, for what is not supported; TypeError for an unknown option, ValueError for one
    that is out of range.
    """
    unknown = sorted(set(options) - {entry.name for entry in fields(Options)})
    if unknown:
        known = ", ".join(("dynamic_shapes", "hints", "weights", "target", *(entry.name for entry in fields(Options))))
        raise TypeError(f"compile() got an unknown option '{unknown[0]}'; known are {known}")
    if isinstance(weights, str) or not hasattr(weights, "__iter__"):
        raise TypeError(f"compile() got weights={weights!r}; give a sequence of names or positions, as in weights=({weights!r},)")
    wanted = Options(**options)
    seconds: dict[str, float] = {}
    clock = time.perf_counter()

    def lap(name: str) -> None:
        nonlocal clock
        now = time.perf_counter()
        seconds[name] = seconds.get(name, 0.0) + now - clock
        clock = now

    with _CAPTURE:
        captured = capture(function, example_inputs, dynamic_shapes, weights)
    bindings = captured.bindings
    graph = with_hints(captured.graph, hints or ())
    for hint in hints or ():
        bindings.check_hint(hint)
    asked = weights_of(bindings) if wanted.prepare else frozenset[int]()
    if asked:
        graph = replace(graph, inputs=tuple(replace(entry, weight=place in asked) for place, entry in enumerate(graph.inputs)))
    lap("capture")
    flat = bindings.flatten(example_inputs)
    symbols = bindings.sizes(flat)
    with collected() as told:
        machine = machine_for(target, bindings.device, wanted.tune)
    module = ModuleOp([graph_op(graph)])
    text = printed(module)
    store = Store(enabled=wanted.cache)
    settings = {entry.name: getattr(wanted, entry.name) for entry in fields(Options)}
    settings |= {"weights": bool(asked), "unrounded": captured.unrounded}
    points = [dict(sorted(point.items())) for point in hints or ()]
    key = key_of("program", versions(), text, points, machine.setting, settings, symbols if machine.timed else {})
    choice: Choice | None = store.get("programs", key)
    cached = choice is not None
    lap("cache")
    if choice is None:
        views = bindings.views(flat, symbols)
        with collected() as remarks:
            choice = chosen(module, text, views, symbols, points, machine, settings, store, lap, bindings.able)
        choice = replace(choice, remarks=tuple(remarks))
        if not store.put("programs", key, choice) and store.enabled:
            unkept = f"nothing is kept for the next time, {store.root} cannot be written; set CLEAVE_CACHE_DIR to a folder that can"
            choice = replace(choice, remarks=(*choice.remarks, unkept))
        lap("store")
    ready = tuple(Executable(variant.program, variant.file, variant.binaries) for variant in choice.variants)
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
    return Compiled(graph, kernels, bindings, ready, seconds, choice, cached, machine.target.name, remarks, _prepared=prepared)


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


def _ttir(module: ModuleOp) -> str:
    from .targets.ttir import ttir_text

    return ttir_text(module)
