"""
Timing programs on a GPU in another process, so that one which hangs or faults costs that process and nothing else.

`Workload` says what the programs run on. `GpuClock` starts the process (`cleave.runtime.timer`), watches it, and starts it again
when it had to be ended.
"""

from __future__ import annotations

import math
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from cleave.graph import Graph
from cleave.layouts import contiguous_strides
from cleave.reference.dtypes import TOLERANCES
from cleave.runtime.build import Built
from cleave.runtime.connection import Gone, Peer, started
from cleave.runtime.failure import Failure, Kind

SENT_WHOLE = 16 << 20
MOST_HELD, MOST_RESTS = 256 << 20, 100
"""How many bytes of a GPU's memory a process may keep without a workload, and how many workloads one has."""
START_SECONDS = 60.0
PREPARE_SECONDS = 20.0
SAMPLE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Data:
    """
    An input: its memory, and what it holds: the bytes of a file, or those of `content`, or where there are neither normal numbers of
    this mean and deviation.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    content: bytes | None = None
    mean: float = 0.0
    deviation: float = 1.0
    file: str = ""


@dataclass(frozen=True, slots=True)
class First:
    """What is prepared: a graph whose results are the last inputs, and which of the inputs before them it has."""

    graph: Graph
    inputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Workload:
    """
    What programs are timed on: inputs, values of symbols, and what says what is right: the results `expected`, else the graph, where
    there is one.

    `tolerance` is the relative error allowed against it; `device` the number of the GPU. The results of `first` follow the inputs.
    """

    inputs: tuple[Data, ...]
    symbols: Mapping[str, int]
    graph: Graph | None
    tolerance: float
    device: int
    first: First | None = None
    expected: tuple[Data, ...] = ()


def stored(tensor: torch.Tensor, file: Path) -> Data:
    """An input, or a result that is right, whose elements are kept in a file, all of them. Raises: OSError."""
    _bytes(tensor).tofile(file)
    return Data(tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype, file=str(file))


def described(tensor: torch.Tensor, shape: Sequence[int] | None = None) -> Data:
    """
    An input as a workload has it; where another `shape` is given, a contiguous one of that shape which is like it, of floats alone.

    Floats that are many, or of another shape, are replaced by normal numbers of the same mean and deviation where these are numbers: times
    depend on them little, and copying them takes long. Everything else, integers above all, is kept; what has infinities, as a mask, is
    repeated or cut where its shape changes.
    """
    resized = shape is not None
    wanted = tuple(shape) if shape is not None else tuple(tensor.shape)
    strides = contiguous_strides(wanted) if resized else tuple(tensor.stride())
    if tensor.is_floating_point() and (resized or tensor.numel() * tensor.element_size() > SENT_WHOLE):
        if tensor.numel() == 0:
            return Data(wanted, strides, tensor.dtype)
        spread, middle = torch.std_mean(tensor.detach().float(), correction=0)
        mean, deviation = float(middle), float(spread)
        if math.isfinite(mean) and math.isfinite(deviation):
            return Data(wanted, strides, tensor.dtype, None, mean, deviation)
    return Data(wanted, strides, tensor.dtype, _bytes(_repeated(tensor, wanted)).tobytes())


def _repeated(tensor: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """A tensor of another shape, which has elements only if this one has: the same, over and over in each dimension, or cut."""
    for dim, size in enumerate(shape):
        if tensor.shape[dim] != size:
            tensor = tensor.index_select(dim, torch.arange(size, device=tensor.device) % tensor.shape[dim])
    return tensor


def _bytes(tensor: torch.Tensor) -> NDArray[np.uint8]:
    """The elements in the order of the dimensions."""
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8).cpu().numpy()


def tolerance(graph: Graph) -> float:
    """The relative error that kernels of a graph may have."""
    kinds = {op.dtype for op in graph.ops} | {entry.dtype for entry in graph.outputs}
    return max(TOLERANCES[kind] for kind in (*kinds & set(TOLERANCES), "f64"))


@dataclass(frozen=True, slots=True)
class Checked:
    """
    What running a program once told: its relative error, or why it cannot be used. `unknown` says why what is right is not known, where
    results were compared with those of the first program alone.
    """

    error: float | None
    failure: Failure | None = None
    unknown: str = ""

    @property
    def wrong(self) -> bool:
        """Whether it ran, and gave a wrong result."""
        return self.failure is not None and self.failure.kind is Kind.WRONG

    @property
    def unmade(self) -> bool:
        """Whether there are no inputs to run it on."""
        return self.failure is not None and self.failure.kind is Kind.UNMADE


class Hung(RuntimeError):
    """A program did not end, or took the process with it; `number` is which."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__(why)
        self.number = number


class UnmadeError(RuntimeError):
    """There are no inputs any more to run programs on."""


class Clock(Protocol):
    """Runs programs, each known by a number, and says how long they take."""

    def prepare(self, number: int, built: Built) -> Checked:
        """Loads a program, runs it and compares its results."""
        ...

    def sample(self, numbers: Sequence[int]) -> list[float]:
        """
        The seconds that a run of each of the programs takes, in the mean of a few, run one after another.

        Raises: Hung, UnmadeError.
        """
        ...

    def forget(self, number: int) -> None:
        """Drops a program that will not be sampled again."""
        ...

    def close(self) -> None:
        """Ends timing, and what it takes of the GPU's memory; it may begin anew."""
        ...


