"""Patterns that simplify the algebra, which the pass `canonicalize` finds through the operations."""

from __future__ import annotations

from xdsl.pattern_rewriter import RewritePattern


def patterns_of(name: str) -> tuple[RewritePattern, ...]:
    """The patterns rooted at the operation of that name."""
    return ()
