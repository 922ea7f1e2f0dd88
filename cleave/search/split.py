"""Splitting an axis that every output reduces over."""

from __future__ import annotations

from collections.abc import Sequence

from ..graph import Graph


def split_alternatives(graphs: Sequence[Graph]) -> list[tuple[Graph, str]]:
    """None yet."""
    return []