class GpuClock:
    """
    The clock of a GPU that this machine has.

    The process starts at once, so that its start overlaps with other work; the `workload` must be set before the first program.
    """

    def __init__(self, workload: Workload | None = None) -> None:
        self._workload = workload
        self._unopened = ""
        self._open = False
        self._kept: dict[int, Built] = {}
        self._rests = 0
        self._peer: Peer | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._warm: tuple[subprocess.Popen[bytes], Any] | None = _started()

    @property
    def workload(self) -> Workload | None:
        """What programs run on. Programs of an earlier workload are forgotten with it; the process stays."""
        return self._workload

    @workload.setter
    def workload(self, workload: Workload) -> None:
        self._kept.clear()
        self._workload, self._unopened, self._open = workload, "", False

    def prepare(self, number: int, built: Built) -> Checked:
        """As `Clock.prepare`; a program that hangs or faults is given that as its failure."""
        try:
            reply: Checked = self._ready().ask(("prepare", number, built), PREPARE_SECONDS)
        except Gone as error:
            self._lost()
            return Checked(None, Failure(Kind.UNMADE if self._unopened else Kind.FAILED, f"running it: {error}"))
        if reply.failure is not None:
            if reply.failure.kind is Kind.FATAL:
                # A fault poisons the CUDA context: nothing else would run in that process.
                self._lost()
            return reply
        self._kept[number] = built
        return reply

    def sample(self, numbers: Sequence[int]) -> list[float]:
        """As `Clock.sample`."""
        try:
            return self._sampled(numbers)
        except Gone:
            self._lost()
        out: list[float] = []
        for number in numbers:
            try:
                out.extend(self._sampled([number]))
            except Gone as error:
                self._lost()
                self._kept.pop(number, None)
                raise Hung(number, f"running it again: {error}") from error
        return out

    def _sampled(self, numbers: Sequence[int]) -> list[float]:
        """What the process answers. Raises: Gone, Hung, UnmadeError."""
        try:
            peer = self._ready()
        except Gone as error:
            if self._unopened:
                raise UnmadeError(self._unopened) from error
            raise
        for number in numbers:
            if number not in self._kept:
                raise Hung(number, "running it again: it could not be prepared")
        return peer.ask(("sample", tuple(numbers)), SAMPLE_SECONDS)

    def forget(self, number: int) -> None:
        """As `Clock.forget`."""
        if self._kept.pop(number, None) is not None and self._peer is not None:
            try:
                self._peer.ask(("forget", number), PREPARE_SECONDS)
            except Gone:
                self._lost()

    def rest(self) -> bool:
        """
        Forgets the workload, what it takes of the GPU's memory is given back; False where there is no process that could take another, as
        when it has had many or keeps much.
        """
        self._kept.clear()
        self._workload, self._unopened, self._open = None, "", False
        self._rests += 1
        if self._peer is not None:
            try:
                held: int = self._peer.ask(("rest",), PREPARE_SECONDS)
            except Gone:
                self._lost()
            else:
                if held > MOST_HELD or self._rests >= MOST_RESTS:
                    self.close()
        return self._peer is not None or (self._warm is not None and self._warm[0].poll() is None)

    def abandon(self) -> None:
        """Leaves the process to another one that has it too, as after a fork."""
        if self._warm is not None:
            self._warm[1].close()
        if self._peer is not None:
            self._peer.close()
        self._warm = self._peer = self._process = None

    def close(self) -> None:
        """Ends the process; another is started where a program is to be run."""
        self._unopened, self._open = "", False
        if self._warm is not None:
            process, channel = self._warm
            channel.close()
            process.kill()
            process.wait()
            self._warm = None
        self._lost()

    def _lost(self) -> None:
        if self._peer is not None:
            self._peer.close()
            self._peer = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _ready(self) -> Peer:
        """The process, with everything prepared that was. Raises: Gone where it does not start, at once when it did not before."""
        if self._peer is not None and not self._open:
            try:
                self._peer.ask(("open", self._workload), START_SECONDS)
                self._open = True
            except Gone:
                # What an earlier workload left may be why.
                self._lost()
        if self._peer is not None:
            return self._peer
        if self._unopened:
            raise Gone(self._unopened)
        if self._warm is not None and self._warm[0].poll() is not None:
            self._warm[1].close()
            self._warm = None
        self._process, channel = self._warm or _started()
        self._warm = None
        connection: Connection[Any, Any] = Connection(channel.detach())
        peer = Peer(connection, self._process.pid)
        try:
            peer.ask(("open", self._workload), START_SECONDS)
        except Gone as error:
            self._unopened = f"the inputs could not be made: {error}"
            raise Gone(self._unopened) from error
        self._peer, self._open = peer, True
        for number, built in list(self._kept.items()):
            try:
                failed: Failure | None = peer.ask(("prepare", number, built), PREPARE_SECONDS).failure
            except Gone as error:
                failed = Failure(Kind.FATAL, str(error))
            if failed is not None:
                del self._kept[number]
            if failed is not None and failed.kind is Kind.FATAL:
                self._lost()
                return self._ready()
        return peer


def _started() -> tuple[subprocess.Popen[bytes], Any]:
    environment = {"CUDA_MODULE_LOADING": "LAZY"} if "CUDA_MODULE_LOADING" not in os.environ else {}
    return started("cleave.runtime.timer", environment, without=("TRITON_INTERPRET",))
