"""
Refuse the names of single workloads in the engine.

The search, the scheduler, the dialects and the passes work on any tensor program, so their code never names one. Comments and docstrings
may, to explain. Identifiers are taken apart at underscores and capitals.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

WORDS = frozenset(("attention", "softmax", "flash", "rmsnorm", "layernorm", "swiglu"))
FOLDERS = ("cleave/search", "cleave/schedule", "dialects", "passes")
_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def docstring_lines(source: str) -> set[int]:
    """The lines on which a docstring, or a text that documents the assignment before it, starts."""
    found: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found.add(node.lineno)
    return found


def offences(source: str) -> Iterator[tuple[int, str]]:
    """Line and word of every refused word in the code of a Python source text. Raises: SyntaxError."""
    documented = docstring_lines(source)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and token.start[0] in documented):
            continue
        parts = _PART.findall(token.string)
        joined = [first + second for first, second in pairwise(parts)]
        for word in (*parts, *joined):
            if word.lower() in WORDS:
                yield token.start[0], word.lower()


def main() -> int:
    """Prints each offence as `file:line: word` and returns the exit code."""
    root = Path(__file__).resolve().parent.parent
    failed = False
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            for line, word in offences(path.read_text(encoding="utf-8")):
                print(f"{path.relative_to(root)}:{line}: error: the engine names '{word}'; speak of what the operation does")
                failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
