"""
Expressions of tracing over sizes, as a user writes them.

    TruncToInt(1.25*ToFloat(s95))    ->    int(1.25*m)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sympy.printing.str import StrPrinter

_CALLS: Mapping[str, str] = {"TruncToInt": "int", "CeilToInt": "ceil", "FloorToInt": "floor", "RoundToInt": "round"}
_BETWEEN: Mapping[str, str] = {
    **{"IntTrueDiv": "/", "FloatTrueDiv": "/", "FloorDiv": "//", "CleanDiv": "//", "Mod": "%", "PythonMod": "%"},
    **{"FloatPow": "**", "PowByNatural": "**", "BitwiseFn_bitwise_and": "&", "BitwiseFn_bitwise_or": "|"},
}
_ATOM = re.compile(r"[\w.]+")


def spelled(expr: Any, names: Mapping[str, str]) -> str:
    """An expression, its symbols under the names that the program gives them."""
    return _Printer(names).text(expr)


class _Printer(StrPrinter):
    def __init__(self, names: Mapping[str, str]) -> None:
        base: Any = super()
        base.__init__()
        self._names = names

    def text(self, expr: Any) -> str:
        printer: Any = self
        return str(printer.doprint(expr))

    def _print_Symbol(self, expr: Any) -> str:
        return self._names.get(expr.name, expr.name)

    def _print_Float(self, expr: Any) -> str:
        return f"{float(expr):g}"

    def _print_ToFloat(self, expr: Any) -> str:
        return self.text(expr.args[0])

    def _print_Relational(self, expr: Any) -> str:
        return f"{self.text(expr.lhs)} {expr.rel_op} {self.text(expr.rhs)}"

    def _print_Function(self, expr: Any) -> str:
        kind = type(expr).__name__
        args = [self.text(arg) for arg in expr.args]
        if kind in _BETWEEN:
            return f" {_BETWEEN[kind]} ".join(text if _ATOM.fullmatch(text) else f"({text})" for text in args)
        return f"{_CALLS.get(kind, kind)}({', '.join(args)})"
