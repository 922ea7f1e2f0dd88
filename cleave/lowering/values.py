"""The tensor of each tile of a kernel. An index tile made by `sched.range` is kept as its start, a scalar, and its lanes 0, 1, ..."""

from __future__ import annotations

from typing import cast as typed

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue

from cleave.dialects import sched
from cleave.lowering.tensors import Blocks, Tensor, add, annotate, constant_of, spread


class Values:
    """What tiles are bound to: `tensors`, and of index tiles in `parts` the start and the lanes."""

    def __init__(self, blocks: Blocks) -> None:
        self.blocks = blocks
        self.tensors: dict[SSAValue, Tensor] = {}
        self.parts: dict[SSAValue, tuple[Tensor, Tensor]] = {}

    def get(self, value: SSAValue) -> Tensor:
        """The tensor of a tile."""
        if value in self.parts:
            start, lanes = self.parts[value]
            total = add(self.blocks, start, lanes)
            assert total is not None, "lanes are a value"
            name(total.value, value.name_hint)
            annotate(total.value, total.dims, _note(value))
            return total
        return self.tensors[value]

    def put(self, out: SSAValue, tensor: Tensor) -> None:
        """Binds a tile to its tensor, broadcast to exactly the dimensions of its type."""
        type_ = typed(sched.TileType, out.type)
        result = spread(self.blocks, tensor, type_.shape)
        name(result.value, out.name_hint)
        annotate(result.value, result.dims, _note(out))
        self.tensors[out] = result

    def bind(self, out: SSAValue, value: SSAValue) -> None:
        """Binds a tile to a value with the dimensions of its type, which takes its name."""
        self.tensors[out] = Tensor(value, tuple(typed(sched.TileType, out.type).shape))
        if out.name_hint:
            value.name_hint = out.name_hint

    def spread_to(self, value: SSAValue, out: SSAValue) -> Tensor:
        """The tensor of a tile, broadcast to the dimensions of another's type."""
        return spread(self.blocks, self.get(value), typed(sched.TileType, out.type).shape)

    def shift(self, out: SSAValue, moved: SSAValue, by: SSAValue) -> bool:
        """Binds a range with a scalar added, which only moves its start; False where the two are not that."""
        if moved not in self.parts or by in self.parts or self.tensors[by].dims:
            return False
        start, lanes = self.parts[moved]
        total = add(self.blocks, start, self.tensors[by])
        assert total is not None, "both are values"
        self.parts[out] = (total, lanes)
        return True


def name(value: SSAValue, hint: str | None) -> None:
    """Names a value that has no name yet; constants have none."""
    if hint and value.name_hint is None and constant_of(value) is None:
        value.name_hint = hint


def _note(value: SSAValue) -> str:
    owner = value.owner
    note = owner.attributes.get("note") if isinstance(owner, Operation) else None
    return note.data if isinstance(note, StringAttr) else ""
