"""
Running a plan on torch tensors: sizes from shapes, strides from layouts, workspaces, launches and library calls.

`Bound` fixes shapes, strides, dtypes and device once: outputs, workspaces and every integer argument are then known, and a
call only passes addresses. `Kernels` makes a launch of a call: here with the kernels of a generated file through Triton, as its
interpreter and AMD GPUs need; `cleave.runtime.cuda` has the way for machine code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import torch

from cleave.errors import CleaveError
from cleave.layouts import axis_strides, contiguous_strides, memory_shape
from cleave.runtime.generated import load_module
from cleave.runtime.library import Einsum, Product, library
from cleave.runtime.plan import Allocate, Call, Plan, bind_sizes, programs, scalar_value, tiles
from cleave.schedule.program import Buffer, LibraryCall

TORCH_DTYPES: Mapping[str, torch.dtype] = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
    "i1": torch.bool,
    "i32": torch.int32,
    "i64": torch.int64,
    "index": torch.int32,
}

Step: TypeAlias = Callable[[Sequence[torch.Tensor]], None]
"""A launch or library call, on the tensors of all buffers: inputs, outputs, workspaces."""


@dataclass(frozen=True, slots=True)
class Launch:
    """
    A launch with its sizes known: how many programs, the place of each buffer among those of the plan, and the scalars. It may be `early`
    where a launch of the same run comes right before: what else is on the stream may still be making the inputs. The memory of the buffer
    at the place `streaming`, so many bytes, is the first that the second-level cache evicts; None where there is no such buffer.
    """

    call: Call
    programs: int
    slots: tuple[int, ...]
    scalars: tuple[int, ...]
    early: bool = False
    streaming: tuple[int, int] | None = None


class Kernels(Protocol):
    """A way to run kernels."""

    def step(self, launch: Launch) -> Step:
        """What runs a launch."""
        ...


class TritonKernels:
    """The kernels of a generated file, called through Triton; `names` gives the file's name of each kernel of the plan."""

    def __init__(self, source: str, names: Mapping[str, str]) -> None:
        module = load_module(source)
        self.functions: Mapping[str, Any] = {name: getattr(module, own) for name, own in names.items()}

    def step(self, launch: Launch) -> Step:
        """A call through Triton."""
        function = self.functions[launch.call.kernel][(launch.programs,)]
        options = {"num_warps": launch.call.num_warps, "num_stages": launch.call.num_stages}

        def run(tensors: Sequence[torch.Tensor]) -> None:
            function(*(_bytes(tensors[slot]) for slot in launch.slots), *launch.scalars, **options)

        return run


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Booleans as the bytes they lie in memory as."""
    return tensor.view(torch.int8) if tensor.dtype == torch.bool else tensor


def fitting(tensor: torch.Tensor, buffer: Buffer, layout: str, sizes: Mapping[str, int]) -> torch.Tensor:
    """
    The tensor, or a contiguous copy where its strides or address are not what the buffer promises. Without elements any strides do.

    Raises: CleaveError for another dtype, or where a contiguous tensor does not do either.
    """
    if tensor.dtype != TORCH_DTYPES[buffer.dtype]:
        raise CleaveError(None, f"input '{buffer.name}' is {tensor.dtype}", f"the program takes {TORCH_DTYPES[buffer.dtype]}")
    if _fits(tensor, buffer, layout, sizes):
        return tensor
    copy = tensor.clone(memory_format=torch.contiguous_format)
    if not _fits(copy, buffer, layout, sizes):
        raise CleaveError(None, f"input '{buffer.name}' cannot have the strides {buffer.strides} that the kernel was made for")
    return copy


def _fits(tensor: torch.Tensor, buffer: Buffer, layout: str, sizes: Mapping[str, int]) -> bool:
    if buffer.aligned and tensor.data_ptr() % 16:
        return False
    if not tensor.numel():
        return True
    actual = axis_strides(layout, sizes, tensor.stride())
    for axis, stride in zip(buffer.axes, buffer.strides, strict=True):
        if sizes[axis] > 1 and (actual[axis] % buffer.divisor if stride is None else actual[axis] != stride):
            return False
    return True


@dataclass(frozen=True, slots=True)
class Place:
    """A buffer at run time: which layout it has, its shape, and its strides by axis. `zeroed` as in `Allocate`."""

    buffer: Buffer
    layout: str
    shape: tuple[int, ...]
    strides: Mapping[str, int]
    zeroed: bool = False

    @property
    def dtype(self) -> torch.dtype:
        """The type of the elements."""
        return TORCH_DTYPES[self.buffer.dtype]


class Bound:
    """
    A plan for tensors of given shapes, strides and device. `copies` counts the inputs that calls had to copy.

    `places` are all buffers: inputs, outputs, workspaces. `shapes` are those of the results, where they should have other
    dimensions than their layouts. `kernels` are None where a subclass runs the launches.
    Raises on creation: CleaveError for inputs that do not fit the plan, and for sizes beyond 32 bits.
    """

    def __init__(
        self,
        plan: Plan,
        kernels: Kernels | None,
        inputs: Sequence[torch.Tensor],
        symbols: Mapping[str, int] | None = None,
        shapes: Sequence[Sequence[int]] | None = None,
    ) -> None:
        self.plan = plan
        self.copies = 0
        self.sizes = bind_sizes(plan, [tuple(tensor.shape) for tensor in inputs], symbols)
        for axis, size in self.sizes.items():
            if size >= 2**31:
                raise CleaveError(None, f"axis '{axis}' has {size} elements", "fewer than 2^31 are supported")
        self.device = inputs[0].device if inputs else torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.places: list[Place] = []
        self._slots: dict[str, int] = {}
        count = len(plan.inputs)
        self.fits: list[bool] = []
        for buffer, layout, tensor in zip(plan.inputs, plan.layouts, inputs, strict=False):
            fit = fitting(tensor, buffer, layout, self.sizes)
            self.fits.append(fit is tensor)
            self._place(buffer, layout, tuple(fit.shape), fit.stride())
        for buffer, layout in zip(plan.outputs, plan.layouts[count:], strict=True):
            self._own(buffer, layout)
        own = [place.shape for place in self.outputs]
        self.shapes = [tuple(shape) for shape in shapes] if shapes is not None else own
        self.steps: list[Launch | Product | Einsum] = []
        self._build()
        self._runs: list[Step] = []
        if kernels is not None:
            self._runs = [kernels.step(step) if isinstance(step, Launch) else step for step in self.steps]

    @property
    def outputs(self) -> list[Place]:
        """The buffers of the results."""
        count = len(self.plan.inputs)
        return self.places[count : count + len(self.plan.outputs)]

    @property
    def workspaces(self) -> list[Place]:
        """The buffers between kernels."""
        return self.places[len(self.plan.inputs) + len(self.plan.outputs) :]

    def _place(self, buffer: Buffer, layout: str, shape: tuple[int, ...], strides: Sequence[int], zeroed: bool = False) -> None:
        self._slots[buffer.name] = len(self.places)
        self.places.append(Place(buffer, layout, shape, axis_strides(layout, self.sizes, strides), zeroed))

    def _own(self, buffer: Buffer, layout: str, zeroed: bool = False) -> None:
        shape = memory_shape(layout, self.sizes)
        self._place(buffer, layout, shape, contiguous_strides(shape), zeroed)

    def _build(self) -> None:
        for step in self.plan.steps:
            match step:
                case Allocate(buffer=buffer, zeroed=zeroed):
                    self._own(buffer, " ".join(buffer.axes), zeroed)
                case Call():
                    total = tiles(step, self.sizes)
                    # A program of a persistent kernel adds their number to that of a tile.
                    if total + step.persistent >= 2**31:
                        raise CleaveError(None, f"kernel {step.kernel} has {total} programs", "fewer than 2^31 are supported")
                    if total:
                        self.steps.append(self._launch(step, programs(step, self.sizes)))
                case LibraryCall():
                    self.steps.append(library(step, self._slots, self.places, self.sizes))

    def _launch(self, step: Call, total: int) -> Launch:
        slots = tuple(self._slots[name] for name in step.buffers)
        strides = [self.places[slot].strides for slot in slots]
        scalars = tuple(scalar_value(scalar, step, self.sizes, strides) for scalar in step.scalars)
        early = step.early and bool(self.steps) and isinstance(self.steps[-1], Launch)
        return Launch(step, total, slots, scalars, early, self._streaming(step.streaming) if step.streaming else None)

    def _streaming(self, name: str) -> tuple[int, int] | None:
        """The place of a buffer, and the bytes from its first element to its last; None where it has no elements."""
        slot = self._slots[name]
        place = self.places[slot]
        strides = [place.strides[axis] for axis in place.buffer.axes]
        sizes = [self.sizes[axis] for axis in place.buffer.axes]
        if 0 in sizes:
            return None
        last = sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
        return slot, (last + 1) * place.dtype.itemsize

    def fitted(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The inputs, copied where they are not what the kernels were made for. Raises: CleaveError as `fitting`."""
        held: list[torch.Tensor] = []
        for place, tensor in zip(self.places, inputs, strict=False):
            fit = fitting(tensor, place.buffer, place.layout, self.sizes)
            self.copies += fit is not tensor
            held.append(fit)
        return held

    def results(self) -> list[torch.Tensor]:
        """Memory for the results."""
        return [torch.empty(shape, dtype=place.dtype, device=self.device) for place, shape in zip(self.outputs, self.shapes, strict=True)]

    def __call__(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Runs the plan on tensors like those it was bound to; the results are new tensors."""
        results = self.results()
        self.run(self.fitted(inputs), results)
        return tuple(results)

    def run(self, inputs: Sequence[torch.Tensor], results: Sequence[torch.Tensor]) -> None:
        """Runs the plan on inputs that fit, into memory for the results, which must be contiguous."""
        workspaces = [
            (torch.zeros if place.zeroed else torch.empty)(place.shape, dtype=place.dtype, device=self.device) for place in self.workspaces
        ]
        shaped = [result.view(place.shape) for result, place in zip(results, self.outputs, strict=True)]
        tensors = (*inputs, *shaped, *workspaces)
        for step in self._runs:
            step(tensors)


def bind(
    plan: Plan, source: str, kernels: Mapping[str, str], inputs: Sequence[torch.Tensor], symbols: Mapping[str, int] | None = None
) -> Bound:
    """A plan with the kernels of a generated file; `kernels` gives the file's name of each kernel of the plan."""
    return Bound(plan, TritonKernels(source, kernels), inputs, symbols)
