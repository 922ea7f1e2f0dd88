"""
Pass pipelines as text, in xDSL's form `a{x=4 y=f},b` and in MLIR's form `builtin.module(a{x=4 y=f},b)`.

All passes run on the whole module, so MLIR's form may name no other anchor.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias, TypeVar, cast

from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import ArgSpec, ArgSpecConvertible, parse_pipeline, parse_spec
from xdsl.utils.exceptions import ArgSpecParseError
from xdsl.utils.hints import type_repr

_Made = TypeVar("_Made", bound=ArgSpecConvertible)
_Value: TypeAlias = str | int | bool | float
_WANTED = {"bool": "true or false", "int": "an integer", "float": "a finite number", "str": "text in quotes"}
"""What values of a type are, in words."""
_ANCHOR = re.compile(r"\s*builtin\.module\s*\(")
_NESTED = re.compile(r"([A-Za-z_][\w.-]*)\s*\(")
_OPTIONS = re.compile(r"\{([^{}]*)\}")
_QUOTED = re.compile(r'"(?:\\.|[^"\\])*"')


class PipelineError(ValueError):
    """A pipeline or target text that is malformed, or names what does not exist."""


def specs(text: str) -> tuple[ArgSpec, ...]:
    """The passes of a pipeline in xDSL's form. Raises: PipelineError."""
    _check_once(text)
    try:
        return tuple(parse_pipeline(text.strip()))
    except ArgSpecParseError as error:
        raise PipelineError(_one_line(text, error)) from None


def spec(text: str) -> ArgSpec:
    """One name with options, as `-t` takes it. Raises: PipelineError."""
    _check_once(text)
    try:
        return parse_spec(text.strip())
    except ArgSpecParseError as error:
        raise PipelineError(_one_line(text, error)) from None


def _check_once(text: str) -> None:
    """Raises PipelineError for an option that a pass is given twice, of which the parser keeps the last."""
    hidden = _QUOTED.sub(lambda quoted: '"' + "_" * (len(quoted.group()) - 2) + '"', text)
    for options in _OPTIONS.finditer(hidden):
        names = [part.partition("=")[0].replace("_", "-") for part in options.group(1).split()]
        for name in names:
            if names.count(name) > 1:
                raise PipelineError(f"'{text.strip()}': option {name} is given {names.count(name)} times; give it once")


def mlir_specs(text: str) -> tuple[ArgSpec, ...]:
    """The passes of a pipeline in MLIR's form. Raises: PipelineError, also for nested anchors."""
    anchor = _ANCHOR.match(text)
    if anchor is None:
        raise PipelineError(f"'{text}' does not start with an anchor; write builtin.module({text.strip()})")
    hidden = _QUOTED.sub(lambda quoted: '"' + "_" * (len(quoted.group()) - 2) + '"', text)
    end = _closing(hidden, anchor.end())
    inner = hidden[anchor.end() : end]
    nested = _NESTED.search(inner)
    if nested is not None:
        raise PipelineError(
            f"nested anchor '{nested.group(1)}' at column {anchor.end() + nested.start() + 1}; passes run on builtin.module only"
        )
    if hidden[end + 1 :].strip():
        raise PipelineError(f"unexpected '{text[end + 1 :].strip()}' after the pipeline")
    return specs(_without_free_spaces(text[anchor.end() : end], inner))


def build(names: Mapping[str, Callable[[], type[ModulePass]]], wanted: Sequence[ArgSpec]) -> tuple[ModulePass, ...]:
    """The passes that specifications name. Raises: PipelineError for an unknown pass or option."""
    passes: list[ModulePass] = []
    for entry in wanted:
        if entry.name not in names:
            raise PipelineError(f"no pass is named '{entry.name}'; --list-passes shows them")
        passes.append(made(names[entry.name](), entry))
    return tuple(passes)


def made(cls: type[_Made], entry: ArgSpec) -> _Made:
    """A pass or target with the options of a specification. Raises: PipelineError for options it does not take."""
    known = {option.name: option for option in options_of(cls)}
    values: dict[str, tuple[_Value, ...]] = {}
    for name, given in entry.parameters.items():
        option = known.get(name.replace("_", "-"))
        if option is None:
            raise PipelineError(f"{entry.name} has no option '{name}'; its options: {', '.join(known) or 'none'}")
        values[name] = _checked(f"{entry.name}: option {name}", name, given, option)
    try:
        return cls.from_spec(ArgSpec(entry.name, values))
    except ValueError as error:
        raise PipelineError(f"{entry.name}: {error}") from None


