"""
Python names for what IR calls something: identifiers of ASCII letters, digits and _, never a keyword, a builtin or a name
that generated code uses itself. Whatever a user calls a symbol, no text of it but such a name reaches a generated file.
"""

from __future__ import annotations

import builtins
import keyword
import re

_UNFIT = re.compile(r"[^A-Za-z0-9_]+")
_OWN = ("tl", "triton", "torch", "math", "launch", "gdc_wait", "gdc_launch_dependents", "COMPILED")
TAKEN = frozenset((*keyword.kwlist, *keyword.softkwlist, *dir(builtins), *_OWN))
"""Names that mean something in generated files."""


def identifier(hint: str) -> str:
    """An identifier like the hint; the hint itself where it is one that means nothing else."""
    name = _UNFIT.sub("_", hint).strip("_") if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", hint) else hint
    if not name or name[0].isdigit():
        name = f"v{name}"
    if name.startswith("__"):
        name = f"v{name}"
    return f"{name}_" if name in TAKEN else name


class Names:
    """Identifiers of one scope, each given once."""

    def __init__(self, taken: frozenset[str] = frozenset()) -> None:
        self._used = set(taken)

    def fresh(self, hint: str) -> str:
        """An identifier like the hint that was not given before."""
        base = name = identifier(hint)
        number = 2
        while name in self._used:
            name = f"{base}_{number}"
            number += 1
        self._used.add(name)
        return name
