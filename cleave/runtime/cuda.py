"""
Running a plan on an NVIDIA GPU with compiled kernels, launched through the driver.

A run allocates nothing but its results, may be captured in a CUDA graph, and may be made from any thread on any stream. What a run
writes on the host and between its kernels is its `Frame`; frames wait in a pool for each stream, from which a run takes one for
itself. Runs that use a frame one after another are on one stream, so that one ends on the GPU before the next begins.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import torch

from cleave.runtime.binary import Binary
from cleave.runtime.driver import Cells, Function, Launcher, addressed, function
from cleave.runtime.launch import Bound, Launch, Place, Step
from cleave.runtime.library import Einsum
from cleave.runtime.plan import Plan
from cleave.runtime.versions import Shortcuts, capturing, raw_stream, shortcuts
from cleave.runtime.workspaces import Workspaces
from cleave.schedule.program import Buffer

SCRATCH_ALIGNMENT = 128
ALIGNMENT = 16


class Frame:
    """
    What one run at a time uses: `cells` for the addresses of inputs, results and workspaces, the steps, whose launches read them on
    one stream, and the workspaces, which a kernel finds at `addresses`. After the run it goes back to its pool.
    """

    __slots__ = ("addresses", "cells", "pool", "steps", "workspaces")

    def __init__(
        self, cells: Cells, steps: Sequence[Step], workspaces: tuple[torch.Tensor, ...], addresses: tuple[int, ...], pool: list[Frame]
    ) -> None:
        self.cells = cells
        self.steps = steps
        self.workspaces = workspaces
        self.addresses = addresses
        self.pool = pool


class CudaBound(Bound):
    """
    A plan with compiled kernels for tensors of given shapes, strides and device; see `Bound`.

    `direct` says that there are only kernels and products of matrices, so that a call may be written out (`cleave.runtime.direct`) from
    what else is here; `kernels_only` that addresses do for its inputs. `scratch` has the place among the `owned` workspaces of what the
    kernel of a step asks for itself. `launch` is torch's launcher, None where there is none; `refused` counts its errors where the
    driver, called in its place, then launched.
    """

    def __init__(
        self,
        plan: Plan,
        binaries: Mapping[str, Binary],
        inputs: Sequence[torch.Tensor],
        symbols: Mapping[str, int] | None = None,
        shapes: Sequence[Sequence[int]] | None = None,
    ) -> None:
        super().__init__(plan, None, inputs, symbols, shapes)
        self.index = inputs[0].device.index if inputs else torch.cuda.current_device()
        self.device = inputs[0].device if inputs else torch.device("cuda", self.index)
        self.direct = not any(isinstance(step, Einsum) for step in self.steps)
        self.kernels_only = all(isinstance(step, Launch) for step in self.steps)
        self.raw_stream = raw_stream()
        self.capturing = capturing()
        self.loaded = {
            number: function(binaries[step.call.kernel], self.index) for number, step in enumerate(self.steps) if isinstance(step, Launch)
        }
        sizes = {number: _scratch_bytes(step, self.loaded[number]) for number, step in enumerate(self.steps) if isinstance(step, Launch)}
        # Scratch memory follows the plan's own workspaces.
        self.scratch = {number: len(self.workspaces) + at for at, number in enumerate(number for number in sizes if sizes[number])}
        places = [*self.workspaces, *(_scratch(number, sizes[number]) for number in self.scratch)]
        self.owned = len(places)
        self.workspaced = bool(places)
        self._workspaces = Workspaces(places, self.device) if places else None
        self.pools: dict[int, list[Frame]] = {}
        self._given = len(plan.inputs) + len(plan.outputs)
        self.pack = struct.Struct(f"<{self._given}Q").pack_into
        known = shortcuts()
        # With strides given this takes two thirds of the time.
        self.empty = known.empty if isinstance(known, Shortcuts) else _empty(self.device)
        self.launch = known.launch if isinstance(known, Shortcuts) and not isinstance(known.launch, str) else None
        self.refused: Counter[str] = Counter()

    @property
    def cleared(self) -> int:
        """How many captured runs clear workspaces in their graph."""
        return self._workspaces.cleared if self._workspaces is not None else 0

    def run(self, inputs: Sequence[torch.Tensor], results: Sequence[torch.Tensor]) -> None:
        """Runs the plan on inputs that fit, into memory for the results, which must be contiguous."""
        with torch.cuda.device(self.index):
            shaped = [result.view(place.shape) for result, place in zip(results, self.outputs, strict=True)]
            frame = self.frame(self.raw_stream(self.index))
            tensors = (*inputs, *shaped, *frame.workspaces)
            self.pack(frame.cells, 0, *(tensor.data_ptr() for tensor in (*inputs, *shaped)))
            for step in frame.steps:
                step(tensors)
            frame.pool.append(frame)

    def release(self) -> None:
        """Lets go of the frames that wait, with their memory; pools and frames hold one another. Runs that follow make new ones."""
        for pool in list(self.pools.values()):
            pool.clear()

    def spoil(self) -> None:
        """
        Makes the floats that earlier runs left in their workspaces NaN, but where zero must stay: a run that reads what it did not write
        gives another result.
        """
        for frame in (frame for pool in self.pools.values() for frame in pool):
            for place, tensor in zip(self._workspaces.places if self._workspaces is not None else (), frame.workspaces, strict=True):
                if tensor.is_floating_point() and not place.zeroed:
                    tensor.fill_(float("nan"))

    def frame(self, stream: int) -> Frame:
        """A frame for a run on the current stream, whose handle is given, that no other run uses."""
        workspaces = self._workspaces
        # The default stream, 0, cannot be captured. Without workspaces a captured run is as any other: the driver copies arguments.
        if workspaces is not None and stream and self.capturing():
            return self._made(stream, workspaces.captured(), [])
        pool = self.pools.get(stream)
        if pool is None:
            pool = self.pools.setdefault(stream, [])
        try:
            return pool.pop()
        except IndexError:
            return self._made(stream, () if workspaces is None else workspaces.made(), pool)

    def _made(self, stream: int, workspaces: tuple[torch.Tensor, ...], pool: list[Frame]) -> Frame:
        own = len(self.workspaces)
        addresses = tuple(tensor.data_ptr() for tensor in workspaces)
        addresses = (*addresses[:own], *(-(-address // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT for address in addresses[own:]))
        cells = addressed(self._given + own)
        cells[self._given :] = addresses[:own]
        steps: list[Step] = []
        for number, step in enumerate(self.steps):
            if not isinstance(step, Launch):
                steps.append(step)
                continue
            scratch = addresses[self.scratch[number]] if number in self.scratch else 0
            loaded, early, streaming = self.loaded[number], step.early, step.streaming
            steps.append(Launcher(loaded, step.programs, cells, step.slots, step.scalars, self.index, stream, scratch, early, streaming))
        return Frame(cells, steps, workspaces, addresses, pool)


def _empty(device: torch.device) -> Callable[[Sequence[int], Sequence[int], torch.dtype], torch.Tensor]:
    return lambda shape, strides, dtype: torch.empty_strided(shape, strides, dtype=dtype, device=device)


def _scratch_bytes(launch: Launch, loaded: Function) -> int:
    return loaded.binary.scratch * launch.programs


def _scratch(number: int, size: int) -> Place:
    """The memory that a kernel asks for beside its arguments."""
    words = (size + SCRATCH_ALIGNMENT) // 4 + 1
    return Place(Buffer(f"scratch {number}", ("byte",), "i32", (1,)), "byte", (words,), {"byte": 1})
