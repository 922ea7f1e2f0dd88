"""
Axis extents: integer expressions over symbols.

An `Extent` is a canonical piece of text with its sympy form. Text is read by the small parser here and never by
`sympify`, which executes code: names, integers, `+ - *`, `//` and `%` (floor division and remainder of non-negative
integers), `min(a, b)`, `max(a, b)`, `ceildiv(a, b)` and parentheses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import sympy

_ALGEBRA = cast(Any, sympy)

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_TOKEN = re.compile(r"\s*(?:(\d+)|([A-Za-z_][A-Za-z0-9_]*)|(//|[-+*%(),]))")
_FUNCTIONS = ("min", "max", "ceildiv")


@dataclass(frozen=True, slots=True)
class Extent:
    """A non-negative integer expression. Equal extents have equal text."""

    text: str

    def evaluate(self, values: Mapping[str, int]) -> int:
        """The extent for given symbols. Raises: KeyError for a symbol without a value, ZeroDivisionError."""
        return _Parser(self.text, values).parse()

    @property
    def constant(self) -> int | None:
        """The value, if no symbol occurs."""
        return int(self.text) if self.text.isdigit() else None

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols that occur, sorted."""
        return tuple(sorted(str(symbol) for symbol in self.sympy().free_symbols))

    def substituted(self, values: Mapping[str, int]) -> Extent:
        """The extent with the symbols in `values` replaced. Raises: ValueError where that is negative."""
        if not any(name in values for name in self.symbols):
            return self
        return extent(_print(_expanded(self.sympy().subs({symbol(name): value for name, value in values.items()}))))

    def sympy(self) -> Any:
        """The sympy expression; its symbols are non-negative integers."""
        return _sympy(self.text)

    def __str__(self) -> str:
        return self.text


def extent(source: int | str | Extent) -> Extent:
    """
    The extent of an integer, a text or an extent.

    Raises: ValueError, saying what was found at which column, for text that is not an expression or a negative integer.
    """
    if isinstance(source, Extent):
        return source
    if isinstance(source, int):
        if source < 0:
            raise ValueError(f"extent {source} is negative")
        return Extent(str(source))
    return Extent(_canonical(source))


def open_symbols(extents: Iterable[tuple[str, Extent]]) -> tuple[str, ...]:
    """
    The symbols of the extents of axes, in order of appearance, that are not axes before them: an extent may name another axis, as that of
    a chunk names the number of chunks.
    """
    entries = list(extents)
    own = {axis for axis, size in entries if size.text != axis}
    return tuple(dict.fromkeys(name for _, size in entries for name in size.symbols if name not in own))


def sizes_of(extents: Iterable[tuple[str, Extent]], symbols: Mapping[str, int]) -> dict[str, int]:
    """
    The values of symbols and the size of every axis, in order. A given value takes the place of an extent that others name.

    Raises: KeyError for a symbol without a value.
    """
    entries = list(extents)
    named = {name for _, size in entries for name in size.symbols}
    out = dict(symbols)
    for axis, size in entries:
        if axis not in named or axis not in symbols:
            out[axis] = size.evaluate(out)
    return out


def from_sympy(value: Any) -> Extent:
    """
    The extent of a sympy expression over symbols of `symbol`. Raises: ValueError for an expression that is none.
    """
    return Extent(_print(_expanded(value)))


def symbol(name: str) -> Any:
    """The sympy symbol used for a run-time size of that name. Raises: ValueError for a name that is not an identifier."""
    if not NAME.match(name):
        raise ValueError(f"'{name}' is not a name ([A-Za-z_][A-Za-z0-9_]*)")
    return sympy.Symbol(name, integer=True, nonnegative=True)


def ratio_of(value: Any) -> tuple[Any, Any]:
    """Numerator and denominator of a sympy expression."""
    return _ALGEBRA.fraction(_ALGEBRA.together(value))


def _expanded(value: Any) -> Any:
    return _ALGEBRA.expand(value)


@lru_cache(maxsize=4096)
def _sympy(text: str) -> Any:
    return _Parser(text, None).parse()


@lru_cache(maxsize=4096)
def _canonical(text: str) -> str:
    value = _sympy(text)
    if value.is_Integer and value < 0:
        raise ValueError(f"extent {value} is negative")
    return _print(_expanded(value))


