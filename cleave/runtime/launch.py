"""
Running a plan on torch tensors: sizes from shapes, strides from layouts, workspaces, launches and library calls.

`Bound` fixes shapes, strides, dtypes and device once: outputs, workspaces and every integer argument are then known, and a
call only passes addresses. The kernels are those of a generated file, compiled or under Triton's interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from cleave.errors import CleaveError
from cleave.layouts import axis_strides, contiguous_strides, layout_axes, memory_shape
from cleave.runtime.generated import load_module
from cleave.runtime.plan import Allocate, Call, Plan, bind_sizes, programs, scalar_value
from cleave.schedule.program import Buffer, LibraryCall

TORCH_DTYPES: Mapping[str, torch.dtype] = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
    "i1": torch.bool,
    "i32": torch.int32,
    "i64": torch.int64,
    "index": torch.int64,
}


def fitting(tensor: torch.Tensor, buffer: Buffer, layout: str, sizes: Mapping[str, int]) -> torch.Tensor:
    """
    The tensor, or a contiguous copy where its strides or address are not what the buffer promises.

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
    actual = axis_strides(layout, sizes, tensor.stride())
    for axis, stride in zip(buffer.axes, buffer.strides, strict=True):
        if sizes[axis] > 1 and (actual[axis] % buffer.divisor if stride is None else actual[axis] != stride):
            return False
    return True


@dataclass(slots=True)
class _Place:
    """A buffer at run time: which layout it has and its strides by axis."""

    buffer: Buffer
    layout: str
    shape: tuple[int, ...]
    strides: dict[str, int]


@dataclass(frozen=True, slots=True)
class _Launch:
    kernel: Any
    grid: tuple[int]
    buffers: tuple[str, ...]
    scalars: tuple[int, ...]
    options: Mapping[str, int]


class Bound:
    """
    A plan for tensors of given shapes, strides and device. `copies` counts the inputs that calls had to copy.

    Raises on creation: CleaveError for inputs that do not fit the plan, and for sizes beyond 32 bits.
    """

    def __init__(
        self, plan: Plan, kernels: Mapping[str, Any], inputs: Sequence[torch.Tensor], symbols: Mapping[str, int] | None = None
    ) -> None:
        self.plan = plan
        self.copies = 0
        self.sizes = bind_sizes(plan, [tuple(tensor.shape) for tensor in inputs], symbols)
        for axis, size in self.sizes.items():
            if size >= 2**31:
                raise CleaveError(None, f"axis '{axis}' has {size} elements", "fewer than 2^31 are supported")
        self.device = inputs[0].device if inputs else torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.places: dict[str, _Place] = {}
        count = len(plan.inputs)
        for buffer, layout, tensor in zip(plan.inputs, plan.layouts, inputs, strict=False):
            fit = fitting(tensor, buffer, layout, self.sizes)
            self.places[buffer.name] = _Place(buffer, layout, tuple(fit.shape), axis_strides(layout, self.sizes, fit.stride()))
        for buffer, layout in zip(plan.outputs, plan.layouts[count:], strict=True):
            self._own(buffer, layout)
        self.steps: list[_Launch | Callable[[Mapping[str, torch.Tensor]], None]] = []
        for step in plan.steps:
            match step:
                case Allocate(buffer=buffer):
                    self._own(buffer, " ".join(buffer.axes))
                case Call():
                    self._launch(step, kernels)
                case LibraryCall():
                    self.steps.append(self._library(step))

    def _own(self, buffer: Buffer, layout: str) -> None:
        shape = memory_shape(layout, self.sizes)
        self.places[buffer.name] = _Place(buffer, layout, shape, axis_strides(layout, self.sizes, contiguous_strides(shape)))

    def _launch(self, step: Call, kernels: Mapping[str, Any]) -> None:
        total = programs(step, self.sizes)
        if not total:
            return
        if total >= 2**31:
            raise CleaveError(None, f"kernel {step.kernel} has {total} programs", "fewer than 2^31 are supported")
        strides = [self.places[name].strides for name in step.buffers]
        scalars = tuple(scalar_value(scalar, step, self.sizes, strides) for scalar in step.scalars)
        options = {"num_warps": step.num_warps, "num_stages": step.num_stages}
        self.steps.append(_Launch(kernels[step.kernel], (total,), step.buffers, scalars, options))

    def _library(self, step: LibraryCall) -> Callable[[Mapping[str, torch.Tensor]], None]:
        letters: dict[str, str] = {}
        terms: list[str] = []
        for name in (*step.args, step.out):
            axes = self._axes(name)
            for axis in axes:
                letters.setdefault(axis, chr(ord("a") + len(letters)))
            terms.append("".join(letters[axis] for axis in axes))
        equation = f"{','.join(terms[:-1])}->{terms[-1]}"

        def run(tensors: Mapping[str, torch.Tensor]) -> None:
            out = self._by_axes(step.out, tensors[step.out])
            operands = [self._by_axes(name, tensors[name]).to(out.dtype) for name in step.args]
            out.copy_(torch.einsum(equation, *operands))

        return run

    def _axes(self, name: str) -> list[str]:
        return list(layout_axes(self.places[name].layout))

    def _by_axes(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.view([self.sizes[axis] for axis in self._axes(name)])

    def __call__(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Runs the plan on tensors like those it was bound to; the results are new tensors."""
        tensors: dict[str, torch.Tensor] = {}
        for buffer, layout, tensor in zip(self.plan.inputs, self.plan.layouts, inputs, strict=False):
            fit = tensors[buffer.name] = fitting(tensor, buffer, layout, self.sizes)
            self.copies += fit is not tensor
        for name, place in self.places.items():
            if name not in tensors:
                tensors[name] = torch.empty(place.shape, dtype=TORCH_DTYPES[place.buffer.dtype], device=self.device)
        for step in self.steps:
            if isinstance(step, _Launch):
                addresses = [_bytes(tensors[name]) for name in step.buffers]
                step.kernel[step.grid](*addresses, *step.scalars, **step.options)
            else:
                step(tensors)
        return tuple(tensors[buffer.name] for buffer in self.plan.outputs)


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Booleans as the bytes they lie in memory as."""
    return tensor.view(torch.int8) if tensor.dtype == torch.bool else tensor


def bind(
    plan: Plan, source: str, kernels: Mapping[str, str], inputs: Sequence[torch.Tensor], symbols: Mapping[str, int] | None = None
) -> Bound:
    """A plan with the kernels of a generated file; `kernels` gives the file's name of each kernel of the plan."""
    module = load_module(source)
    return Bound(plan, {name: getattr(module, own) for name, own in kernels.items()}, inputs, symbols)
