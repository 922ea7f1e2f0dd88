"""
`cleave.compile`: from a PyTorch function to kernels that can be called and read.

The function is captured as a graph of the algebra, and the same passes that `cleave-opt` runs take it down to Triton. Every
level is kept, so that `Compiled.text` can show it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.printer import Printer

from .bridge.alg import graph_op
from .bridge.sched import program_of
from .errors import CleaveError
from .frontend import Bindings, capture
from .graph import Graph
from .remarks import collected
from .runtime.execute import Executable, execute
from .runtime.launch import Bound
from .schedule import TARGETS
from .schedule.program import Program

LEVELS = ("alg", "alternatives", "stabilized", "sched", "tt", "triton", "ttir")


@dataclass(frozen=True, slots=True)
class Kernel:
    """
    A compiled kernel: its Triton source and how it is launched.

    `grid` are symbolic counts of programs, fastest varying first; `constants` are compile-time parameters.
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

    `seconds` by stage; `alternatives` is how many programs of the algebra competed; `notes` are the scheduler's reasons, with the
    alternative it chose and its estimates of FLOPs, bytes and microseconds; `remarks` are what the passes said; `copies` counts
    inputs that calls had to copy because their memory was not as in the example.
    """

    seconds: Mapping[str, float]
    alternatives: int
    notes: tuple[str, ...]
    remarks: tuple[str, ...]
    copies: int

    def __str__(self) -> str:
        stages = ", ".join(f"{name} {value:.2f}" for name, value in self.seconds.items())
        lines = [f"seconds: {stages}", f"alternatives: {self.alternatives}", *self.notes, *self.remarks]
        if self.copies:
            lines.append(f"inputs copied to the layout of the example: {self.copies}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Options:
    """
    Knobs of `compile`. `split`: also consider programs that split a reduced axis over several programs of the grid.
    `alternatives`: how many programs of the algebra compete. `seed` of the search.
    """

    split: bool = True
    alternatives: int = 12
    seed: int = 0


@dataclass
class Compiled:
    """A function that was compiled: call it as the original. CPU tensors run in Triton's interpreter, CUDA tensors on the GPU."""

    graph: Graph
    program: Program
    kernels: tuple[Kernel, ...]
    bindings: Bindings
    _modules: Mapping[str, ModuleOp]
    _executable: Executable
    _seconds: Mapping[str, float]
    _alternatives: int
    _remarks: tuple[str, ...]
    _texts: dict[str, str] = field(default_factory=dict[str, str])
    _bounds: dict[Any, Bound] = field(default_factory=dict[Any, Bound])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """
        The function's result.

        Raises: CleaveError where an argument is not as it was compiled for.
        """
        flat = self.bindings.flatten(args, kwargs)
        symbols = self.bindings.sizes(flat)
        views = self.bindings.views(flat, symbols)
        device = next((view.device for view in views), self.bindings.device)
        made = self._bound(views, symbols)(*views) if device.type == "cuda" else execute(self._executable, views, symbols)
        results: list[Any] = [None] * len(made)
        for entry in self.bindings.outputs:
            if entry.kind == "graph":
                results[entry.graph] = made[entry.graph].reshape(entry.sizes(symbols))
        return self.bindings.results(flat, results)

    def _bound(self, views: Sequence[torch.Tensor], symbols: Mapping[str, int]) -> Bound:
        key = (tuple((view.shape, view.stride(), view.device) for view in views), tuple(symbols.items()))
        found = self._bounds.get(key)
        if found is None:
            found = self._bounds[key] = self._executable.bind(views, symbols)
        return found

    def text(self, level: str) -> str:
        """
        The program at a level: alg, alternatives, stabilized, sched, tt, triton or ttir.

        Raises: ValueError for another level.
        """
        if level not in LEVELS:
            raise ValueError(f"'{level}' is not a level; they are {', '.join(LEVELS)}")
        if level not in self._texts:
            if level == "triton":
                self._texts[level] = self._executable.file.text
            elif level == "ttir":
                self._texts[level] = _ttir(self._modules["tt"])
            else:
                self._texts[level] = _printed(self._modules[level])
        return self._texts[level]

    def _copies(self) -> int:
        return sum(bound.copies for bound in self._bounds.values())

    def report(self) -> Report:
        """What compiling did, and what calls had to do since."""
        return Report(self._seconds, self._alternatives, self.program.notes, self._remarks, self._copies())


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
    examples' sizes; `weights` names arguments that stay the same between calls. `target` is a machine of
    `cleave.schedule.TARGETS`, or auto: the present GPU's, h200 where there is none. `options` are the fields of `Options`.
    Raises: CleaveError, with the line of the function, for what is not supported; TypeError for an unknown option.
    """
    unknown = sorted(set(options) - {entry.name for entry in fields(Options)})
    if unknown:
        known = ", ".join(entry.name for entry in fields(Options))
        raise TypeError(f"compile() got an unknown option '{unknown[0]}'; known are {known}")
    chosen = Options(**options)
    seconds: dict[str, float] = {}
    clock = time.perf_counter()

    def lap(name: str) -> None:
        nonlocal clock
        now = time.perf_counter()
        seconds[name] = now - clock
        clock = now

    captured = capture(function, example_inputs, dynamic_shapes, weights)
    graph = with_hints(captured.graph, hints or ())
    lap("capture")
    module = ModuleOp([graph_op(graph)])
    modules = {"alg": module.clone()}
    with collected() as remarks:
        for level, pass_ in _passes(chosen, target_name(target, captured.bindings.device)):
            pass_.apply(Context(), module)
            module.verify()
            modules[level] = module.clone()
            lap(level)
    scheduled = _program(modules["sched"])
    ready = Executable(module)
    file = ready.file
    lap("triton")
    kernels = tuple(
        Kernel(kernel.name, file.text, tuple(str(dim.count) for dim in kernel.grid), kernel.num_warps, kernel.num_stages)
        for kernel in scheduled.kernels
    )
    return Compiled(graph, scheduled, kernels, captured.bindings, modules, ready, seconds, _count(modules["alternatives"]), tuple(remarks))


def _program(module: ModuleOp) -> Program:
    from .dialects.sched import ProgramOp

    return next(program_of(op) for op in module.ops if isinstance(op, ProgramOp))


def _passes(options: Options, target: str) -> list[tuple[str, ModulePass]]:
    from .passes.alg_stabilize import AlgStabilizePass
    from .passes.alg_superoptimize import AlgSuperoptimizePass
    from .passes.convert_alg_to_sched import ConvertAlgToSchedPass
    from .passes.convert_sched_to_tt import ConvertSchedToTtPass

    search = AlgSuperoptimizePass(split=options.split, alternatives=options.alternatives, seed=options.seed)
    return [
        ("alternatives", search),
        ("stabilized", AlgStabilizePass()),
        ("sched", ConvertAlgToSchedPass(target=target)),
        ("tt", ConvertSchedToTtPass()),
    ]


def target_name(name: str, device: torch.device) -> str:
    """
    A machine of `TARGETS`; for auto that of the CUDA device, h200 on the CPU.

    Raises: ValueError for an unknown name.
    """
    if name != "auto":
        if name not in TARGETS:
            raise ValueError(f"unknown target '{name}'; known are auto, {', '.join(TARGETS)}")
        return name
    if device.type != "cuda":
        return "h200"
    found = torch.cuda.get_device_name(device).lower().replace(" ", "")
    for known in TARGETS:
        if known in found:
            return known
    major, _ = torch.cuda.get_device_capability(device)
    return {8: "a100", 9: "h100"}.get(major, "b200")


def with_hints(graph: Graph, hints: Sequence[Mapping[str, int]]) -> Graph:
    """
    The graph with the hints of its symbols replaced.

    Raises: CleaveError for a name that is not a symbol.
    """
    from dataclasses import replace

    known = {symbol.name for symbol in graph.symbols}
    for name in (name for hint in hints for name in hint):
        if name not in known:
            there = ", ".join(sorted(known)) or "none, as no dimension is dynamic"
            raise CleaveError(None, f"hint for '{name}', which is not a symbol", f"symbols are {there}", op=graph.name)
    symbols = tuple(
        replace(symbol, hints=tuple(hint[symbol.name] for hint in hints if symbol.name in hint) or symbol.hints) for symbol in graph.symbols
    )
    return replace(graph, symbols=symbols)


def _printed(module: ModuleOp) -> str:
    from io import StringIO

    out = StringIO()
    Printer(stream=out).print_op(module)
    return out.getvalue() + "\n"


def _ttir(module: ModuleOp) -> str:
    from .targets.ttir import ttir_text

    return ttir_text(module)


def _count(module: ModuleOp) -> int:
    from .dialects.alg import AlternativesOp

    return sum(len(op.regions) for op in module.walk() if isinstance(op, AlternativesOp)) or 1
