"""
Launches whose largest input streams through the second-level cache.

What a kernel reads once, such as the weights of a product with few rows, evicts from that cache what others will read again, or left there
to be written back, which then takes bandwidth beside it. A launch may say of the memory of one buffer that its lines are the first to be
evicted:

    launch product(x, w, y)   ->   launch product(x, w, y) streaming w

Nothing else changes, values least of all. Whether it pays only times tell: what is read again while a kernel runs should stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from ..extents import sizes_of
from .measure import BYTES
from .program import Launch, Program, Step
from .targets import Target

SHARE = 8
"""An input streams where it is at least this part of the second-level cache: a smaller one evicts little."""


def least_bytes(target: Target) -> int:
    """How large an input must be, in bytes, for it to matter on a machine that it streams."""
    return target.l2 // SHARE


def streamed(program: Program, symbols: Mapping[str, int], least: int) -> Program:
    """
    The program with launches that stream the largest of its inputs that they read and do not write, where that has at least so many bytes.
    `symbols` gives the sizes that count. The program itself where no launch has such an input.

    Raises: KeyError for a symbol without a value.
    """
    sizes = sizes_of(program.sizes, symbols)
    inputs = {buffer.name: prod(sizes[axis] for axis in buffer.axes) * BYTES[buffer.dtype] for buffer in program.inputs}
    kernels = {kernel.name: kernel for kernel in program.kernels}
    steps: list[Step] = []
    for step in program.steps:
        if isinstance(step, Launch):
            kernel = kernels[step.kernel]
            written = {given for own, given in zip(kernel.buffers, step.buffers, strict=True) if own.name in kernel.written}
            able = [name for name in step.buffers if inputs.get(name, 0) >= max(1, least) and name not in written]
            if able:
                step = replace(step, streaming=max(able, key=lambda name: inputs[name]))
        steps.append(step)
    return program if steps == list(program.steps) else replace(program, steps=tuple(steps))