def _print(value: Any) -> str:
    """Text of a sympy expression in the grammar above; terms in sympy's stable order."""
    if value.is_Integer:
        return str(int(value))
    if value.is_Symbol:
        return str(value)
    if value.is_Add:
        parts = [_print(term) for term in value.as_ordered_terms()]
        return " + ".join(parts).replace("+ -", "- ")
    if value.is_Mul:
        return "*".join(f"({_print(factor)})" if factor.is_Add else _print(factor) for factor in value.as_ordered_factors())
    if value.is_Pow and value.exp.is_Integer and value.exp > 0:
        base = _print(value.base)
        return "*".join([f"({base})" if value.base.is_Add else base] * int(value.exp))
    if isinstance(value, sympy.floor):
        numerator, denominator = ratio_of(value.args[0])
        return f"(({_print(numerator)}) // ({_print(denominator)}))"
    if isinstance(value, sympy.ceiling):
        numerator, denominator = ratio_of(value.args[0])
        return f"ceildiv({_print(numerator)}, {_print(denominator)})"
    if isinstance(value, sympy.Mod):
        return f"(({_print(value.args[0])}) % ({_print(value.args[1])}))"
    if isinstance(value, sympy.Min | sympy.Max):
        name = "min" if isinstance(value, sympy.Min) else "max"
        parts = sorted(_print(arg) for arg in value.args)
        out = parts[-1]
        for part in reversed(parts[:-1]):
            out = f"{name}({part}, {out})"
        return out
    raise ValueError(f"'{value}' is not an extent")


class _Parser:
    """Recursive descent over integers (when `values` is given) or sympy expressions (when it is None)."""

    def __init__(self, text: str, values: Mapping[str, int] | None) -> None:
        self.text = text
        self.values = values
        self.tokens: list[tuple[str, int]] = []
        position = 0
        while text[position:].strip():
            found = _TOKEN.match(text, position)
            if found is None:
                raise ValueError(f"unexpected '{text[position:].strip()[0]}' in extent '{text}'")
            self.tokens.append((found.group(found.lastindex or 0), found.start(found.lastindex or 0)))
            position = found.end()
        self.at = 0

    def parse(self) -> Any:
        out = self.sum()
        if self.at < len(self.tokens):
            raise ValueError(f"unexpected '{self.tokens[self.at][0]}' in extent '{self.text}'")
        return out

    def peek(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def take(self, wanted: str | None = None) -> str:
        found = self.peek()
        if not found or (wanted is not None and found != wanted):
            raise ValueError(f"expected {wanted or 'a term'} but found {found or 'the end'} in extent '{self.text}'")
        self.at += 1
        return found

    def sum(self) -> Any:
        if self.peek() == "-":
            self.take()
            out = -self.product()
        else:
            out = self.product()
        while self.peek() in ("+", "-"):
            out = out + self.product() if self.take() == "+" else out - self.product()
        return out

    def product(self) -> Any:
        out = self.factor()
        while self.peek() in ("*", "//", "%"):
            operator = self.take()
            right = self.factor()
            if operator == "*":
                out = out * right
            elif right == 0:
                raise ValueError(f"division by zero in extent '{self.text}'")
            elif self.values is not None:
                out = out // right if operator == "//" else out % right
            else:
                out = sympy.floor(out / right) if operator == "//" else sympy.Mod(out, right)
        return out

    def factor(self) -> Any:
        token = self.take()
        if token == "(":
            out = self.sum()
            self.take(")")
            return out
        if token.isdigit():
            return int(token) if self.values is not None else sympy.Integer(int(token))
        if not NAME.match(token):
            raise ValueError(f"unexpected '{token}' in extent '{self.text}'")
        if self.peek() == "(":
            return self.call(token)
        return self.values[token] if self.values is not None else symbol(token)

    def call(self, name: str) -> Any:
        if name not in _FUNCTIONS:
            raise ValueError(f"'{name}' is not a function of extents (min, max, ceildiv) in extent '{self.text}'")
        self.take("(")
        left = self.sum()
        self.take(",")
        right = self.sum()
        self.take(")")
        if name == "ceildiv":
            if right == 0:
                raise ValueError(f"division by zero in extent '{self.text}'")
            return -(-left // right) if self.values is not None else sympy.ceiling(left / right)
        if self.values is not None:
            return min(left, right) if name == "min" else max(left, right)
        return getattr(sympy, name.capitalize())(left, right)
