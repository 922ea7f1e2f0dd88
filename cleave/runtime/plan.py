"""
The host side of a program as plain values: what to allocate, launch and call, and how sizes follow from the shapes of tensors.

`cleave.bridge.plan` makes a plan from a lowered `sched.program`. Plans pickle, and hold no IR.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any, Literal, TypeAlias, cast

import sympy

from cleave.errors import CleaveError
from cleave.extents import Extent, extent, open_symbols, sizes_of, symbol
from cleave.layouts import parse_layout
from cleave.schedule.program import Allocate, Buffer, LibraryCall


@dataclass(frozen=True, slots=True)
class Scalar:
    """
    An integer argument of a kernel.

    `size`: of the axis or symbol `name`. `stride`: of axis `name` of the buffer at `position`, divided by `divisor`.
    `count`: of programs along dimension `position` of the grid.
    """

    kind: Literal["size", "stride", "count"]
    name: str = ""
    position: int = 0
    divisor: int = 1


@dataclass(frozen=True, slots=True)
class Call:
    """
    A launch of a lowered kernel: addresses of the buffers, then the scalars.

    `grid` counts programs, fastest varying first; the launch has their product along x, at most `persistent` where that is not 0: these
    run all tiles. An `early` one may begin before the launch before it has ended. A thread has at most `max_registers` where that is not 0.
    Cache lines of the buffer `streaming`, where there is one, are evicted first.
    """

    kernel: str
    buffers: tuple[str, ...]
    grid: tuple[Extent, ...]
    scalars: tuple[Scalar, ...]
    num_warps: int
    num_stages: int
    early: bool = False
    persistent: int = 0
    max_registers: int = 0
    streaming: str = ""


Step: TypeAlias = Allocate | Call | LibraryCall


@dataclass(frozen=True, slots=True)
class Plan:
    """Inputs and outputs with their layouts (inputs first), the extent of every axis over symbols, and the steps."""

    name: str
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    layouts: tuple[str, ...]
    sizes: tuple[tuple[str, Extent], ...]
    steps: tuple[Step, ...]

    @property
    def symbols(self) -> tuple[str, ...]:
        """Every symbol that the extents leave open, in order of appearance."""
        return open_symbols(self.sizes)


@dataclass(frozen=True, slots=True)
class Source:
    """A symbol is the size of dimension `dim` of input `position`, divided by `divisor`."""

    symbol: str
    position: int
    dim: int
    divisor: Extent


@lru_cache(maxsize=256)
def symbol_sources(plan: Plan) -> tuple[Source, ...]:
    """
    Where each symbol is read from, in an order in which the divisors are known. A symbol that no shape tells is missing.
    """
    extents = {axis: size.sympy() for axis, size in plan.sizes}
    found: dict[str, Source] = {}
    progress = True
    while progress:
        progress = False
        for position, layout in enumerate(plan.layouts[: len(plan.inputs)]):
            for dim, group in enumerate(parse_layout(layout)):
                size = prod((extents[axis] for axis in group), start=sympy.Integer(1))
                unknown = [name for name in sorted(str(free) for free in size.free_symbols) if name not in found]
                if len(unknown) != 1:
                    continue
                quotient = cast(Any, sympy.cancel(size / symbol(unknown[0])))  # pyright: ignore[reportUnknownMemberType]
                if symbol(unknown[0]) in quotient.free_symbols:
                    continue
                found[unknown[0]] = Source(unknown[0], position, dim, extent(str(quotient)))
                progress = True
    return tuple(found.values())


def bind_sizes(plan: Plan, shapes: Sequence[Sequence[int]], symbols: Mapping[str, int] | None = None) -> dict[str, int]:
    """
    The value of every symbol and the size of every axis, from the shapes of the inputs and given values.

    Raises: CleaveError where a shape does not fit, or a symbol is neither given nor told by a shape.
    """
    if len(shapes) != len(plan.inputs):
        raise CleaveError(None, f"{plan.name} takes {len(plan.inputs)} inputs; {len(shapes)} are given")
    for (buffer, layout), shape in zip(zip(plan.inputs, plan.layouts, strict=False), shapes, strict=True):
        if len(parse_layout(layout)) != len(shape):
            raise CleaveError(None, f"input '{buffer.name}' has {len(shape)} dimensions", f"its layout is '{layout}'")
    out = dict(symbols or {})
    for source in symbol_sources(plan):
        divisor = source.divisor.evaluate(out)
        out.setdefault(source.symbol, shapes[source.position][source.dim] // divisor if divisor else 0)
    for name in plan.symbols:
        if name not in out:
            raise CleaveError(None, f"symbol '{name}' does not follow from the shapes of the inputs", "give its value")
    out = sizes_of(plan.sizes, out)
    for (buffer, layout), shape in zip(zip(plan.inputs, plan.layouts, strict=False), shapes, strict=True):
        expected = tuple(prod(out[axis] for axis in group) for group in parse_layout(layout))
        if tuple(shape) != expected:
            raise CleaveError(None, f"input '{buffer.name}' has shape {tuple(shape)}", f"layout '{layout}' makes it {expected}")
    return out


def calls(plan: Plan) -> Iterator[Call]:
    """The launches of a plan."""
    for step in plan.steps:
        if isinstance(step, Call):
            yield step


def scalar_value(scalar: Scalar, call: Call, sizes: Mapping[str, int], strides: Sequence[Mapping[str, int]]) -> int:
    """
    The value of a scalar argument; `strides` are those of each buffer of the call, by axis, in elements.

    Raises: CleaveError where a divisor does not divide the stride of an axis along which there is more than one element.
    """
    match scalar.kind:
        case "size":
            return sizes[scalar.name]
        case "count":
            return call.grid[scalar.position].evaluate(sizes)
        case "stride":
            stride = strides[scalar.position][scalar.name]
            held = [sizes[axis] for axis in strides[scalar.position]]
            if stride % scalar.divisor and sizes[scalar.name] > 1 and 0 not in held:
                name = call.buffers[scalar.position]
                raise CleaveError(None, f"'{name}' has stride {stride} along '{scalar.name}'", f"a multiple of {scalar.divisor} is needed")
            return stride // scalar.divisor


def tiles(call: Call, sizes: Mapping[str, int]) -> int:
    """How many tiles a launch runs."""
    return prod(count.evaluate(sizes) for count in call.grid)


def programs(call: Call, sizes: Mapping[str, int]) -> int:
    """How many programs a launch has."""
    return min(tiles(call, sizes), call.persistent) if call.persistent else tiles(call, sizes)
