"""Run-time sizes: what symbols are called, what is known of them, where calls read them, and what tracing assumed of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sympy

from ..errors import CleaveError
from ..extents import Extent
from ..graph import Symbol
from .bindings import Condition, Relation, SymbolRead
from .sizes import Size, converted, quotient, simplified, to_extent
from .tracing import dim_name
from .translation import ReadTensor, Translation


def _dynamic_dims(state: Translation) -> Iterable[tuple[int, int, Any, Size, int]]:
    """Each declared dynamic dimension: flat position, dimension, declaration, size in tracing, size in the example."""
    for key, tensor in state.tensors.items():
        if tensor.source.kind == "argument" and key:
            leaf = state.traced.leaves[int(tensor.source.key)]
            for dim, declared in leaf.dynamic.items():
                yield int(tensor.source.key), dim, declared, tensor.shape[dim], leaf.value.shape[dim]


def symbol_names(state: Translation) -> dict[str, str]:
    """The program's names for symbols, by their name in tracing. Raises: CleaveError for a dynamic size that the program fixes."""
    names: dict[str, str] = {}
    for position, dim, declared, size, _ in _dynamic_dims(state):
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
    """What is known of each symbol: the example's size, and bounds."""
    ranges = {str(symbol): bounds for symbol, bounds in state.traced.program.range_constraints.items()}
    out: dict[str, Symbol] = {}
    for tensor in state.tensors.values():
        for at, size in enumerate(tensor.shape):
            if isinstance(size, int):
                continue
            for symbol in sorted(size.free_symbols, key=str):
                bounds = ranges.get(str(symbol))
                positive = bounds is not None and bool(bounds.lower >= 1)
                hint = _hint(state, tensor, at, size, symbol)
                before = out.get(str(symbol))
                hints = before.hints if before is not None and before.hints else (() if hint is None else (hint,))
                out[str(symbol)] = Symbol(str(symbol), hints, 1, positive)
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


def conditions(state: Translation, names: Mapping[str, str]) -> Iterable[Condition]:
    """
    What tracing assumed beyond the sizes of arguments: bounds of symbols, and relations that the user's own branches asked for.
    """
    known = {
        str(symbol)
        for tensor in state.tensors.values()
        for size in tensor.shape
        if not isinstance(size, int)
        for symbol in size.free_symbols
    }
    for symbol, bounds in state.traced.program.range_constraints.items():
        if str(symbol) not in known:
            continue
        name = Extent(names[str(symbol)])
        if bounds.lower.is_Integer and bounds.lower > 0:
            yield Condition(name, ">=", Extent(str(int(bounds.lower))))
        if bounds.upper.is_Integer and bounds.upper < 2**40:
            yield Condition(name, "<=", Extent(str(int(bounds.upper))))
    environment: Any = next((_environment(node) for node in state.traced.program.graph.nodes if _environment(node) is not None), None)
    relations: Mapping[Any, Relation] = {
        sympy.StrictLessThan: "<",
        sympy.LessThan: "<=",
        sympy.StrictGreaterThan: ">",
        sympy.GreaterThan: ">=",
        sympy.Ne: "!=",
    }
    guards: Sequence[Any] = () if environment is None else environment.guards
    for guard in guards:
        assert environment is not None
        expr: Any = environment.simplify(guard.expr)
        relation: Relation | None = next((text for kind, text in relations.items() if isinstance(expr, kind)), None)
        if relation is None or not {str(symbol) for symbol in expr.free_symbols} <= known or (relation == "!=" and expr.args[1] in (0, 1)):
            continue
        try:
            left, right = (to_extent(converted(side), names) for side in expr.args)
        except ValueError:
            continue
        yield Condition(left, relation, right)


def _environment(node: Any) -> Any:
    mode = getattr(node.meta.get("val"), "fake_mode", None)
    return getattr(mode, "shape_env", None)
