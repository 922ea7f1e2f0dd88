"""
What a function calls its arguments, and which calls of it are the one it was compiled for.

    compiled as f(x, None), of def f(x, mask=None)    ->    f(x), f(x, None), f(x, mask=None) and f(x=x) are alike
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch.utils import _pytree as pytree

from ..errors import CleaveError

_PLAIN = (bool, int, float, complex, str, torch.dtype, torch.device, type(None))


@dataclass(frozen=True)
class Parameters:
    """
    `names` are of the arguments that were given when compiling, by position; `later` of those by position after them, and `named` of
    those that only have names. `defaults` are of all that have one, as far as they are tensors and plain values. `open` says that a call
    may have names of its own.
    """

    names: tuple[str, ...]
    later: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    defaults: Mapping[str, Any] | None = None
    open: bool = False

    def arranged(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """
        The arguments of a call as they were given when compiling. Raises: CleaveError for one that is missing, given twice, or that is
        neither known nor has its default value.
        """
        every, defaults, rest = (*self.names, *self.later), self.defaults or {}, dict(kwargs)
        out: list[Any] = list(args[: len(self.names)])
        for name in (name for name in every[: len(args)] if name in rest):
            raise CleaveError(None, f"argument '{name}' is given twice", "give it once")
        for name in self.names[len(out) :]:
            if name not in rest and name not in defaults:
                raise CleaveError(None, f"argument '{name}' is missing", f"compiled for {len(self.names)}: {', '.join(self.names)}")
            out.append(rest.pop(name) if name in rest else defaults[name])
        if len(args) > len(every):
            found = f"{len(args)} argument{'s are' if len(args) > 1 else ' is'} given"
            raise CleaveError(None, found, f"compiled for {len(self.names)}: {', '.join(self.names) or 'none'}")
        for name, value in {**dict(zip(self.later, args[len(self.names) :], strict=False)), **rest}.items():
            if name not in (*self.later, *self.named) and not self.open:
                raise CleaveError(None, f"there is no argument '{name}'", f"they are {', '.join((*every, *self.named)) or 'none'}")
            if name in defaults and same(value, defaults[name]):
                continue
            compiled = f"for its default {shown(defaults[name])}" if name in defaults else "without it"
            advice = "give it when compiling" if name in self.later else "fix it before compiling, as by functools.partial"
            raise CleaveError(None, f"argument '{name}' is {shown(value)}, compiled {compiled}", advice)
        return out


def parameters_of(function: Any, count: int) -> Parameters:
    """The parameters of a function or module that is compiled for `count` arguments by position."""
    target = function.forward if isinstance(function, torch.nn.Module) else function
    try:
        declared = list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError):
        return Parameters(tuple(f"arg{at}" for at in range(count)), open=True)
    names = [p.name for p in declared if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    spread = next((p.name for p in declared if p.kind == p.VAR_POSITIONAL), "arg")
    given = tuple(names[at] if at < len(names) else f"{spread}{at - len(names)}" for at in range(count))
    named = tuple(p.name for p in declared if p.kind == p.KEYWORD_ONLY)
    defaults = {p.name: p.default for p in declared if p.default is not p.empty and _is_plain(p.default)}
    return Parameters(given, tuple(names[count:]), named, defaults, any(p.kind == p.VAR_KEYWORD for p in declared))


def same(value: Any, other: Any) -> bool:
    """Whether two arguments are one value; tensors are only themselves."""
    (flat, spec), (others, wanted) = pytree.tree_flatten(value), pytree.tree_flatten(other)
    return spec == wanted and all(
        a is b or (type(a) is type(b) and isinstance(a, _PLAIN) and a == b) for a, b in zip(flat, others, strict=True)
    )


def shown(value: object) -> str:
    """An argument for people, of tensors only that they are some."""
    if isinstance(value, torch.Tensor):
        return "a tensor"
    text = "" if any(isinstance(one, torch.Tensor) for one in pytree.tree_leaves(value)) else repr(value)
    return text if 0 < len(text) < 60 else f"of type {type(value).__name__}"


def ordered_like(value: Any, example: Any) -> Any:
    """An argument with the keys of its dictionaries in the order of an example's, as far as they have the same keys."""
    kind = cast(Any, type(value))
    if kind is not type(example):
        return value
    if kind is dict and value.keys() == example.keys():
        return {key: ordered_like(value[key], part) for key, part in example.items()}
    if kind in (list, tuple) and len(value) == len(example):
        parts = [ordered_like(one, part) for one, part in zip(value, example, strict=True)]
        return parts if kind is list else tuple(parts)
    return value


def _is_plain(value: Any) -> bool:
    return all(isinstance(one, (torch.Tensor, *_PLAIN)) for one in pytree.tree_leaves(value))
