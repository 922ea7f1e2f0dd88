"""Run-time sizes: what symbols are called, what is known of them, where calls read them, and what tracing assumed of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import sympy

from ..errors import CleaveError
from ..extents import extent
from ..graph import Symbol
from .bindings import Condition, Relation, SymbolRead
from .dynamic_shapes import dim_name
from .sizes import Size, converted, quotient, simplified, to_extent
from .traced import guard_place, guards, unsupported_branch
from .translation import ReadTensor, Translation


def _dynamic_dims(state: Translation) -> Iterable[tuple[int, int, Any, Size]]:
    """Each declared dynamic dimension: flat position, dimension, declaration, size in tracing."""
    for tensor in state.tensors.values():
        if tensor.source.kind == "argument":
            position = int(tensor.source.key)
            for dim, declared in state.traced.leaves[position].dynamic.items():
                yield position, dim, declared, tensor.shape[dim]


def symbol_names(state: Translation) -> dict[str, str]:
    """The program's names for symbols, by their name in tracing. Raises: CleaveError for a dynamic size that the program fixes."""
    names: dict[str, str] = {}
    for position, dim, declared, size in _dynamic_dims(state):
        if isinstance(size, int):
            if getattr(getattr(declared, "type", None), "name", "") == "AUTO":
                continue
            name = state.traced.leaves[position].name
            found = f"dimension {dim} of '{name}' is declared dynamic, but the program fixes it to {size}"
            raise CleaveError(
                state.traced.place or None, found, "do not declare it dynamic, or compute without its value", op=state.traced.name
            )
        if size.is_Symbol and dim_name(declared):
            names.setdefault(str(size), dim_name(declared))
        elif getattr(declared, "root", None) is not None and len(size.free_symbols) == 1:
            names.setdefault(str(next(iter(size.free_symbols))), declared.root.__name__)
    return names


def symbol_facts(state: Translation) -> dict[str, Symbol]:
    """What is known of each symbol: the example's size, and whether it is declared to be positive."""
    positive = {str(size) for _, _, declared, size in _dynamic_dims(state) if _bounds(declared)[0] > 0}
    out: dict[str, Symbol] = {}
    for tensor in state.tensors.values():
        for at, size in enumerate(tensor.shape):
            if isinstance(size, int):
                continue
            for symbol in sorted(size.free_symbols, key=str):
                hint = _hint(state, tensor, at, size, symbol)
                before = out.get(str(symbol))
                hints = before.hints if before is not None and before.hints else (() if hint is None else (hint,))
                out[str(symbol)] = Symbol(str(symbol), hints, 1, str(symbol) in positive)
    return out


def _hint(state: Translation, tensor: ReadTensor, dim: int, size: Size, symbol: Any) -> int | None:
    """The value of a symbol in the example, from a size that is linear in it."""
    linear = _linear(size, symbol)
    if tensor.source.kind != "argument" or linear is None:
        return None
    value = state.traced.leaves[int(tensor.source.key)].value.shape[dim]
    return (value - linear[1]) // linear[0]


def _linear(size: Size, symbol: Any) -> tuple[int, int] | None:
    """The factor and rest of a size that is `factor * symbol + rest`, else None."""
    rest = size.subs(symbol, 0)
    factor = quotient(simplified(size - rest), symbol)
    return (factor, int(rest)) if rest.is_Integer and isinstance(factor, int) and factor > 0 else None


def symbol_reads(state: Translation, names: Mapping[str, str]) -> Iterable[SymbolRead]:
    """Where each symbol's value is read: the first size that is linear in it."""
    seen: set[str] = set()
    for tensor in state.tensors.values():
        for at, size in enumerate(tensor.shape):
            if tensor.source.kind != "argument" or isinstance(size, int) or len(size.free_symbols) != 1:
                continue
            symbol = next(iter(size.free_symbols))
            linear = _linear(size, symbol)
            if linear is not None and str(symbol) not in seen:
                seen.add(str(symbol))
                yield SymbolRead(names[str(symbol)], int(tensor.source.key), at, *linear)


def _bounds(declared: Any) -> tuple[int, int | None]:
    """The bounds that a declaration gives a size, None for no upper one."""
    low, high = getattr(declared, "min", None), getattr(declared, "max", None)
    return (low if isinstance(low, int) else 0), (high if isinstance(high, int) else None)


def conditions(state: Translation, names: Mapping[str, str]) -> Iterable[Condition]:
    """
    What a call must satisfy beyond the sizes of arguments: declared bounds, and relations that tracing assumed.

    Where tracing replaced one size by an equal one, the sizes of arguments are the check. Left out is a size that must not
    be 1, which is how
    torch tells broadcasting apart: here, dimensions of equal symbols are one axis at any size. A relation from a branch in the
    user's code always counts. Raises: CleaveError for such a branch that is no comparison of sizes.
    """
    for _, _, declared, size in _dynamic_dims(state):
        low, high = _bounds(declared)
        if low > 0:
            yield Condition(to_extent(size, names), ">=", extent(low))
        if high is not None:
            yield Condition(to_extent(size, names), "<=", extent(high))
    for left, right in state.assumed:
        yield Condition(to_extent(state.renamed(left), names), "==", to_extent(state.renamed(right), names))
    for guard, expr in guards(state.traced):
        place = guard_place(guard)
        found = _relation(state, expr, names)
        if found is not None and (place or found.relation != "!="):
            yield replace(found, place=place)
        elif found is None and place and expr != sympy.true and not isinstance(expr, sympy.Eq):
            raise unsupported_branch(place, expr, names)


_RELATIONS: tuple[tuple[Any, Relation], ...] = (
    (sympy.StrictLessThan, "<"),
    (sympy.LessThan, "<="),
    (sympy.StrictGreaterThan, ">"),
    (sympy.GreaterThan, ">="),
    (sympy.Ne, "!="),
)


def _relation(state: Translation, expr: Any, names: Mapping[str, str]) -> Condition | None:
    relation: Relation | None = next((text for kind, text in _RELATIONS if isinstance(expr, kind)), None)
    if relation is None:
        return None
    try:
        left, right = (to_extent(state.canonical(converted(side)), names) for side in expr.args)
    except ValueError:
        return None
    known = {name for entry in state.tensors.values() for size in entry.shape for name in to_extent(size, names).symbols}
    return Condition(left, relation, right) if {*left.symbols, *right.symbols} <= known else None
