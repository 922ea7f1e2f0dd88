"""
Loads of what the same body has read already, under other names of its dimensions or in another order of them.

    %m = sched.range %m0        %a = sched.load %x [m = %m, k = %k] : tile<[m, k]>      a = tl.load(...)
    %o = sched.range %m0        %b = sched.load %x [m = %o, k = %k] : tile<[k, o]>  ->  b = tl.trans(a)

Tensor cores take a tile from shared memory in either order, so a pipelined loop loads and holds it once. That is so where both loads feed
nothing but dots, and dots of one kind: other uses must have loads of their own (see `cleave.schedule.hazards`). Nothing is shared across
what may change memory: a launch may pass one buffer twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast as typed

from xdsl.ir import Block, SSAValue

from cleave.dialects import sched
from cleave.lowering.tensors import Tensor
from cleave.schedule.targets import WARP_GROUP_ROWS

Parts = Mapping[SSAValue, tuple[Tensor, Tensor]]
"""Of an index tile its start and its lanes."""


class Reads:
    """What bodies have read since memory may last have changed."""

    def __init__(self) -> None:
        self._known: dict[object, tuple[Tensor, tuple[str, ...]]] = {}

    def again(self, op: sched.LoadOp, parts: Parts) -> Tensor | None:
        """The tile that a load reads, where an earlier one of its body read the same, under the names of its own dimensions."""
        key, names = _what(op, parts)
        found = self._known.get(key)
        if found is None:
            return None
        tensor, before = found
        renamed = dict(zip(before, names, strict=True))
        return Tensor(tensor.value, tuple(renamed[dim] for dim in tensor.dims))

    def keep(self, op: sched.LoadOp, parts: Parts, tensor: Tensor) -> None:
        """Remembers what a load read."""
        key, names = _what(op, parts)
        if key is not None:
            self._known.setdefault(key, (tensor, names))

    def forget(self) -> None:
        """Tells that memory may have changed."""
        self._known.clear()


def _what(op: sched.LoadOp, parts: Parts) -> tuple[object, tuple[str, ...]]:
    """All that tells what a load reads, and its dimensions in the order of axes; None where only dots of one kind may share that."""
    kinds = {_rows(use.operation) for use in op.out.uses}
    runs = [(axis, index, parts[index]) for axis, index in op.places if index in parts]
    names = tuple(lanes.dims[0] for _, _, (_, lanes) in runs)
    rest = tuple((axis, index) for axis, index in op.places if index not in parts)
    scalars = not any(typed(sched.TileType, index.type).shape for _, index in rest)
    if len(kinds) != 1 or None in kinds or not scalars or len(set(names)) < len(names) or op.descriptor or op.fresh:
        return None, ()
    where = tuple((axis, start.value, tuple(lanes.sizes.values())) for axis, _, (start, lanes) in runs)
    block = typed(Block, op.parent)
    other = None if op.other is None else op.other.value.data
    return (block, op.buffer, where, rest, tuple(op.bounds), other, op.eviction, *kinds), names


def _rows(user: object) -> bool | None:
    """Whether a dot has the rows of a warp group's; None for what is no dot."""
    if not isinstance(user, sched.DotOp):
        return None
    return list(user.out.type.shape.values())[-2] >= WARP_GROUP_ROWS
