"""
Names of axes, chosen once no more atoms change: readable, valid, and the same for the same program.

An axis takes, where free: the name of the dynamic dimension it is (`m` for Dim("m")), the letter it has in an einsum, a letter
by its role in a product (batch b, h, g; rows m; columns n; summed d, k), else any letter that is left, then x0, x1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .atoms import Atom

_BY_ROLE: Mapping[str, str] = {
    "batch": "bhgr",
    "row": "ms",
    "column": "neo",
    "sum": "dkc",
}
_REST = "abcefghijlopqrstuvwxyzdkmn"
_ORDER = ("batch", "row", "column", "sum")


def identifier(text: str, default: str) -> str:
    """The text as a name ([A-Za-z_][A-Za-z0-9_]*), or the default where nothing is left."""
    out = re.sub(r"[^A-Za-z0-9_]+", "_", text).strip("_")
    if out and out[0].isdigit():
        out = f"_{out}"
    return out or default


def unique(name: str, taken: Iterable[str]) -> str:
    """The name, with a number where it is taken."""
    used = set(taken)
    if name not in used:
        return name
    at = 1
    while f"{name}_{at}" in used:
        at += 1
    return f"{name}_{at}"


def _symbol_of(size: Any) -> str | None:
    return str(size) if not isinstance(size, int) and size.is_Symbol else None


def axis_names(atoms: Sequence[Atom], symbols: Mapping[str, str]) -> dict[Atom, str]:
    """
    A name for each leaf, in order of first appearance. `symbols` gives the names that the program has for its symbols.

    The first axis whose extent is a named symbol takes that name; no other axis does.
    """
    names: dict[Atom, str] = {}
    reserved = set(symbols.values())
    for atom in atoms:
        wanted = symbols.get(_symbol_of(atom.extent) or "")
        if wanted is not None and wanted not in names.values():
            names[atom] = wanted
    for atom in atoms:
        if atom in names or len(atom.hint) != 1:
            continue
        if atom.hint not in reserved and atom.hint not in names.values():
            names[atom] = atom.hint
    for atom in atoms:
        if atom not in names and atom.hint in _BY_ROLE:
            _take(names, atom, _BY_ROLE[atom.hint], reserved)
    for atom in atoms:
        if atom not in names:
            _take(names, atom, _REST, reserved)
    at = 0
    for atom in atoms:
        while atom not in names:
            if f"x{at}" not in reserved:
                names[atom] = f"x{at}"
            at += 1
    return names


def _take(names: dict[Atom, str], atom: Atom, letters: str, reserved: set[str]) -> None:
    used = set(names.values())
    for letter in letters:
        if letter not in used and letter not in reserved:
            names[atom] = letter
            return


def ordered(atoms: Sequence[Atom]) -> list[Atom]:
    """Leaves in the order axes are declared: batch axes, rows, columns, summed ones, each in order of appearance."""
    rank = {role: at for at, role in enumerate(_ORDER)}
    return sorted(atoms, key=lambda atom: rank.get(atom.hint, 0))
