"""Telling someone how far a search has come. The search itself prints nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Watch: TypeAlias = Callable[[str], None]
"""Is told in a few words what is being done; often, so it should not take long."""


def unwatched(text: str) -> None:
    """Tells nobody."""
