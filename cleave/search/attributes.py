"""Reading the attributes of operations: which axes, which pairs of axes, which number (`cleave.graph` says what each kind has)."""

from __future__ import annotations

from ..graph import Attr, Op


def axis_names(attr: Attr) -> tuple[str, ...]:
    """An attribute that lists axes."""
    return tuple(str(part) for part in attr) if isinstance(attr, tuple) else (str(attr),)


def axis_pairs(attr: Attr) -> tuple[tuple[str, str], ...]:
    """An attribute that lists pairs of axes."""
    pairs = [axis_names(part) for part in attr] if isinstance(attr, tuple) else []
    return tuple((old, new) for old, new in pairs)


def whole(attr: Attr) -> int:
    """An attribute that is an integer."""
    assert isinstance(attr, int), f"{attr!r} is not an integer"
    return attr


def reduced_axes(op: Op) -> tuple[str, ...]:
    """The axes an operation reduces over."""
    return axis_names(op.attr[-1]) if op.kind in ("reduce", "contract", "shift") else ()


def is_maximum(kind: str, attr: tuple[Attr, ...]) -> bool:
    """Whether an operation is a maximum or minimum over axes, or a shift, which means one."""
    return kind == "shift" or (kind == "reduce" and attr[0] != "sum")
