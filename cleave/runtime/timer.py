"""
The process that runs and times programs on a GPU for `cleave.runtime.clock`. Its argument is a socket's descriptor.

Messages: `("open", workload)` answers True, and forgets what was before; `("prepare", number, built)` a `Checked`;
`("sample", numbers)` seconds, one for each; `("forget", number)` True; `("rest",)`, which forgets all, the bytes of the GPU's memory that
are still held. An error answers any of them as `Failed`.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import signal
import sys
import traceback
from collections.abc import Callable, Generator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from cleave.runtime.build import Built
from cleave.runtime.clock import Checked, Data, Workload
from cleave.runtime.connection import Failed
from cleave.runtime.cuda import CudaBound
from cleave.runtime.driver import DriverError
from cleave.runtime.failure import NO_MEMORY, Failure, Kind
from cleave.runtime.launch import TORCH_DTYPES, Bound
from cleave.runtime.reference import evaluate, has_reference

FLUSH_BYTES = 256 << 20
ELEMENT_SLACK = 32.0
ROOM = 0.25
"""The part of a GPU's memory that should be free before a program is loaded."""


def made(data: Data, device: torch.device, seed: int) -> torch.Tensor:
    """A tensor as described."""
    extent = 1 + sum((size - 1) * stride for size, stride in zip(data.shape, data.strides, strict=True)) if 0 not in data.shape else 0
    if data.content is None and not data.file:
        generator = torch.Generator(device=device).manual_seed(seed)
        flat = torch.empty(extent, dtype=data.dtype, device=device).normal_(data.mean, data.deviation, generator=generator)
        return flat.as_strided(data.shape, data.strides)
    out = torch.zeros(extent, dtype=data.dtype, device=device).as_strided(data.shape, data.strides)
    if data.content or (data.file and out.numel()):
        plain = _held(data).view(data.dtype)
        # What repeats along a dimension of stride 0 is written once.
        once = tuple(slice(1) if stride == 0 else slice(None) for stride in data.strides)
        out[once].copy_(plain.reshape(data.shape)[once])
    return out


def _held(data: Data) -> torch.Tensor:
    """The bytes of a tensor's elements."""
    if data.file:
        return torch.from_file(data.file, size=Path(data.file).stat().st_size, dtype=torch.uint8)
    return torch.frombuffer(bytearray(data.content or b""), dtype=torch.uint8)


def compared(results: Sequence[torch.Tensor], expected: Sequence[torch.Tensor], tolerance: float) -> tuple[float, str]:
    """The largest relative error of the results, and what is wrong with them, if anything is."""
    worst = 0.0
    for found, exact in zip(results, expected, strict=True):
        found, exact = found.reshape(exact.shape).to(exact.dtype), exact
        same = (found == exact) | (found.isnan() & exact.isnan())
        if bool(same.all()):
            continue
        difference = torch.where(same, torch.zeros_like(exact), found - exact).abs()
        size = _norm(torch.where(exact.isfinite(), exact, torch.zeros_like(exact)))
        error = _norm(difference) / max(size, 1e-30)
        worst = max(worst, error)
        if not error <= tolerance:
            return error, f"wrong: relative error {error:.2e}, at most {tolerance:.0e} is right"
        # One wrong element among millions hardly moves the norm.
        typical = size / max(1.0, exact.numel() ** 0.5)
        if bool((difference > ELEMENT_SLACK * tolerance * (typical + exact.abs())).any()):
            return error, f"wrong: an element is off by {float(difference.max()):.2e} where {typical:.2e} is typical"
    return worst, ""


def _norm(tensor: torch.Tensor) -> float:
    return float(tensor.double().square().sum().sqrt())


