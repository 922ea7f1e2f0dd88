"""Errors of tracing in one line, at the user's line."""

from __future__ import annotations

import re
import traceback
from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch

from ..errors import CleaveError
from .traced import described
from .user_code import is_user_file

DATA_DEPENDENT = "data-dependent"
"""In the message of an error about a branch or a size that is decided by the values of a tensor."""

_MODULES = ("torch.nn.", "torch.ao.")
"""Where modules for users are, and not those that torch.export makes."""

_ARGUMENT = re.compile(r"L\['tensors'\]\[(\d+)\]\.size\(\)\[(\d+)\]")


_ADVICE = {
    "SymBool": "a comparison of dynamic sizes is none; make it one, as by bool(x.shape[0] > 1)",
    "inference tensor": "make the module outside of torch.inference_mode, as under torch.no_grad",
}
"""What to do, by a part of an error's text."""
_OTHERWISE = "only operators on tensors, with shapes known from the arguments, can be compiled"


class Enveloped(Exception):
    """
    Around an error about what depends on data, which it has as its cause. To such an error itself, where it knows it, torch adds the graph
    so far, and prints that.
    """


def located(error: Exception, tensors: Sequence[str], place: str, owner: torch.nn.Module | None) -> CleaveError:
    """
    An error of tracing in one line, at the innermost line of the user's code, else at `place`.

    A module of PyTorch's own that fails is named by its path in `owner`.
    """
    module = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        if is_user_file(frame.f_code.co_filename):
            place, module = f"{frame.f_code.co_filename}:{line}", ""
        own = frame.f_locals.get("self")
        if frame.f_code.co_name == "forward" and isinstance(own, torch.nn.Module) and type(own).__module__.startswith(_MODULES):
            named: Mapping[str, torch.nn.Module] = dict(cast(Any, owner or own).named_modules())
            path = next((name for name, other in named.items() if other is own), "")
            module = f" (in {described(path, type(own).__name__)})"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    found = lines[0] if lines else type(error).__name__
    if DATA_DEPENDENT in found:
        found = "data-dependent: a branch or a size is decided by the values of a tensor"
        advice = "choose by torch.where, or decide outside of the compiled function"
        return CleaveError(place or None, found + module, advice, op="torch.export")
    violated = next((line.lstrip("- ") for line in lines if line.startswith("- ") and "size()" in line), "")
    if violated:
        found = violated.partition(". If you")[0]
    found = _ARGUMENT.sub(lambda match: f"dimension {match[2]} of '{tensors[int(match[1])]}'", found)
    found += " query" if found.endswith("must divide the number of heads in") else ""
    advice = "do not declare it dynamic" if violated else next((told for part, told in _ADVICE.items() if part in found), _OTHERWISE)
    return CleaveError(place or None, f"{type(error).__name__}: {found}{module}", advice, op="torch.export")
