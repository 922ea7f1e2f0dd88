"""
Running a plan on an NVIDIA GPU with compiled kernels, launched through the driver.

A run allocates nothing but its results, may be captured in a CUDA graph, and may be made from any thread on any stream.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import torch

from cleave.layouts import contiguous_strides
from cleave.runtime.binary import Binary
from cleave.runtime.driver import Launcher, function
from cleave.runtime.launch import Bound, Launch, Place, Step
from cleave.runtime.library import Einsum, Product
from cleave.runtime.plan import Plan
from cleave.runtime.versions import raw_stream
from cleave.runtime.workspaces import Workspaces
from cleave.schedule.program import Buffer

SCRATCH_ALIGNMENT = 128


class CudaKernels:
    """Compiled kernels by name, on one device. `launchers` are those made, with the buffers whose addresses they take."""

    def __init__(self, binaries: Mapping[str, Binary], device: int) -> None:
        self.binaries = binaries
        self.device = device
        self.raw_stream = raw_stream()
        self.launchers: list[tuple[Launcher, tuple[int, ...]]] = []
        self.scratch: list[int] = []

    def step(self, launch: Launch) -> Step:
        """A launch through the driver, on the current stream."""
        binary = self.binaries[launch.call.kernel]
        loaded = function(binary, self.device)
        launcher = Launcher(loaded, launch.programs, len(launch.slots), launch.scalars, self.device, launch.call.early)
        place = len(self.launchers)
        self.launchers.append((launcher, launch.slots))
        self.scratch.append(binary.scratch * launch.programs)

        def run(tensors: Sequence[torch.Tensor]) -> None:
            self.launch(place, [tensor.data_ptr() for tensor in tensors], self.raw_stream(self.device))

        return run

    def launch(self, place: int, addresses: Sequence[int], stream: int) -> None:
        """Launches the kernel made at a place with the addresses of all buffers."""
        launcher, slots = self.launchers[place]
        values = launcher.values
        for argument, slot in enumerate(slots):
            values[argument] = addresses[slot]
        launcher.launch(stream)


class CudaBound(Bound):
    """
    A plan with compiled kernels for tensors of given shapes, strides and device; see `Bound`.

    `direct` says that there are only kernels and products of matrices, so that `run_at` may be used; `kernels_only` that it needs no
    tensors of the inputs.
    """

    def __init__(
        self,
        plan: Plan,
        binaries: Mapping[str, Binary],
        inputs: Sequence[torch.Tensor],
        symbols: Mapping[str, int] | None = None,
        shapes: Sequence[Sequence[int]] | None = None,
    ) -> None:
        self.index = inputs[0].device.index if inputs else torch.cuda.current_device()
        self._raw_stream = raw_stream()
        self._kernels = CudaKernels(binaries, self.index)
        super().__init__(plan, self._kernels, inputs, symbols, shapes)
        self.device = torch.device("cuda", self.index)
        self._sequence = _sequence(self.steps, self._kernels.launchers)
        self.direct = self._sequence is not None
        self.kernels_only = len(self.steps) == len(self._kernels.launchers)
        scratch = [_scratch(number, size) for number, size in enumerate(self._kernels.scratch) if size]
        self._scratch = [number for number, size in enumerate(self._kernels.scratch) if size]
        places = [*self.workspaces, *scratch]
        self._workspaces = Workspaces(places, self.device) if places else None
        self._specs = [(shape, contiguous_strides(shape), place.dtype) for place, shape in zip(self.outputs, self.shapes, strict=True)]
        self._lock = threading.Lock()

    def run(self, inputs: Sequence[torch.Tensor], results: Sequence[torch.Tensor]) -> None:
        """Runs the plan on inputs that fit, into memory for the results, which must be contiguous."""
        with torch.cuda.device(self.index), self._lock:
            shaped = [result.view(place.shape) for result, place in zip(results, self.outputs, strict=True)]
            workspaces = self._workspaces.of(self._raw_stream(self.index)) if self._workspaces is not None else ()
            self._point_scratch(workspaces)
            tensors = (*inputs, *shaped, *workspaces)
            for step in self.steps:
                step(tensors)

    def run_at(self, addresses: list[int], inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """
        Runs the plan on the inputs at these addresses, which must fit, on the current stream of the device, which must be current.

        The list is extended. `inputs` begin at the addresses, in any shape; none are needed where `kernels_only`. Only where `direct`.
        """
        # With strides given this takes two thirds of the time.
        results = [torch.empty_strided(shape, strides, dtype=dtype, device=self.device) for shape, strides, dtype in self._specs]
        for result in results:
            addresses.append(result.data_ptr())
        stream = self._raw_stream(self.index)
        workspaces: Sequence[torch.Tensor] = ()
        # The arguments of a launcher are shared, and kernels of two runs must not alternate on one workspace.
        with self._lock:
            if self._workspaces is not None:
                workspaces = self._workspaces.of(stream)
                self._point_scratch(workspaces)
                addresses.extend(tensor.data_ptr() for tensor in workspaces)
            for step in self._sequence or ():
                if isinstance(step, Product):
                    step((*inputs, *results, *workspaces))
                    continue
                launcher, slots = step
                values = launcher.values
                for argument, slot in enumerate(slots):
                    values[argument] = addresses[slot]
                launcher.launch(stream)
        return results

    def _point_scratch(self, workspaces: Sequence[torch.Tensor]) -> None:
        for number, tensor in zip(self._scratch, workspaces[len(self.workspaces) :], strict=False):
            launcher, _ = self._kernels.launchers[number]
            address = -(-tensor.data_ptr() // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT
            launcher.values[launcher.scratch_place] = address


def _sequence(
    steps: Sequence[Step], launchers: Sequence[tuple[Launcher, tuple[int, ...]]]
) -> list[tuple[Launcher, tuple[int, ...]] | Product] | None:
    """The steps with the launchers in place of those that launch; None where a library call is no product of matrices."""
    left = iter(launchers)
    out: list[tuple[Launcher, tuple[int, ...]] | Product] = []
    for step in steps:
        if isinstance(step, Einsum):
            return None
        out.append(step if isinstance(step, Product) else next(left))
    return out


def _scratch(number: int, size: int) -> Place:
    """The memory that a kernel asks for beside its arguments."""
    words = (size + SCRATCH_ALIGNMENT) // 4 + 1
    return Place(Buffer(f"scratch {number}", ("byte",), "i32", (1,)), "byte", (words,), {"byte": 1})
