"""
A compiled function: calling it, its text at every level, and what is reported of it.

A call of a kind that was seen before takes its short way (`cleave.calls`); any other is looked at in full, and on a GPU bound to its
shapes. Every level is kept, so that `Compiled.text` can show it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from threading import Lock
from typing import Any

import torch

from .bound_programs import BoundPrograms
from .calls import Entry, entry_of
from .choosing import Choice
from .errors import CleaveError
from .frontend import Bindings
from .frontend.bindings import Source
from .frontend.turns import refuse_traced
from .graph import Graph
from .prepared import Prepared
from .recent import Recent
from .report import Report
from .runtime.cuda import ALIGNMENT
from .runtime.execute import Executable, execute
from .runtime.launch import Bound
from .runtime.versions import shortcuts
from .runtime.workspaces import SPARE
from .schedule.program import Program
from .targets.ttir import ttir_text
from .variants import Variant, fastest

LEVELS = ("alg", "alternatives", "stabilized", "sched", "tt", "triton", "ttir")
ENTRIES = 8
"""How many kinds of calls have a short way at a time."""
PICKS = 1024
"""For how many combinations of sizes it is remembered which variant calls take."""
_OF_CALLS = frozenset(("_executables", "_bounds", "_entries", "_picks", "_long", "_lock"))
"""What belongs to the calls of one object, and is made anew for a copy of it."""


def executables(variants: Sequence[Variant]) -> tuple[Executable, ...]:
    """The schedules of some variants, ready to run."""
    return tuple(Executable(variant.program, variant.file, variant.binaries) for variant in variants)


@dataclass(frozen=True, slots=True)
class Kernel:
    """
    A compiled kernel: its Triton source and how it is launched.

    `name` is that of its function in `source`, which may have other kernels too; `grid` are symbolic counts of programs, fastest
    varying first.
    """

    name: str
    source: str
    grid: tuple[str, ...]
    num_warps: int
    num_stages: int


@dataclass(repr=False)
class Compiled:
    """
    A function that was compiled: call it as the original. CPU tensors run in Triton's interpreter, CUDA tensors on the GPU.

    Threads may call it at once. Memory for what lies between kernels is kept for the shapes used last (`cleave.bound_programs`).
    """

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

    def __getstate__(self) -> dict[str, Any]:
        """What a copy, or another process, has of it: not what calls have left behind, as memory on a device."""
        return {name: value for name, value in vars(self).items() if name not in _OF_CALLS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        made = [(entry.name, entry.default_factory) for entry in fields(self)]
        vars(self).update({name: factory() for name, factory in made if name in _OF_CALLS and callable(factory)})
        self._entries = ()
        self._executables = executables(self.variants)

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
            known = {check.source: check.name for check in self.bindings.arguments}
            names = ", ".join(known[Source("argument", place)] for place in places) or "none"
            found = f"{len(weights)} weight{' is' if len(weights) == 1 else 's are'} given"
            raise CleaveError(None, found, f"compiled for {len(places)}: {names}")
        flat = dict(zip(places, weights, strict=True))
        self.bindings.check_weights(flat)
        if self._prepared is not None:
            self._prepared.prepare(flat)

    def _checked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result, after looking at everything that may be wrong with the arguments."""
        flat = self.bindings.flatten(args, kwargs)
        refuse_traced(self.graph.name, flat)
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
        return ttir_text(ready.module) if level == "ttir" else self.variants[place].texts[level]

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
        remarks = [*self._remarks, *(remark for variant in self.variants for remark in variant.remarks), *self._said_of_calls()]
        counts = self._bounds.copies, self._target, dict(self._long)
        return Report(self._seconds, self._cached, self._choice.alternatives, tuple(notes), candidates, tuple(remarks), *counts)

    def _said_of_calls(self) -> list[str]:
        """What took longer than it might have, and what was computed beside calls."""
        out: list[str] = []
        if self._prepared is not None:
            out.append(f"prepared {self._prepared.count} times: {self._prepared.preparation.spelled}")
        known = shortcuts()
        if self._entries and isinstance(known, str):
            text = f"{len(self._entries)} of at most {ENTRIES} kinds of calls are compared in Python, which takes microseconds more"
            out.append(f"{text}: {known}")
        if self._entries and not isinstance(known, str) and isinstance(known.launch, str):
            out.append(f"kernels are launched through ctypes, which takes longer: {known.launch}")
        bounds = self._bounds
        for problem, count in bounds.refused.items():
            out.append(f"torch's launcher refused {count} launches, which the driver then made: {problem}")
        if bounds.cleared:
            text = f"{bounds.cleared} captured runs clear workspaces in their graph, which takes longer"
            out.append(f"{text}: for calls like an earlier one, {SPARE} captures are made ready")
        if bounds.let_go:
            text = f"{bounds.let_go} programs bound to shapes were let go, with their memory, as {len(bounds)} are kept"
            out.append(f"{text}: calls with such shapes are bound anew")
        return out
