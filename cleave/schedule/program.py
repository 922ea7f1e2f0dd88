"""
A scheduled program as plain values: kernels of tile statements, and the host steps that launch them.

This mirrors the `sched` dialect one to one (`cleave.bridge` converts both ways) and holds no IR. Tiles keep dimension names
and broadcast by name; a tile dimension is a graph axis or several packed into one (`r_m`). What a dimension's lanes stand
for is always an index tile, so a load names, for every axis of a buffer, the tile of indices it reads:

    load %k [b = %b0, h = %h0, n = %n, d = %d] check [n]      with %n : tile<[n = 64], index>

reads a tile over the union of the index tiles' dimensions. Lanes whose index reaches the extent of a `check` axis are not
accessed; they give `other`, or poison (NaN) where `other` is None.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from ..extents import Extent


@dataclass(frozen=True, slots=True)
class TileType:
    """Dimensions in layout order with their sizes (powers of two), and the element type. A scalar has no dimensions."""

    dims: tuple[tuple[str, int], ...]
    dtype: str

    @property
    def names(self) -> tuple[str, ...]:
        """The dimension names in layout order."""
        return tuple(name for name, _ in self.dims)


@dataclass(eq=False, slots=True)
class Var:
    """A value of a kernel body, assigned once. `name` is a hint for readable text, not unique. `note` says what it is."""

    name: str
    type: TileType
    note: str = ""


@dataclass(frozen=True, slots=True)
class Buffer:
    """
    Memory addressed by named axes: element offset = sum of index * stride over the axes.

    `strides[i]` is the stride of `axes[i]` in elements where it is known at compile time, else None: then it is a run-time
    argument which `divisor` divides. `aligned` says the address is a multiple of 16 bytes.
    """

    name: str
    axes: tuple[str, ...]
    dtype: str
    strides: tuple[int | None, ...]
    divisor: int = 1
    aligned: bool = True


@dataclass(frozen=True, slots=True)
class Let:
    """
    `out = kind(args)`, elementwise, broadcasting by dimension name.

    Kinds: `cleave.graph.UNARY` and `BINARY`, exp2, log2, `constant [value]`, `compare [predicate]`, `select`, `cast`, and
    `broadcast` to the dimensions of out. Index arithmetic uses the same kinds on dtype index.
    """

    out: Var
    kind: str
    args: tuple[Var, ...] = ()
    attr: tuple[str | int | float | bool, ...] = ()


@dataclass(frozen=True, slots=True)
class Range:
    """`out[i] = start + i` along its single dimension; out is an index tile, start an index scalar."""

    out: Var
    start: Var


@dataclass(frozen=True, slots=True)
class Load:
    """
    Reads a tile; `index` gives an index tile or scalar for every axis of the buffer. `eviction` is a cache hint. A `fresh` load sees what
    other programs of the launch stored, where something orders them: it leaves out the caches that programs do not share. One by
    `descriptor` reads a box, which a machine may copy as one: `cleave.schedule.descriptors` says of what.
    """

    out: Var
    buffer: Buffer
    index: tuple[tuple[str, Var], ...]
    check: tuple[str, ...] = ()
    other: float | None = None
    eviction: str = ""
    fresh: bool = False
    descriptor: bool = False


@dataclass(frozen=True, slots=True)
class Store:
    """Writes the lanes of `value` whose checked indices are within their extents; `value` broadcasts to the index dimensions."""

    buffer: Buffer
    index: tuple[tuple[str, Var], ...]
    value: Var
    check: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reduce:
    """Removes dimension `dim` of `value` by sum, max or min; of floats, maxnum is the maximum of what is not NaN."""

    out: Var
    kind: str
    value: Var
    dim: str


@dataclass(frozen=True, slots=True)
class Dot:
    """
    Matrix product over dimension `over`, accumulated in f32: `out = a . b + acc`.

    a has dimensions (batch..., m, over), b (batch..., over, n), out (batch..., m, n). `precision` is ieee or tf32 for f32.
    """

    out: Var
    a: Var
    b: Var
    over: str
    acc: Var | None = None
    precision: str = "ieee"


@dataclass(frozen=True, slots=True)
class Carried:
    """A loop-carried tile: value before the loop, name inside, value for the next iteration, name after the loop."""

    init: Var
    inner: Var
    next: Var
    out: Var


@dataclass(frozen=True, slots=True)
class For:
    """A sequential loop; `index` runs from start to stop (exclusive) by step. `dim` names the tile dimension it walks."""

    dim: str
    index: Var
    start: Var
    stop: Var
    step: int
    carried: tuple[Carried, ...]
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """One of two tiles of a type: the value made by a body where that is run, the other value where it is not, and the name after."""

    value: Var
    other: Var
    out: Var


@dataclass(frozen=True, slots=True)
class When:
    """The body is run where `condition`, a scalar of type i1, is true. Of what it makes, `results` alone are seen after it."""

    condition: Var
    results: tuple[Either, ...]
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Last:
    """
    The body is run once, by the last of `count` programs of the launch that come here with the same element of `counter`. It may read
    what all of these stored before, by loads that are `fresh`.

    The counter has type i32 and holds zeros before and after the launch.
    """

    counter: Buffer
    index: tuple[tuple[str, Var], ...]
    count: Var
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """The launches before have ended, and what they stored is seen, when what follows is run. Every program of a launch comes here."""


@dataclass(frozen=True, slots=True)
class Release:
    """The next launch may begin, if it is an early one, once every program of this one came here or ended."""


Statement: TypeAlias = Let | Range | Load | Store | Reduce | Dot | For | When | Last | Wait | Release


@dataclass(frozen=True, slots=True)
class GridDim:
    """
    One grid dimension: `count` programs, of which each covers `tile` elements of `dim`.

    `start` is the kernel-body scalar holding program * tile. `count` is an extent over the symbols.
    """

    dim: str
    count: Extent
    tile: int
    start: Var


@dataclass(frozen=True, slots=True)
class Kernel:
    """
    A kernel. `grid` lists dimensions, fastest varying first. `sizes` are run-time index arguments: (axis or symbol, scalar);
    sizes known at compile time are `Let constant`s in the body. `extents` gives each buffer axis its extent scalar, for `check`.

    With a `group`, so many tiles of the first dimension run with all of the second before the next ones. A `persistent` one is launched as
    at most so many programs, each of which runs the body for some tiles of the grid, one after another; every tile is still run once.
    Where `max_registers` is not 0, a thread has no more.
    """

    name: str
    buffers: tuple[Buffer, ...]
    written: tuple[str, ...]
    sizes: tuple[tuple[str, Var], ...]
    extents: tuple[tuple[str, Var], ...]
    grid: tuple[GridDim, ...]
    body: tuple[Statement, ...]
    num_warps: int = 4
    num_stages: int = 3
    group: int = 0
    persistent: int = 0
    max_registers: int = 0


@dataclass(frozen=True, slots=True)
class Allocate:
    """
    Host step: a workspace buffer, contiguous in the order of its axes.

    A `zeroed` one holds zeros when the program starts, and kernels leave zeros there: it is cleared once, not for every run.
    """

    buffer: Buffer
    zeroed: bool = False


@dataclass(frozen=True, slots=True)
class Launch:
    """
    Host step: run `kernel` on the named buffers, in the order of `Kernel.buffers`.

    An `early` one may begin before the launch before it has ended, and waits in the kernel; see `Wait`. Cache lines of the buffer
    `streaming`, where there is one, are evicted first.
    """

    kernel: str
    buffers: tuple[str, ...]
    early: bool = False
    streaming: str = ""


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """Host step: a library routine. `callee` is `matmul`; `over` are the contracted axes."""

    callee: str
    out: str
    args: tuple[str, ...]
    over: tuple[str, ...] = ()


Step: TypeAlias = Allocate | Launch | LibraryCall


@dataclass(frozen=True, slots=True)
class Program:
    """
    The host side: steps in order. `inputs` and `outputs` are buffers by position; `layouts` maps memory to axes for each,
    inputs first. `sizes` gives every axis its extent over the symbols and the axes before it: a number of chunks that is found when the
    program runs is an axis whose extent says how, and a caller may give it another value.
    """

    name: str
    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    layouts: tuple[str, ...]
    sizes: tuple[tuple[str, Extent], ...]
    kernels: tuple[Kernel, ...]
    steps: tuple[Step, ...]
    notes: tuple[str, ...] = field(default=(), compare=False)


def inputs_read(program: Program) -> set[int]:
    """The places of the inputs that a step of the program has."""
    names: set[str] = set()
    for step in program.steps:
        match step:
            case Launch(buffers=used) | LibraryCall(args=used):
                names.update(used)
            case Allocate():
                pass
    return {place for place, buffer in enumerate(program.inputs) if buffer.name in names}


def with_inputs(program: Program, places: Sequence[int]) -> Program:
    """The program with its inputs at these places only. No step may have another."""
    assert inputs_read(program) <= set(places), "an input that is read stays"
    layouts = (*(program.layouts[place] for place in places), *program.layouts[len(program.inputs) :])
    return replace(program, inputs=tuple(program.inputs[place] for place in places), layouts=layouts)


def walk(body: tuple[Statement, ...]) -> Iterator[Statement]:
    """Every statement, those with bodies before them."""
    for statement in body:
        yield statement
        if isinstance(statement, For | When | Last):
            yield from walk(statement.body)


def renamed(kernel: Kernel, names: Mapping[str, str]) -> Kernel:
    """The kernel with some of its buffers, and the values read from them, called otherwise."""
    memo: dict[int, Any] = {id(dim.count): dim.count for dim in kernel.grid}
    used = [statement.buffer for statement in walk(kernel.body) if isinstance(statement, Load | Store)]
    used += [statement.counter for statement in walk(kernel.body) if isinstance(statement, Last)]
    memo |= {id(buffer): replace(buffer, name=names.get(buffer.name, buffer.name)) for buffer in (*kernel.buffers, *used)}
    out = deepcopy(kernel, memo)
    for statement in walk(out.body):
        var = None if isinstance(statement, Store | For | When | Last | Wait | Release) else statement.out
        if var is not None and var.name in names:
            was, var.name = var.name, names[var.name]
            if isinstance(statement, Load):
                var.note = var.name + var.note.removeprefix(was)
    return replace(out, written=tuple(names.get(name, name) for name in kernel.written))