def _checked(where: str, name: str, given: tuple[_Value, ...], option: Option) -> tuple[_Value, ...]:
    """
    The values of an option in its type; numbers become floats where those are wanted.

    Raises: PipelineError. Of types that are not of `_WANTED`, xDSL judges the values.
    """
    kind = option.type.removesuffix(" | None")
    element = kind.removeprefix("tuple[").removesuffix(", ...]")
    if element not in _WANTED:
        return given
    several, optional = element != kind, option.type != kind
    values = [_as(element, value) for value in given]
    fitting = [value for value in values if value is not None]
    count = optional if not given else several or len(given) == 1
    if count and len(fitting) == len(given):
        return tuple(fitting)
    found = f"is {','.join(_written(value) for value in given)}" if given else "has no value"
    example = _example(element, given, option)
    what = f"{_WANTED[element]}{', or more of them with commas between' if several else ''}"
    raise PipelineError(f"{where} {found}; write {what}, as in {name}={example}")


def _as(element: str, value: _Value) -> _Value | None:
    """A value as one of a type, None if it is none."""
    match element, value:
        case ("bool", bool()) | ("str", str()):
            return value
        case "int", int() if not isinstance(value, bool):
            return value
        case "float", int() | float() | str() if not isinstance(value, bool):
            try:
                number = float(str(value))
            except ValueError:
                return None
            return number if math.isfinite(number) else None
        case _:
            return None


def _example(element: str, given: tuple[_Value, ...], option: Option) -> str:
    """A value that the option takes: the default, what was meant, or any."""
    default = "" if option.default in (None, "none") else option.default
    if element == "str":
        return f'"{default or (_written(given[0]) if given else "...")}"'
    return default or {"bool": "true", "int": "1", "float": "1.0"}[element]


def _written(value: _Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class Option:
    """An option of a pass or target: command-line name, type, default (None: required) and the text that documents it."""

    name: str
    type: str
    default: str | None
    doc: str


def options_of(cls: type[ArgSpecConvertible]) -> tuple[Option, ...]:
    """The options of a pass or target, with the docstring line under each field."""
    docs = _field_docs(cls)
    return tuple(
        Option(
            field.name.replace("_", "-"),
            field.type if isinstance(field.type, str) else type_repr(field.type).replace("|", " | "),
            _default(field),
            docs.get(field.name, ""),
        )
        for field in dataclasses.fields(cls)
        if field.name != "name" and field.init
    )


def summary_of(cls: type[ArgSpecConvertible]) -> str:
    """The first sentence of the class' docstring, or of its module's."""
    own = ast.get_docstring(_definition(cls))
    module = inspect.getmodule(cls)
    doc = own or (module.__doc__ if module is not None else None) or ""
    return " ".join(doc.strip().split("\n\n")[0].split())


def _definition(cls: type) -> ast.ClassDef:
    node = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(node, ast.ClassDef)
    return node


def _field_docs(cls: type) -> dict[str, str]:
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if base is object or not dataclasses.is_dataclass(base):
            continue
        body = _definition(base).body
        for pair in pairwise(body):
            match pair:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(doc))):
                    docs[name] = " ".join(doc.split())
                case _:
                    pass
    return docs


def _default(field: dataclasses.Field[Any]) -> str | None:
    if field.default_factory is not dataclasses.MISSING:
        return _shown(field.default_factory())
    return None if field.default is dataclasses.MISSING else _shown(field.default)


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(_shown(entry) for entry in cast("tuple[Any, ...]", value))
    return str(value).lower() if isinstance(value, bool | None) else str(value)


def _one_line(text: str, error: ArgSpecParseError) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    place = next((line for line in lines if line.startswith("pass-pipeline:")), "")
    return f"'{text}': {lines[-1]}" + (f" (column {place.rsplit(':', 1)[1]})" if place else "")


def _closing(text: str, start: int) -> int:
    depth = 1
    for at in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return at
    raise PipelineError(f"'{text}' lacks a closing parenthesis")


def _without_free_spaces(text: str, hidden: str) -> str:
    """The text without the spaces that separate nothing: all outside braces, and in braces next to `{`, `}`, `,` and `=`."""
    out: list[str] = []
    depth = 0
    quoted = False
    for at, character in enumerate(hidden):
        if character == '"':
            quoted = not quoted
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character.isspace() and not quoted:
            before = out[-1] if out else ""
            after = hidden[at + 1 :].lstrip()[:1]
            if depth == 0 or before in "{,= " or after in "},= ":
                continue
            out.append(" ")
        else:
            out.append(text[at])
    return "".join(out)
