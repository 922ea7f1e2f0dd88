"""
Loads by descriptor: boxes that a machine copies as one, without addresses of single elements (Hopper's tensor memory accelerator).

    load %k [b = %b0, n = %n, d = %d]     ->     load %k [b = %b0, n = %n, d = %d] check [n, d] other 0 descriptor

A box has two axes, each with a tile of neighbours, one of them along elements that lie together; the others are numbers, the same for
all steps of a loop, so that one descriptor serves the whole kernel. What is past the end of an axis reads as 0.

Measured on one H200, between otherwise equal kernels with exponentials between dots: those of four warps gain up to 7 % or lose as much,
those of eight, which all wait for one copy, lose up to a fifth. Which it is, times tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from .hazards import changed, uses, uses_of
from .program import Buffer, Dot, For, Kernel, Let, Load, Range, Statement, TileType, Var, walk

LEAST_ROWS, LEAST_COLUMNS = 64, 32
"""Rows and columns of a dot from which on loads by descriptor are worth trying."""
ALIGNMENT, WIDTH = 16, 2
"""Bytes of which addresses and strides must be multiples, and bytes of an element."""


def has_boxes(buffer: Buffer, tiles: frozenset[str]) -> bool:
    """Whether a machine may copy boxes with tiles along these axes of a buffer as one."""
    if buffer.dtype not in ("f16", "bf16") or not buffer.aligned or len(tiles) != 2:
        return False
    steps = dict(zip(buffer.axes, buffer.strides, strict=True))
    inner = [axis for axis, step in steps.items() if step == 1]
    if len(inner) != 1 or inner[0] not in tiles or any((steps[axis] or 0) <= 0 for axis in tiles):
        return False
    others = [buffer.divisor if step is None else step for axis, step in steps.items() if axis != inner[0]]
    return all(step * WIDTH % ALIGNMENT == 0 for step in others)


def described(kernel: Kernel, extents: Mapping[str, int]) -> Kernel:
    """
    The kernel with loads by descriptor where it may have them: what warp-group dots of a loop read. `extents` are known ones of axes.

    The same kernel where it may have none, or its dots are small.
    """
    sides = [tuple(size for _, size in statement.out.type.dims[-2:]) for statement in walk(kernel.body) if isinstance(statement, Dot)]
    if not any(rows >= LEAST_ROWS and columns >= LEAST_COLUMNS for rows, columns in sides):
        return kernel
    made = {id(statement.out): statement for statement in walk(kernel.body) if isinstance(statement, Let | Range)}
    fixed = {id(statement.out) for statement in kernel.body if isinstance(statement, Let | Load)}
    fixed |= {id(dim.start) for dim in kernel.grid} | {id(var) for _, var in kernel.sizes}
    ends = dict(kernel.extents)
    found = False

    def box(load: Load) -> frozenset[str] | None:
        tiles = frozenset(axis for axis, var in load.index if var.type.dims)
        numbers = all(id(var) in fixed for axis, var in load.index if axis not in tiles)
        neighbours = all(_is_run(var, made) for axis, var in load.index if axis in tiles)
        ended = all(axis in ends or axis in extents for axis in tiles)
        plain = not load.fresh and load.other in (None, 0.0) and set(load.check) <= tiles and len(load.out.type.dims) == 2
        return tiles if plain and numbers and neighbours and ended and has_boxes(load.buffer, tiles) else None

    def change(loop: For) -> Sequence[Statement]:
        nonlocal found
        readers = uses_of(loop.body)
        out: list[Statement] = []
        for statement in loop.body:
            if isinstance(statement, Load):
                # Loads of one box would be merged: what other dots or registers read has loads of its own.
                tiles = box(statement) if uses(statement.out, readers) == ("warp-group dot",) else None
                if tiles is not None:
                    found = True
                    for axis in sorted(tiles - set(ends)):
                        ends[axis] = Var(f"{axis}_size", TileType((), "index"))
                    check = tuple(axis for axis, _ in statement.index if axis in tiles)
                    statement = replace(statement, check=check, other=0.0, eviction="", descriptor=True)
            out.append(statement)
        return out

    body = changed(kernel.body, change)
    if not found:
        return kernel
    known = dict(kernel.extents)
    added = [Let(var, "constant", (), (extents[axis],)) for axis, var in ends.items() if axis not in known]
    return replace(kernel, extents=tuple(ends.items()), body=(*added, *body))


def _is_run(var: Var, made: Mapping[int, Let | Range]) -> bool:
    """Whether an index tile is of neighbours, one after another."""
    maker = made.get(id(var))
    if isinstance(maker, Let) and maker.kind == "add":
        tiles = [arg for arg in maker.args if arg.type.dims]
        return len(tiles) == 1 and _is_run(tiles[0], made)
    return isinstance(maker, Range)
