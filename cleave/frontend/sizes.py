"""
Sizes of dimensions: Python integers, or sympy expressions over the symbols of a traced program.

Integers stay integers, so that static programs never touch sympy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

import sympy

from ..extents import Extent, extent, from_sympy, symbol

Size: TypeAlias = Any
"""An int, or a sympy expression over `cleave.extents.symbol`s."""

_sympy: Any = sympy


def from_torch(size: Any) -> Size:
    """The size that a torch.SymInt or an int stands for. Raises: ValueError for an expression that sizes cannot hold."""
    if isinstance(size, int):
        return int(size)
    return converted(size.node.expr)


@lru_cache(maxsize=4096)
def converted(expr: Any) -> Size:
    """The size that a sympy expression of tracing stands for. Raises: ValueError as `from_torch`."""
    try:
        return _converted(expr)
    except _NoSize:
        raise ValueError(f"size '{expr}' is not made of + - * // % min max") from None


class _NoSize(Exception):
    """Within an expression, something that sizes cannot hold."""


def _converted(expr: Any) -> Size:
    if expr.is_Integer:
        return int(expr)
    if expr.is_Symbol:
        return symbol(str(expr))
    kind = type(expr).__name__
    if kind in _ROUNDED and type(expr.args[0]).__name__ == "IntTrueDiv":
        return simplified(_ROUNDED[kind](*map(_converted, expr.args[0].args)))
    args = [_converted(arg) for arg in expr.args]
    build = _FUNCTIONS.get(kind)
    if build is None:
        raise _NoSize
    return simplified(build(args))


def _folded(function: Callable[[Size, Size], Size]) -> Callable[[list[Size]], Size]:
    def build(args: list[Size]) -> Size:
        out = args[0]
        for arg in args[1:]:
            out = function(out, arg)
        return out

    return build


def floor_division(a: Size, b: Size) -> Size:
    """a // b of non-negative sizes, cancelled where it is exact."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    exact = quotient(a, b)
    return _sympy.floor(_symbolic(a) / b) if exact is None else exact


def remainder(a: Size, b: Size) -> Size:
    """a % b of non-negative sizes."""
    if isinstance(a, int) and isinstance(b, int):
        return a % b
    return 0 if quotient(a, b) is not None else _sympy.Mod(a, b)


def smallest(a: Size, b: Size) -> Size:
    """The lesser of two sizes."""
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else simplified(_sympy.Min(a, b))


def largest(a: Size, b: Size) -> Size:
    """The greater of two sizes."""
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else simplified(_sympy.Max(a, b))


def _power(a: Size, b: Size) -> Size:
    if not isinstance(b, int) or b < 0:
        raise _NoSize
    return a**b


def _rounded_up(a: Size, b: Size) -> Size:
    """math.ceil(a / b)."""
    if isinstance(b, int) and b <= 0:
        raise _NoSize
    return floor_division(simplified(a + b - 1), b)


def _rounded_to_zero(a: Size, b: Size) -> Size:
    """int(a / b), of what is known not to be negative."""
    terms = _sympy.Add.make_args(_sympy.expand(a))
    if any(term.as_coeff_Mul()[0] < 0 or not term.is_polynomial() for term in terms) or (isinstance(b, int) and b <= 0):
        raise _NoSize
    return floor_division(a, b)


_ROUNDED: Mapping[str, Callable[[Size, Size], Size]] = {
    "FloorToInt": floor_division,
    "CeilToInt": _rounded_up,
    "TruncToInt": _rounded_to_zero,
}


_FUNCTIONS: Mapping[str, Callable[[list[Size]], Size]] = {
    "Add": _folded(lambda a, b: a + b),
    "Mul": _folded(lambda a, b: a * b),
    "Pow": _folded(_power),
    "FloorDiv": _folded(floor_division),
    "CleanDiv": _folded(floor_division),
    "CeilToInt": lambda args: args[0],
    "Mod": _folded(remainder),
    "PythonMod": _folded(remainder),
    "Min": _folded(smallest),
    "Max": _folded(largest),
}


def simplified(size: Size) -> Size:
    """The same size in expanded form; an int where no symbol is left."""
    if isinstance(size, int):
        return size
    out = _sympy.expand(size)
    return int(out) if out.is_Integer else out


def _symbolic(size: Size) -> Any:
    return _sympy.sympify(size)


def equal(a: Size, b: Size) -> bool:
    """Whether two sizes are the same for all values of their symbols, as far as expansion can tell."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return simplified(_symbolic(a) - b) == 0


def quotient(a: Size, b: Size) -> Size | None:
    """a / b where that is a size for all values of the symbols, else None."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b if b and a % b == 0 else None
    if b == 0:
        return None
    return _symbolic_quotient(_symbolic(a), _symbolic(b))


@lru_cache(maxsize=4096)
def _symbolic_quotient(a: Any, b: Any) -> Size | None:
    out = _sympy.cancel(a / b)
    below = _sympy.fraction(_sympy.together(out))[1]
    if below != 1:
        return None
    out = _sympy.expand(out)
    terms = _sympy.Add.make_args(out)
    if any(not term.as_coeff_Mul()[0].is_Integer for term in terms):
        return None
    return simplified(out)


def product(sizes: Iterable[Size]) -> Size:
    """The product of sizes, 1 for none."""
    out: Size = 1
    for size in sizes:
        out = out * size
    return simplified(out)


def to_extent(size: Size, names: Mapping[str, str]) -> Extent:
    """A size as an extent, its symbols replaced by the given names. Raises: ValueError for what extents cannot hold."""
    if isinstance(size, int):
        return extent(size)
    table = {old: symbol(names.get(str(old), str(old))) for old in size.free_symbols}
    return from_sympy(size.subs(table, simultaneous=True))