class Timer:
    """The programs of one workload on one GPU."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.device = torch.device("cuda", workload.device)
        torch.cuda.set_device(self.device)
        self.inputs = [made(data, self.device, seed) for seed, data in enumerate(workload.inputs)]
        self.inputs += self._firsts()
        self.scratch = torch.zeros(FLUSH_BYTES // 4, dtype=torch.float32, device=self.device)
        self.sink = torch.zeros((), dtype=torch.float32, device=self.device)
        self.graphs: dict[int, tuple[torch.cuda.CUDAGraph, Bound]] = {}
        self.results: list[torch.Tensor] | None = None
        self.expected: list[torch.Tensor] | None = None
        self.unknown = self._reference()

    def _firsts(self) -> list[torch.Tensor]:
        first = self.workload.first
        if first is None:
            return []
        found = evaluate(first.graph, [self.inputs[place] for place in first.inputs], {})
        return [value.to(TORCH_DTYPES[output.dtype]).contiguous() for value, output in zip(found, first.graph.outputs, strict=True)]

    def _reference(self) -> str:
        """Computes what is right where it is not given; gives the reason where that cannot be done."""
        if self.workload.expected:
            self.expected = [made(data, self.device, 0) for data in self.workload.expected]
            return ""
        graph = self.workload.graph
        if graph is None or not has_reference(graph):
            return "it is not known how to compute it"
        try:
            self.expected = [out.clone() for out in evaluate(graph, self.inputs, self.workload.symbols)]
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            return "there is no memory to compute it"
        torch.cuda.empty_cache()
        return ""

    def prepare(self, number: int, built: Built) -> Checked:
        """Loads and runs a program, and captures it in a graph."""
        free, total = torch.cuda.mem_get_info(self.device)
        if free < ROOM * total:
            _give_back()
        for _ in range(2):
            with contextlib.suppress(torch.OutOfMemoryError):
                return self._prepared(number, built)
            _give_back()
        return Checked(None, NO_MEMORY)

    def _prepared(self, number: int, built: Built) -> Checked:
        """As `prepare`. Raises: torch.OutOfMemoryError."""
        (plan,) = built.file.plans
        try:
            bound = CudaBound(plan, built.binaries, self.inputs, self.workload.symbols)
            inputs = bound.fitted(self.inputs)
            if self.results is None:
                self.results = bound.results()
            results = self.results
            graph = torch.cuda.CUDAGraph()

            def run() -> None:
                bound.run(inputs, results)

            def capture() -> None:
                with self._captured(graph):
                    run()
                graph.replay()

            errors: list[float] = []
            # A second run finds what the first one left in the workspaces; what is timed is a replay.
            for way in (run, run, capture):
                error, wrong = self._checked(results, way)
                if wrong:
                    return Checked(error, Failure(Kind.WRONG, wrong), self.unknown)
                errors += [error] if error is not None else []
                bound.spoil()
            self.graphs[number] = graph, bound
            return Checked(max(errors, default=None), None, self.unknown)
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, DriverError) as problem:
            text = (str(problem).strip().splitlines() or [Kind.FAILED.value])[0]
            return Checked(None, Failure(Kind.FATAL, f"fatal: {text}") if _poisoned() else Failure(Kind.FAILED, text))

    @contextlib.contextmanager
    def _captured(self, graph: torch.cuda.CUDAGraph) -> Generator[None]:
        """
        As `torch.cuda.graph`, but for that gives all unused memory back to the driver before, as a capture cannot: runs after it would ask
        for it again, and what captures leave there is given back where it gets scarce.
        """
        torch.cuda.synchronize()
        with torch.cuda.stream(_stream(self.device)):
            graph.capture_begin()
            try:
                yield
            except BaseException:
                # Of a capture that failed this fails as well, and says less.
                with contextlib.suppress(RuntimeError):
                    graph.capture_end()
                raise
            graph.capture_end()

    def _checked(self, results: Sequence[torch.Tensor], run: Callable[[], None]) -> tuple[float | None, str]:
        """The relative error of what is run, None where nothing is known to be right yet, and what is wrong, if anything is."""
        for result in results:
            result.fill_(float("nan") if result.is_floating_point() else 0)
        run()
        torch.cuda.synchronize()
        if self.expected is None:
            self.expected = [result.clone().to(torch.float32) for result in results]
            return None, ""
        return compared(results, self.expected, self.workload.tolerance)

    def close(self) -> None:
        """Gives back what programs and inputs take of the GPU's memory."""
        torch.cuda.synchronize()
        self.graphs.clear()
        self.inputs.clear()
        self.results = self.expected = None
        self.scratch = self.sink = torch.empty(0)
        _give_back()

    def sample(self, numbers: Sequence[int]) -> list[float]:
        """
        Seconds of a run of each, the mean of two: one finds the L2 cache full of lines that are yet to be written back, the other of lines
        that are not.
        """
        marks: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []
        for number in numbers:
            for flush in (self.scratch.zero_, lambda: torch.sum(self.scratch, dim=0, out=self.sink)):
                flush()
                before, after = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                before.record()
                self.graphs[number][0].replay()
                after.record()
                marks.append((before, after))
        torch.cuda.synchronize()
        spans = [before.elapsed_time(after) * 1e-3 for before, after in marks]
        return [(first + second) / 2 for first, second in zip(spans[::2], spans[1::2], strict=True)]


@functools.cache
def _stream(device: torch.device) -> torch.cuda.Stream:
    """What is captured on: libraries keep memory for every stream they were captured on."""
    return torch.cuda.Stream(device)


def _give_back() -> None:
    """Gives the driver memory back that is not used, that of graphs that were forgotten too."""
    gc.collect()
    torch.cuda.empty_cache()


def _poisoned() -> bool:
    """Whether a fault has made CUDA unusable in this process."""
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return True
    return False


def answer(timer: Timer | None, message: tuple[Any, ...]) -> tuple[Timer | None, object]:
    """The state after a message, and the answer to it."""
    match message:
        case ("open", Workload() as workload):
            if timer is not None:
                timer.close()
            return Timer(workload), True
        case ("prepare", int(number), Built() as built):
            assert timer is not None
            return timer, timer.prepare(number, built)
        case ("sample", numbers):
            assert timer is not None
            return timer, timer.sample(numbers)
        case ("forget", int(number)):
            assert timer is not None
            timer.graphs.pop(number, None)
            return timer, True
        case ("rest",):
            if timer is not None:
                timer.close()
            return None, torch.cuda.memory_reserved() if torch.cuda.is_initialized() else 0
        case _:
            raise AssertionError(f"unknown message {message[0]}")


def main() -> None:
    """Answers until the other end closes."""
    timer: Timer | None = None
    # An interrupt is for whoever started this, and closes the connection.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Connection(int(sys.argv[1])) as connection:
        # What is wrong is told where it is needed.
        with contextlib.suppress(RuntimeError, AssertionError):
            torch.cuda.init()
        while True:
            try:
                message: Any = connection.recv()
            except (EOFError, OSError):
                return
            try:
                timer, reply = answer(timer, message)
            except Exception as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                reply = Failed(f"{type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})")
            connection.send(reply)


if __name__ == "__main__":
    main()
