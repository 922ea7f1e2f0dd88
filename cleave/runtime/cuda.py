"""
Running a plan on an NVIDIA GPU with compiled kernels, launched through the driver.

A run allocates nothing but its results, may be captured in a CUDA graph, and may be made from any thread on any stream. What a run
writes on the host and between its kernels is its `Frame`; frames wait in a pool for each stream, from which a run takes one for
itself. Runs that use a frame one after another are on one stream, so that one ends on the GPU before the next begins.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import torch

from cleave.layouts import contiguous_strides
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

RunAt: TypeAlias = Callable[[Iterable[int], Sequence[torch.Tensor]], list[torch.Tensor] | None]


class Frame:
    """
    What one run at a time uses: `cells` for the addresses of inputs, results and workspaces, the steps, whose launches read them on
    one stream, and the workspaces. After the run it goes back to its pool.
    """

    __slots__ = ("cells", "pool", "steps", "workspaces")

    def __init__(self, cells: Cells, steps: Sequence[Step], workspaces: tuple[torch.Tensor, ...], pool: list[Frame]) -> None:
        self.cells = cells
        self.steps = steps
        self.workspaces = workspaces
        self.pool = pool


class CudaBound(Bound):
    """
    A plan with compiled kernels for tensors of given shapes, strides and device; see `Bound`.

    `direct` says that there are only kernels and products of matrices, so that `run_at` may be used; `kernels_only` that it needs no
    tensors of the inputs.

    `run_at(addresses, inputs)` runs the plan on inputs at these addresses, on the current stream of the device, which must be
    current. It gives the results, or None, having run nothing, where an address is not aligned as the kernels were promised. `inputs`
    begin at the addresses, in any shape; none are needed where `kernels_only`.
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
        self._raw_stream = raw_stream()
        self._capturing = capturing()
        self._loaded = {
            number: function(binaries[step.call.kernel], self.index) for number, step in enumerate(self.steps) if isinstance(step, Launch)
        }
        sizes = {number: _scratch_bytes(step, self._loaded[number]) for number, step in enumerate(self.steps) if isinstance(step, Launch)}
        # Scratch memory follows the plan's own workspaces.
        self._scratch = {number: len(self.workspaces) + at for at, number in enumerate(number for number in sizes if sizes[number])}
        places = [*self.workspaces, *(_scratch(number, sizes[number]) for number in self._scratch)]
        self._workspaces = Workspaces(places, self.device) if places else None
        self._pools: dict[int, list[Frame]] = {}
        self._given = len(plan.inputs) + len(plan.outputs)
        self._pack = struct.Struct(f"<{self._given}Q").pack_into
        self.run_at = self._direct()

    def run(self, inputs: Sequence[torch.Tensor], results: Sequence[torch.Tensor]) -> None:
        """Runs the plan on inputs that fit, into memory for the results, which must be contiguous."""
        with torch.cuda.device(self.index):
            shaped = [result.view(place.shape) for result, place in zip(results, self.outputs, strict=True)]
            frame = self._frame(self._raw_stream(self.index))
            tensors = (*inputs, *shaped, *frame.workspaces)
            self._pack(frame.cells, 0, *(tensor.data_ptr() for tensor in (*inputs, *shaped)))
            for step in frame.steps:
                step(tensors)
            frame.pool.append(frame)

    def _direct(self) -> RunAt:
        index, kernels_only = self.index, self.kernels_only
        current, taken, pack, pointer, read = self._raw_stream, self._frame, self._pack, torch.Tensor.data_ptr, int.from_bytes
        specs = [(shape, contiguous_strides(shape), place.dtype) for place, shape in zip(self.outputs, self.shapes, strict=True)]
        known = shortcuts()
        # With strides given this takes two thirds of the time.
        empty = known.empty if isinstance(known, Shortcuts) else _empty(self.device)
        low = sum((ALIGNMENT - 1) << 64 * number for number, buffer in enumerate(self.plan.inputs) if buffer.aligned)

        def run_at(addresses: Iterable[int], inputs: Sequence[torch.Tensor]) -> list[torch.Tensor] | None:
            frame = taken(current(index))
            results = [empty(shape, strides, dtype) for shape, strides, dtype in specs]
            pack(frame.cells, 0, *addresses, *map(pointer, results))
            # All cells as one number: the low bits of every address that must be aligned, at once.
            if read(frame.cells, "little") & low:
                frame.pool.append(frame)
                return None
            tensors = () if kernels_only else (*inputs, *results, *frame.workspaces)
            for step in frame.steps:
                step(tensors)
            # After an error the frame is left: what its workspaces hold is not known.
            frame.pool.append(frame)
            return results

        return run_at

    def _frame(self, stream: int) -> Frame:
        """A frame for a run on the current stream, whose handle is given, that no other run uses."""
        workspaces = self._workspaces
        # The default stream, 0, cannot be captured. Without workspaces a captured run is as any other: the driver copies arguments.
        if workspaces is not None and stream and self._capturing():
            return self._made(stream, workspaces.captured(), [])
        pool = self._pools.get(stream)
        if pool is None:
            pool = self._pools.setdefault(stream, [])
        try:
            return pool.pop()
        except IndexError:
            return self._made(stream, () if workspaces is None else workspaces.made(), pool)

    def _made(self, stream: int, workspaces: tuple[torch.Tensor, ...], pool: list[Frame]) -> Frame:
        own = len(self.workspaces)
        cells = addressed(self._given + own)
        cells[self._given :] = [tensor.data_ptr() for tensor in workspaces[:own]]
        steps: list[Step] = []
        for number, step in enumerate(self.steps):
            if not isinstance(step, Launch):
                steps.append(step)
                continue
            at = self._scratch.get(number)
            scratch = 0 if at is None else -(-workspaces[at].data_ptr() // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT
            loaded, early = self._loaded[number], step.early
            steps.append(Launcher(loaded, step.programs, cells, step.slots, step.scalars, self.index, stream, scratch, early))
        return Frame(cells, steps, workspaces, pool)


def _empty(device: torch.device) -> Callable[[Sequence[int], Sequence[int], torch.dtype], torch.Tensor]:
    return lambda shape, strides, dtype: torch.empty_strided(shape, strides, dtype=dtype, device=device)


def _scratch_bytes(launch: Launch, loaded: Function) -> int:
    return loaded.binary.scratch * launch.programs


def _scratch(number: int, size: int) -> Place:
    """The memory that a kernel asks for beside its arguments."""
    words = (size + SCRATCH_ALIGNMENT) // 4 + 1
    return Place(Buffer(f"scratch {number}", ("byte",), "i32", (1,)), "byte", (words,), {"byte": 1})
