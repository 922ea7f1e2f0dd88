"""Which memory the operators of a traced program share and write: nothing that the caller has may be written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch.export.graph_signature import InputKind

from ..errors import CleaveError
from .traced import operator_name, place_of


def is_mutation(node: Any) -> bool:
    """Whether a traced operator writes to one of its arguments."""
    return node.op == "call_function" and getattr(getattr(node.target, "_schema", None), "is_mutable", False)


def aliased(node: Any) -> Any:
    """The argument whose memory a traced operator's result may share, or None."""
    schema = getattr(node.target, "_schema", None)
    if node.op != "call_function" or schema is None:
        return None
    shared = {name for one in schema.returns if one.alias_info is not None for name in one.alias_info.before_set}
    if not shared and schema.returns and str(schema.returns[0].type) == "List[Tensor]":
        shared = {"*"}
    for argument, value in zip(schema.arguments, node.args, strict=False):
        if argument.alias_info is not None and (shared & argument.alias_info.before_set or "*" in shared):
            return value
    return None


def memory_of(node: Any) -> Any:
    """The traced node that made the memory in which a result lives, through all views that may share it."""
    while True:
        if node.op == "call_function" and getattr(node.target, "__name__", "") == "getitem":
            node = node.args[0]
            continue
        source = aliased(node)
        if source is None or not hasattr(source, "op"):
            return node
        node = source


def argument_names(program: Any, tensors: Sequence[str]) -> dict[str, str]:
    """What the user calls each placeholder: an argument's name, or that of a parameter, buffer or constant."""
    user = iter(tensors)
    out: dict[str, str] = {}
    for spec in program.graph_signature.input_specs:
        own = next(user) if spec.kind == InputKind.USER_INPUT else str(spec.target or spec.arg.name)
        out[spec.arg.name] = own.removeprefix("owner.")
    return out


def refuse_input_mutation(program: Any, names: Mapping[str, str]) -> None:
    """Raises: CleaveError for an operator that writes to an argument, parameter or buffer."""
    for node in program.graph.nodes:
        if not is_mutation(node):
            continue
        for argument, value in zip(node.target._schema.arguments, node.args, strict=False):
            if argument.alias_info is None or not argument.alias_info.is_write or not hasattr(value, "op"):
                continue
            root = memory_of(value)
            if root.op == "placeholder":
                raise CleaveError(
                    place_of(node) or None,
                    f"writes to '{names.get(root.name, root.name)}' in place, which ends the region that can be compiled",
                    "return the new value, or write to a clone",
                    op=operator_name(node.target),
                )
