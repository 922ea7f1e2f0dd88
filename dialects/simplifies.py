"""The trait of operations that the pass `canonicalize` simplifies."""

from __future__ import annotations

from importlib import import_module

from xdsl.ir import Operation
from xdsl.pattern_rewriter import RewritePattern
from xdsl.traits import HasCanonicalizationPatternsTrait


class Simplifies(HasCanonicalizationPatternsTrait):
    """The patterns are in `canonicalization` of the operation's dialect, of whose operations they are made: it is imported when needed."""

    def get_patterns(self, op: type[Operation]) -> tuple[RewritePattern, ...]:
        dialect, _, _ = op.name.partition(".")
        return import_module(f"cleave.dialects.{dialect}.canonicalization").patterns_of(op.name)

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        return ()
