"""
The part of a call that runs a bound program, written out as Python for its kernels and sizes.

A launch takes a few microseconds, which is not much more than what a loop over arguments and calls between functions take. In the text
there are none: every address has a name, and what is known is a constant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from cleave.layouts import contiguous_strides
from cleave.runtime.cuda import ALIGNMENT, CudaBound, Frame
from cleave.runtime.driver import Launcher
from cleave.runtime.launch import Launch
from cleave.runtime.library import Matrix, Product

WARP = 32


def written(bound: CudaBound, tensors: Sequence[tuple[str, torch.Tensor]], addresses: Sequence[str]) -> tuple[list[str], Mapping[str, Any]]:
    """
    Lines that run a direct program on its device, which must be current, and the values of the names in them.

    `tensors` are names of what the inputs begin in, and tensors of the same shapes, strides and need of gradients. `addresses` are the
    expressions of where the inputs begin. The results are `r0`, `r1` and so on. Where an address is not aligned as the kernels were
    promised, the lines return NotImplemented, having run nothing. In the lines the name `stream` is the current stream's handle.
    """
    names: dict[str, Any] = {"current_stream": bound.raw_stream, "index": bound.index, "empty": bound.empty}
    lines = [f"p{number} = {address}" for number, address in enumerate(addresses)]
    aligned = [f"p{number}" for number, buffer in enumerate(bound.plan.inputs) if buffer.aligned]
    if aligned:
        lines += [f"if ({' | '.join(aligned)}) & {ALIGNMENT - 1}:", "    return NotImplemented"]
    static = {number for number, step in enumerate(bound.steps) if isinstance(step, Launch) and _static(bound, number, step)}
    by_cells = [number for number, step in enumerate(bound.steps) if isinstance(step, Launch) and number not in static]
    framed = bool(by_cells) or bound.workspaced
    lines.append("stream = current_stream(index)")
    if framed:
        names |= {"pools": bound.pools, "taken": bound.frame, "capturing": bound.capturing}
        found = ["try:", "    frame = pools[stream].pop()", "except LookupError:", "    frame = taken(stream)"]
        if bound.workspaced:
            # A captured run has workspaces of its own. The default stream, 0, cannot be captured.
            found = ["if stream and capturing():", "    frame = taken(stream)", "else:", *(f"    {line}" for line in found)]
        lines += found
    for number, (place, shape) in enumerate(zip(bound.outputs, bound.shapes, strict=True)):
        names[f"d{number}"] = place.dtype
        lines += [f"r{number} = empty({tuple(shape)}, {contiguous_strides(shape)}, d{number})", f"q{number} = r{number}.data_ptr()"]
    given = [*(f"p{number}" for number in range(len(addresses))), *(f"q{number}" for number in range(len(bound.outputs)))]
    passed = ", ".join(given)
    if by_cells:
        names["pack"] = bound.pack
        lines += [f"pack(frame.cells, 0, {passed})", f"{', '.join(f's{number}' for number in range(len(bound.steps)))}, = frame.steps"]
    own = [f"w{number}" for number in range(bound.owned)] if static else []
    if own:
        lines.append(f"{', '.join(own)}, = frame.addresses")
    if static:
        names |= {"launch": bound.launch, "again": _again(bound)}
    for number, step in enumerate(bound.steps):
        if number in static:
            assert isinstance(step, Launch)
            names[f"h{number}"] = bound.loaded[number].handle.value or 0
            lines += [
                "try:",
                f"    launch(h{number}, {_fixed(bound, number, step)}, ({_arguments(bound, number, step, [*given, *own])}), stream)",
                "except Exception as problem:",
                f"    again({number}, problem, stream, {'frame' if framed else 'None'}, ({passed},))",
            ]
        elif number in by_cells:
            assert isinstance(step, Launch)
            lines += [f"s{number}.aim()"] if step.streaming is not None else []
            lines += [f"code = s{number}.call(*s{number}.arguments)", "if code:", f"    s{number}.again(code)"]
        else:
            assert isinstance(step, Product), "a direct program has kernels and products"
            names |= {"mm": torch.mm, "as_strided": torch.as_strided}
            lines.append(_product(bound, step, tensors))
    if framed:
        # After an error the frame is left: what its workspaces hold is not known.
        lines.append("frame.pool.append(frame)")
    return lines, names


def _product(bound: CudaBound, step: Product, tensors: Sequence[tuple[str, torch.Tensor]]) -> str:
    """A product of matrices, each a tensor as it is where that has its shape and strides."""

    def matrix(of: Matrix) -> str:
        at = of.slot - len(tensors)
        if at < 0:
            name, tensor = tensors[of.slot]
            name += ".detach()" if tensor.requires_grad else ""
            shape, strides = tuple(tensor.shape), tensor.stride()
        elif at < len(bound.outputs):
            name, shape = f"r{at}", tuple(bound.shapes[at])
            strides = contiguous_strides(shape)
        else:
            name, shape = f"frame.workspaces[{at - len(bound.outputs)}]", bound.workspaces[at - len(bound.outputs)].shape
            strides = contiguous_strides(shape)
        return name if (shape, strides) == (of.shape, of.strides) else f"as_strided({name}, {of.shape}, {of.strides})"

    return f"mm({matrix(step.left)}, {matrix(step.right)}, out={matrix(step.out)})"


def _static(bound: CudaBound, number: int, step: Launch) -> bool:
    """Whether torch's launcher does: it has no attributes, which a launch that is early or streams needs, and whole warps."""
    plain = not step.early and step.streaming is None
    return bound.launch is not None and plain and bound.loaded[number].binary.threads % WARP == 0


def _fixed(bound: CudaBound, number: int, step: Launch) -> str:
    binary = bound.loaded[number].binary
    kinds = "O" * len(step.slots) + "l" * len(step.scalars) + "O" * binary.scratch_arguments
    return f"{step.programs}, 1, 1, {binary.threads // WARP}, {binary.shared}, '{kinds}'"


def _arguments(bound: CudaBound, number: int, step: Launch, names: Sequence[str]) -> str:
    """A tuple's entries: addresses of buffers, scalars, addresses of scratch memory, of which the first may be one."""
    binary = bound.loaded[number].binary
    assert len(step.slots) + len(step.scalars) == binary.arguments, "a launch passes what the kernel takes"
    scratch = ["0"] * binary.scratch_arguments
    at = bound.scratch.get(number)
    if at is not None:
        scratch[0] = f"w{at}"
    return "".join(f"{entry}, " for entry in [*(names[slot] for slot in step.slots), *map(str, step.scalars), *scratch]).rstrip()


def _again(bound: CudaBound) -> Callable[[int, Exception, int, Frame | None, Sequence[int]], None]:
    """
    What to do when torch's launcher refuses: the same launch through the driver, which says why in its own way, or does it, as in a
    thread without a context. Nothing that was refused has begun.
    """

    def again(number: int, problem: Exception, stream: int, frame: Frame | None, addresses: Sequence[int]) -> None:
        own = bound.frame(stream) if frame is None else frame
        bound.pack(own.cells, 0, *addresses)
        step = own.steps[number]
        assert isinstance(step, Launcher), "what is launched is a kernel"
        step.enter()
        step()
        bound.refused[f"{type(problem).__name__}: {problem}"] += 1
        if frame is None:
            own.pool.append(own)

    return again
